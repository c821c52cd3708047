"""Bags of scikit-learn's digit pictures: real data that comes with the installation.

1,797 pictures of handwritten digits, 8 x 8 pixels.  A positive bag holds one or two pictures of the
target digits among others; no picture is in two bags, so train and test are disjoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from admil.bags import Bags, IntArray
from admil.errors import InvalidInput
from admil.oracle import Truth

__all__ = ["DigitBags", "digits"]


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
    train_bags: int = 40,
    test_bags: int = 30,
    sizes: tuple[int, int] = (8, 14),
    positives: tuple[int, int] = (1, 2),
) -> tuple[DigitBags, DigitBags]:
    """Deal the pictures into training and test bags.

    Args:
        seed: draws everything.
        targets: the digits that are positive.
        train_bags: positive training bags, and as many negative ones.
        test_bags: positive test bags, and as many negative ones.
        sizes: least and most pictures of a bag.
        positives: least and most targets of a positive bag.

    Returns:
        The training and the test bags.

    Raises:
        InvalidInput: the pictures do not suffice, or the numbers make no sense.

    >>> train, test = digits(seed=0)
    >>> train.bags
    Bags(80 bags, 40 positive, 919 instances, 64 features)
    """
    _check_request(train_bags, test_bags, sizes, positives)
    rng = np.random.default_rng(seed)
    features, numbers = load_digits(return_X_y=True)
    shows_target = np.isin(numbers, targets)
    piles = {value: list(rng.permutation(np.flatnonzero(shows_target == value))) for value in (True, False)}
    pixels = (features / 16).astype(np.float32)
    train = _dealt(piles, train_bags, sizes, positives, rng)
    test = _dealt(piles, test_bags, sizes, positives, rng)
    return _made(train, pixels, shows_target, "train"), _made(test, pixels, shows_target, "test")


def _check_request(train_bags: int, test_bags: int, sizes: tuple[int, int], positives: tuple[int, int]) -> None:
    if train_bags < 1 or test_bags < 1:
        raise InvalidInput(f"each split needs a bag at least, got {train_bags} for training and {test_bags} for test")
    if not 1 <= sizes[0] <= sizes[1]:
        raise InvalidInput(f"sizes are the least and the most pictures of a bag, from 1 up, got {sizes}", sizes)
    if not 1 <= positives[0] <= positives[1] <= sizes[0]:
        raise InvalidInput(
            f"positives are the least and the most targets of a positive bag, from 1 up to the {sizes[0]} pictures "
            f"of the smallest bag, got {positives}",
            positives,
        )


def _dealt(
    piles: dict[bool, list[int]],
    count: int,
    sizes: tuple[int, int],
    positives: tuple[int, int],
    rng: np.random.Generator,
) -> list[IntArray]:
    """Take pictures off the piles: ``count`` positive bags, then as many negative ones."""
    bags = []
    for positive in [True] * count + [False] * count:
        size = int(rng.integers(sizes[0], sizes[1] + 1))
        targets = int(rng.integers(positives[0], positives[1] + 1)) if positive else 0
        if targets > len(piles[True]) or size - targets > len(piles[False]):
            raise InvalidInput(
                f"there are not enough pictures for {count} + {count} bags of {sizes[0]} to {sizes[1]}; "
                "ask for fewer or smaller bags"
            )
        dealt = [piles[True].pop() for _ in range(targets)] + [piles[False].pop() for _ in range(size - targets)]
        bags.append(rng.permutation(np.array(dealt, dtype=np.int64)))
    return bags


def _made(dealt: list[IntArray], pixels: NDArray[np.float32], shows_target: NDArray[np.bool_], split: str) -> DigitBags:
    pictures = np.concatenate(dealt)
    positive = shows_target[pictures]
    offsets = np.cumsum([0] + [len(bag) for bag in dealt])
    labels = [bool(shows_target[bag].any()) for bag in dealt]
    ids = [f"{split}-{number:02d}" for number in range(len(dealt))]
    bags = Bags.from_arrays(pixels[pictures], labels, ids, offsets=offsets)
    return DigitBags(bags, Truth(bags.index, positive), pictures)
