"""Running many trials: what is missing, in processes, each result kept as soon as it is there."""

from __future__ import annotations

import math
import multiprocessing
import os
import platform
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

import admil
from admil.bench.ceiling import ceiling
from admil.bench.choosing import ChoosingTrainer
from admil.bench.plans import Trial
from admil.bench.results import ResultFile
from admil.bench.tasks import task_of
from admil.bench.trial import RoundResult, Task, TrialResult, run_trial
from admil.errors import AdmilError
from admil.metrics import average_precision
from admil.training import TrainedModel

__all__ = ["Job", "Runner", "result_of"]

_WAIT = 0.05
_DIGITS = 6
"""Decimals of what is kept: more would say nothing and fill the file."""


@dataclass(frozen=True)
class Job:
    """A trial on a store.

    Attributes:
        trial: what to do.
        store: the folder of the store.
        key: what tells the trial on this store from every other.
        passive_key: what it shares with those that start from the same model.
    """

    trial: Trial
    store: Path
    key: str
    passive_key: str

    @classmethod
    def of(cls, trial: Trial, store: Path, digest: str) -> Job:
        """Make the job of a trial on the store with this checksum."""
        return cls(trial, store, trial.key(digest), trial.passive_key(digest))


class Runner:
    """Runs jobs that have no result yet; killed at any moment, the next run goes on.

    Args:
        results: where results are and go.
        jobs: processes at a time.
    """

    def __init__(self, results: ResultFile, jobs: int = 1) -> None:
        self.results, self.jobs = results, jobs

    def missing(self, jobs: Iterable[Job], retry: bool = False) -> list[Job]:
        """Return the jobs without a result, each once; with ``retry`` those that failed too."""
        done = {key for key, result in self.results.read().items() if not retry or result["status"] == "done"}
        return list({job.key: job for job in jobs if job.key not in done}.values())

    def run(self, jobs: Sequence[Job], on_done: Callable[[int], None] | None = None) -> None:
        """Run jobs, those that start from one model in one process.

        A job that fails leaves its reason as its result; so does one whose process dies.

        Args:
            jobs: such as `missing` returns.
            on_done: called now and then with how many of them have a result.
        """
        waiting = _groups(jobs)
        workers: list[_Worker] = []
        done = 0
        try:
            while waiting or any(worker.group for worker in workers):
                while waiting and (worker := self._free(workers)) is not None:
                    worker.give(waiting.pop(0))
                wait([each for worker in workers for each in (worker.connection, worker.process.sentinel)], _WAIT)
                done += sum(worker.heard() for worker in workers)
                for worker in [each for each in workers if not each.process.is_alive()]:
                    workers.remove(worker)
                    left = self._left_by(worker)
                    waiting += [left] if left else []
                    done += worker.group is not None
                if on_done is not None:
                    on_done(done)
        finally:
            for worker in workers:
                worker.process.terminate()
                worker.process.join()

    def _free(self, workers: list[_Worker]) -> _Worker | None:
        """Return a process that has nothing to do, a new one where there may be more; None where all are busy."""
        idle = next((worker for worker in workers if worker.group is None), None)
        if idle is None and len(workers) < self.jobs:
            idle = _Worker.start(self.results, _threads(self.jobs))
            workers.append(idle)
        return idle

    def _left_by(self, worker: _Worker) -> list[Job]:
        """Write down what a process that died was at; return what of its group it had not begun."""
        there = self.results.read()
        unfinished = [job for job in worker.group or () if job.key not in there]
        if unfinished:
            self.results.add(_failed(unfinished[0], f"its process died (exit code {worker.process.exitcode})", 0.0))
        return unfinished[1:]


@dataclass(eq=False)
class _Worker:
    """A process that runs one group of jobs after the other; mutable: ``group`` is what it is at."""

    process: SpawnProcess
    connection: Connection
    group: Sequence[Job] | None = None

    @classmethod
    def start(cls, results: ResultFile, threads: int) -> _Worker:
        """Start the process."""
        here, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        process = context.Process(target=_work, args=(there, results, threads), daemon=True)
        process.start()
        there.close()
        return cls(process, here)

    def give(self, group: Sequence[Job]) -> None:
        """Hand over a group."""
        self.group = group
        self.connection.send(group)

    def heard(self) -> int:
        """Take note of what the process has done; return how many jobs those are."""
        done = 0
        with suppress(EOFError, OSError):
            while self.connection.poll():
                if self.connection.recv():
                    done += 1
                else:
                    self.group = None
        return done


def result_of(job: Job, task: Task, passive: TrainedModel | None = None) -> tuple[dict[str, Any], TrainedModel | None]:
    """Run one job; return its result, and the model it had before any answer."""
    started = time.perf_counter()
    trial = job.trial
    if trial.ceiling:
        found = ceiling(task, trial.recipe.training, trial.data.seed)
        content: dict[str, Any] = {
            "ceiling": {"name": found.name, "validated": found.validated, "ap": found.average_precision}
        }
        return _done(job, content, started), None
    result = run_trial(
        task, "", trial.recipe, trial.data.seed, trial.rounds, trainer=_trainer(trial, task), passive=passive
    )
    content = {"rounds": [_round(each) for each in result.rounds]}
    if trial.pictured:
        content["bags"] = _hardest(result, task, trial.pictured)
    return _done(job, content, started), result.rounds[0].model


def _groups(jobs: Sequence[Job]) -> list[Sequence[Job]]:
    """Return the jobs in groups that start from one model each."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.passive_key, []).append(job)
    return list(groups.values())


def _work(connection: Connection, results: ResultFile, threads: int) -> None:
    """Run groups as they come, in a process of its own, until nobody sends any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends this process
    torch.set_num_threads(threads)
    with suppress(EOFError):
        while True:
            for _ in _run_group(connection.recv(), results):
                connection.send(True)
            connection.send(False)


def _run_group(group: Sequence[Job], results: ResultFile) -> Iterator[None]:
    """Run the jobs of a group, one after the other; yield after each."""
    passive: TrainedModel | None = None
    for job in group:
        started = time.perf_counter()
        try:
            result, passive = result_of(job, task_of(job.store), passive)
        except (AdmilError, ArithmeticError, RuntimeError, MemoryError, OSError) as error:
            result = _failed(job, f"{type(error).__name__}: {error}", time.perf_counter() - started)
        results.add(result)
        yield


def _trainer(trial: Trial, task: Task) -> ChoosingTrainer:
    if trial.protocol == "honest":
        return ChoosingTrainer(trial.choices)
    truth = task.test_truth.positive
    return ChoosingTrainer(trial.choices, task.test, lambda f: average_precision(truth, f))


def _round(result: RoundResult) -> dict[str, Any]:
    recipe = result.model.recipe
    return {
        "answers": result.answers,
        "positives": result.positives,
        "bags_found": _plain(result.positive_bag_share),
        "ap": _plain(result.average_precision),
        "bag_ap": _plain(result.per_bag_average_precision),
        "ece": _plain(result.calibration_error),
        "bag_auroc": _plain(result.bag_auroc),
        "held_out_auroc": None if result.held_out_auroc is None else _plain(result.held_out_auroc),
        "loss": recipe.member_losses[0].model_dump(mode="json"),
        "beta": recipe.member_betas[0],
        "step": result.model.history.best_step,
        "asked": [
            [item.id.bag, item.id.index, answer] for item, answer in zip(result.query, result.given, strict=True)
        ],
        "seconds": round(result.seconds, 3),
    }


def _hardest(result: TrialResult, task: Task, count: int) -> list[dict[str, Any]]:
    """Return all scores of the positive bags whose best instance scored lowest before any answer."""
    before, after, index = result.rounds[0].scores, result.rounds[-1].scores, task.train.index
    asked = {item.id for each in result.rounds for item in each.query}
    best = {int(number): float(before.of(index.ids[number]).max()) for number in index.positive}
    bags = []
    for number in sorted(best, key=lambda bag: (best[bag], bag))[:count]:
        here = slice(int(index.offsets[number]), int(index.offsets[number + 1]))
        values = {"f_before": before.f, "p_before": before.p, "f_after": after.f, "p_after": after.p}
        bags.append(
            {
                "bag": index.ids[number],
                **{name: [_plain(value) for value in array[here]] for name, array in values.items()},
                "positive": task.train_truth.positive[here].tolist(),
                "asked": [index.instance(place) in asked for place in range(here.start, here.stop)],
            }
        )
    return bags


def _done(job: Job, content: Mapping[str, Any], started: float) -> dict[str, Any]:
    return {**_head(job), "status": "done", **content, "seconds": round(time.perf_counter() - started, 3)}


def _failed(job: Job, reason: str, seconds: float) -> dict[str, Any]:
    return {**_head(job), "status": "failed", "reason": reason, "seconds": round(seconds, 3)}


def _head(job: Job) -> dict[str, Any]:
    return {
        "key": job.key,
        "trial": job.trial.model_dump(mode="json"),
        "versions": {"admil": admil.__version__, "torch": torch.__version__, "scikit-learn": sklearn.__version__},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }


def _plain(value: float) -> float | None:
    """Return a number as it is written down; None for what is not defined."""
    return None if math.isnan(value) else float(np.round(value, _DIGITS))


def _threads(jobs: int) -> int:
    return max(1, (os.cpu_count() or 1) // jobs)
