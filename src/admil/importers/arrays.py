"""NumPy files: an .npz of bags, or a folder of .npy files."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from admil.errors import InvalidInput
from admil.importers.labels import as_label
from admil.importers.source import BagReader, ReadBag, reading
from admil.store import Source

__all__ = ["ArrayImporter"]

_FLAT = "features"
_PER_BAG = ("ids", "labels", "splits")


class ArrayImporter:
    """Imports NumPy arrays.

    ``path`` is one of

    * a folder with an (n, D) array in ``BAG.npy`` for every bag;
    * an .npz with an (n, D) array per bag, named by the bag's id;
    * an .npz with all bags in one array, as `admil dump` writes it: ``features`` (M, D) and ``offsets``
      (B + 1,), and where known ``ids`` (B,), ``labels`` (B,), ``splits`` (B,) and ``truth`` (M,).

    Pickled objects are refused.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.features: Mapping[str, Any] | None = None
        self._flat = False
        if self.path.is_dir():
            self._names = sorted(file.name for file in self.path.glob("*.npy"))
        else:
            self._names = self._members()
            self._flat = f"{_FLAT}.npy" in self._names and "offsets.npy" in self._names
        if not self._names:
            raise InvalidInput(f"{self.path} holds no .npy array; expected one (n, D) array per bag", self.path)
        if self._flat:
            self._columns = self._flat_columns()

    @property
    def source(self) -> Source:
        """See `Importer`."""
        return Source(kind="arrays", name=self.path.name)

    def ids(self) -> list[str]:
        """See `Importer`."""
        if self._flat:
            return [str(bag) for bag in self._columns["ids"]]
        return [name.removesuffix(".npy") for name in self._names]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        if self._flat:
            yield from self._flat_bags()
        elif self.path.is_dir():
            for name in self._names:
                yield BagReader(name.removesuffix(".npy"), partial(_read_file, self.path / name))
        else:
            for name in self._names:
                yield BagReader(name.removesuffix(".npy"), partial(self._read_member, name))

    def _members(self) -> list[str]:
        with reading(self.path, "an .npz file or a folder of .npy files"), zipfile.ZipFile(self.path) as archive:
            return [name for name in archive.namelist() if name.endswith(".npy")]

    def _read_member(self, name: str) -> ReadBag:
        expected = f"an (n, D) array of numbers in {name}"
        with reading(self.path, expected), zipfile.ZipFile(self.path) as archive, archive.open(name) as file:
            return ReadBag(_read_array(file, archive.getinfo(name).file_size))

    def _flat_columns(self) -> dict[str, NDArray[Any]]:
        """Read the small arrays of a flat .npz: all but the features."""
        expected = "features (M, D) and offsets (B + 1,)"
        with reading(self.path, expected), zipfile.ZipFile(self.path) as archive:
            columns = {
                name: _read_array(archive.open(f"{name}.npy"), archive.getinfo(f"{name}.npy").file_size)
                for name in ("offsets", "truth", *_PER_BAG)
                if f"{name}.npy" in self._names
            }
            offsets = columns["offsets"]
            if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2 or offsets[0] != 0:
                raise InvalidInput(f"{self.path}: offsets are the start of each bag and the end, from 0 up", self.path)
            if (np.diff(offsets.astype(np.int64)) < 0).any():
                raise InvalidInput(f"{self.path}: offsets must not decrease", self.path)
            columns.setdefault("ids", np.arange(len(offsets) - 1))
        wanted = dict.fromkeys(_PER_BAG, len(offsets) - 1) | {"truth": int(offsets[-1])}
        for name, count in wanted.items():
            if name in columns and columns[name].shape != (count,):
                raise InvalidInput(
                    f"{self.path}: {name} must have shape ({count},), has {columns[name].shape}", self.path
                )
        return columns

    def _flat_bags(self) -> Iterator[BagReader]:
        """Yield the bags of a flat .npz, its features read as a stream."""
        expected = f"an (M, D) array of numbers in {_FLAT}.npy"
        offsets = self._columns["offsets"].astype(np.int64)
        with zipfile.ZipFile(self.path) as archive:
            with reading(self.path, expected):
                size = archive.getinfo(f"{_FLAT}.npy").file_size
                take = _row_reader(archive.open(f"{_FLAT}.npy"), size, int(offsets[-1]))
            for number, bag in enumerate(self.ids()):
                with reading(self.path, expected):
                    rows = take(int(offsets[number + 1] - offsets[number]))
                yield BagReader(bag, partial(self._flat_bag, number, bag, rows))

    def _flat_bag(self, number: int, bag: str, rows: NDArray[Any]) -> ReadBag:
        columns = self._columns
        label = as_label(columns["labels"][number].item(), f"bag {bag!r}") if "labels" in columns else None
        split = str(columns["splits"][number]) or None if "splits" in columns else None
        truth = None
        if "truth" in columns:
            start, stop = columns["offsets"][number : number + 2]
            truth = columns["truth"][start:stop]
        return ReadBag(rows, label, split, truth=truth)


def _read_file(path: Path) -> ReadBag:
    with reading(path, "an (n, D) array of numbers"), path.open("rb") as file:
        return ReadBag(_read_array(file, path.stat().st_size))


def _read_array(file: IO[bytes], size: int) -> NDArray[Any]:
    """Read a .npy file of ``size`` bytes; a shape that it cannot hold is refused before memory is taken for it."""
    shape, fortran, dtype = _head(file, size)
    data = file.read(int(np.prod(shape, dtype=object)) * dtype.itemsize)
    array: NDArray[Any] = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    return array


def _row_reader(file: IO[bytes], size: int, rows: int) -> Callable[[int], NDArray[Any]]:
    """Return a function that reads the next rows of an (M, D) array."""
    shape, fortran, dtype = _head(file, size)
    if len(shape) != 2 or shape[0] != rows or (fortran and min(shape) > 1):
        order = " in Fortran order" if fortran else ""
        raise ValueError(f"expected {rows} rows of features in C order, got shape {shape}{order}")

    def take(count: int) -> NDArray[Any]:
        data = file.read(count * shape[1] * dtype.itemsize)
        array: NDArray[Any] = np.frombuffer(data, dtype).reshape(count, shape[1])
        return array

    return take


def _head(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which are never loaded; save plain numbers")
    if int(np.prod(shape, dtype=object)) * dtype.itemsize > size:
        raise ValueError(f"its header promises shape {shape}, the file is too short for it")
    return shape, fortran, dtype
