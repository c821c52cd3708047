"""Which row of a file belongs to which key, in little memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["KeyIndex"]

_END = 8
"""Bytes of a key that are kept: of checksums, these alone are hardly ever the same twice."""


class KeyIndex:
    """Finds the rows that may have a key, in 12 bytes of memory a row.

    Only the ends of keys are kept: whether a row has the key itself is for the caller to look up.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []  # the rows of each come after those of the run before

    def __len__(self) -> int:
        return sum(len(run.rows) for run in self._runs)

    def extend(self, keys: NDArray[np.uint8]) -> None:
        """Add the keys, (n, bytes), of the rows that follow."""
        if not len(keys):
            return
        ends = np.ascontiguousarray(keys[:, -_END:]).view(np.uint64)[:, 0]
        rows = np.arange(len(self), len(self) + len(keys), dtype=np.uint32)
        self._runs.append(_sorted(ends, rows))
        while len(self._runs) > 1 and len(self._runs[-2].rows) <= 2 * len(self._runs[-1].rows):
            later, before = self._runs.pop(), self._runs.pop()
            ends = np.concatenate([before.ends, later.ends])
            self._runs.append(_sorted(ends, np.concatenate([before.rows, later.rows])))

    def candidates(self, keys: Sequence[bytes]) -> list[list[int]]:
        """Return the rows that may have each key, the latest first."""
        ends = np.array([np.frombuffer(key[-_END:], np.uint64)[0] for key in keys], np.uint64)
        found: list[list[int]] = [[] for _ in keys]
        for run in reversed(self._runs):
            starts, stops = (run.ends.searchsorted(ends, side) for side in ("left", "right"))
            for place in np.flatnonzero(stops > starts):
                found[place] += run.rows[starts[place] : stops[place]][::-1].tolist()
        return found


@dataclass(frozen=True, eq=False)
class _Run:
    """Rows in the order of the ends of their keys; those with one end in their own."""

    ends: NDArray[np.uint64]
    rows: NDArray[np.uint32]


def _sorted(ends: NDArray[np.uint64], rows: NDArray[np.uint32]) -> _Run:
    order = ends.argsort(kind="stable")
    return _Run(ends[order], rows[order])
