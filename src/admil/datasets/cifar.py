"""CIFAR-10 and CIFAR-100 in bags of 32 pictures, as in the paper.

A positive bag holds one to three pictures of the target classes, a negative bag none.  Training bags are
dealt from the training pictures, test bags from the test pictures, and no picture is in two bags.

Reads the *binary* archives: a record is one label byte (CIFAR-100: the coarse, then the fine label) and
3,072 bytes of pixels, channel first: 1,024 red, 1,024 green, 1,024 blue, each row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admil.bags import IntArray
from admil.datasets.dealing import Dealt, Piles, between, deal, named, split_generator
from admil.datasets.download import Download
from admil.datasets.pictures import picture_bags
from admil.datasets.raw import read_named
from admil.errors import CorruptFile, InvalidInput
from admil.features import FeatureCache, Picture, PictureEncoder, encode_pictures
from admil.importers import BagReader
from admil.store import Source

__all__ = ["CIFAR10", "CIFAR100", "Cifar", "CifarRelease"]

_SUPERCLASSES = (
    "aquatic mammals",
    "fish",
    "flowers",
    "food containers",
    "fruit and vegetables",
    "household electrical devices",
    "household furniture",
    "insects",
    "large carnivores",
    "large man-made outdoor things",
    "large natural outdoor scenes",
    "large omnivores and herbivores",
    "medium-sized mammals",
    "non-insect invertebrates",
    "people",
    "reptiles",
    "small mammals",
    "trees",
    "vehicles 1",
    "vehicles 2",
)

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
_SPLITS = ("train", "test")


@dataclass(frozen=True)
class CifarRelease:
    """What tells CIFAR-10 and CIFAR-100 apart: where their pictures lie and what the first label byte means.

    Attributes:
        title: its name.
        kind: its name here.
        folder: the folder that its archive unpacks to.
        files: the files of each split, in order.
        label_bytes: label bytes of a record.
        classes: names of the values of the first one.
        targets: the classes that the paper calls positive.
        download: the archive.
    """

    title: str
    kind: str
    folder: str
    files: Mapping[str, Sequence[str]]
    label_bytes: int
    classes: Sequence[str]
    targets: Sequence[str]
    download: Download


CIFAR10 = CifarRelease(
    title="CIFAR-10",
    kind="cifar10",
    folder="cifar-10-batches-bin",
    files={"train": [f"data_batch_{number}.bin" for number in range(1, 6)], "test": ["test_batch.bin"]},
    label_bytes=1,
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    targets=("automobile", "bird", "dog"),
    download=Download(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "cifar-10-binary.tar.gz",
        170_052_171,
        "c32a1d4ab5d03f1284b67883e8d87530",
        "md5",
    ),
)

CIFAR100 = CifarRelease(
    title="CIFAR-100",
    kind="cifar100",
    folder="cifar-100-binary",
    files={"train": ["train.bin"], "test": ["test.bin"]},
    label_bytes=2,  # coarse, fine
    classes=_SUPERCLASSES,
    targets=("flowers",),
    download=Download(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "cifar-100-binary.tar.gz",
        168_513_733,
        "03b5dce01913d631647c71ecec9e9cb8",
        "md5",
    ),
)


class Cifar:
    """CIFAR-10 or CIFAR-100 in bags.

    Args:
        release: `CIFAR10` or `CIFAR100`.
        path: the folder with the binary files, the folder it lies in, or the archive as downloaded.
        seed: deals the bags.
        encoder: makes the features of a picture.
        cache: where features are kept; None for nowhere.
        targets: the classes (of CIFAR-100: superclasses) that are positive; None for the paper's.
        train_bags: positive training bags, and as many negative ones.
        test_bags: positive test bags, and as many negative ones.
        size: pictures of a bag.
        positives: least and most targets of a positive bag; numbers between are as likely.
        reuse: whether a picture may be in several bags of its split; by default it is in one at most.
    """

    def __init__(
        self,
        release: CifarRelease,
        path: str | Path,
        seed: int,
        encoder: PictureEncoder,
        cache: FeatureCache | None = None,
        targets: Sequence[str] | None = None,
        train_bags: int = 500,
        test_bags: int = 100,
        size: int = 32,
        positives: tuple[int, int] = (1, 3),
        reuse: bool = False,
    ) -> None:
        targets = release.targets if targets is None else targets
        wanted = [_class_number(target, release.classes) for target in targets]
        _check_request(targets, train_bags, test_bags, size, positives)
        self._raw = {split: _Records.read(Path(path), release, split) for split in _SPLITS}
        self._bags: list[Dealt] = []
        for number, (split, count) in enumerate(zip(_SPLITS, (train_bags, test_bags), strict=True)):
            rng = split_generator(seed, number)
            shows_target = np.isin(self._raw[split].labels, wanted)
            piles = Piles(shows_target, rng, reuse)
            dealt = deal(piles, count, between(size, size), between(*positives), rng, f"{split} pictures")
            self._bags += named(split, dealt, shows_target)
        self._encoder, self._cache = encoder, cache
        options = {"seed": seed, "targets": list(targets), "train_bags": train_bags, "test_bags": test_bags}
        options |= {"size": size, "positives": list(positives), "reuse": reuse}
        options |= {f"{split}_pictures": len(records.labels) for split, records in self._raw.items()}
        self.source = Source(kind=release.kind, name=release.folder, options=options)

    @property
    def features(self) -> Mapping[str, Any]:
        """See `Importer`."""
        return self._encoder.identity

    def ids(self) -> list[str]:
        """See `Importer`."""
        return [bag.id for bag in self._bags]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        splits = {split: records.pictures for split, records in self._raw.items()}
        return picture_bags(self._bags, splits, self._encode)

    def _encode(self, _: Dealt, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        return encode_pictures(pictures, self._encoder, self._cache)


@dataclass(frozen=True, eq=False)
class _Records:
    """The pictures of a split as they lie in the files: labels (n,) and pixels (n, 3072)."""

    labels: NDArray[np.uint8]
    pixels: NDArray[np.uint8]

    @classmethod
    def read(cls, path: Path, release: CifarRelease, split: str) -> _Records:
        names = release.files[split]
        width = release.label_bytes + _PIXELS
        files = read_named(path, names, release.folder, f"the binary version of {release.title}")
        tables = []
        for name in names:
            content = files[name]
            if not content or len(content) % width:
                raise CorruptFile(
                    f"{name} in {path} has {len(content)} bytes, expected whole records of {width}: it is truncated, "
                    "or no file of the binary version",
                    path,
                )
            tables.append(np.frombuffer(content, np.uint8).reshape(-1, width))
        table = np.concatenate(tables)
        labels = table[:, 0]  # CIFAR-100: the coarse label comes first
        if labels.max() >= len(release.classes):
            raise CorruptFile(f"{path}: label {labels.max()} names none of {len(release.classes)} classes", path)
        return cls(labels, table[:, release.label_bytes :])

    def pictures(self, rows: IntArray) -> NDArray[np.uint8]:
        """Return pictures (n, 32, 32, 3); the files have channels first."""
        channel_first = self.pixels[rows].reshape(-1, 3, _SIDE, _SIDE)
        return np.ascontiguousarray(channel_first.transpose(0, 2, 3, 1))


def _class_number(name: str, classes: Sequence[str]) -> int:
    if name not in classes:
        raise InvalidInput(f"there is no class {name!r}; choose among {', '.join(classes)}", name)
    return classes.index(name)


def _check_request(
    targets: Sequence[str], train_bags: int, test_bags: int, size: int, positives: tuple[int, int]
) -> None:
    if not targets:
        raise InvalidInput("name at least one class whose pictures are positive")
    if train_bags < 1 or test_bags < 1:
        raise InvalidInput(f"each split needs a bag at least, got {train_bags} for training and {test_bags} for test")
    if not 1 <= positives[0] <= positives[1] <= size:
        raise InvalidInput(
            f"positives are the least and the most targets of a positive bag, from 1 up to its {size} pictures, "
            f"got {positives}",
            positives,
        )
