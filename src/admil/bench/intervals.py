"""Means over replicates, and what a difference of pairs does and does not show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from admil.bags import FloatArray

__all__ = ["Interval", "Mean", "deviation", "paired_interval"]


@dataclass(frozen=True)
class Mean:
    """A mean over ``n`` replicates and their standard deviation, None where there is one replicate."""

    mean: float
    deviation: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean | None:
        """Return the mean of the values that are defined; None where none is.

        >>> Mean.of([0.5, float("nan")])
        Mean(mean=0.5, deviation=None, n=1)
        """
        array = np.array(list(values), dtype=np.float64)
        array = array[~np.isnan(array)]
        return cls(float(array.mean()), deviation(array), len(array)) if len(array) else None


@dataclass(frozen=True)
class Interval:
    """A mean of paired differences and its 95 % interval; no interval for one pair."""

    mean: float
    low: float | None
    high: float | None

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval supports that there is a difference at all."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def deviation(values: FloatArray) -> float | None:
    """Return the standard deviation over replicates; None for one."""
    return float(values.std(ddof=1)) if len(values) > 1 else None


def paired_interval(differences: FloatArray) -> Interval:
    """Return the mean of paired differences, one or more, and its 95 % interval (Student's t).

    >>> paired_interval(np.array([1.0, 3.0])).excludes_zero
    False
    """
    mean = float(differences.mean())
    if len(differences) < 2:
        return Interval(mean, None, None)
    half = float(stats.t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / len(differences) ** 0.5)
    return Interval(mean, mean - half, mean + half)
