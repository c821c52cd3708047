"""What it costs that bags lie on disk: reads against a raw NumPy memmap, and steps against the same step in memory.

Stores are warm: what is measured is the work of finding and copying rows, not a disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from admil.bags import IntArray
from admil.bench.timing import SpeedRow, medians
from admil.store import BagStore, DtypeName
from admil.training import TrainingRecipe, training_step

__all__ = ["measure_stores"]

_BATCH = 120
"""Bags read together: a mini-batch of the paper."""


def measure_stores(repeats: int = 15, seed: int = 0) -> list[SpeedRow]:
    """Time reads of random bags and training steps on two stores: the paper's shape, and slides of ragged sizes."""
    sizes = np.random.default_rng(seed).lognormal(5.5, 0.8, 400).astype(int) + 1
    with tempfile.TemporaryDirectory(prefix="admil-speed-") as folder:
        paper = _Both(Path(folder) / "paper", [32] * 480, 4096, "float32", seed)
        slides = _Both(Path(folder) / "slides", sizes.tolist(), 1024, "float16", seed)
        measures = [measure(both, repeats, seed) for both in (paper, slides) for measure in (_read_rows, _step_rows)]
        return [row for rows in measures for row in rows]


class _Both:
    """The same bags as a store and as one raw file with an offset per bag."""

    def __init__(self, folder: Path, sizes: list[int], width: int, dtype: DtypeName, seed: int) -> None:
        folder.mkdir()
        size = str(sizes[0]) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes):,}"
        self.name = f"{size} x {width:,}, {dtype}"
        generator = Generator().manual_seed(seed)
        self.offsets = np.cumsum([0, *sizes])
        self.raw: NDArray[Any] = np.memmap(folder / "raw", dtype, "w+", shape=(sum(sizes), width))
        with BagStore.create(folder / "store", dtype=dtype) as writer:
            for number, (start, stop) in enumerate(pairwise(self.offsets)):
                rows = torch.randn((stop - start, width), generator=generator).numpy().astype(dtype)
                self.raw[start:stop] = rows
                writer.add(f"bag {number}", rows, number % 2)
        self.store = BagStore.open(folder / "store")


def _read_rows(both: _Both, repeats: int, seed: int) -> list[SpeedRow]:
    """Compare random reads: mini-batches into a buffer that is there, and single bags into memory of their own."""
    order = np.random.default_rng(seed).permutation(len(both.store))
    batches = np.array_split(order, max(1, len(order) // _BATCH))
    largest = max(int(both.store.index.sizes[batch].sum()) for batch in batches)
    buffer = torch.empty((largest, both.store.width), dtype=both.store.header.torch_dtype)
    numbers = order.tolist()
    steps: dict[str, Callable[[], object]] = {
        "batches": lambda: _ours(both, batches, buffer),
        "raw batches": lambda: _raw(both, batches, buffer.numpy()),
        "bags": lambda: [len(both.store[number]) for number in numbers],
        "raw bags": lambda: [len(np.array(both.raw[slice(*both.offsets[n : n + 2])])) for n in numbers],
    }
    seconds = medians(steps, repeats)
    return [
        SpeedRow(f"{len(order)} random bags, {how}: {both.name}", "a raw memmap", seconds[ours], seconds[f"raw {ours}"])
        for ours, how in (("batches", f"{_BATCH} at a time into a buffer"), ("bags", "one at a time"))
    ]


def _ours(both: _Both, batches: list[IntArray], buffer: Tensor) -> None:
    for batch in batches:
        both.store.gather(batch, buffer)


def _raw(both: _Both, batches: list[IntArray], buffer: NDArray[Any]) -> None:
    offsets = both.offsets
    for batch in batches:
        at = 0
        for bag in batch.tolist():
            start, stop = offsets[bag], offsets[bag + 1]
            buffer[at : at + stop - start] = both.raw[start:stop]
            at += stop - start


def _step_rows(both: _Both, repeats: int, seed: int) -> list[SpeedRow]:
    """Compare training steps of one member, which read the most for what they compute."""

    def step(bags: Any) -> Callable[[], object]:
        recipe = TrainingRecipe(members=1)
        return training_step(recipe, bags, Generator().manual_seed(seed))

    seconds = medians({"store": step(both.store), "memory": step(both.store.load())}, repeats)
    return [SpeedRow(f"a step from a store: {both.name}", "from memory", seconds["store"], seconds["memory"])]
