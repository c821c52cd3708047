"""P-F batch sampling, the paper's Algorithm 1."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Generator

from admil.bags import FloatArray, LabelBook, Need, Query, Scores
from admil.functional import entropy
from admil.sampling.choice import Choice, by_priority, checked_pool, query_of
from admil.settings import Settings

__all__ = ["PF"]


class PF(Settings):
    """Explore difficult bags first, then ask by F-entropy.

    A positive bag is difficult if its highest unanswered score is at most ``difficult_below`` and no
    positive of it is known; since p increases with f, that instance is also the one of the highest p.
    Difficult bags are taken from the lowest such score up; of each the ``per_bag`` highest unanswered
    instances are asked (``explore``).  What is left of the budget goes to the highest entropy over all
    unanswered instances of positive bags, of at least ``least_entropy`` (``exploit``).  What is left
    then goes, by entropy again, to the rest (``fill``), or stays unspent.  All ties go to the earlier
    position.

    Attributes:
        difficult_below: Th_PF of the paper.
        least_entropy: Th_H in nats; the default lets in 0.3 <= f <= 0.7 (H(0.7) = 0.61086), as the authors' code does.
        per_bag: instances asked of a difficult bag (the paper's k).
        fill: ``entropy`` or ``short``.
    """

    kind: Literal["pf"] = "pf"
    difficult_below: float = Field(default=0.3, ge=0, le=1)
    least_entropy: float = Field(default=0.61086, ge=0)
    per_bag: int = Field(default=2, ge=1)
    fill: Literal["entropy", "short"] = "entropy"

    @property
    def needs(self) -> tuple[Need, ...]:
        """Nothing beside f, p and the bag score."""
        return ()

    def select(self, scores: Scores, labels: LabelBook, budget: int, generator: Generator) -> Query:
        """Return the query of Algorithm 1."""
        pool = checked_pool(scores, labels, budget)
        explored = self._explored(scores, labels, pool, budget)
        rest = pool.copy()
        rest[[position for position, _ in explored]] = False
        return query_of(explored + self._by_entropy(scores, rest, budget - len(explored)), scores, labels, budget)

    def _explored(self, scores: Scores, labels: LabelBook, pool: NDArray[np.bool_], budget: int) -> list[Choice]:
        index = scores.index
        best = np.full(len(index), -np.inf)
        np.maximum.at(best, index.bag_of[pool], scores.f[pool])
        difficult = np.flatnonzero((best <= self.difficult_below) & np.isfinite(best) & ~labels.confirmed)
        chosen: list[Choice] = []
        for bag in difficult[np.argsort(best[difficult], kind="stable")]:
            if len(chosen) >= budget:
                break
            start, stop = index.offsets[bag], index.offsets[bag + 1]
            top = start + by_priority(scores.f[start:stop], pool[start:stop], self.per_bag)
            chosen += [(int(position), "explore") for position in top]
        return chosen[:budget]

    def _by_entropy(self, scores: Scores, pool: NDArray[np.bool_], count: int) -> list[Choice]:
        uncertain: FloatArray = entropy(torch.tensor(scores.f)).numpy()
        worth = uncertain >= self.least_entropy
        if self.fill == "short":
            pool = pool & worth
        chosen = by_priority(uncertain, pool, count)
        return [(int(i), "exploit" if worth[i] else "fill") for i in chosen]
