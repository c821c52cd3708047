"""Bags that lie on disk and are read in place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from admil.bags import BagBatch, BagIndex, Bags, IntArray
from admil.errors import CorruptFile, InvalidInput
from admil.store.layout import DtypeName, Header, Source
from admil.store.part_reader import PartReader
from admil.store.tables import read_labels
from admil.store.verify import verify_store
from admil.store.writer import PART_BYTES, StoreWriter

__all__ = ["BagStore"]


@dataclass(frozen=True, eq=False)
class BagStore:
    """Bags on disk, or some of them: what `fit`, `score`, `ActiveLearner` and `BagClassifier` take like `Bags`.

    Features stay on disk and are read where they are used, so a store may be larger than memory.  ``open``
    checks the tables, and size and header of every shard; `verify` reads every byte.

    Attributes:
        path: the folder.
        header: what its header says.
        index: ids, sizes and labels; labels are None where any of these bags has none.
        known_labels: (B,) 0, 1, or -1 where the label is not known.
        splits: the split of each bag; None where it has none.
    """

    path: Path
    header: Header
    index: BagIndex
    known_labels: NDArray[np.int8]
    splits: NDArray[np.object_]
    _readers: tuple[PartReader, ...]
    _part: IntArray
    _start: IntArray

    @classmethod
    def open(cls, path: str | Path) -> BagStore:
        """Open a store.

        Raises:
            CorruptFile: naming the file that is missing, damaged, or does not belong here.
        """
        folder = Path(path)
        header = Header.read(folder)
        if not header.parts:
            raise CorruptFile(f"the store {folder} has no bags; import some into it", folder)
        readers = tuple(PartReader(folder, header, part) for part in header.parts)
        tables = [reader.bags() for reader in readers]
        for reader, bags in zip(readers, tables, strict=True):
            reader.map(bags)
        table = pa.concat_tables(tables)
        labels, splits = _labelled(table, read_labels(folder, header))
        known = labels.fill_null(-1).to_numpy()
        index = BagIndex(
            tuple(table["bag"].to_pylist()),
            np.cumsum([0, *table["count"].to_pylist()], dtype=np.int64),
            None if (known < 0).any() else known.astype(np.int64),
        )
        part_of = np.repeat(np.arange(len(tables)), [len(each) for each in tables])
        starts = table["start"].to_numpy()
        return cls(folder, header, index, known, splits.to_numpy(zero_copy_only=False), readers, part_of, starts)

    @classmethod
    def create(
        cls,
        path: str | Path,
        dtype: DtypeName | None = None,
        features: Mapping[str, Any] | None = None,
        source: Source | None = None,
        part_bytes: int = PART_BYTES,
    ) -> StoreWriter:
        """Make a store; see `StoreWriter`."""
        return StoreWriter(path, dtype, features, source, part_bytes, new=True)

    @classmethod
    def append(
        cls,
        path: str | Path,
        dtype: DtypeName | None = None,
        source: Source | None = None,
        part_bytes: int = PART_BYTES,
    ) -> StoreWriter:
        """Add bags to a store that is there; who has it open goes on seeing the bags it had."""
        return StoreWriter(path, dtype, None, source, part_bytes, new=False)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, bag: str | int) -> Tensor:
        """Return a copy of the (n, D) features of the bag with this id, or of this number."""
        part, start, count = self._places[self.index.numbered(bag)].tolist()
        return torch.from_numpy(self._readers[part].raw[start : start + count].copy()).view(self.header.torch_dtype)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        positive, unknown = int((self.known_labels == 1).sum()), int((self.known_labels < 0).sum())
        labels = f"{positive} positive" + (f", {unknown} unlabelled" if unknown else "")
        return (
            f"BagStore({str(self.path)!r}: {len(self)} bags, {labels}, {self.index.n_instances} instances, "
            f"{self.width} features, {self.header.dtype})"
        )

    @property
    def ids(self) -> tuple[str, ...]:
        """The bag ids, in order."""
        return self.index.ids

    @property
    def labels(self) -> IntArray | None:
        """(B,) 1 for positive and 0 for negative bags; None where any of these bags has no label."""
        return self.index.labels

    @property
    def width(self) -> int:
        """The number of features of an instance, D."""
        return self.header.width

    @property
    def in_memory(self) -> bool:
        """False: reading ahead is worth a thread."""
        return False

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the bags of this selection: their ids, labels, sizes and features."""
        digest = hashlib.sha256(f"{self.header.dtype} {self.width}\n".encode())
        rows = zip(self.ids, self.known_labels.tolist(), self.index.sizes.tolist(), self._checksums(), strict=True)
        for row in rows:
            digest.update(f"{json.dumps(row)}\n".encode())
        return digest.hexdigest()

    def where(self, split: str | None = None, labelled: bool | None = None) -> BagStore:
        """Return the bags of a split, or those with (or without) a label."""
        chosen = np.ones(len(self), dtype=bool)
        if split is not None:
            chosen &= self.splits == split
        if labelled is not None:
            chosen &= (self.known_labels >= 0) == labelled
        if not chosen.any():
            wanted = f" of split {split!r}" if split is not None else ""
            there = ", ".join(sorted({"none" if each is None else repr(each) for each in self.splits}))
            how = {None: "", True: " with a label", False: " without a label"}[labelled]
            raise InvalidInput(f"{self.path} has no bag{wanted}{how}; its splits are: {there}", split)
        return self.subset(np.flatnonzero(chosen))

    def subset(self, bags: Sequence[int] | IntArray) -> BagStore:
        """Return the given bag numbers as a store of their own, in that order; nothing is copied."""
        index = self.index.subset(bags)
        numbers = np.asarray(bags, dtype=np.int64)
        known = self.known_labels[numbers]
        labels = None if (known < 0).any() else known.astype(np.int64)
        index = BagIndex(index.ids, index.offsets, labels)
        chosen = known, self.splits[numbers], self._readers, self._part[numbers], self._start[numbers]
        return BagStore(self.path, self.header, index, *chosen)

    def load(self) -> Bags:
        """Return these bags in memory, in the type they are kept in."""
        return Bags(self.index, self.gather(np.arange(len(self))).features)

    def gather(self, bags: IntArray, out: Tensor | None = None) -> BagBatch:
        """Read whole bags; see `BagSource.gather`."""
        places = self._places[bags]
        sizes = places[:, 2]
        runs = places.tolist()
        view = self._room(sum([count for _, _, count in runs]), out)
        self._copy(runs, view)
        return BagBatch(bags, sizes, view)

    def rows(self, positions: IntArray, out: Tensor | None = None) -> Tensor:
        """Read single instances by position; see `BagSource.rows`."""
        positions = np.asarray(positions, dtype=np.int64)
        view = self._room(len(positions), out)
        bags = np.searchsorted(self.index.offsets, positions, side="right") - 1
        part, row = self._part[bags], self._start[bags] + positions - self.index.offsets[bags]
        # neighbours are one copy
        first = np.flatnonzero((np.diff(part, prepend=-1) != 0) | (np.diff(row, prepend=-1) != 1))
        counts = np.diff(first, append=len(positions))
        self._copy(np.stack([part[first], row[first], counts], 1).tolist(), view)
        return view

    @cached_property
    def columns(self) -> pa.Schema:
        """Names and types of what is known of instances, beside features and truth, in the parts of these bags."""
        schemas = [reader.columns for reader in self._used_readers()]
        return pa.unify_schemas(schemas, promote_options="default")  # a type where any part has one

    @cached_property
    def roots(self) -> tuple[Path, ...]:
        """The folders that a ``path`` of these bags' instances may be relative to, each once."""
        return tuple(dict.fromkeys(reader.root for reader in self._used_readers()))

    def details(self, bag: str) -> list[dict[str, Any]]:
        """Return what is known of each instance of a bag, beside features and truth; [] where nothing is."""
        ((_, table),) = self.details_tables(np.array([self.index.number(bag)]))
        rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
        return rows

    def details_tables(self, bags: IntArray) -> Iterator[tuple[IntArray, pa.Table | None]]:
        """Yield stretches of the bags that lie in one part, each with a table of what is known of its instances.

        A table has a row per instance; it is None where nothing is known of any.
        """
        part, start, count = self._part[bags], self._start[bags], self.index.sizes[bags]
        for run in np.split(np.arange(len(bags)), np.flatnonzero(np.diff(part)) + 1):
            names = [self.ids[number] for number in bags[run].tolist()]
            yield bags[run], self._readers[int(part[run[0]])].details(names, start[run], count[run])

    def root_of(self, bag: str) -> Path:
        """Return the folder that the ``path`` of a bag's instances is relative to."""
        return self._readers[int(self._part[self.index.number(bag)])].root

    def truth_rows(self) -> Iterator[tuple[str, list[bool]]]:
        """Yield (bag id, truth of its instances) of these bags and perhaps others; for `admil.oracle` alone."""
        for reader in self._used_readers():
            yield from reader.truth()

    def verify(self, on_bag: Callable[[int, int], None] | None = None) -> tuple[str, ...]:
        """Read every byte of the whole store; see `verify_store`, which also takes stores that cannot be opened."""
        return verify_store(self.path, on_bag)

    def _used_readers(self) -> list[PartReader]:
        return [self._readers[number] for number in np.unique(self._part)]

    def _checksums(self) -> list[str]:
        """Return the checksum of each bag's features."""
        found: NDArray[np.object_] = np.empty(len(self), dtype=object)
        for number in np.unique(self._part):
            bags = self._readers[number].bags()
            here = self._part == number
            rows = np.searchsorted(bags["start"].to_numpy(), self._start[here])
            found[here] = bags["checksum"].to_numpy()[rows]
        checksums: list[str] = found.tolist()
        return checksums

    @cached_property
    def _places(self) -> IntArray:
        """(B, 3) part, first row and rows of each bag."""
        return np.stack([self._part, self._start, self.index.sizes], 1)

    def _copy(self, runs: Sequence[Sequence[int]], out: Tensor) -> None:
        """Copy runs of rows, given as (part, first row, rows), one after another."""
        readers, at = self._readers, 0
        if out.dtype == self.header.torch_dtype and out.device.type == "cpu" and out.is_contiguous():
            to = out.view(torch.uint8).numpy()  # bytes are bytes, and NumPy starts such a copy quicker than torch
            for part, start, count in runs:
                to[at : at + count] = readers[part].raw[start : start + count]
                at += count
            return
        for part, start, count in runs:
            out[at : at + count].copy_(readers[part].features[start : start + count])
            at += count

    def _room(self, rows: int, out: Tensor | None) -> Tensor:
        if out is None:
            return torch.empty((rows, self.width), dtype=self.header.torch_dtype)
        view = out[:rows]
        if view.shape != (rows, self.width):
            raise InvalidInput(
                f"out needs {rows} rows or more of {self.width} features, its shape is {tuple(out.shape)}"
            )
        return view


def _labelled(
    bags: pa.Table, later: Mapping[str, tuple[int | None, str | None]]
) -> tuple[pa.ChunkedArray | pa.Array, pa.ChunkedArray | pa.Array]:
    """Return labels and splits of the bags of a manifest; those that were set later go before."""
    if not later:
        return bags["label"], bags["split"]
    rows = zip(bags["bag"].to_pylist(), bags["label"].to_pylist(), bags["split"].to_pylist(), strict=True)
    labels, splits = zip(*(later.get(bag, (label, split)) for bag, label, split in rows), strict=True)
    return pa.array(labels, pa.int8()), pa.array(splits, pa.string())
