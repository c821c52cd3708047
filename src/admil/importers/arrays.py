"""NumPy files: an .npz of bags, or a folder of .npy files."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admil.errors import InvalidInput
from admil.importers.labels import LabelReader
from admil.importers.npy import read_array, read_npy, row_reader
from admil.importers.source import BagReader, ReadBag, bag_files, check_file, check_unpacked, name_of, place_of, reading
from admil.store import Source

__all__ = ["ArrayImporter"]

_ENDING = ".npy"
_FEATURES, _OFFSETS = f"features{_ENDING}", f"offsets{_ENDING}"
_PER_BAG = ("ids", "labels", "splits")
_BAG_ARRAY = "an (n, D) array of numbers"


class ArrayImporter:
    """Imports NumPy arrays.

    ``path`` is one of

    * a folder with an (n, D) array in ``BAG.npy`` for every bag;
    * an .npz with an (n, D) array per bag, named by the bag's id;
    * an .npz with all bags in one array, as `admil dump` writes it: ``features`` (M, D) and ``offsets``
      (B + 1,), and where known ``ids`` (B,), ``labels`` (B,), ``splits`` (B,) and ``truth`` (M,).

    Labels are what `as_label` reads, so a NaN or an empty text says not known.  Pickled objects are refused.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.features: Mapping[str, Any] | None = None
        self._flat = False
        if self.path.is_dir():
            self._names = [file.name for file in bag_files(self.path, _ENDING)]
            return
        self._names = self._members()
        self._flat = _FEATURES in self._names and _OFFSETS in self._names
        if self._flat:
            self._columns = self._flat_columns()

    @property
    def source(self) -> Source:
        """See `Importer`."""
        return Source(kind="arrays", name=name_of(self.path), place=place_of(self.path))

    def ids(self) -> list[str]:
        """See `Importer`."""
        if self._flat:
            return [str(bag) for bag in self._columns["ids"]]
        return [name.removesuffix(_ENDING) for name in self._names]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        if self.path.is_dir():
            for name in self._names:
                yield BagReader(name.removesuffix(_ENDING), partial(_read_file, self.path / name))
            return
        with reading(self.path, "an .npz file"):
            archive = zipfile.ZipFile(self.path)
        with archive:  # one for all bags: to open it is to read the list of its members
            yield from self._flat_bags(archive) if self._flat else self._member_bags(archive)

    def _members(self) -> list[str]:
        """Return the names of the arrays in an .npz."""
        expected = "an .npz file, or a folder of .npy files"
        check_file(self.path, expected)
        with reading(self.path, expected), zipfile.ZipFile(self.path) as archive:
            names = [name for name in archive.namelist() if name.endswith(_ENDING)]
        if not names:
            raise InvalidInput(f"{self.path} holds no .npy array; expected {_BAG_ARRAY} per bag", self.path)
        for name in names:
            if name.startswith("/") or ".." in PurePosixPath(name).parts:
                raise InvalidInput(f"{self.path}: entry {name!r} leads out of the archive; remove it", name)
        return names

    def _member_bags(self, archive: zipfile.ZipFile) -> Iterator[BagReader]:
        for name in self._names:
            yield BagReader(name.removesuffix(_ENDING), partial(self._read_member, archive, name))

    def _read_member(self, archive: zipfile.ZipFile, name: str) -> ReadBag:
        with reading(self.path, f"{_BAG_ARRAY} in {name}"):
            return ReadBag(_member(archive, name))

    def _flat_columns(self) -> dict[str, NDArray[Any]]:
        """Read the small arrays of a flat .npz: all but the features."""
        there = [name for name in ("offsets", "truth", *_PER_BAG) if name + _ENDING in self._names]
        expected = "features (M, D) and offsets (B + 1,)"
        with reading(self.path, expected), zipfile.ZipFile(self.path) as archive:
            columns = {name: _member(archive, name + _ENDING) for name in there}
        offsets = columns["offsets"]
        if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2 or offsets[0] != 0:
            raise InvalidInput(f"{self.path}: offsets are the start of each bag and the end, from 0 up", self.path)
        columns["offsets"] = offsets = offsets.astype(np.int64)
        if (np.diff(offsets) < 0).any():
            raise InvalidInput(f"{self.path}: offsets must not decrease", self.path)
        columns.setdefault("ids", np.arange(len(offsets) - 1))
        wanted = dict.fromkeys(_PER_BAG, len(offsets) - 1) | {"truth": int(offsets[-1])}
        for name, column in columns.items():
            if name in wanted and column.shape != (wanted[name],):
                shape = f"({wanted[name]},), has {column.shape}"
                raise InvalidInput(f"{self.path}: {name} must have shape {shape}", self.path)
        return columns

    def _flat_bags(self, archive: zipfile.ZipFile) -> Iterator[BagReader]:
        """Yield the bags of a flat .npz; the features of bags that are not read are passed over."""
        labels, offsets = LabelReader(), self._columns["offsets"].tolist()
        with reading(self.path, f"an (M, D) array of numbers in {_FEATURES}"):
            about = archive.getinfo(_FEATURES)
            take = row_reader(archive.open(_FEATURES), about.file_size, about.compress_size, offsets[-1])
        for number, bag in enumerate(self.ids()):
            yield BagReader(bag, partial(self._flat_bag, number, bag, labels, take))

    def _flat_bag(
        self, number: int, bag: str, labels: LabelReader, take: Callable[[int, int], NDArray[Any]]
    ) -> ReadBag:
        columns = self._columns
        start, stop = columns["offsets"][number : number + 2].tolist()
        with reading(self.path, f"the features of bag {bag!r} in rows {start} to {stop}"):
            rows = take(start, stop)
        label = labels(columns["labels"][number].item(), f"bag {bag!r}") if "labels" in columns else None
        split = str(columns["splits"][number]) or None if "splits" in columns else None
        truth = columns["truth"][start:stop] if "truth" in columns else None
        return ReadBag(rows, label, split, truth=truth)


def _read_file(path: Path) -> ReadBag:
    return ReadBag(read_npy(path, _BAG_ARRAY))


def _member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read an array of an .npz."""
    about = archive.getinfo(name)
    check_unpacked(about.file_size, about.compress_size)
    with archive.open(name) as file:
        return read_array(file, about.file_size)
