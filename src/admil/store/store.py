"""Bags that lie on disk and are read in place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from admil.bags import BagBatch, BagIndex, Bags, IntArray
from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.store.layout import BAG_SCHEMA, TRUTH_SCHEMA, DtypeName, Header, Part, Source, part_files
from admil.store.shards import bytes_of, map_shard
from admil.store.tables import check_file, read_table
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
    _shards: tuple[Tensor, ...]
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
        tables = [_manifest(folder, part) for part in header.parts]
        shards = [_shard(folder, header, part, table) for part, table in zip(header.parts, tables, strict=True)]
        table = pa.concat_tables(tables)
        sizes = table["count"].to_numpy()
        known = table["label"].fill_null(-1).to_numpy()
        index = BagIndex(
            tuple(table["bag"].to_pylist()),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            None if (known < 0).any() else known.astype(np.int64),
        )
        part_of = np.repeat(np.arange(len(tables)), [len(each) for each in tables])
        splits = np.array(table["split"].to_pylist(), dtype=object)
        return cls(folder, header, index, known, splits, tuple(shards), part_of, table["start"].to_numpy())

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

    def __getitem__(self, bag: str) -> Tensor:
        """Return a copy of the (n, D) features of the bag with this id."""
        return self._rows_of(self.index.number(bag)).clone()

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
        """SHA-256 over the bags of this selection: their ids, labels and features."""
        digest = hashlib.sha256()
        checksums = self._checksums
        for number, bag in enumerate(self.ids):
            digest.update(f"{bag}\0{self.known_labels[number]}\0{checksums[number]}\n".encode())
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
            there = ", ".join(sorted({str(each) for each in self.splits}))
            how = {None: "", True: " with a label", False: " without a label"}[labelled]
            raise InvalidInput(f"{self.path} has no bag{wanted}{how}; its splits are: {there}", split)
        return self.subset(np.flatnonzero(chosen))

    def subset(self, bags: Sequence[int] | IntArray) -> BagStore:
        """Return the given bag numbers as a store of their own, in that order; nothing is copied."""
        numbers = np.asarray(bags, dtype=np.int64)
        index = self.index.subset(numbers)
        known = self.known_labels[numbers]
        labels = None if (known < 0).any() else known.astype(np.int64)
        index = BagIndex(index.ids, index.offsets, labels)
        chosen = known, self.splits[numbers], self._shards, self._part[numbers], self._start[numbers]
        return BagStore(self.path, self.header, index, *chosen)

    def gather(self, bags: IntArray, out: Tensor | None = None) -> BagBatch:
        """Read whole bags; see `BagSource.gather`."""
        sizes = self.index.sizes[bags]
        view = self._room(int(sizes.sum()), out)
        at = 0
        for number, size in zip(bags.tolist(), sizes.tolist(), strict=True):
            view[at : at + size].copy_(self._rows_of(number))
            at += size
        return BagBatch(bags, sizes, view)

    def rows(self, positions: IntArray, out: Tensor | None = None) -> Tensor:
        """Read single instances by position; see `BagSource.rows`."""
        positions = np.asarray(positions, dtype=np.int64)
        view = self._room(len(positions), out)
        bags = self.index.bag_of[positions]
        part, row = self._part[bags], self._start[bags] + positions - self.index.offsets[bags]
        ends = np.flatnonzero((np.diff(part) != 0) | (np.diff(row) != 1)) + 1  # a run of neighbours is one copy
        for start, stop in zip([0, *ends.tolist()], [*ends.tolist(), len(positions)], strict=True):
            if start < stop:
                first = int(row[start])
                view[start:stop].copy_(self._shards[int(part[start])][first : first + stop - start])
        return view

    def load(self) -> Bags:
        """Return these bags in memory, in the type they are kept in."""
        return Bags(self.index, self.gather(np.arange(len(self))).features)

    def root_of(self, bag: str) -> Path:
        """Return the folder that the ``path`` of a bag's instances is relative to."""
        source = self.header.parts[self._part[self.index.number(bag)]].source
        root = None if source is None else self.header.sources[source].root
        return self.path if root is None else Path(root)

    def details(self, bag: str) -> list[dict[str, Any]]:
        """Return what is known of each instance of a bag, beside features and truth; [] where nothing is."""
        number = self.index.number(bag)
        part = self.header.parts[self._part[number]]
        if part.details is None:
            return []
        path = part_files(self.path, part.name)["instances"]
        found = pq.read_table(path, filters=[("bag", "==", bag)])
        rows: list[dict[str, Any]] = found.drop_columns(["bag", "index"]).to_pylist()
        return rows

    def truth_rows(self) -> Iterator[tuple[str, list[bool]]]:
        """Yield (bag id, truth of its instances) of the whole store; for `admil.oracle` alone."""
        for part in self.header.parts:
            if part.truth is not None:
                table = read_table(part_files(self.path, part.name)["truth"], part.truth, TRUTH_SCHEMA)
                yield from zip(table["bag"].to_pylist(), table["positive"].to_pylist(), strict=True)

    def verify(self, on_bag: Callable[[int], None] | None = None) -> tuple[str, ...]:
        """Read every byte of the store's files; return what is wrong, a sentence each, () where all is well.

        Args:
            on_bag: called with the number of bags looked at so far.
        """
        problems: list[str] = []
        checked = 0
        for part, shard in zip(self.header.parts, self._shards, strict=True):
            files = part_files(self.path, part.name)
            for kind, digest in (("bags", part.manifest), ("instances", part.details), ("truth", part.truth)):
                if digest is not None:
                    problems += _problem(files[kind], digest)
            try:
                table = _manifest(self.path, part)
            except AdmilError:
                continue  # said above
            for row in table.select(["bag", "start", "count", "checksum"]).to_pylist():
                rows = shard[row["start"] : row["start"] + row["count"]]
                if hashlib.sha256(bytes_of(rows)).hexdigest() != row["checksum"]:
                    problems.append(
                        f"shard {files['features']} is damaged: the features of bag {row['bag']!r} are not those "
                        "written; restore it from a copy, or import it again"
                    )
                checked += 1
                if on_bag is not None:
                    on_bag(checked)
        return tuple(problems)

    @cached_property
    def _checksums(self) -> list[str]:
        """The checksum of each bag."""
        by_bag: dict[str, str] = {}
        for part in self.header.parts:
            table = _manifest(self.path, part)
            by_bag.update(zip(table["bag"].to_pylist(), table["checksum"].to_pylist(), strict=True))
        return [by_bag[bag] for bag in self.ids]

    def _rows_of(self, number: int) -> Tensor:
        start = int(self._start[number])
        shard = self._shards[int(self._part[number])]
        return shard[start : start + int(self.index.sizes[number])]

    def _room(self, rows: int, out: Tensor | None) -> Tensor:
        if out is None:
            return torch.empty((rows, self.width), dtype=self.header.torch_dtype)
        view = out[:rows]
        if view.shape != (rows, self.width):
            raise InvalidInput(
                f"out needs {rows} rows or more of {self.width} features, its shape is {tuple(out.shape)}"
            )
        return view


def _manifest(folder: Path, part: Part) -> pa.Table:
    """Read the bags of a part and check that they tile its shard."""
    path = part_files(folder, part.name)["bags"]
    table = read_table(path, part.manifest, BAG_SCHEMA)
    counts, starts = table["count"].to_numpy(), table["start"].to_numpy()
    tiled = len(table) == part.bags and (counts > 0).all() and counts.sum() == part.instances
    if not tiled or not np.array_equal(starts, np.cumsum(counts) - counts):
        raise CorruptFile(f"{path} does not describe its shard: counts and starts do not fit", path)
    return table


def _shard(folder: Path, header: Header, part: Part, table: pa.Table) -> Tensor:
    identity = hashlib.sha256("".join(table["checksum"].to_pylist()).encode()).hexdigest()
    path = part_files(folder, part.name)["features"]
    return map_shard(path, header.dtype, part.instances, header.width, identity)


def _problem(path: Path, digest: str) -> list[str]:
    try:
        check_file(path, digest)
    except CorruptFile as error:
        return [str(error)]
    return []
