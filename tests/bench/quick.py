"""Trials that take a second, and a runner in a process of its own to be killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from admil.bench import DataSpec, Job, Library, Method, Plan, ResultFile, Runner, Suite
from admil.datasets import DigitSet
from admil.importers import run_import
from admil.store import BagStore

QUICK = {"members": 2, "max_steps": 10, "held_out_folds": 2}


def small_store(library: Library, seed: int = 0) -> DataSpec:
    """Put few digits where the library looks for many."""
    spec = DataSpec(name="digits", seed=seed)
    run_import(DigitSet(seed, train_bags=8, test_bags=8), library.path(spec))
    return spec


def quick_suite(*methods: Method, seeds: Sequence[int] = (0,), **changes: Any) -> Suite:
    fields: dict[str, Any] = {"title": "quick", "training": QUICK, "ceiling": False, **changes}
    return Suite(data={"digits": Plan(seeds=tuple(seeds), budget=3, rounds=2)}, methods=methods, **fields)


def jobs_of(suite: Suite, library: Library) -> list[Job]:
    return [
        Job.of(trial, library.path(trial.data), BagStore.open(library.path(trial.data)).digest)
        for _, trial in suite.trials()
    ]


def without_times(results: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return results as they are the same in every run."""
    return {
        key: {
            **{name: value for name, value in result.items() if name != "seconds"},
            "rounds": [{**each, "seconds": 0} for each in result.get("rounds", [])],
        }
        for key, result in results.items()
    }


def run_and_die(suite: Suite, folder: Path, after: int | None, seconds: float) -> None:
    """Run a suite's trials; SIGKILL comes for this process and its workers some time after so many results."""
    os.setpgrp()
    coming: list[threading.Timer] = []

    def on_done(done: int) -> None:
        if after is not None and done >= after and not coming:
            coming.append(threading.Timer(seconds, os.killpg, (0, signal.SIGKILL)))
            coming[0].start()

    library, results = Library(folder / "stores"), ResultFile(folder / "results.jsonl")
    runner = Runner(results, jobs=2)
    runner.run(runner.missing(jobs_of(suite, library)), on_done)
    os._exit(0)  # the timer may still wait


def killed_and_resumed(tmp_path: Path, kills: int, chance: random.Random) -> int:
    """Kill a run at random moments, in a new folder each time, and go on; return how often results were missing."""
    methods = [Method(name=kind, sampler=kind) for kind in ("pf", "random", "f_entropy")]
    suite = quick_suite(*methods, Method(name="ms", learner="ms-mil"), seeds=(0, 1), ceiling=True)
    library = Library(tmp_path / "stores")
    for seed in (0, 1):
        small_store(library, seed)
    count = len(list(suite.trials()))
    whole = _results_after(suite, tmp_path, "whole", [(None, 0.0)])
    assert len(whole) == count
    partly = 0
    for number in range(kills):
        moment = chance.randrange(0, count - 1), chance.choice([0.0, 0.05, 0.5]) * chance.random()
        left = _results_after(suite, tmp_path, str(number), [moment])
        partly += len(left) < count
        assert left.items() <= whole.items()
        assert _results_after(suite, tmp_path, str(number), [(None, 0.0)]) == whole
    return partly


def _results_after(
    suite: Suite, tmp_path: Path, name: str, runs: Sequence[tuple[int | None, float]]
) -> dict[str, dict[str, Any]]:
    folder = tmp_path / name
    if not folder.exists():
        folder.mkdir()
        (folder / "stores").symlink_to(tmp_path / "stores")
    context = multiprocessing.get_context("spawn")
    for after, seconds in runs:
        process = context.Process(target=run_and_die, args=(suite, folder, after, seconds))
        process.start()
        process.join(300)
        assert process.exitcode == 0 or (after is not None and process.exitcode == -signal.SIGKILL)
    return without_times(ResultFile(folder / "results.jsonl").read())
