"""MNIST-bags, the bags of Ilse, Tomczak and Welling (2018): does a bag hold a nine?

Bag sizes are normal with mean 10 and variance 2, rounded, at least 1.  As many bags have a nine as have none.
As in the original the pictures of a bag are drawn from all of its split, so a picture may be in several
bags of that split; here never twice in one.  Training bags come from the training pictures, test bags
from the test pictures.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from admil.bags import IntArray
from admil.datasets.dealing import Dealt, named, split_generator
from admil.datasets.download import Download
from admil.datasets.pictures import as_rgb, picture_bags
from admil.datasets.raw import read_named
from admil.errors import CorruptFile, InvalidInput
from admil.features import FeatureCache, Picture, PictureEncoder, encode_pictures
from admil.importers import BagReader
from admil.store import Source

__all__ = ["MNIST_DOWNLOADS", "MnistBags"]

_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_HOME = "https://ossci-datasets.s3.amazonaws.com/mnist"
_MIRROR = "https://storage.googleapis.com/cvdf-datasets/mnist"

MNIST_DOWNLOADS = tuple(
    Download(f"{_HOME}/{name}.gz", f"{name}.gz", size, digest, "md5", (f"{_MIRROR}/{name}.gz",))
    for name, size, digest in (
        ("train-images-idx3-ubyte", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
    )
)


class MnistBags:
    """MNIST in bags.

    Args:
        path: a folder with the four IDX files, .gz or not.
        seed: draws the bags.
        encoder: makes the features of a picture; None takes its 784 grey values, 0 to 1.
        cache: where features are kept; None for nowhere.
        target: the digit that is positive.
        train_bags: positive training bags, and as many negative ones.
        test_bags: positive test bags, and as many negative ones.
        mean: mean size of a bag.
        variance: variance of the size.  The authors' code draws with this number as standard deviation: give 4
            to have its sizes.
    """

    def __init__(
        self,
        path: str | Path,
        seed: int,
        encoder: PictureEncoder | None = None,
        cache: FeatureCache | None = None,
        target: int = 9,
        train_bags: int = 100,
        test_bags: int = 500,
        mean: float = 10.0,
        variance: float = 2.0,
    ) -> None:
        _check_request(target, train_bags, test_bags, mean, variance)
        self._pictures: dict[str, NDArray[np.uint8]] = {}
        self._bags: list[Dealt] = []
        for number, (split, count) in enumerate((("train", train_bags), ("test", test_bags))):
            self._pictures[split], labels = _read_split(Path(path), split)
            rng = split_generator(seed, number)
            dealt = _drawn(labels == target, count, mean, math.sqrt(variance), rng, target)
            self._bags += named(split, dealt, labels == target)
        self._encoder, self._cache = encoder, cache
        options: dict[str, Any] = {"seed": seed, "target": target, "train_bags": train_bags, "test_bags": test_bags}
        options |= {"mean": float(mean), "variance": float(variance)}
        options |= {f"{split}_pictures": len(pictures) for split, pictures in self._pictures.items()}
        self.source = Source(kind="mnist-bags", name="mnist", options=options)

    @property
    def features(self) -> Mapping[str, Any]:
        """See `Importer`."""
        return {"encoder": "grey", "size": 28} if self._encoder is None else self._encoder.identity

    def ids(self) -> list[str]:
        """See `Importer`."""
        return [bag.id for bag in self._bags]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        splits = {split: partial(_rgb_rows, pictures) for split, pictures in self._pictures.items()}
        return picture_bags(self._bags, splits, self._encode)

    def _encode(self, bag: Dealt, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        if self._encoder is not None:
            return encode_pictures(pictures, self._encoder, self._cache)
        grey = self._pictures[bag.split][bag.rows]
        return grey.reshape(len(grey), -1).astype(np.float32) / np.float32(255)


def _rgb_rows(pictures: NDArray[np.uint8], rows: IntArray) -> NDArray[np.uint8]:
    return as_rgb(pictures[rows])


def _drawn(
    positive: NDArray[np.bool_], count: int, mean: float, deviation: float, rng: Generator, target: int
) -> list[IntArray]:
    """Draw ``count`` bags with a positive instance, then as many without."""
    lacks = np.flatnonzero(~positive)
    if not positive.any() or len(lacks) < mean + 10 * deviation:
        raise InvalidInput(f"expected pictures of {target} and of other digits, enough for a bag", target)
    bags = []
    for has_target in [True] * count + [False] * count:
        size = max(1, round(rng.normal(mean, deviation)))
        if not has_target:
            bags.append(rng.choice(lacks, size, replace=False))
            continue
        rows = rng.choice(len(positive), size, replace=False)
        while not positive[rows].any():  # what the original does too: draw until one is there
            rows = rng.choice(len(positive), size, replace=False)
        bags.append(rows)
    return bags


def _read_split(path: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the pictures (n, 28, 28) and the digits (n,) of a split."""
    files = read_named(path, _FILES[split], "MNIST/raw", "the four IDX files of MNIST")
    pictures, labels = (
        _idx(files[name], dimensions, path / name) for name, dimensions in zip(_FILES[split], (3, 1), strict=True)
    )
    if len(pictures) != len(labels) or labels.max(initial=0) > 9:
        raise CorruptFile(f"{path}: {len(pictures)} {split} pictures do not fit {len(labels)} labels 0 to 9", path)
    return pictures, labels


def _idx(content: bytes, dimensions: int, path: Path) -> NDArray[np.uint8]:
    """Read an IDX file: 0, 0, 8 (for bytes), the dimensions, a big-endian size for each, the values."""
    head = 4 + 4 * dimensions
    if content[:4] == bytes([0, 0, 8, dimensions]) and len(content) > head:
        shape = struct.unpack(f">{dimensions}I", content[4:head])
        if math.prod(shape) == len(content) - head:
            return np.frombuffer(content, np.uint8, offset=head).reshape(shape)
    raise CorruptFile(f"{path} is no whole IDX file of {dimensions} dimensions of bytes", path)


def _check_request(target: int, train_bags: int, test_bags: int, mean: float, variance: float) -> None:
    if not 0 <= target <= 9:
        raise InvalidInput(f"the target is a digit 0 to 9, got {target}", target)
    if train_bags < 1 or test_bags < 1:
        raise InvalidInput(f"each split needs a bag at least, got {train_bags} for training and {test_bags} for test")
    if not mean >= 1 or not variance >= 0:
        raise InvalidInput(f"expected a mean size from 1 up and a variance from 0 up, got {mean} and {variance}", mean)
