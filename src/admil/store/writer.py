"""Writing a store: bags are added one by one and become part of it a shard at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from admil.errors import InvalidInput
from admil.store.described import difference, in_short
from admil.store.incoming import as_rows, check_finite, natural_dtype
from admil.store.layout import BAG_SCHEMA, DTYPES, HEADER, DtypeName, Header, Source, part_files
from admil.store.lock import LOCK, StoreLock
from admil.store.part_writer import PartWriter
from admil.store.pictures import PictureFolder
from admil.store.tables import details_table, read_table, truth_row

__all__ = ["PART_BYTES", "StoreWriter"]

PART_BYTES = 64 * 2**20
"""Bytes of features and tables after which a part is closed: what a crash can cost."""

_PARTS, _LARGEST_PART = 32, 2**30
"""A part of a large store may be so much of it, up to a limit: a store of a terabyte has about a thousand."""


class StoreWriter:
    """Adds bags to a store; use it in a ``with`` statement.

    What has been added becomes part of the store whenever a part is full, and at the end.  A crash, an
    error or a full disk loses at most the bags of the open part: the store stays valid, and adding them
    again gives the same files as if nothing had happened.

    Args:
        path: the store's folder; made if need be.
        dtype: what features are kept in; None takes the store's, or what the first bag comes in (float64
            and whole numbers become float32), and then refuses bags of another type.
        features: how the features were made; kept in the header.
        source: the import that the bags come from.
        part_bytes: bytes of features and tables after which a part is closed, in a large store more; the open part's
            tables are kept in memory.
        new: True to make a store, False to go on with one, None for either.

    Attributes:
        ids: the ids of all bags, those of the open part included.
        done: the ids of the bags that the store has from this source since before.
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
        self._part: PartWriter | None = None
        self._schema: pa.Schema | None = None
        self._given_dtype, self._closed = dtype, False
        self._pictures = PictureFolder(self.path)
        self._sums: dict[str, str] = {}  # of the pictures of the open part, by path
        self._lock = StoreLock(self.path, new)
        try:
            self._begin(dtype, features, source)
        except BaseException:
            self._lock.release()
            raise

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
            InvalidInput: naming the bag and what is wrong; it is left out, and others may be added.
            OSError: such as a full disk; the writer is closed, what was not committed is dropped.
        """
        self._check_open()
        _check_words(bag, split)
        if bag in self.ids:
            raise InvalidInput(self._double(bag), bag)
        if label not in (None, 0, 1):
            raise InvalidInput(f"bag {bag!r}: expected a label 0, 1 or None (not known), got {label!r}", bag)
        rows = as_rows(bag, features)
        header = self._header_with(bag, rows.shape[1], natural_dtype(rows.dtype))
        check_finite(bag, rows, header.torch_dtype)
        details = None if instances is None else details_table(bag, len(rows), instances, self._schema)
        known = None if truth is None else truth_row(bag, label, truth, len(rows))
        self.header = header
        with self._abandoned_on_error():
            self._part = self._part or PartWriter(self.path, header, self._schema)
            self._part.add(bag, rows, None if label is None else int(label), split, details, known)
        self._schema = self._part.schema
        self.ids.add(bag)
        if self._part.bytes >= max(self.part_bytes, min(self._committed // _PARTS, _LARGEST_PART)):
            self.commit()

    def picture(self, name: str, data: bytes) -> str:
        """Put the file of a picture into the store; return what to enter as ``path`` of its instances.

        The source must have no ``root`` of its own.  The same picture may come again, another one by the
        same name may not.

        Args:
            name: a file name, or folders and a file name with "/" between them.
            data: the file's bytes.
        """
        self._check_open()
        path, digest = self._pictures.put(name, data)
        self._sums[path] = digest
        return path

    def commit(self) -> None:
        """Make what was added part of the store."""
        self._check_open()
        if self._part is None:
            return
        with self._abandoned_on_error():
            part = self._part.finish(self._source, self._sums)
            self._pictures.sync()
            self._write(self.header.model_copy(update={"parts": (*self.header.parts, part)}))
        self._part, self._sums = None, {}

    def close(self) -> None:
        """Commit, note that the import came to its end, and let others write."""
        if self._closed:
            return
        try:
            self.commit()
            if not self.header.parts:
                raise InvalidInput(f"no bag was added: {self.path} stays without a store", self.path)
            sources = list(self.header.sources)
            if self._source is not None:
                sources[self._source] = sources[self._source].model_copy(update={"complete": True})
            header = self.header.model_copy(update={"sources": tuple(sources)})
            with self._abandoned_on_error():
                if header != self._written:
                    self._write(header)
            self._closed = True
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Drop what was not committed and let others write."""
        part, self._part = self._part, None
        try:
            if part is not None:
                part.discard()
            if not self._written.parts:
                _remove_empty(self.path, self._lock.made)
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    def _begin(self, dtype: DtypeName | None, features: Mapping[str, Any] | None, source: Source | None) -> None:
        folder = self.path
        self.header = Header.read(folder) if (folder / HEADER).exists() else Header(dtype="float32", width=0)
        self._written = self.header
        if self.header.parts and dtype not in (None, self.header.dtype):
            raise InvalidInput(
                f"the store {folder} keeps {self.header.dtype}, {dtype} was asked for; leave it out", dtype
            )
        if features is not None:
            self._describe(features)
        self._source = self._number_of(source)
        self.ids: set[str] = set()
        self.done: set[str] = set()
        for part in self.header.parts:
            files = part_files(folder, part.name)
            bags = read_table(files["bags"], part.manifest, BAG_SCHEMA)["bag"].to_pylist()
            self.ids.update(bags)
            if self._source is not None and part.source == self._source:
                self.done.update(bags)
            if part.details is not None:
                self._schema = pq.read_schema(files["instances"]).remove_metadata()
        _remove_unnamed(folder, {part.name for part in self.header.parts})
        self._pictures.remove_unfinished()

    def _header_with(self, bag: str, width: int, natural: DtypeName) -> Header:
        """Return the header as it is once a bag like this is in the store."""
        header = self.header
        if header.width == 0:
            header = header.model_copy(update={"width": width, "dtype": self._given_dtype or natural})
        if width != header.width:
            raise InvalidInput(
                f"every bag needs the same number of features: the store has {header.width}, bag {bag!r} has {width}",
                bag,
            )
        if self._given_dtype is None and natural != header.dtype:
            raise InvalidInput(
                f"bag {bag!r} comes in {natural}, the store keeps {header.dtype}; "
                "name the type that all are to be converted to (dtype=…, --dtype)",
                bag,
            )
        return header

    def _double(self, bag: str) -> str:
        """Say that a bag is there already, and from where, if that is another place than this import's."""
        said = f"bag {bag!r} is in the store already"
        for part in self.header.parts:
            if part.source is None or part.source == self._source:
                continue
            place = self.header.sources[part.source].place
            table = read_table(part_files(self.path, part.name)["bags"], part.manifest, BAG_SCHEMA)
            if place is not None and bag in table["bag"].to_pylist():
                if self._source is not None and place == self.header.sources[self._source].place:
                    return f"{said}, imported from {place} with other options; repeat those, or take another store"
                return (
                    f"{said}, from {place}; if that has moved here, say so with admil relocate; if this is another "
                    "bag, rename it or import it into another store"
                )
        return f"{said}; bag ids must be distinct"

    def _describe(self, features: Mapping[str, Any]) -> None:
        described = Header(dtype="float32", width=0, features=dict(features)).features
        if self.header.parts and self.header.features not in (None, described):
            raise InvalidInput(
                f"the features of {self.path} were made otherwise than these: {_otherwise(self.header, described)}; "
                "make them the same way, or import into another store",
                self.path,
            )
        self.header = self.header.model_copy(update={"features": described})

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
        self.header = self._written = header

    @property
    def _committed(self) -> int:
        """Bytes of the features that belong to the store."""
        row = self._written.width * self._written.torch_dtype.itemsize
        return row * sum(part.instances for part in self._written.parts)

    def _check_open(self) -> None:
        if not self._lock.held:
            raise InvalidInput(f"this writer of {self.path} is closed; make another with BagStore.append", self.path)

    @contextmanager
    def _abandoned_on_error(self) -> Iterator[None]:
        """Close the writer where its files may be half written, and say what a full disk means for the store."""
        try:
            yield
        except OSError as error:
            self.abandon()
            bags = sum(part.bags for part in self._written.parts)
            kept = f"the store is sound and holds {bags} bags" if bags else "no bag has been kept yet"
            said = f"{error.strerror or error}; {kept}: put this right and run it again"
            raise OSError(error.errno, said, str(self.path)) from error
        except BaseException:
            self.abandon()
            raise


def _check_words(bag: object, split: object) -> None:
    """Check ids and splits, which are typed as texts, but a caller may say otherwise."""
    if not isinstance(bag, str) or not bag:
        raise InvalidInput(f"a bag id is a non-empty text, got {bag!r}", bag)
    if split is not None and (not isinstance(split, str) or not split):
        raise InvalidInput(f"bag {bag!r}: a split is a non-empty text or None, got {split!r}", bag)
    try:
        (bag + (split or "")).encode()
    except UnicodeEncodeError:  # a file name that is no text on this system
        raise InvalidInput(f"bag {bag!r}: its id or split is no valid Unicode text; rename it", bag) from None


def _remove_unnamed(folder: Path, names: set[str]) -> None:
    """Delete the files of parts that were never committed, and a header that was being written."""
    for kind, example in part_files(folder, "x").items():
        for path in (folder / kind).glob(f"*{example.suffix}"):
            if re.fullmatch(r"\d{6}", path.stem) and path.stem not in names:
                path.unlink()
    for path in folder.glob(f".{HEADER}.*.part"):
        path.unlink(missing_ok=True)


def _remove_empty(folder: Path, whole: bool) -> None:
    """Delete the folders that a store without a part leaves behind, if nothing is in them, and perhaps its own."""
    if (folder / HEADER).exists():
        return
    with suppress(OSError):  # someone put something else there
        for kind in part_files(folder, "x"):
            if (folder / kind).is_dir():
                (folder / kind).rmdir()
        if whole and {path.name for path in folder.iterdir()} == {LOCK}:
            (folder / LOCK).unlink()
            folder.rmdir()


def _otherwise(header: Header, described: Mapping[str, Any] | None) -> str:
    if header.features is None or described is None:
        return f"{in_short(header.features)}, against {in_short(described)}"
    return difference(header.features, described)
