"""Times of steps that are compared, taken in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["SpeedRow", "medians"]

_WARM_UP = 3


@dataclass(frozen=True)
class SpeedRow:
    """One comparison: seconds of both sides (median) and their ratio."""

    what: str
    against: str
    seconds: float
    against_seconds: float

    @property
    def ratio(self) -> float:
        """Our time over the other's: below 1 is faster."""
        return self.seconds / self.against_seconds


def medians(steps: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Time the steps in turns, so that what else the machine does falls on all of them; return the median of each."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(_WARM_UP + repeats):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            if turn >= _WARM_UP:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}
