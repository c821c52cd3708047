"""Folders of torchmil: features, labels, instance labels and coordinates in .npy files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admil.errors import InvalidInput
from admil.importers.labels import LabelReader
from admil.importers.npy import read_npy
from admil.importers.source import BagReader, ReadBag, bag_files, name_of, place_of
from admil.store import Source

__all__ = ["TorchmilImporter"]

_LABELS, _COORDS = "labels", "coords"
_INSTANCE_LABELS = ("inst_labels", "patch_labels")
_AXES = ("x", "y", "z")


class TorchmilImporter:
    """Imports the folders that torchmil's ``ProcessedMILDataset`` reads, with .npy files.

    ``path`` holds the folders

    * ``features``: (n, D) in ``BAG.npy`` for every bag; this folder says which bags there are;
    * ``labels``: a single number of any shape in ``BAG.npy``, for every bag; without the folder bring a `LabelFile`;
    * ``inst_labels``, or ``patch_labels``: (n,) or (n, 1) zeros and ones, the truth, for every bag that has a file;
    * ``coords``: (n, 2), columns ``x`` and ``y``, or with one column or three, ``z`` being the third.

    Args:
        path: the folder.
        features: the folder of features in it, such as "features/features_UNI".
    """

    def __init__(self, path: str | Path, features: str = "features") -> None:
        self.path = Path(path)
        self.features: Mapping[str, Any] | None = None
        self._folder = features
        if self.path.is_dir() and not (self.path / features).is_dir():
            raise InvalidInput(
                f"{self.path} has no folder {features!r}; expected the folder that holds {features}, {_LABELS}, "
                f"{_INSTANCE_LABELS[0]} and {_COORDS}",
                self.path,
            )
        self._files = bag_files(self.path / features, ".npy")
        there = (name for name in _INSTANCE_LABELS if (self.path / name).is_dir())
        self._truth = next(there, None)

    @property
    def source(self) -> Source:
        """See `Importer`."""
        return Source(
            kind="torchmil", name=name_of(self.path), place=place_of(self.path), options={"features": self._folder}
        )

    def ids(self) -> list[str]:
        """See `Importer`."""
        return [file.stem for file in self._files]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        labels = LabelReader()
        for file in self._files:
            yield BagReader(file.stem, partial(self._read, file, labels))

    def _read(self, file: Path, labels: LabelReader) -> ReadBag:
        features = read_npy(file, "an (n, D) array of numbers")
        count = len(features) if features.ndim else 0
        return ReadBag(
            features,
            self._label(file.name, labels),
            instances=self._coords(file.name, count),
            truth=self._instance_labels(file.name, count),
        )

    def _label(self, name: str, labels: LabelReader) -> int | None:
        folder = self.path / _LABELS
        if not folder.is_dir():
            return None
        array = read_npy(folder / name, "the label of the bag, one number")
        if array.size != 1:
            raise InvalidInput(f"{folder / name}: expected one label, got shape {array.shape}", folder / name)
        return labels(array.item(), str(folder / name))

    def _instance_labels(self, name: str, count: int) -> NDArray[np.bool_] | None:
        if self._truth is None or not (path := self.path / self._truth / name).is_file():
            return None
        array = read_npy(path, "a label for each instance")
        if array.shape not in ((count,), (count, 1)):
            raise InvalidInput(f"{path}: expected {count} instance labels, got shape {array.shape}", path)
        return array.reshape(-1)

    def _coords(self, name: str, count: int) -> dict[str, Any] | None:
        if not (self.path / _COORDS).is_dir():
            return None
        path = self.path / _COORDS / name
        array = read_npy(path, "a row of coordinates for each instance")
        if array.ndim != 2 or len(array) != count or not 1 <= array.shape[1] <= len(_AXES):
            raise InvalidInput(f"{path}: expected coordinates ({count}, 2), got shape {array.shape}", path)
        if array.dtype.kind not in "fiu":
            raise InvalidInput(f"{path}: expected coordinates to be numbers, got {array.dtype}", path)
        return {_AXES[axis]: array[:, axis].astype(float) for axis in range(array.shape[1])}
