"""What every sampler shares: who may be asked, and how a choice becomes a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Generator

from admil.bags import FloatArray, IntArray, LabelBook, Need, Query, QueryItem, Scores
from admil.errors import InvalidInput

__all__ = ["Choice", "Sampler", "by_priority", "checked_pool", "query_of", "tied_note"]

Choice = tuple[int, str]
"""A position and the reason it was chosen."""


@runtime_checkable
class Sampler(Protocol):
    """Chooses whom to ask from scores and answers alone: it never sees the truth, a model or a file."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """What `admil.score` must put into ``Scores.extras`` for this sampler."""

    def select(self, scores: Scores, labels: LabelBook, budget: int, generator: Generator) -> Query:
        """Return at most ``budget`` questions about unanswered instances of positive bags."""


def by_priority(priority: FloatArray, pool: NDArray[np.bool_], count: int) -> IntArray:
    """Return at most ``count`` positions of the pool, highest priority first, ties by position."""
    positions = np.flatnonzero(pool)
    order = np.argsort(-priority[positions], kind="stable")
    return positions[order[:count]]


def tied_note(priority: FloatArray, pool: NDArray[np.bool_]) -> str:
    """Say so where no priority is higher than another, so that the order of the bags decides; else ""."""
    values = priority[pool]
    if len(values) < 2 or values.min() < values.max():
        return ""
    return f"all {len(values)} candidates have the same priority: they are asked in the order of the bags"


def query_of(choices: Sequence[Choice], scores: Scores, labels: LabelBook, budget: int, note: str = "") -> Query:
    """Build the query of these choices, in order; it says why it is short if it is, and else ``note``."""
    rank = _ranks(scores, [position for position, _ in choices])
    items = tuple(
        QueryItem(
            id=scores.index.instance(position),
            reason=reason,
            f=float(scores.f[position]),
            p=float(scores.p[position]),
            rank=rank[position],
            bag_score=float(scores.bag_score[scores.index.bag_of[position]]),
        )
        for position, reason in choices
    )
    return Query(items, _note(len(items), int(labels.candidates.sum()), budget) or note)


def checked_pool(scores: Scores, labels: LabelBook, budget: int) -> NDArray[np.bool_]:
    """Check the budget and that scores and labels are of the same bags; return whom one may ask."""
    if isinstance(budget, bool) or not isinstance(budget, int | np.integer) or budget < 1:
        raise InvalidInput(
            f"the budget is the number of questions, a whole number of at least 1, got {budget!r}", budget
        )
    if scores.index is not labels.index and not scores.index.same_instances(labels.index):
        raise InvalidInput("the scores and the label book belong to different bags; score the training bags")
    return labels.candidates


def _ranks(scores: Scores, positions: Sequence[int]) -> dict[int, int]:
    """Return the rank by score within its bag of each position, 1 the highest, ties by position."""
    ranks = {}
    for position in positions:
        number = scores.index.bag_of[position]
        start, stop = scores.index.offsets[number], scores.index.offsets[number + 1]
        here, own = scores.f[start:stop], scores.f[position]
        ranks[position] = 1 + int((here > own).sum() + (here[: position - start] == own).sum())
    return ranks


def _note(chosen: int, left: int, budget: int) -> str:
    if left == 0:
        return "nothing is left to ask: every instance of the positive bags is answered, skipped or implied"
    if left < budget and chosen == left:
        return f"only {left} {'instance is' if left == 1 else 'instances are'} left to ask, the budget was {budget}"
    if chosen < budget:
        return f"{chosen} of a budget of {budget}: the sampler leaves the rest unasked"
    return ""
