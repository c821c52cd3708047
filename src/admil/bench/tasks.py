"""The data of trials: stores below one folder, made where they are missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

from admil.bench.plans import DataName, DataSpec
from admil.bench.trial import Task
from admil.datasets import CIFAR10, CIFAR100, Cifar, DigitSet, Newsgroups, Post, Voc, broken_rules, raw_path, read_posts
from admil.errors import InvalidInput
from admil.features import FeatureCache, PictureEncoder, picture_encoder
from admil.importers import Importer, run_import
from admil.oracle import Truth
from admil.store import BagStore

__all__ = ["Library", "task_of"]

_SIDE = 128
"""What pictures are squeezed to, as `admil data build` does."""


class Library:
    """Stores of data sets, each in a folder named by what it is and its seed.

    Args:
        folder: where they lie.
        raw: where raw data lie, by data set; what is not named is downloaded.
    """

    def __init__(self, folder: Path, raw: Mapping[DataName, Path] | None = None) -> None:
        self.folder, self.raw = folder, dict(raw or {})

    def path(self, data: DataSpec) -> Path:
        """Return where the store of a data set lies, or will."""
        return self.folder / data.folder

    def store(self, data: DataSpec, on_bag: Callable[[int, int], None] | None = None) -> BagStore:
        """Open a store; make it first if it is missing, or go on where that was interrupted."""
        path = self.path(data)
        if not self.has(data):
            run_import(self._importer(data), path, on_bag=on_bag)
            if broken := broken_rules(BagStore.open(path)):
                raise InvalidInput(f"{path} breaks a rule of its data set: {broken[0]}; delete it", path)
        return BagStore.open(path)

    def has(self, data: DataSpec) -> bool:
        """Tell whether a store is there, whole."""
        path = self.path(data)
        return (path / "store.json").exists() and all(source.complete for source in BagStore.open(path).header.sources)

    def _importer(self, data: DataSpec) -> Importer:
        match data.name:
            case "20newsgroups":
                return Newsgroups(self._posts, data.part, data.seed)
            case "cifar10" | "cifar100":
                release = CIFAR10 if data.name == "cifar10" else CIFAR100
                return Cifar(release, self._raw(data.name), data.seed, self._encoder, FeatureCache())
            case "voc":
                return Voc(self._raw("voc"), data.seed, self._encoder, FeatureCache(), target=data.part or "bird")
            case "digits":
                return DigitSet(data.seed)

    def _raw(self, name: DataName) -> Path:
        return raw_path(name, self.raw.get(name), lambda *_: None)

    @cached_property
    def _posts(self) -> Sequence[Post]:
        return read_posts(self._raw("20newsgroups"))

    @cached_property
    def _encoder(self) -> PictureEncoder:
        return picture_encoder("efficientnet-lite0", size=_SIDE)


@cache
def task_of(path: Path) -> Task:
    """Read a store into memory: its training and its test bags, each with their truth."""
    store = BagStore.open(path)
    train, test = (store.where(split=split) for split in ("train", "test"))
    return Task(train.load(), Truth.of_store(train), test.load(), Truth.of_store(test))
