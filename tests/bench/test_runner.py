"""A runner runs what is missing, keeps what it has, and says what failed."""

from __future__ import annotations

import json
import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admil.bags import BagIndex
from admil.bench import Job, Library, Method, ResultFile, Runner, Task, result_of, task_of
from admil.bench.runner import _run_group, _work
from admil.oracle import Truth
from tests.bench.quick import jobs_of, killed_and_resumed, quick_suite, small_store, without_times

METHODS = (Method(name="pf", sampler="pf", pictured=1), Method(name="random", sampler="random"), Method(name="passive"))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    made = Library(tmp_path / "stores")
    small_store(made)
    return made


def one(library: Library, method: Method, **changes: Any) -> tuple[Job, Task]:
    (job,) = jobs_of(quick_suite(method, **changes), library)
    return job, task_of(job.store)


def test_a_result_says_what_every_round_came_to(library: Library) -> None:
    job, task = one(library, METHODS[0])
    result, _ = result_of(job, task)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert (result["key"], result["status"]) == (job.key, "done")
    assert result["trial"] == job.trial.model_dump(mode="json")
    assert [each["answers"] for each in result["rounds"]] == [0, 3, 6]
    asked = [tuple(each[:2]) for line in result["rounds"] for each in line["asked"]]
    assert len(set(asked)) == 6
    truth = {(bag, i): bool(value) for bag, i, value in (each for line in result["rounds"] for each in line["asked"])}
    index = task.train.index
    for (bag, i), answer in truth.items():
        assert answer == task.train_truth.positive[index.offsets[index.number(bag)] + i]
    (bag,) = result["bags"]
    assert sum(bag["positive"]) == 1
    assert len(bag["f_before"]) == len(bag["p_after"]) == len(bag["asked"])


def test_the_ceiling_is_a_result_too(library: Library) -> None:
    (job,) = jobs_of(quick_suite(ceiling=True), library)
    result, passive = result_of(job, task_of(job.store))
    assert passive is None
    assert 0 < result["ceiling"]["ap"] <= 1
    assert result["ceiling"]["name"]


def test_trials_that_start_from_one_model_train_it_once(library: Library) -> None:
    suite = quick_suite(*METHODS)
    pf, random_, _ = jobs_of(suite, library)
    task = task_of(pf.store)
    first, passive = result_of(pf, task)
    shared, same = result_of(random_, task, passive)
    assert same is passive
    alone, _ = result_of(random_, task)
    assert without_times({"": shared}) == without_times({"": alone})
    assert shared["rounds"][0]["ap"] == first["rounds"][0]["ap"]


@pytest.mark.parametrize(
    "method",
    [
        Method(name="pf", sampler="pf"),
        Method(name="egl", sampler="egl", training={"answers": "bce"}, beta=(0.1, 1.0)),
        Method(name="warm", sampler="bag_posterior", warm_start=True),
        Method(name="attention", learner="attention", sampler="f_entropy"),
    ],
    ids=lambda method: method.name,
)
def test_no_test_label_reaches_training_or_selection(method: Method, library: Library) -> None:
    """Permuting the test truth changes no model, no query and no choice, only the metrics of the test bags."""
    job, task = one(library, method)
    shuffled = np.random.default_rng(0).permutation(task.test_truth.positive)
    other = replace(task, test_truth=Truth(BagIndex(task.test.ids, task.test.index.offsets), shuffled))
    plain, blind = (result_of(job, each)[0]["rounds"] for each in (task, other))
    judged = ("ap", "bag_ap", "ece", "bag_auroc", "seconds")
    for one_round, other_round in zip(plain, blind, strict=True):
        assert one_round["ap"] != other_round["ap"]
        assert {name: value for name, value in one_round.items() if name not in judged} == {
            name: value for name, value in other_round.items() if name not in judged
        }


def test_the_papers_protocol_does_see_the_test_truth(library: Library) -> None:
    """Else its optimism would be no optimism: the same check as above must fail for it."""
    job, task = one(library, Method(name="leak", protocol="paper", training={"max_steps": 60}))
    shuffled = np.random.default_rng(0).permutation(task.test_truth.positive)
    other = replace(task, test_truth=Truth(BagIndex(task.test.ids, task.test.index.offsets), shuffled))
    steps = [result_of(job, each)[0]["rounds"][0]["step"] for each in (task, other)]
    assert steps[0] != steps[1]


def test_the_papers_protocol_is_never_below_the_honest_one_on_its_own_test_bags(library: Library) -> None:
    honest, task = one(library, Method(name="m", training={"max_steps": 60}))
    leaky, _ = one(library, Method(name="m", protocol="paper", training={"max_steps": 60}))
    assert result_of(leaky, task)[0]["rounds"][0]["ap"] >= result_of(honest, task)[0]["rounds"][0]["ap"]


def test_a_choice_is_one_of_those_offered(library: Library) -> None:
    method = Method(name="m", sampler="pf", training={"answers": "bce"}, beta=(0.1, 3.0))
    job, task = one(library, method)
    result, model = result_of(job, task)
    assert {each["beta"] for each in result["rounds"]} <= {0.1, 3.0}
    assert model is not None
    assert model.recipe.members == 2
    assert model.recipe.beta in (0.1, 3.0)


def test_what_is_there_is_not_run_again(library: Library, tmp_path: Path) -> None:
    runner = Runner(ResultFile(tmp_path / "r.jsonl"), jobs=2)
    jobs = jobs_of(quick_suite(*METHODS), library)
    counts: list[int] = []
    runner.run(runner.missing([*jobs, *jobs]), counts.append)
    assert counts[-1] == 3
    assert counts == sorted(counts)
    assert runner.missing(jobs) == []
    more = jobs_of(quick_suite(*METHODS, Method(name="f", sampler="f_entropy")), library)
    assert [job.trial.recipe.sampler.kind for job in runner.missing(more)] == ["f_entropy"]


def test_a_trial_that_fails_is_a_result_with_its_reason_and_stops_no_other(library: Library, tmp_path: Path) -> None:
    runner = Runner(ResultFile(tmp_path / "r.jsonl"))
    bad = Method(name="bad", sampler="disagreement", training={"members": 1})
    jobs = jobs_of(quick_suite(bad, Method(name="good", sampler="pf")), library)
    runner.run(runner.missing(jobs))
    found = runner.results.read()
    assert [found[job.key]["status"] for job in jobs] == ["failed", "done"]
    assert "InvalidInput: one member cannot disagree" in found[jobs[0].key]["reason"]
    assert runner.missing(jobs) == []
    assert runner.missing(jobs, retry=True) == [jobs[0]]


def test_a_store_that_is_gone_fails_its_trials_only(library: Library, tmp_path: Path) -> None:
    jobs = jobs_of(quick_suite(METHODS[0]), library)
    gone = replace(jobs[0], store=tmp_path / "gone", key="gone")
    results = ResultFile(tmp_path / "r.jsonl")
    assert len(list(_run_group([gone, jobs[0]], results))) == 2
    found = results.read()
    assert found["gone"]["status"] == "failed"
    assert "there is no store.json" in found["gone"]["reason"]
    assert found[jobs[0].key]["status"] == "done"


def test_a_process_that_dies_is_a_result_and_the_rest_of_its_group_goes_on(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admil.bench.runner._work", dying)
    runner = Runner(ResultFile(tmp_path / "r.jsonl"))
    jobs = jobs_of(quick_suite(*METHODS), library)
    runner.run(jobs)
    found = runner.results.read()
    assert [found[job.key]["status"] for job in jobs] == ["failed", "done", "done"]
    assert found[jobs[0].key]["reason"] == "its process died (exit code -9)"


def dying(connection: Any, results: ResultFile, threads: int) -> None:
    """Work, but die before the first of three jobs."""

    class Deadly:
        def recv(self) -> Any:
            group = connection.recv()
            if len(group) == 3:
                signal.raise_signal(signal.SIGKILL)
            return group

        def send(self, message: object) -> None:
            connection.send(message)

    _work(Deadly(), results, threads)  # type: ignore[arg-type]  # what it needs of a connection


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of multiprocessing, about threads beside forks
def test_a_run_that_is_killed_goes_on_to_the_same_results(tmp_path: Path) -> None:
    assert killed_and_resumed(tmp_path, 1, random.Random(0)) == 1
