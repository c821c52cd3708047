"""Runs: the rows, or lines, of a bag, that stand together in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from admil.errors import InvalidInput

__all__ = ["Run", "RunList"]


@dataclass(frozen=True)
class Run:
    """The rows [start, stop) of a bag, counted from 0."""

    bag: str
    start: int
    stop: int

    def truth(self, path: Path, labels: Sequence[int | None]) -> NDArray[np.bool_] | None:
        """Return the labels of the instances, None where none of them is known.

        Raises:
            InvalidInput: some are known and some are not.
        """
        if all(label is None for label in labels):
            return None
        if None in labels:
            row = self.start + list(labels).index(None) + 1
            raise InvalidInput(
                f"{path}: bag {self.bag!r} has instance labels, but row {row} has none; label all of a bag or none",
                self.bag,
            )
        return np.array(labels, dtype=bool)


class RunList:
    """The runs of a file, while it is read from its beginning.

    Args:
        path: the file, for messages.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs: list[Run] = []
        self._bags: set[str] = set()
        self._bag: str | None = None
        self._start, self._stop = 0, 0

    def add(self, bag: str | None, rows: int = 1) -> None:
        """Enter the next rows.

        Raises:
            InvalidInput: they have no bag id, or come after rows of another bag.
        """
        if not bag:
            raise InvalidInput(f"{self.path}: row {self._stop + 1} has no bag id", self.path)
        if bag != self._bag:
            self._close()
            if bag in self._bags:
                raise InvalidInput(
                    f"{self.path}: the rows of bag {bag!r} do not stand together: they begin again in row "
                    f"{self._stop + 1}; sort the file by bag",
                    bag,
                )
            self._bag, self._start = bag, self._stop
        self._stop += rows

    def closed(self) -> list[Run]:
        """Return all runs.

        Raises:
            InvalidInput: there is none.
        """
        self._close()
        self._bag = None
        if not self._runs:
            raise InvalidInput(f"{self.path} has no rows", self.path)
        return self._runs

    def _close(self) -> None:
        if self._bag is not None:
            self._bags.add(self._bag)
            self._runs.append(Run(self._bag, self._start, self._stop))
