"""What a report shows, as plain values: whoever fills them in needs to know nothing of pages or plots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Asked", "BagPicture", "Curve", "Report", "RoundRow"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """One method's quality over answers: ``values`` is (S, R), a row per seed; ``answers`` (R,) or (S, R) alike."""

    method: str
    answers: FloatArray
    values: FloatArray


@dataclass(frozen=True)
class RoundRow:
    """One line of the table of rounds, means over seeds.

    ``deviation`` is None for one seed; ``gap_closed``, the share of the way from passive to the ceiling, is None
    where the ceiling does not lie above passive.
    """

    method: str
    round: int
    answers: float
    positives: float
    positive_bag_share: float
    average_precision: float
    deviation: float | None
    gap_closed: float | None = None


@dataclass(frozen=True, eq=False)
class BagPicture:
    """A bag's instances in the plane of score f and weight p, before and after the answers."""

    bag: str
    f_before: FloatArray
    p_before: FloatArray
    f_after: FloatArray
    p_after: FloatArray
    positive: NDArray[np.bool_]
    asked: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Asked:
    """One question as it was asked, with the picture to show for it."""

    number: int
    round: int
    instance: str
    reason: str
    f: float
    p: float
    rank: int
    bag_score: float
    answer: bool | None
    picture: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page.

    Attributes:
        title: its heading.
        protocol: what was done, in sentences.
        curves: a curve per method.
        ceiling: (S,) instance AP of the ceiling per seed.
        ceiling_note: what the ceiling is.
        rows: the table of rounds.
        bags: the bags shown before and after.
        asked: the gallery.
        facts: name and value pairs: versions, seeds, seconds.
        next_command: what to try next.
    """

    title: str
    protocol: tuple[str, ...]
    curves: tuple[Curve, ...]
    ceiling: FloatArray
    ceiling_note: str
    rows: tuple[RoundRow, ...]
    bags: tuple[BagPicture, ...]
    asked: tuple[Asked, ...]
    facts: tuple[tuple[str, str], ...]
    next_command: str
