"""HDF5 files of slide pipelines: CLAM and TRIDENT."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from admil.errors import AdmilError, InvalidInput
from admil.features.extras import needed
from admil.importers.source import BagReader, ReadBag, bag_files, check_unpacked, name_of, place_of, reading
from admil.store import Source

__all__ = ["H5Importer"]

_CLAM_FOLDER = "h5_files"
_KEPT = ("patch_size", "patch_level", "patch_size_level0")
_PIECE = 2**24
_ENCODER = "encoder"
_NO_ENCODER = ("", "None")
"""What TRIDENT writes where it does not know the encoder's name."""


class H5Importer:
    """Imports a folder of ``BAG.h5`` files, as CLAM and TRIDENT write them.

    Each file has ``features`` (n, D), or (1, n, D), and may have ``coords`` (n, 2), or (1, n, 2): they become
    the columns ``x`` and ``y``.  Of the attributes of ``coords``, ``patch_size``, ``patch_level`` and
    ``patch_size_level0`` become columns.  The attribute ``encoder`` of ``features``, which newer releases of TRIDENT
    write, or that of the file, becomes part of the store, and files of another encoder are refused; those that name
    none are taken as they are.  All other attributes are not read.  The files have no labels: bring a `LabelFile`.
    Parts of a file that lie in another file are refused.

    Args:
        path: the folder, or the one above it that CLAM writes, with ``h5_files`` in it.

    Raises:
        MissingExtra: h5py is not installed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._describes, self._wanted = True, None
        self._h5py = needed("h5py", "h5", "reading HDF5 files")
        inside = self.path / _CLAM_FOLDER
        self._files = bag_files(inside if inside.is_dir() else self.path, ".h5")

    @property
    def features(self) -> Mapping[str, Any] | None:
        """See `Importer`: the encoder, where the first file that can be read names it."""
        return {_ENCODER: self._named} if self._describes and self._named is not None else None

    def following(self, features: Mapping[str, Any] | None, store: Path) -> Self:
        """See `FollowingImporter`: files that name another encoder than the store's are refused."""
        follower = copy(self)
        follower._describes = features is not None
        follower._wanted = (features or {}).get(_ENCODER)
        return follower

    @property
    def source(self) -> Source:
        """See `Importer`."""
        return Source(kind="h5", name=name_of(self.path), place=place_of(self.path))

    def ids(self) -> list[str]:
        """See `Importer`."""
        return [file.stem for file in self._files]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        for file in self._files:
            yield BagReader(file.stem, partial(self._read, file))

    @cached_property
    def _named(self) -> str | None:
        """The encoder that the first file names which can be read."""
        for path in self._files:
            with suppress(AdmilError), self._opened(path) as file:  # what is wrong is said when its bag is read
                return self._encoder(file, path)
        return None

    @contextmanager
    def _opened(self, path: Path) -> Iterator[Any]:
        with (
            reading(path, "an HDF5 file with features (n, D)"),
            path.open("rb") as opened,  # by its handle, as then nothing is locked and names may be any bytes
            self._h5py.File(opened, "r") as file,
        ):
            yield file

    def _read(self, path: Path) -> ReadBag:
        with self._opened(path) as file:
            encoder, wanted = self._encoder(file, path), self._wanted or self._named
            if None not in (encoder, wanted) and encoder != wanted:
                raise InvalidInput(
                    f"{path} has features of the encoder {encoder!r}, the bags before it of {wanted!r}; import each "
                    "encoder into a store of its own",
                    path,
                )
            features = self._array(file, "features", path)
            if features.ndim != 2:
                raise InvalidInput(_no_bag(path, features), path)
            instances = self._instances(file, path, len(features)) if "coords" in file else None
        return ReadBag(features, instances=instances)

    def _encoder(self, file: Any, path: Path) -> str | None:
        """Return the encoder that a file names."""
        for attributes in (self._dataset(file, "features", path).attrs, file.attrs):
            name = attributes.get(_ENCODER)
            word = name.decode(errors="replace") if isinstance(name, bytes) else name
            if isinstance(word, str) and word not in _NO_ENCODER:
                return word.encode(errors="replace").decode()
        return None

    def _instances(self, file: Any, path: Path, count: int) -> dict[str, Any]:
        """Return the instance columns, the same for all bags with coordinates."""
        coords = self._array(file, "coords", path)
        if coords.shape != (count, 2):
            raise InvalidInput(
                f"{path}: expected coords ({count}, 2), a pair for each row of features, got {coords.shape}", path
            )
        columns = {"x": coords[:, 0].astype(float), "y": coords[:, 1].astype(float)}
        attributes = file["coords"].attrs
        return columns | {name: np.full(count, _number(attributes.get(name))) for name in _KEPT}

    def _array(self, file: Any, name: str, path: Path) -> NDArray[Any]:
        """Read an array in pieces, without a leading axis of one."""
        found = self._dataset(file, name, path)
        if math.prod(found.shape) == 0:
            return _squeezed(np.empty(found.shape, found.dtype))
        row_bytes = max(1, math.prod(found.shape[1:])) * found.dtype.itemsize
        array: NDArray[Any] = np.empty(found.shape, found.dtype)
        step = max(1, _PIECE // row_bytes)
        for start in range(0, found.shape[0], step):
            piece = np.s_[start : start + step]
            found.read_direct(array, piece, piece)
        return _squeezed(array)

    def _dataset(self, file: Any, name: str, path: Path) -> Any:
        """Return a dataset that is safe to read, checked before any memory is taken for it."""
        link = file.get(name, getlink=True)
        found = file.get(name) if isinstance(link, self._h5py.HardLink) else None
        if not isinstance(found, self._h5py.Dataset):
            raise InvalidInput(f"{path} has no dataset {name!r} of its own; it has: {_listed(file)}", path)
        if found.is_virtual or found.external:
            raise InvalidInput(f"{path}: {name} lies in another file, which is not read; write it into this one", path)
        if found.dtype.kind not in "fiub" or found.shape is None or found.ndim == 0:
            raise InvalidInput(f"{path}: expected {name} to be an array of numbers, got {found.dtype}", path)
        packed = path.stat().st_size
        for shape in (found.shape, found.chunks or ()):
            check_unpacked(math.prod(shape) * found.dtype.itemsize, packed)
        return found


def _squeezed(array: NDArray[Any]) -> NDArray[Any]:
    return array[0] if array.ndim == 3 and len(array) == 1 else array


def _no_bag(path: Path, features: NDArray[Any]) -> str:
    if features.size == 0:
        return f"{path} is empty: it holds no patch; remove it, or leave it out with --skip-errors"
    hint = ": that is one vector for a whole slide; give the folder of the patch features" if features.ndim == 1 else ""
    return f"{path}: expected features (n, D), a row per patch, got shape {features.shape}{hint}"


def _number(value: Any) -> float:
    """Return an attribute as a number; NaN where it is none."""
    single = np.asarray(value)
    return float(single) if single.ndim == 0 and single.dtype.kind in "fiu" else math.nan


def _listed(file: Any) -> str:
    names = list(file)
    return (", ".join(map(str, names[:5])) + (", …" if len(names) > 5 else "")) or "nothing"
