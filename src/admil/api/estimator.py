"""A scikit-learn estimator of bags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state

from admil.bags import Answer, AnswerValue, BagIndex, Bags, BagSource, InstanceId, IntArray, LabelBook
from admil.errors import AnswerConflict, InvalidInput, NotFitted
from admil.functional import Robustness
from admil.losses import Drbl
from admil.training import TrainedModel, TrainingRecipe, bag_probability, fit, score

__all__ = ["BagClassifier"]

_LEAST_FOR_CALIBRATION = 5
"""Held-out bags of each class from which bag probabilities are calibrated."""


class BagClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learn from bag labels; predict bags and instances.

    ``X`` is a list of (n_i, D) arrays, ``y`` their labels, 0/1 or -1/+1; or ``X`` is a `Bags`, a `BagStore` or
    another `BagSource`, which holds its labels itself.  Works in `cross_val_score`,
    `GridSearchCV` and `clone`.  Parameters left at None are taken from ``recipe``.

    Bag probabilities are calibrated on bags that members of the ensemble held out of their training, where
    there are at least five of each class; else they are shifted so that as many training bags are predicted
    positive as are.  `predict` cuts them at one half.

    Args:
        effective: instances that share the weight of a positive bag, k of `Robustness.effective`.
        members: networks trained side by side.
        learning_rate: step size.
        max_steps: optimizer steps at most.
        dropout: share of hidden units dropped while training.
        recipe: everything else; a `TrainingRecipe`, None for the default one.
        random_state: seed of everything random; None draws one, a NumPy ``RandomState`` is drawn from.
        device: where to train.

    Attributes:
        model_: the trained model.
        classes_: the two labels, as they were given.
        n_features_in_: features of an instance.
        notes_: what a user should know of the training, such as a k above the size of some bags.
    """

    def __init__(
        self,
        effective: float | None = None,
        members: int | None = None,
        learning_rate: float | None = None,
        max_steps: int | None = None,
        dropout: float | None = None,
        recipe: TrainingRecipe | None = None,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "cpu",
    ) -> None:
        self.effective = effective
        self.members = members
        self.learning_rate = learning_rate
        self.max_steps = max_steps
        self.dropout = dropout
        self.recipe = recipe
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: Sequence[ArrayLike] | BagSource,
        y: ArrayLike | None = None,
        instance_labels: Sequence[Sequence[Any] | None] | None = None,
        groups: Sequence[object] | None = None,
    ) -> Self:
        """Train on bags and, where there are any, instance labels.

        Args:
            X: (n_i, D) arrays, or a `BagSource`.
            y: one label per bag; None where ``X`` holds them.
            instance_labels: known instances: for every bag, None or one value per instance.  A value is true,
                false, or None or nan for unknown.  `cross_val_score` cuts this list up with the bags.
            groups: one per bag; a group is never split between training and held-out bags.
        """
        seed = _seed(self.random_state)
        bags, given = _labelled(X, y)
        labels = LabelBook(bags.index).extended(_answers(bags.index, instance_labels))
        generator = torch.Generator().manual_seed(seed)
        self.model_: TrainedModel = fit(self._recipe(), bags, labels, generator, self.device, groups)
        self.classes_ = np.unique(given)
        self.n_features_in_ = bags.width
        self.notes_ = self.model_.history.warnings
        self._calibration = _calibration(self.model_, bags)
        return self

    def predict(self, X: Sequence[ArrayLike] | BagSource) -> NDArray[Any]:
        """Return the label of each bag, (B,), in the coding of ``y``."""
        positive = self.predict_proba(X)[:, 1] > 0.5
        chosen: NDArray[Any] = self.classes_[positive.astype(int)]
        return chosen

    def predict_proba(self, X: Sequence[ArrayLike] | BagSource) -> NDArray[np.float64]:
        """Return the probabilities of a negative and a positive bag, (B, 2)."""
        slope, shift = self._fitted_calibration()
        positive = 1 / (1 + np.exp(-np.clip(slope * self.decision_function(X) + shift, -500, 500)))
        return np.stack([1 - positive, positive], axis=1)

    def decision_function(self, X: Sequence[ArrayLike] | BagSource) -> NDArray[np.float64]:
        """Return the logit of the highest instance of each bag, or, with a pooled loss, of the bag itself, (B,)."""
        self._fitted_calibration()
        return _bag_logits(self.model_, _as_source(X))

    def score_instances(self, X: Sequence[ArrayLike] | BagSource) -> list[NDArray[np.float64]]:
        """Return the score in [0, 1] of every instance, an array per bag."""
        self._fitted_calibration()
        return score(self.model_, _as_source(X)).split()

    def predict_instances(self, X: Sequence[ArrayLike] | BagSource) -> list[NDArray[Any]]:
        """Return the label of every instance, an array per bag, in the coding of ``y``."""
        return [self.classes_[(scores > 0.5).astype(int)] for scores in self.score_instances(X)]

    def _recipe(self) -> TrainingRecipe:
        recipe: object = TrainingRecipe() if self.recipe is None else self.recipe
        if not isinstance(recipe, TrainingRecipe):
            hint = "; give its training field" if hasattr(recipe, "training") else ""
            raise InvalidInput(f"recipe is a TrainingRecipe or None, got {type(recipe).__name__}{hint}", recipe)
        named = {name: getattr(self, name) for name in ("members", "learning_rate", "max_steps", "dropout")}
        changes = {name: value for name, value in named.items() if value is not None}
        if self.effective is not None:
            changes["loss"] = Drbl(robustness=Robustness.effective(self.effective))
        return TrainingRecipe.model_validate({**dict(recipe), **changes})

    def _fitted_calibration(self) -> tuple[float, float]:
        if not hasattr(self, "_calibration"):
            raise _NotFitted("this BagClassifier has not been fitted; call fit(X, y) first")
        return self._calibration


class _NotFitted(NotFitted, NotFittedError):  # type: ignore[misc]  # scikit-learn has no types
    """Caught by who catches scikit-learn's errors."""


def _seed(random_state: object) -> int:
    """Return the seed that scikit-learn's ``random_state`` stands for."""
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31 - 1))
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if whole and 0 <= random_state < 2**63:  # type: ignore[operator]  # a whole number, as was just asked
        return int(random_state)  # type: ignore[call-overload, no-any-return]
    raise InvalidInput(
        f"random_state is a whole number from 0 up, a RandomState or None, got {random_state!r}", random_state
    )


def _as_source(X: Sequence[ArrayLike] | BagSource) -> BagSource:
    return X if isinstance(X, BagSource) else Bags.from_arrays(X)


def _labelled(X: Sequence[ArrayLike] | BagSource, y: ArrayLike | None) -> tuple[BagSource, NDArray[Any]]:
    """Return the bags with their labels, and the labels as they were given."""
    if not isinstance(X, BagSource):
        if y is None:
            raise InvalidInput("y is needed: one label per bag, 0/1 or -1/+1")
        given = np.asarray(y)
        return Bags.from_arrays(X, given), given
    if X.index.labels is None:
        raise InvalidInput("these bags have no labels; for a store choose those that have: store.where(labelled=True)")
    if y is not None and not np.array_equal(np.asarray(y), X.index.labels):
        raise InvalidInput("y differs from the labels that the bags hold; leave y out, or correct one of them")
    return X, X.index.labels


def _answers(index: BagIndex, known: Sequence[Sequence[Any] | None] | None) -> list[Answer]:
    """Return answers about instances of positive bags; those of negative bags may only repeat the label."""
    answers = []
    assert index.labels is not None
    for bag, values in enumerate(_per_bag(index.sizes, known)):
        for i, value in enumerate(values):
            answer = _instance_answer(bag, i, value)
            if answer is None:
                continue
            if index.labels[bag] == 1:
                answers.append(Answer(InstanceId(index.ids[bag], i), answer))
            elif answer is AnswerValue.POSITIVE:
                raise AnswerConflict(f"instance {i} of bag {bag} is labelled positive but the bag negative", (bag, i))
    return answers


def _per_bag(sizes: IntArray, known: Any) -> list[Sequence[Any]]:
    if known is None:
        return []
    if isinstance(known, Mapping) or not hasattr(known, "__len__"):
        raise InvalidInput(
            f"instance_labels are a list with None or one value per instance for every bag, got {type(known).__name__}",
            known,
        )
    if len(known) != len(sizes):
        raise InvalidInput(f"instance_labels need one entry per bag: {len(sizes)} bags, {len(known)} entries")
    for bag, values in enumerate(known):
        if values is not None and len(values) != sizes[bag]:
            raise InvalidInput(f"bag {bag} has {sizes[bag]} instances but {len(values)} instance labels", bag)
    return [() if values is None else values for values in known]


def _instance_answer(bag: int, i: int, value: Any) -> AnswerValue | None:
    if value is None or value != value:
        return None
    if value in (0, 1):
        return AnswerValue.POSITIVE if value else AnswerValue.NEGATIVE
    raise InvalidInput(f"instance {i} of bag {bag}: expected true, false, None or nan, got {value!r}", value)


def _calibration(model: TrainedModel, bags: BagSource) -> tuple[float, float]:
    """Return (slope, shift) of bag probabilities, fitted on the logits of held-out bags where there are enough."""
    held_out = model.history.held_out_scores
    assert bags.index.labels is not None
    labels = np.array([bags.index.labels[bags.index.number(bag)] for bag in held_out])
    if min((labels == 1).sum(), (labels == 0).sum()) < _LEAST_FOR_CALIBRATION:
        return 1.0, -_cut(model, bags)
    logits = np.array(list(held_out.values()))
    centre, width = logits.mean(), max(logits.std(), 1e-12)
    line = LogisticRegression().fit(((logits - centre) / width)[:, None], labels)
    slope = max(float(line.coef_[0, 0]), 1e-3)  # the order of bags is the model's, whatever the fit says
    return slope / width, float(line.intercept_[0]) - slope * centre / width


def _cut(model: TrainedModel, bags: BagSource) -> float:
    """Return the logit above which as many training bags lie as are positive."""
    descending = np.sort(_bag_logits(model, bags))[::-1]
    positive = len(bags.index.positive)
    return float(descending[positive - 1 : positive + 1].mean())


def _bag_logits(model: TrainedModel, bags: BagSource) -> NDArray[np.float64]:
    clipped = np.clip(bag_probability(model, score(model, bags)), 1e-300, 1 - 1e-16)
    logits: NDArray[np.float64] = np.log(clipped) - np.log1p(-clipped)
    return logits
