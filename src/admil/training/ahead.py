"""Reading ahead: the next mini-batch is read while this one is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from admil.bags import BagSource

__all__ = ["Room", "one_ahead"]

T = TypeVar("T")


def one_ahead(jobs: Iterator[Callable[[], T]], thread: bool) -> Iterator[T]:
    """Yield the results of jobs in order.

    With a thread, each job runs in it while the result before is used; two results are then alive at once.
    Without one, jobs run when their turn comes.  Either way a job is drawn from the iterator, in the caller's
    thread, one turn before its result is wanted: what is drawn does not depend on where bags lie.
    """
    if not thread:
        yield from _in_turn(jobs, lambda job: job)
        return
    with ThreadPoolExecutor(1, "admil-read") as pool:
        yield from _in_turn(jobs, lambda job: pool.submit(job).result)


def _in_turn(jobs: Iterator[Callable[[], T]], start: Callable[[Callable[[], T]], Callable[[], T]]) -> Iterator[T]:
    waiting: Callable[[], T] | None = None
    for job in jobs:
        begun = start(job)
        if waiting is not None:
            yield waiting()
        waiting = begun
    if waiting is not None:
        yield waiting()


class Room:
    """A buffer that features are read into: grows to the largest read and is then reused.

    Bags on disk are read into memory first where the device is another; pinned, so that the copy is quick.
    """

    def __init__(self, bags: BagSource, dtype: torch.dtype, device: torch.device) -> None:
        self.bags, self.device = bags, device
        self.staged = device.type != "cpu" and not bags.in_memory
        self.here = torch.empty((0, bags.width), dtype=dtype, device="cpu" if self.staged else device)
        self.there = torch.empty((0, bags.width), dtype=dtype, device=device) if self.staged else self.here

    def read(self, rows: int, fill: Callable[[Tensor], object]) -> Tensor:
        """Return (rows, D) filled by ``fill``, on the device."""
        if rows > len(self.here):
            shape, dtype = (rows, self.bags.width), self.here.dtype
            pinned = self.staged and self.device.type == "cuda"
            self.here = torch.empty(shape, dtype=dtype, device=self.here.device, pin_memory=pinned)
            self.there = torch.empty(shape, dtype=dtype, device=self.device) if self.staged else self.here
        fill(self.here[:rows])
        if self.staged:
            self.there[:rows].copy_(self.here[:rows])
        return self.there[:rows]
