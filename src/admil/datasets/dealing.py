"""Dealing a pool of instances into bags: no instance into two bags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from admil.bags import IntArray
from admil.errors import InvalidInput

__all__ = ["Dealt", "Piles", "about", "between", "deal", "named", "split_generator"]

Draw = Callable[[Generator, int], int]
"""Draws a number; the second argument is the bag's size where that is known, else 0."""


@dataclass(frozen=True, eq=False)
class Dealt:
    """A bag as it was dealt.

    Attributes:
        id: its id.
        split: "train" or "test".
        rows: (n,) which instances of the pool it holds, in order.
        positive: (n,) which of them are positive.
    """

    id: str
    split: str
    rows: IntArray
    positive: NDArray[np.bool_]

    @property
    def label(self) -> int:
        """1 where an instance is positive, else 0."""
        return int(self.positive.any())


class Piles:
    """The positive and the negative instances of a pool, each shuffled; dealing takes from the top.

    Args:
        positive: (M,) which instances are positive.
        rng: shuffles them.
        reuse: whether what is taken is put back, and the pile shuffled again.
    """

    def __init__(self, positive: NDArray[np.bool_], rng: Generator, reuse: bool = False) -> None:
        self._piles = {value: rng.permutation(np.flatnonzero(positive == value)) for value in (True, False)}
        self._rng, self._reuse = rng, reuse

    def take(self, positives: int, negatives: int) -> IntArray | None:
        """Take instances off the piles; None, and nothing taken, where they do not suffice."""
        if positives > len(self._piles[True]) or negatives > len(self._piles[False]):
            return None
        return np.concatenate([self._taken(True, positives), self._taken(False, negatives)])

    def _taken(self, positive: bool, count: int) -> IntArray:
        pile = self._piles[positive]
        if self._reuse:
            return self._rng.choice(pile, count, replace=False)
        rest = len(pile) - count
        self._piles[positive] = pile[:rest]
        return pile[rest:][::-1]


def deal(piles: Piles, count: int, size: Draw, positives: Draw, rng: Generator, things: str) -> list[IntArray]:
    """Deal ``count`` positive bags, then as many negative ones.

    Args:
        piles: what to take from.
        count: positive bags, and as many negative ones.
        size: draws a bag's size.
        positives: draws how many instances of a positive bag are positive.
        rng: draws, and shuffles each bag.
        things: what the instances are, for messages.

    Raises:
        InvalidInput: there are not enough of them.
    """
    bags: list[IntArray] = []
    for positive in [True] * count + [False] * count:
        total = size(rng, 0)
        targets = positives(rng, total) if positive else 0
        taken = piles.take(targets, total - targets)
        if taken is None:
            raise InvalidInput(
                f"there are not enough {things} for {count} + {count} bags (there are for {len(bags)} bags); "
                "ask for fewer or smaller bags"
            )
        bags.append(rng.permutation(taken))
    return bags


def between(least: int, most: int) -> Draw:
    """Return what draws a whole number from ``least`` to ``most``, all as likely."""

    def draw(rng: Generator, size: int) -> int:
        return int(rng.integers(least, most + 1))

    return draw


def about(share: float) -> Draw:
    """Return what draws ``share`` of the bag's size, rounded up or down at random, at least 1."""

    def draw(rng: Generator, size: int) -> int:
        return max(1, int(share * size + rng.random()))

    return draw


def split_generator(seed: int, *numbers: int) -> Generator:
    """Return the generator of one part of a data set, so that other parts do not change with its options."""
    if isinstance(seed, bool) or seed < 0:
        raise InvalidInput(f"a seed is a whole number from 0 up, got {seed!r}", seed)
    return np.random.default_rng([seed, *numbers])


def named(split: str, dealt: Sequence[IntArray], positive: NDArray[np.bool_]) -> list[Dealt]:
    """Give the bags of a split their ids."""
    digits = len(str(max(len(dealt) - 1, 0)))
    return [Dealt(f"{split}-{number:0{digits}d}", split, rows, positive[rows]) for number, rows in enumerate(dealt)]
