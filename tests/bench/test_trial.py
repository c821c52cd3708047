"""Trials run the code that people use, and the test truth only judges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from admil.bags import BagIndex
from admil.bench import (
    Ceiling,
    Demo,
    Task,
    TrialResult,
    as_json,
    as_report,
    ceiling,
    measure_speed,
    measure_stores,
    rows_of,
    run_demo,
    run_trial,
)
from admil.datasets import digits
from admil.learner import Recipe
from admil.metrics import average_precision
from admil.oracle import Truth
from admil.sampling import PF, Sampler
from admil.training import TrainingRecipe

QUICK = TrainingRecipe(members=2, max_steps=20, held_out_folds=2)


def small_task() -> Task:
    train, test = digits(0, train_bags=10, test_bags=8, sizes=(4, 6))
    return Task(train.bags, train.truth, test.bags, test.truth)


def trial(task: Task, sampler: Sampler | None = None, rounds: int = 2) -> TrialResult:
    return run_trial(task, "PF", Recipe(training=QUICK, sampler=sampler or PF(), budget=4), seed=3, rounds=rounds)


def test_a_trial_counts_its_answers_and_ends_after_its_rounds() -> None:
    result = trial(small_task())
    assert [r.answers for r in result.rounds] == [0, 4, 8]
    assert [len(r.query) for r in result.rounds] == [4, 4, 0]
    truths = [answer for r in result.rounds for answer in r.given]
    assert result.rounds[-1].positives == sum(answer is True for answer in truths)


def test_the_quality_of_a_round_is_that_of_its_model_on_the_test_bags() -> None:
    task = small_task()
    result = trial(task)
    asked = [item.id for r in result.rounds for item in r.query]
    assert len(set(asked)) == len(asked) == 8
    for r in result.rounds:
        assert 0 < r.average_precision <= 1
        assert 0 <= r.bag_auroc <= 1


def test_permuting_the_test_truth_changes_no_query_and_no_score() -> None:
    task = small_task()
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(task.test_truth.positive)
    unlabelled = BagIndex(task.test.ids, task.test.index.offsets)
    other = replace(task, test_truth=Truth(unlabelled, shuffled))

    plain, blind = trial(task), trial(other)

    assert [r.query for r in plain.rounds] == [r.query for r in blind.rounds]
    for a, b in zip(plain.rounds, blind.rounds, strict=True):
        assert np.array_equal(a.scores.f, b.scores.f)
        assert a.held_out_auroc == b.held_out_auroc
        assert a.average_precision != b.average_precision


def test_a_trial_stops_once_nothing_is_left_to_ask() -> None:
    train, test = digits(0, train_bags=3, test_bags=3, sizes=(2, 2), positives=(1, 1))
    task = Task(train.bags, train.truth, test.bags, test.truth)
    result = trial(task, rounds=9)
    assert len(result.rounds) < 10
    assert not result.rounds[-1].query.items
    found = {item.id.bag for r in result.rounds for item, answer in zip(r.query, r.given, strict=True) if answer}
    assert result.rounds[-1].positive_bag_share == len(found) / 3, "what is implied nobody found"


def test_the_ceiling_is_the_winner_of_a_validation_and_sees_training_labels_only() -> None:
    task = small_task()
    first = ceiling(task, QUICK, seed=0)
    unlabelled = BagIndex(task.test.ids, task.test.index.offsets)
    turned = replace(task, test_truth=Truth(unlabelled, ~task.test_truth.positive))
    second = ceiling(turned, QUICK, seed=0)
    assert isinstance(first, Ceiling)
    assert (first.name, first.validated) == (second.name, second.validated)
    prior = task.test_truth.positive.mean()
    assert first.average_precision > prior


def test_a_demo_reports_means_over_seeds_and_paired_differences() -> None:
    result = run_demo(Demo(seeds=(0, 1), rounds=1, budget=3, recipe=Recipe(training=QUICK)))
    for method, trials in result.trials.items():
        rows = rows_of(method, trials, result.ceilings)
        values = [t.rounds[1].average_precision for t in trials]
        passive = np.mean([t.rounds[0].average_precision for t in trials])
        best = np.mean([c.average_precision for c in result.ceilings])
        assert rows[0].gap_closed == 0
        assert rows[1].gap_closed == pytest.approx((np.mean(values) - passive) / (best - passive))
        below = [replace(c, average_precision=0.0) for c in result.ceilings]
        assert rows_of(method, trials, below)[1].gap_closed is None, "a ceiling below passive closes nothing"
        assert rows_of(method, trials[:1], result.ceilings)[1].deviation is None
        assert rows[1].average_precision == np.mean(values)
        assert rows[1].deviation == np.std(values, ddof=1)
    figures = as_json(result)
    areas = {m["name"]: m["area_seeds"] for m in figures["methods"]}
    for d in figures["differences"]:
        paired = np.subtract(areas[d["method"]], areas[d["against"]])
        assert d["mean"] == np.mean(paired)
        assert d["low"] <= d["mean"] <= d["high"]

    page = as_report(result, "next")
    assert len(page.asked) == 3
    for asked in page.asked:
        bag, index = asked.instance.removesuffix("]").split("[")
        train = result.splits[0][0]
        position = train.bags.index.offsets[train.bags.index.number(bag)] + int(index)
        assert asked.answer == train.truth.positive[position]
        assert np.allclose(asked.picture.ravel(), train.bags[bag][int(index)].numpy())


def test_every_method_of_a_demo_starts_from_the_same_passive_model() -> None:
    result = run_demo(Demo(seeds=(0,), rounds=1, budget=3, recipe=Recipe(training=QUICK)))
    first = [trials[0].rounds[0] for trials in result.trials.values()]
    assert len({r.average_precision for r in first}) == 1
    truth = result.splits[0][1].truth.positive
    assert all(r.average_precision > average_precision(truth, np.zeros(len(truth))) for r in first)


def test_speed_is_measured_as_ratios_of_the_same_run() -> None:
    rows = measure_speed(repeats=1)
    assert {row.against for row in rows} >= {"a plain published-style step", "16 separate steps of ours"}
    assert all(row.seconds > 0 and row.ratio == row.seconds / row.against_seconds for row in rows)


def test_reads_from_a_store_are_compared_with_the_same_reads_from_a_raw_file() -> None:
    rows = measure_stores(repeats=1)
    assert [row.against for row in rows] == 2 * ["a raw memmap", "a raw memmap", "from memory"]
    assert all(row.seconds > 0 and row.against_seconds > 0 for row in rows)
