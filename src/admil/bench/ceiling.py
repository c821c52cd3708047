"""The ceiling: what the same features give a learner that sees every training instance's label.

A reference, not a bound.  Several supervised fits compete by cross-validation on training labels; the
winner is fitted on all of them and judged on the test bags.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Generator

from admil.bags import Answer, AnswerValue, Bags, FloatArray, LabelBook
from admil.bench.trial import Task
from admil.metrics import average_precision
from admil.training import TrainingRecipe, fit, score

__all__ = ["Ceiling", "ceiling"]

_FOLDS = 3
_POSITIVES, _NEGATIVES = 240, 960
"""Labelled instances of a step at most, drawn anew for each."""

Supervised = Callable[[Bags, NDArray[np.bool_], Bags, int], FloatArray]
"""Train on bags and their truth, return the scores of other bags' instances."""


@dataclass(frozen=True)
class Ceiling:
    """The winner's name, its cross-validated AP on training bags, and its AP on the test bags."""

    name: str
    validated: float
    average_precision: float


def ceiling(task: Task, recipe: TrainingRecipe, seed: int) -> Ceiling:
    """Choose among the supervised fits on training labels and judge the winner on the test bags."""
    fits: dict[str, Supervised] = {
        "logistic regression": _logistic,
        "network, answers as bags": lambda *given: _network(recipe, "bags", *given),
        "network, cross-entropy": lambda *given: _network(recipe, "bce", *given),
    }
    truth = task.train_truth.positive
    validated = {name: _validated(task.train, truth, train, seed) for name, train in fits.items()}
    name = max(validated, key=lambda key: validated[key])
    scores = fits[name](task.train, truth, task.test, seed)
    return Ceiling(name, validated[name], average_precision(task.test_truth.positive, scores))


def _validated(bags: Bags, truth: NDArray[np.bool_], train: Supervised, seed: int) -> float:
    """Return the AP of out-of-fold scores, mean over folds of whole bags."""
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    assert bags.labels is not None
    values = []
    for kept, left in folds.split(np.zeros(len(bags)), bags.labels):
        known, asked = truth[bags.index.positions(kept)], truth[bags.index.positions(left)]
        values.append(average_precision(asked, train(bags.subset(kept), known, bags.subset(left), seed)))
    return float(np.mean(values))


def _logistic(bags: Bags, truth: NDArray[np.bool_], others: Bags, _seed: int) -> FloatArray:
    line = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=5000))
    line.fit(bags.features.numpy(), truth)
    scores: FloatArray = line.decision_function(others.features.numpy())
    return scores


def _network(
    recipe: TrainingRecipe, answers: str, bags: Bags, truth: NDArray[np.bool_], others: Bags, seed: int
) -> FloatArray:
    a_step = {"positives_per_step": _POSITIVES, "negatives_per_step": _NEGATIVES}
    everything = TrainingRecipe.model_validate({**dict(recipe), "answers": answers, **a_step})
    in_positive_bag = np.isin(bags.index.bag_of, bags.index.positive)
    known = [
        Answer(bags.index.instance(int(i)), AnswerValue.of(bool(truth[i]))) for i in np.flatnonzero(in_positive_bag)
    ]
    generator = Generator().manual_seed(seed)
    model = fit(everything, bags, LabelBook(bags.index).extended(known), generator, torch.device("cpu"))
    return score(model, others).f
