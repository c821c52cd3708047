"""Bags of scikit-learn's digit pictures: real data that comes with the installation.

1,797 pictures of handwritten digits, 8 x 8 pixels.  A positive bag holds a picture of the target digit among
others; no picture is in two bags, so train and test are disjoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from admil.bags import Bags, IntArray
from admil.datasets.dealing import Dealt, Piles, between, deal, split_generator
from admil.datasets.pictures import as_rgb, picture_bags
from admil.errors import InvalidInput
from admil.importers import BagReader
from admil.oracle import Truth
from admil.store import Source

__all__ = ["DigitBags", "DigitSet", "digits"]

_SPLITS = ("train", "test")


@dataclass(frozen=True, eq=False)
class DigitBags:
    """One split of the digit bags.

    Attributes:
        bags: the bags; features are the 64 pixels, 0 to 1.
        truth: which pictures show a target.
        pictures: (M,) row of each instance in ``sklearn.datasets.load_digits``.
    """

    bags: Bags
    truth: Truth
    pictures: IntArray


def digits(
    seed: int,
    targets: Sequence[int] = (8,),
    train_bags: int = 26,
    test_bags: int = 30,
    sizes: tuple[int, int] = (16, 22),
    test_sizes: tuple[int, int] = (8, 14),
    positives: tuple[int, int] = (1, 1),
) -> tuple[DigitBags, DigitBags]:
    """Deal the pictures into training and test bags.

    Args:
        seed: draws everything.
        targets: the digits that are positive.
        train_bags: positive training bags, and as many negative ones.
        test_bags: positive test bags, and as many negative ones.
        sizes: least and most pictures of a training bag.
        test_sizes: the same of a test bag; small ones, so that there are enough pictures for many targets to rank.
        positives: least and most targets of a positive bag.

    Returns:
        The training and the test bags.

    Raises:
        InvalidInput: the pictures do not suffice, or the numbers make no sense.

    >>> train, test = digits(seed=0)
    >>> train.bags
    Bags(52 bags, 26 positive, 985 instances, 64 features)
    """
    _check_request(train_bags, test_bags, (sizes, test_sizes), positives)
    rng = split_generator(seed)
    features, numbers = load_digits(return_X_y=True)
    shows_target = np.isin(numbers, targets)
    piles = Piles(shows_target, rng)
    pixels = (features / 16).astype(np.float32)
    train = deal(piles, train_bags, between(*sizes), between(*positives), rng, "pictures")
    test = deal(piles, test_bags, between(*test_sizes), between(*positives), rng, "pictures")
    return _made(train, pixels, shows_target, "train"), _made(test, pixels, shows_target, "test")


class DigitSet:
    """The bags of `digits`, the same ones, to be put into a store.

    Args:
        seed: draws everything.
        targets: the digits that are positive.
        train_bags: positive training bags, and as many negative ones.
        test_bags: positive test bags, and as many negative ones.
        sizes: least and most pictures of a training bag.
        test_sizes: the same of a test bag; small ones, so that there are enough pictures for many targets to rank.
        positives: least and most targets of a positive bag.
    """

    def __init__(
        self,
        seed: int,
        targets: Sequence[int] = (8,),
        train_bags: int = 26,
        test_bags: int = 30,
        sizes: tuple[int, int] = (16, 22),
        test_sizes: tuple[int, int] = (8, 14),
        positives: tuple[int, int] = (1, 1),
    ) -> None:
        self._splits = dict(
            zip(_SPLITS, digits(seed, targets, train_bags, test_bags, sizes, test_sizes, positives), strict=True)
        )
        self._images = load_digits().images
        options = {"seed": seed, "targets": list(targets), "train_bags": train_bags, "test_bags": test_bags}
        options |= {"sizes": list(sizes), "test_sizes": list(test_sizes), "positives": list(positives)}
        self.source = Source(kind="digits", name="scikit-learn", options=options)

    @property
    def features(self) -> Mapping[str, Any]:
        """See `Importer`."""
        return {"encoder": "grey", "size": 8}

    def ids(self) -> list[str]:
        """See `Importer`."""
        return [bag for split in self._splits.values() for bag in split.bags.ids]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        dealt = [bag for split, bags in self._splits.items() for bag in _dealt_of(split, bags)]
        pictures = dict.fromkeys(_SPLITS, self._rgb)
        return picture_bags(dealt, pictures, lambda bag, _: self._splits[bag.split].bags[bag.id].numpy())

    def _rgb(self, rows: IntArray) -> NDArray[np.uint8]:
        return as_rgb((self._images[rows] * (255 / 16)).round().astype(np.uint8))


def _dealt_of(split: str, digit_bags: DigitBags) -> list[Dealt]:
    index = digit_bags.bags.index
    bounds = list(pairwise(index.offsets.tolist()))
    return [
        Dealt(bag, split, digit_bags.pictures[start:stop], digit_bags.truth.positive[start:stop])
        for bag, (start, stop) in zip(index.ids, bounds, strict=True)
    ]


def _check_request(
    train_bags: int, test_bags: int, sizes: Sequence[tuple[int, int]], positives: tuple[int, int]
) -> None:
    if train_bags < 1 or test_bags < 1:
        raise InvalidInput(f"each split needs a bag at least, got {train_bags} for training and {test_bags} for test")
    for least, most in sizes:
        if not 1 <= least <= most:
            raise InvalidInput(
                f"sizes are the least and the most pictures of a bag, from 1 up, got {(least, most)}", sizes
            )
    smallest = min(least for least, _ in sizes)
    if not 1 <= positives[0] <= positives[1] <= smallest:
        raise InvalidInput(
            f"positives are the least and the most targets of a positive bag, from 1 up to the {smallest} pictures "
            f"of the smallest bag, got {positives}",
            positives,
        )


def _made(dealt: list[IntArray], pixels: NDArray[np.float32], shows_target: NDArray[np.bool_], split: str) -> DigitBags:
    pictures = np.concatenate(dealt)
    positive = shows_target[pictures]
    offsets = np.cumsum([0] + [len(bag) for bag in dealt])
    labels = [bool(shows_target[bag].any()) for bag in dealt]
    ids = [f"{split}-{number:02d}" for number in range(len(dealt))]
    bags = Bags.from_arrays(pixels[pictures], labels, ids, offsets=offsets)
    return DigitBags(bags, Truth(bags.index, positive), pictures)
