"""Writing a store: bags are added one by one and become part of it a shard at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from admil.errors import InvalidInput
from admil.store.documents import sync_folder, write_bytes
from admil.store.layout import (
    BAG_SCHEMA,
    DTYPES,
    HEADER,
    PICTURES,
    TRUTH_SCHEMA,
    DtypeName,
    Header,
    Part,
    Source,
    part_files,
)
from admil.store.lock import StoreLock
from admil.store.shards import ShardFile
from admil.store.tables import details_table, read_table, truth_rows, write_table

__all__ = ["PART_BYTES", "StoreWriter"]

PART_BYTES = 256 * 2**20
"""Features after which a shard is closed."""


class StoreWriter:
    """Adds bags to a store; use it in a ``with`` statement.

    What has been added becomes part of the store whenever a shard is full, and at the end.  A crash, an
    error or a full disk loses at most the bags of the open shard: the store stays valid, and adding them
    again gives the same files as if nothing had happened.

    Args:
        path: the store's folder; made if need be.
        dtype: what features are kept in; None takes the store's, or what the first bag comes in (float64
            and whole numbers become float32), and then refuses bags of another type.
        features: how the features were made; kept in the header.
        source: the import that the bags come from.
        part_bytes: features after which a shard is closed.
        new: True to make a store, False to go on with one, None for either.
    """

    def __init__(
        self,
        path: str | Path,
        dtype: DtypeName | None = None,
        features: Mapping[str, Any] | None = None,
        source: Source | None = None,
        part_bytes: int = PART_BYTES,
        new: bool | None = None,
    ) -> None:
        if dtype is not None and dtype not in DTYPES:
            raise InvalidInput(f"a store keeps {', '.join(DTYPES)}, not {dtype!r}", dtype)
        self.path, self.part_bytes = Path(path), part_bytes
        self.shard: ShardFile | None = None
        self.given_dtype = dtype
        self.lock = StoreLock(self.path, new)
        try:
            self._begin(dtype, features, source)
        except BaseException:
            self.lock.release()
            raise

    def _begin(self, dtype: DtypeName | None, features: Mapping[str, Any] | None, source: Source | None) -> None:
        folder = self.path
        self.header = Header.read(folder) if (folder / HEADER).exists() else Header(dtype="float32", width=0)
        self.written = self.header
        if self.header.parts and dtype not in (None, self.header.dtype):
            raise InvalidInput(
                f"the store {folder} keeps {self.header.dtype}, {dtype} was asked for; leave it out", dtype
            )
        if features is not None:
            self._describe(dict(features))
        self.source = self._number_of(source)
        self.ids: set[str] = set()
        self.done: set[str] = set()
        self.schema: pa.Schema | None = None
        for part in self.header.parts:
            files = part_files(folder, part.name)
            bags = read_table(files["bags"], part.manifest, BAG_SCHEMA)["bag"].to_pylist()
            self.ids.update(bags)
            if self.source is not None and part.source == self.source:
                self.done.update(bags)
            if self.schema is None and part.details is not None:
                self.schema = pq.read_schema(files["instances"]).remove_metadata()
        _remove_unnamed(folder, {part.name for part in self.header.parts})
        self._open_part()

    def add(
        self,
        bag: str,
        features: Any,
        label: int | None = None,
        split: str | None = None,
        instances: Mapping[str, Sequence[Any]] | None = None,
        truth: NDArray[np.bool_] | None = None,
    ) -> None:
        """Add a bag.

        Args:
            bag: its id; no other bag of the store may have it.
            features: (n, D) array or tensor, finite.
            label: 0, 1, or None where it is not known.
            split: "train", "test" or another word.
            instances: what a person needs to see of each instance, by column: ``path`` of a picture with
                the box ``left``, ``top``, ``right``, ``bottom`` in it, ``text``, ``x`` and ``y``, ``begin``
                and ``end`` in seconds, and whatever else there is.
            truth: the true label of each instance, where it is known; kept in a file of its own.

        Raises:
            InvalidInput: naming the bag and what is wrong; the bags added before are not touched.
        """
        name: object = bag  # typed a text, but a caller may say otherwise
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"a bag id is a non-empty text, got {bag!r}", bag)
        if bag in self.ids:
            raise InvalidInput(f"bag {bag!r} is in the store already; bag ids must be distinct", bag)
        if label not in (None, 0, 1):
            raise InvalidInput(f"bag {bag!r}: expected a label 0, 1 or None (not known), got {label!r}", bag)
        rows = self._checked(bag, features)
        details = None if instances is None else details_table(bag, len(rows), instances, self.schema)
        truth_row = None if truth is None else truth_rows(bag, label, truth, len(rows))
        self._take(bag, rows, label, split, details, truth_row)
        if self.shard is not None and self.shard.bytes >= self.part_bytes:
            self.commit()

    def picture(self, name: str, data: bytes) -> str:
        """Put the file of a picture into the store; return what to enter as ``path`` of its instances.

        The source must have no ``root`` of its own.  The same picture may come again, another one by the
        same name may not.

        Args:
            name: a file name, or folders and a file name with "/" between them.
            data: the file's bytes.
        """
        words = name.split("/")
        if any(not word or word[0] == "." or set(word) & set("\\:\0") for word in words):
            raise InvalidInput(f"expected the name of a picture such as 'scan/17.png', got {name!r}", name)
        path = self.path.joinpath(PICTURES, *words)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, data)
        elif path.read_bytes() != data:
            raise InvalidInput(f"{path} is another picture already; give this one a name of its own", path)
        return f"{PICTURES}/{name}"

    def commit(self) -> None:
        """Make what was added part of the store."""
        if self.shard is None:
            return
        number = len(self.header.parts)
        files = part_files(self.path, f"{number:06d}")
        size = self.shard.close()
        sync_folder(files["features"].parent)
        table = pa.table([list(column) for column in zip(*self.rows, strict=True)], schema=BAG_SCHEMA)
        part = Part(
            name=f"{number:06d}",
            bags=len(self.rows),
            instances=self.shard.rows,
            shard_bytes=size,
            manifest=write_table(table, files["bags"]),
            details=write_table(self._details(), files["instances"]) if self.schema is not None else None,
            truth=write_table(_truth_table(self.truth), files["truth"]) if self.truth else None,
            source=self.source,
        )
        self._write(self.header.model_copy(update={"parts": (*self.header.parts, part)}))
        self._open_part()

    def close(self) -> None:
        """Commit, note that the import came to its end, and let others write."""
        try:
            self.commit()
            if not self.header.parts:
                raise InvalidInput(f"no bag was added: {self.path} stays without a store", self.path)
            sources = list(self.header.sources)
            if self.source is not None:
                sources[self.source] = sources[self.source].model_copy(update={"complete": True})
            header = self.header.model_copy(update={"sources": tuple(sources)})
            if header != self.written:
                self._write(header)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Drop what was not committed and let others write."""
        if self.shard is not None:
            self.shard.discard()
            self.shard = None
        self.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    def _open_part(self) -> None:
        self.shard = None
        self.rows: list[tuple[str, int | None, str | None, str, int, int, str]] = []
        self.tables: list[pa.Table] = []
        self.truth: list[tuple[str, list[bool]]] = []

    def _take(
        self,
        bag: str,
        rows: Tensor,
        label: int | None,
        split: str | None,
        details: pa.Table | None,
        truth: tuple[str, list[bool]] | None,
    ) -> None:
        name = f"{len(self.header.parts):06d}"
        if self.shard is None:
            path = part_files(self.path, name)["features"]
            path.parent.mkdir(parents=True, exist_ok=True)
            self.shard = ShardFile(path, self.header.dtype, self.header.width)
        start = self.shard.rows
        checksum = self.shard.add(rows)
        self.ids.add(bag)
        self.rows.append((bag, label, split, name, start, len(rows), checksum))
        if details is not None:
            self.schema = self.schema or details.schema
        self.tables.append(details if details is not None else pa.table({"count": [len(rows)]}))
        if truth is not None:
            self.truth.append(truth)

    def _details(self) -> pa.Table:
        """Return the instance rows of the open part; bags that brought none have empty ones."""
        assert self.schema is not None
        tables = [
            table if "bag" in table.column_names else details_table(row[0], row[5], {}, self.schema)
            for row, table in zip(self.rows, self.tables, strict=True)
        ]
        return pa.concat_tables(tables)

    def _checked(self, bag: str, features: Any) -> Tensor:
        rows = _as_tensor(bag, features)
        if rows.ndim != 2 or rows.shape[1] == 0:
            raise InvalidInput(
                f"bag {bag!r}: expected (n, D) features, one row per instance, got shape {tuple(rows.shape)}", bag
            )
        if len(rows) == 0:
            raise InvalidInput(f"bag {bag!r} is empty; a bag needs at least one instance: leave it out", bag)
        natural = _natural(rows.dtype)
        header = self.header
        if header.width == 0:
            header = header.model_copy(update={"width": rows.shape[1], "dtype": self.given_dtype or natural})
        if rows.shape[1] != header.width:
            raise InvalidInput(
                f"every bag needs the same number of features: the store has {header.width}, "
                f"bag {bag!r} has {rows.shape[1]}",
                bag,
            )
        if self.given_dtype is None and natural != header.dtype:
            raise InvalidInput(
                f"bag {bag!r} comes in {natural}, the store keeps {header.dtype}; "
                "name the type that all are to be converted to (dtype=…, --dtype)",
                bag,
            )
        kept = _finite(bag, rows, rows.to(header.torch_dtype))
        self.header = header
        return kept

    def _describe(self, features: dict[str, Any]) -> None:
        if self.header.parts and self.header.features not in (None, features):
            raise InvalidInput(
                f"the features of {self.path} were made otherwise ({_short(self.header.features)}) than these "
                f"({_short(features)}); make them the same way, or import into another store",
                self.path,
            )
        self.header = self.header.model_copy(update={"features": features})

    def _number_of(self, source: Source | None) -> int | None:
        """Return the source's number in the header, where it is entered if it is new, or moved if it moved."""
        if source is None:
            return None
        if source.root is not None and not Path(source.root).is_absolute():
            raise InvalidInput(f"the root of a source is an absolute folder, got {source.root!r}", source.root)
        sources = list(self.header.sources)
        number = next((number for number, known in enumerate(sources) if known.same(source)), len(sources))
        complete = number < len(sources) and sources[number].complete
        sources[number : number + 1] = [source.model_copy(update={"complete": complete})]
        self.header = self.header.model_copy(update={"sources": tuple(sources)})
        return number

    def _write(self, header: Header) -> None:
        header.write(self.path)
        self.header = self.written = header


def _as_tensor(bag: str, features: Any) -> Tensor:
    if isinstance(features, Tensor):
        return features.detach().cpu()
    try:
        array = np.asarray(features)
        if array.dtype.kind not in "fiub":
            raise TypeError
        return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
    except (TypeError, ValueError):
        raise InvalidInput(f"bag {bag!r}: expected an (n, D) array of numbers, got {_kind(features)}", bag) from None


def _kind(features: Any) -> str:
    dtype = getattr(features, "dtype", None)
    return f"an array of {dtype}" if dtype is not None else type(features).__name__


def _natural(dtype: torch.dtype) -> DtypeName:
    for name, known in DTYPES.items():
        if dtype == known:
            return name
    return "float32"


def _finite(bag: str, given: Tensor, kept: Tensor) -> Tensor:
    """Return the kept rows, or say which row is not finite, before or after the conversion."""
    if bool(torch.isfinite(kept).all()):
        return kept
    row, column = (int(i) for i in (~torch.isfinite(kept)).nonzero()[0])
    value = given[row, column].item()
    if np.isfinite(value):
        raise InvalidInput(
            f"bag {bag!r}: row {row} has {value:g} in column {column}, too large for {str(kept.dtype)[6:]}; "
            "use float32 or bfloat16",
            bag,
        )
    raise InvalidInput(
        f"features must be finite: bag {bag!r}, row {row} has {value} in column {column}; replace or drop it", bag
    )


def _truth_table(rows: Iterable[tuple[str, list[bool]]]) -> pa.Table:
    bags, values = zip(*rows, strict=True)
    return pa.table([list(bags), list(values)], schema=TRUTH_SCHEMA)


def _remove_unnamed(folder: Path, names: set[str]) -> None:
    """Delete the files of parts that were never committed."""
    for kind, example in part_files(folder, "x").items():
        if not (folder / kind).is_dir():
            (folder / kind).mkdir() if kind in ("features", "bags") else None
            continue
        for path in (folder / kind).iterdir():
            if path.suffix == example.suffix and path.stem not in names:
                path.unlink()
    for path in folder.glob(".store.json.*.part"):
        with suppress(FileNotFoundError):
            path.unlink()


def _short(features: Mapping[str, Any] | None) -> str:
    text = ", ".join(f"{name} {value}" for name, value in (features or {}).items() if not isinstance(value, dict))
    return text or "unknown"
