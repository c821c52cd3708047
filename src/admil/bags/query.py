"""What a model says of every instance, and what is asked next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from admil.bags.index import BagIndex, InstanceId

__all__ = ["FloatArray", "Need", "Query", "QueryItem", "Scores"]

FloatArray = NDArray[np.float64]

Need = Literal["disagreement", "expected_gradient_length", "embedding"]
"""What a sampler may ask of `score` beside f, p and the bag score."""


@dataclass(frozen=True, eq=False)
class Scores:
    """A model's view of some bags.

    Attributes:
        index: the bags.
        f: (M,) score of each instance in [0, 1].
        p: (M,) robust weight of each instance; 0 for known negatives, rows of a bag sum to 1.
        bag_score: (B,) robust bag score, known negatives removed.
        extras: what else was asked for, (M, …) each, by the name of the `Need`.
    """

    index: BagIndex
    f: FloatArray
    p: FloatArray
    bag_score: FloatArray
    extras: Mapping[str, FloatArray] = field(default_factory=dict)

    def of(self, bag: str) -> FloatArray:
        """Return the scores of the instances of one bag, (n,)."""
        number = self.index.number(bag)
        return self.f[self.index.offsets[number] : self.index.offsets[number + 1]]

    def split(self) -> list[FloatArray]:
        """Return the instance scores bag by bag."""
        return np.split(self.f, self.index.offsets[1:-1])

    def ranking(self) -> list[InstanceId]:
        """Return every instance, highest score first, ties by position."""
        return [self.index.instance(int(i)) for i in np.lexsort((np.arange(len(self.f)), -self.f))]


@dataclass(frozen=True)
class QueryItem:
    """One question, and why it is asked.

    Attributes:
        id: the instance asked about.
        reason: a short word: explore, exploit, fill, …
        f: its score.
        p: its robust weight within its bag.
        rank: its rank by score within its bag, 1 the highest.
        bag_score: the robust score of its bag.
    """

    id: InstanceId
    reason: str
    f: float
    p: float
    rank: int
    bag_score: float


@dataclass(frozen=True)
class Query:
    """A batch of questions, in the order to ask them.

    Attributes:
        items: the questions; fewer than the budget, or none, where ``note`` says why.
        note: why the query is short or empty; else "".
    """

    items: tuple[QueryItem, ...] = ()
    note: str = ""

    def __iter__(self) -> Iterator[QueryItem]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> QueryItem:
        return self.items[place]

    @property
    def ids(self) -> tuple[InstanceId, ...]:
        """The instances asked about, in order."""
        return tuple(item.id for item in self.items)
