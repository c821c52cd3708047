"""A store larger than it is allowed to be in memory: made, trained on and scored, each in a process of its own.

    python -m tests.stress.large_store make FOLDER GIGABYTES
    python -m tests.stress.large_store fit FOLDER
    python -m tests.stress.large_store score FOLDER

Each prints the most memory that it had resident beside pages of files, in MB, and how long it took.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import numpy as np
import torch

from admil.api import fit_store, score_store, training_bags
from admil.store import BagStore
from admil.training import TrainingRecipe

WIDTH = 1024


class Watch:
    """Watches what this process holds in memory of its own: not the pages of files, which the system may take back."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.01):
            self.peak = max(self.peak, anonymous_mb())


def anonymous_mb() -> float:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssShmem")) / 1024


def make(folder: Path, gigabytes: float) -> None:
    """Write bags of log-normal sizes, from some tens to some ten thousands of instances, as slides have."""
    chance = np.random.default_rng(0)
    mark = chance.normal(size=WIDTH).astype(np.float16)
    left, number = int(gigabytes * 2**30 / (2 * WIDTH)), 0
    with BagStore.create(folder / "store", dtype="float16") as writer:
        while left > 0:
            count = min(left, int(chance.lognormal(7.6, 1.0)) + 10)
            rows = chance.standard_normal((count, WIDTH), np.float32).astype(np.float16)
            if number % 2 == 0:
                rows[: max(1, count // 50)] += mark
            split = "train" if number % 5 else "test"
            writer.add(f"slide-{number:05d}", rows, int(number % 2 == 0), split, {"x": range(count)})
            left, number = left - count, number + 1


def fit(folder: Path) -> None:
    store = training_bags(BagStore.open(folder / "store"))
    recipe = TrainingRecipe(max_steps=40, check_every=20)
    model = fit_store(store, folder / "model", recipe)
    sys.stdout.write(f"auroc {model.history.held_out_auroc}\n")


def score(folder: Path) -> None:
    scores = score_store(folder / "model", BagStore.open(folder / "store"), folder / "scores.parquet")
    sys.stdout.write(f"instances {len(scores.f)}\n")


def main(what: str, folder: Path, *rest: str) -> None:
    torch.set_num_threads(2)
    started = time.perf_counter()
    with Watch() as watch:
        {"make": lambda: make(folder, float(rest[0])), "fit": lambda: fit(folder), "score": lambda: score(folder)}[
            what
        ]()
    sys.stdout.write(f"peak {watch.peak:.0f}\n")
    sys.stdout.write(f"seconds {time.perf_counter() - started:.0f}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
