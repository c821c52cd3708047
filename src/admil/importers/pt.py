"""Torch files of slide pipelines: a tensor per bag, as CLAM writes them."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from admil.errors import CorruptFile, InvalidInput
from admil.importers.source import BagReader, ReadBag, bag_files, check_file, check_unpacked, name_of, place_of, reading
from admil.store import Source

__all__ = ["PtImporter"]

_CLAM_FOLDER = "pt_files"


class PtImporter:
    """Imports a folder of ``BAG.pt`` files, each an (n, D) tensor that `torch.save` wrote.

    Other objects are refused, and never unpickled: only tensors are loaded.  The files have no labels: bring a
    `LabelFile`.

    Args:
        path: the folder, or the one above it that CLAM writes, with ``pt_files`` in it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.features: Mapping[str, Any] | None = None
        inside = self.path / _CLAM_FOLDER
        self._files = bag_files(inside if inside.is_dir() else self.path, ".pt")

    @property
    def source(self) -> Source:
        """See `Importer`."""
        return Source(kind="pt", name=name_of(self.path), place=place_of(self.path))

    def ids(self) -> list[str]:
        """See `Importer`."""
        return [file.stem for file in self._files]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        for file in self._files:
            yield BagReader(file.stem, partial(_read, file))


def _read(path: Path) -> ReadBag:
    expected = "an (n, D) tensor that torch.save wrote"
    check_file(path, expected)
    with reading(path, expected):
        tensor = _loaded(path)
        _check(path, tensor)
        size = tensor.numel() * tensor.element_size()
        check_unpacked(size, path.stat().st_size)  # a tensor may repeat one number as often as it likes
        return ReadBag(tensor)


def _loaded(path: Path) -> Any:
    """Load a file, mapped from the disk where its format allows that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old formats
        try:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        except (AssertionError, pickle.UnpicklingError):
            raise CorruptFile(
                f"{path} holds pickled objects, or is damaged; only a tensor is loaded, and nothing is "
                "ever unpickled: save the (n, D) tensor by itself with torch.save",
                path,
            ) from None


def _check(path: Path, tensor: object) -> None:
    if not isinstance(tensor, Tensor):
        raise InvalidInput(f"{path}: expected an (n, D) tensor, got {type(tensor).__name__}", path)
    plain = tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    if not plain or tensor.is_complex():
        raise InvalidInput(
            f"{path}: expected a dense tensor of real numbers, got {tensor.dtype}, {tensor.layout}, on {tensor.device}",
            path,
        )
