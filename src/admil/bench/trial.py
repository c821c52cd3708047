"""One trial: a data set, a method and a seed, with a simulated annotator, round after round."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from admil import metrics
from admil.bags import Answer, AnswerValue, Bags, LabelBook, Query, Scores
from admil.learner import LearnerState, Recipe, Trains, absorb, propose, refreshed
from admil.oracle import SimulatedAnnotator, Truth
from admil.training import TrainedModel, bag_probability, score

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
        per_bag_average_precision: instance AP within positive test bags, mean over them.
        calibration_error: of the instance scores on the test bags.
        bag_auroc: of the test bags.
        held_out_auroc: of training bags, by members that held them out.
        model: the model.
        scores: of the training bags.
        query: what was asked next; empty in the last entry.
        given: the answers to it, in order.
        seconds: time for training, scoring and selecting.
    """

    answers: int
    positives: int
    positive_bag_share: float
    average_precision: float
    per_bag_average_precision: float
    calibration_error: float
    bag_auroc: float
    held_out_auroc: float | None
    model: TrainedModel
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
    trainer: Trains | None = None,
    passive: TrainedModel | None = None,
) -> TrialResult:
    """Run ``rounds`` rounds of questions; the test bags are only ever scored, unless the trainer says otherwise.

    Args:
        task: what is learned.
        method: what the result calls it.
        recipe: how to learn, and whom to ask.
        seed: the source of all randomness.
        rounds: of questions; 0 only trains.
        on_round: called after every round.
        trainer: what trains a round's model; None for `admil.learner.Trainer`.
        passive: the model before any answer, where a trial with the same training and seed has made it already.
    """
    labels = LabelBook(task.train.index)
    state = LearnerState(seed, labels, model=passive, trained_on=None if passive is None else labels)
    annotator = SimulatedAnnotator(task.train_truth)
    results: list[RoundResult] = []
    for number in range(rounds + 1):
        started = time.perf_counter()
        if number < rounds:
            state = propose(recipe, task.train, state, trainer)
        else:
            state = refreshed(recipe, task.train, state, trainer)
        query = state.query if state.query is not None and number < rounds else Query()
        given = annotator.answer(query)
        results.append(_result(task, state, query, tuple(given.values()), started))
        if on_round is not None:
            on_round(results[-1])
        if number < rounds and not query:
            break
        state = absorb(state, [Answer(instance, AnswerValue.of(value)) for instance, value in given.items()])
    return TrialResult(method, seed, tuple(results))


def _result(
    task: Task, state: LearnerState, query: Query, given: tuple[bool | None, ...], started: float
) -> RoundResult:
    assert state.model is not None
    assert task.test.labels is not None
    assert task.train.labels is not None
    test, truth = score(state.model, task.test), task.test_truth.positive
    scores = score(state.model, task.train, state.labels)
    seconds = time.perf_counter() - started
    labels = state.labels
    return RoundResult(
        answers=labels.count(AnswerValue.POSITIVE) + labels.count(AnswerValue.NEGATIVE),
        positives=labels.count(AnswerValue.POSITIVE),
        positive_bag_share=metrics.positive_bag_share(task.train.labels, labels.found),
        average_precision=metrics.average_precision(truth, test.f),
        per_bag_average_precision=metrics.per_bag_average_precision(truth, test.f, task.test.index.offsets),
        calibration_error=metrics.expected_calibration_error(truth, test.f),
        bag_auroc=metrics.auroc(task.test.labels, bag_probability(state.model, test)),
        held_out_auroc=state.model.history.held_out_auroc,
        model=state.model,
        scores=scores,
        query=query,
        given=given,
        seconds=seconds,
    )
