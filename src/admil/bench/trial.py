"""One trial: a data set, a method and a seed, with a simulated annotator, round after round."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from admil import metrics
from admil.api import ActiveLearner
from admil.bags import Bags, Query, Scores
from admil.learner import Recipe
from admil.oracle import SimulatedAnnotator, Truth
from admil.training import Progress, bag_probability

__all__ = ["RoundResult", "Task", "TrialResult", "run_trial"]


@dataclass(frozen=True, eq=False)
class Task:
    """What is learned: training bags and the truth to answer from, test bags and the truth to judge by."""

    train: Bags
    train_truth: Truth
    test: Bags
    test_truth: Truth


@dataclass(frozen=True, eq=False)
class RoundResult:
    """Where a trial stood before a round's answers (the last entry: after all of them).

    Attributes:
        answers: positive and negative answers so far.
        positives: positive answers so far.
        positive_bag_share: share of positive training bags with a known positive.
        average_precision: instance AP on the test bags, pooled.
        bag_auroc: of the test bags.
        held_out_auroc: of training bags, by members that held them out.
        scores: of the training bags.
        query: what was asked next; empty in the last entry.
        given: the answers to it, in order.
        seconds: time for training, scoring and selecting.
    """

    answers: int
    positives: int
    positive_bag_share: float
    average_precision: float
    bag_auroc: float
    held_out_auroc: float | None
    scores: Scores
    query: Query
    given: tuple[bool | None, ...]
    seconds: float


@dataclass(frozen=True, eq=False)
class TrialResult:
    """All rounds of a trial; ``rounds[0]`` is passive."""

    method: str
    seed: int
    rounds: tuple[RoundResult, ...]


def run_trial(
    task: Task,
    method: str,
    recipe: Recipe,
    seed: int,
    rounds: int,
    on_round: Callable[[RoundResult], None] | None = None,
    on_step: Callable[[Progress], None] | None = None,
) -> TrialResult:
    """Run ``rounds`` rounds of questions; the test bags are only ever scored."""
    learner = ActiveLearner(task.train, recipe, seed, on_step=on_step)
    annotator = SimulatedAnnotator(task.train_truth)
    results: list[RoundResult] = []
    for number in range(rounds + 1):
        started = time.perf_counter()
        query = learner.query() if number < rounds else Query()
        answers = annotator.answer(query)
        result = _result(task, learner, query, tuple(answers.values()), started)
        results.append(result)
        if on_round is not None:
            on_round(result)
        if number < rounds and not query:
            break
        learner.answer(answers)
    return TrialResult(method, seed, tuple(results))


def _result(
    task: Task, learner: ActiveLearner, query: Query, given: tuple[bool | None, ...], started: float
) -> RoundResult:
    test = learner.score(task.test)
    labels = learner.labels
    seconds = time.perf_counter() - started
    assert task.test.labels is not None
    assert task.train.labels is not None
    answered = [value for value in labels.current.values() if value.value in ("positive", "negative")]
    return RoundResult(
        answers=len(answered),
        positives=sum(value.value == "positive" for value in answered),
        positive_bag_share=metrics.positive_bag_share(task.train.labels, labels.found),
        average_precision=metrics.average_precision(task.test_truth.positive, test.f),
        bag_auroc=metrics.auroc(task.test.labels, bag_probability(learner.model, test)),
        held_out_auroc=learner.model.history.held_out_auroc,
        scores=learner.score(),
        query=query,
        given=given,
        seconds=seconds,
    )
