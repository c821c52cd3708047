"""The scikit-learn estimator: a good citizen there, and consistent with itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from admil.api import BagClassifier, estimator
from admil.bags import Answer, BagIndex, Bags
from admil.errors import AdmilWarning, AnswerConflict, InvalidInput, NotFitted
from admil.functional import Robustness
from admil.learner import Recipe
from admil.metrics import auroc, average_precision
from admil.training import TrainingRecipe
from tests.training.problems import easy, recipe

Rows = list[NDArray[np.float64]]


def problem(seed: int = 0, per_class: int = 12, distance: float = 6.0) -> tuple[Rows, NDArray[np.int64], Rows]:
    """Return bags, their labels 0/1, and the truth of their instances."""
    bags, truth = easy(seed, per_class, distance=distance)
    assert bags.labels is not None
    cuts = bags.index.offsets[1:-1]
    return np.split(bags.features.double().numpy(), cuts), bags.labels, np.split(truth.positive, cuts)


def classifier(**changes: Any) -> BagClassifier:
    fields = {"recipe": recipe(max_steps=40), "random_state": 0, **changes}
    return BagClassifier(**fields)


def same_predictions(one: BagClassifier, other: BagClassifier, X: Rows) -> bool:
    return bool(np.array_equal(one.predict_proba(X), other.predict_proba(X)))


def test_it_learns_bags_and_instances() -> None:
    X, y, _ = problem()
    new, new_y, truth = problem(seed=1)
    fitted = classifier().fit(X, y)
    assert fitted.score(new, new_y) > 0.9
    assert auroc(new_y, fitted.decision_function(new)) > 0.95
    assert average_precision(np.concatenate(truth), np.concatenate(fitted.score_instances(new))) > 0.9


@pytest.mark.parametrize("coding", [(0, 1), (-1, 1), (False, True), (0.0, 1.0)], ids=repr)
def test_labels_come_back_in_the_coding_they_were_given(coding: tuple[Any, Any]) -> None:
    X, y, _ = problem()
    plain = classifier().fit(X, y)
    fitted = classifier().fit(X, np.where(y == 1, coding[1], coding[0]))
    assert fitted.classes_.tolist() == list(coding)
    assert fitted.predict(X).tolist() == [coding[label] for label in plain.predict(X)]
    assert {value for labels in fitted.predict_instances(X) for value in labels} == set(coding)
    assert same_predictions(fitted, plain, X)


def test_predictions_agree_with_each_other_in_shape_and_order() -> None:
    X, y, _ = problem()
    fitted = classifier().fit(X, y)
    probability, height = fitted.predict_proba(X), fitted.decision_function(X)
    assert probability.shape == (24, 2)
    assert probability.sum(1) == pytest.approx(np.ones(24))
    assert ((probability >= 0) & (probability <= 1)).all()
    assert np.array_equal(np.argsort(probability[:, 1], kind="stable"), np.argsort(height, kind="stable"))
    assert np.array_equal(fitted.predict(X), (probability[:, 1] > 0.5).astype(int))
    instances = fitted.score_instances(X)
    assert [f.shape for f in instances] == [(len(rows),) for rows in X]
    highest = np.array([f.max() for f in instances])
    np.testing.assert_allclose(height, np.log(highest / (1 - highest)), rtol=1e-6)
    for labels, f in zip(fitted.predict_instances(X), instances, strict=True):
        assert np.array_equal(labels, (f > 0.5).astype(int))


def test_bags_are_predicted_one_by_one_as_together() -> None:
    X, y, _ = problem()
    fitted = classifier().fit(X, y)
    one_by_one = np.concatenate([fitted.predict_proba([rows]) for rows in X])
    np.testing.assert_allclose(one_by_one, fitted.predict_proba(X), rtol=1e-5)
    np.testing.assert_allclose(fitted.decision_function(X[::-1])[::-1], fitted.decision_function(X), rtol=1e-5)


def test_the_random_state_decides_the_model() -> None:
    X, y, _ = problem()
    assert same_predictions(classifier().fit(X, y), classifier().fit(X, y), X)
    assert not same_predictions(classifier().fit(X, y), classifier(random_state=1).fit(X, y), X)


def test_fitting_again_starts_anew() -> None:
    X, y, _ = problem()
    wide = [np.hstack([rows, rows]) for rows in X]
    fitted = classifier().fit(wide, 1 - 2 * y).fit(X, y)
    assert same_predictions(fitted, classifier().fit(X, y), X)
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.n_features_in_ == 4


def test_a_fit_that_fails_leaves_the_fitted_model() -> None:
    X, y, _ = problem()
    fitted = classifier().fit(X, y)
    before = fitted.predict_proba(X)
    with pytest.raises(InvalidInput, match="needs positive and negative bags"):
        fitted.fit(X, np.ones(len(X)))
    assert np.array_equal(fitted.predict_proba(X), before)
    assert fitted.classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "decision_function", "score_instances", "predict_instances"]
)
def test_nothing_is_predicted_before_fitting(method: str) -> None:
    X, _, _ = problem()
    with pytest.raises(NotFitted, match=r"has not been fitted; call fit\(X, y\) first"):
        getattr(classifier(), method)(X)


def test_parameters_are_read_set_and_cloned() -> None:
    made = classifier(effective=3.0, members=2)
    assert made.get_params()["effective"] == 3.0
    assert made.get_params()["recipe"] == recipe(max_steps=40)
    made.set_params(effective=1.5, learning_rate=0.01)
    twin = clone(made)
    assert twin is not made
    assert {k: v for k, v in twin.get_params().items() if k != "recipe"} == {
        k: v for k, v in made.get_params().items() if k != "recipe"
    }
    assert is_classifier(made)
    with pytest.raises(ValueError, match="Invalid parameter 'gamma'"):
        made.set_params(gamma=1)


def test_a_clone_is_not_fitted_and_fits_the_same() -> None:
    X, y, _ = problem()
    fitted = classifier(members=1).fit(X, y)
    twin = clone(fitted)
    with pytest.raises(NotFitted):
        twin.predict(X)
    assert same_predictions(twin.fit(X, y), fitted, X)


def test_parameters_override_the_recipe_and_leave_the_rest() -> None:
    X, y, _ = problem()
    made = classifier(effective=3, members=3, learning_rate=0.01, max_steps=7, dropout=0.1).fit(X, y)
    used = made.model_.recipe
    assert used == TrainingRecipe.model_validate(
        {**dict(recipe(max_steps=7, members=3, learning_rate=0.01, dropout=0.1)), "loss": used.loss}
    )
    assert used.robustness == Robustness.effective(3)


def test_it_works_in_cross_validation() -> None:
    X, y, _ = problem(per_class=24)
    assert cross_val_score(classifier(), X, y, cv=3).mean() > 0.8
    assert cross_val_score(classifier(), X, y, cv=3, scoring="roc_auc").mean() > 0.9
    probability = cross_val_predict(classifier(), X, 2 * y - 1, cv=2, method="predict_proba")
    assert auroc(y, probability[:, 1]) > 0.9


def test_a_grid_search_chooses_the_strength() -> None:
    X, y, _ = problem()
    search = GridSearchCV(classifier(max_steps=15), {"effective": [1.0, 2.0]}, cv=2, scoring="roc_auc")
    search.fit(X, y)
    assert search.best_params_["effective"] in {1.0, 2.0}
    assert search.best_estimator_.model_.recipe.robustness == Robustness.effective(search.best_params_["effective"])
    assert search.best_score_ > 0.7


def known_of(X: Sequence[Any], values: Mapping[tuple[int, int], Any]) -> list[Any]:
    """Write instance labels as a list per bag, or None where nothing is known of a bag."""
    bags = {bag for bag, _ in values}
    return [[values.get((bag, at)) for at in range(len(X[bag]))] if bag in bags else None for bag in range(len(X))]


def test_instance_labels_are_a_list_or_an_array_per_bag() -> None:
    X, y, truth = problem()
    values = {(bag, 0): bool(truth[bag][0]) for bag in range(12)} | {(0, 0): None}
    lists = known_of(X, values)
    arrays: list[Any] = [None if known is None else np.array(known, dtype=float) for known in lists]
    fits = [classifier().fit(X, y, given_) for given_ in (lists, arrays)]
    assert same_predictions(fits[0], fits[1], X)
    assert not same_predictions(fits[0], classifier().fit(X, y), X)
    assert same_predictions(classifier().fit(X, y), classifier().fit(X, y, [None] * 24), X)


def test_cross_validation_cuts_instance_labels_up_with_the_bags(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, truth = problem()
    known: list[Any] = [[bool(value) for value in of_bag] if bag < 12 else None for bag, of_bag in enumerate(truth)]
    taught: list[list[int]] = []

    def spy(index: BagIndex, given_: Sequence[Any]) -> list[Answer]:
        for number, labels in enumerate(given_):
            assert labels is None or len(labels) == index.sizes[number]
        taught.append([number for number, labels in enumerate(given_) if labels is not None])
        return answers_of(index, given_)

    answers_of = estimator._answers
    monkeypatch.setattr(estimator, "_answers", spy)
    assert cross_val_score(classifier(), X, y, cv=3, params={"instance_labels": known}).mean() > 0.8
    assert len(taught) == 3
    assert sorted(len(bags) for bags in taught) == [4, 8, 12] or sum(map(len, taught)) == 24, "each bag in two of three"


def test_a_word_of_numpys_counts_like_pythons() -> None:
    X, y, truth = problem()
    (bag, at) = next((bag, at) for bag in range(24) for at in range(len(X[bag])) if truth[bag][at])
    values: list[Any] = [True, 1, 1.0, np.bool_(True), np.float32(1)]
    fits = [classifier(max_steps=3).fit(X, y, known_of(X, {(bag, at): value})) for value in values]
    assert all(same_predictions(fits[0], other, X) for other in fits[1:])


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ({(1, 0): True}, AnswerConflict, "instance 0 of bag 1 is labelled positive but the bag negative"),
        ({(0, 0): "yes"}, InvalidInput, "expected true, false, None or nan, got 'yes'"),
        ({(0, 0): -1}, InvalidInput, "expected true, false, None or nan, got -1"),
        ({(0, 0): 0.5}, InvalidInput, "expected true, false, None or nan, got 0.5"),
    ],
    ids=str,
)
def test_values_that_are_no_labels_are_refused(
    labels: Mapping[tuple[int, int], Any], error: type[Exception], message: str
) -> None:
    X, y, _ = problem()
    with pytest.raises(error, match=message):
        classifier().fit(X, y, known_of(X, labels))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({(0, 0): True}, "a list with None or one value per instance for every bag, got dict"),
        (7, "for every bag, got int"),
        ([None] * 23, "one entry per bag: 24 bags, 23 entries"),
        ([[True] * 9, *[None] * 23], r"bag 0 has \d instances but 9 instance labels"),
    ],
    ids=str,
)
def test_instance_labels_that_cannot_be_are_refused(labels: Any, message: str) -> None:
    X, y, _ = problem()
    with pytest.raises(InvalidInput, match=message):
        classifier().fit(X, y, labels)


def test_negative_instances_of_negative_bags_say_nothing_new() -> None:
    X, y, _ = problem()
    said = known_of(X, {(1, 0): False, (3, 0): 0})
    assert same_predictions(classifier().fit(X, y, said), classifier().fit(X, y), X)


def test_a_positive_bag_labelled_negative_throughout_is_warned_of() -> None:
    X, y, _ = problem()
    with pytest.warns(AdmilWarning, match="every instance of positive bag '0' was answered negative"):
        classifier(max_steps=2).fit(X, y, [[False] * len(X[0]), *[None] * 23])


def test_groups_are_kept_together() -> None:
    X, y, _ = problem()
    groups = [bag // 4 for bag in range(24)]
    held = classifier(members=1).fit(X, y, groups=groups).model_.history.held_out_scores
    out = {groups[int(bag)] for bag in held}
    assert {bag for bag in range(24) if groups[bag] in out} == {int(bag) for bag in held}


@pytest.mark.parametrize(
    ("bags", "message"),
    [
        ([[[1.0, 2.0, 3.0, 4.0]], [[1.0, 2.0]]], "every bag needs the same number of features"),
        ([[1.0, 2.0, 3.0, 4.0]], r"expected a \(n, D\) array"),
        ([], "expected at least one bag"),
        ([np.zeros((0, 4))], "is empty"),
        ([[[1.0, 2.0, 3.0, float("nan")]]], "features must be finite"),
        ([[[1.0, 2.0]]], "trained on instances of 4 features, these bags have 2"),
    ],
    ids=str,
)
def test_bags_that_cannot_be_scored_are_refused(bags: Any, message: str) -> None:
    X, y, _ = problem()
    with pytest.raises(InvalidInput, match=message):
        classifier(max_steps=2).fit(X, y).predict(bags)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "one label per bag: 24 bags, 2 labels"),
        ([0, 1, 2] * 8, "expected a label 0/1 or -1/\\+1, got"),
        ([0, 1, -1] * 8, "labels mix 0 and -1"),
        (["yes", "no"] * 12, "expected a label 0/1 or -1/\\+1, got"),
    ],
    ids=str,
)
def test_labels_that_are_none_are_refused(labels: list[Any], message: str) -> None:
    X, _, _ = problem()
    with pytest.raises(InvalidInput, match=message):
        classifier().fit(X, labels)


def test_probabilities_are_calibrated_on_bags_that_members_held_out() -> None:
    """With bags this noisy an uncalibrated model is far too sure of itself."""
    X, y, _ = problem(per_class=60, distance=1.5)
    new, new_y, _ = problem(seed=1, per_class=150, distance=1.5)
    fitted = classifier(max_steps=120, recipe=recipe(members=4, held_out_folds=4, hidden=(32, 16))).fit(X, y)
    probability = fitted.predict_proba(new)[:, 1]
    assert probability.mean() == pytest.approx(new_y.mean(), abs=0.1)
    raw = 1 / (1 + np.exp(-fitted.decision_function(new)))
    assert _surprise(new_y, probability) < _surprise(new_y, raw)
    assert _surprise(new_y, probability) < np.log(2)


def test_with_few_bags_as_many_training_bags_are_called_positive_as_are() -> None:
    X, y, _ = problem(per_class=4, distance=0.5)
    for fitted in (classifier().fit(X, y), classifier(members=1).fit(X[1:], y[1:])):
        assert fitted.predict(X).sum() in (3, 4, 5)
    fitted = classifier().fit(X, y)
    assert fitted.predict(X).sum() == 4
    shifts = _logits(fitted.predict_proba(X)[:, 1]) - fitted.decision_function(X)
    np.testing.assert_allclose(shifts, shifts[0], atol=1e-6)


def test_one_member_is_calibrated_as_well_as_many() -> None:
    X, y, _ = problem(per_class=30, distance=2.0)
    new, _, _ = problem(seed=1, per_class=150, distance=2.0)
    for members in (1, 8):
        fitted = BagClassifier(members=members, max_steps=150).fit(X, y)
        assert fitted.predict(new).mean() == pytest.approx(0.5, abs=0.15)


def test_a_member_of_an_ensemble_that_never_saw_a_bag_does_not_shift_what_the_ensemble_says() -> None:
    """The highest of the mean logits lies below the mean of the highest."""
    X, y, _ = problem(per_class=60, distance=2.0)
    new, _, _ = problem(seed=1, per_class=200, distance=2.0)
    fitted = BagClassifier(members=8, max_steps=150).fit(X, y)
    assert fitted.predict(new).mean() == pytest.approx(0.5, abs=0.08)


def test_seeds_are_those_of_scikit_learn() -> None:
    X, y, _ = problem(per_class=6)
    one, other = (classifier(random_state=np.random.RandomState(3), max_steps=3).fit(X, y) for _ in range(2))
    assert same_predictions(one, other, X)
    assert not same_predictions(one, classifier(random_state=np.random.RandomState(4), max_steps=3).fit(X, y), X)
    free = [classifier(random_state=None, max_steps=3).fit(X, y) for _ in range(2)]
    assert not same_predictions(free[0], free[1], X)


@pytest.mark.parametrize("seed", [2**64, -1, 1.5, True, "0"])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    X, y, _ = problem(per_class=3)
    with pytest.raises(InvalidInput, match="random_state is a whole number from 0 up, a RandomState or None, got"):
        classifier(random_state=seed).fit(X, y)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [("paper", "got str"), (Recipe(), "got Recipe; give its training field"), ({"members": 2}, "got dict")],
    ids=str,
)
def test_what_is_no_recipe_is_refused(recipe: Any, message: str) -> None:
    X, y, _ = problem(per_class=3)
    with pytest.raises(InvalidInput, match=f"recipe is a TrainingRecipe or None, {message}"):
        BagClassifier(recipe=recipe).fit(X, y)


def test_who_catches_scikit_learns_error_catches_ours() -> None:
    for kind in (NotFittedError, NotFitted):
        with pytest.raises(kind, match="has not been fitted"):
            BagClassifier().predict([])


def test_bags_work_in_cross_validation() -> None:
    X, y, _ = problem(per_class=12)
    bags = Bags.from_arrays(X)
    scores = cross_val_score(classifier(), bags, y, cv=3)
    assert scores.tolist() == cross_val_score(classifier(), X, y, cv=3).tolist()


def test_notes_say_what_a_user_should_know() -> None:
    X, y, _ = problem(per_class=6)
    noted = BagClassifier(effective=3, members=2, max_steps=3).fit([X[0][:2], *X[1:]], y)
    assert "k = 3 is above the size of" in noted.notes_[0]


def _logits(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(probability) - np.log1p(-probability)


def _surprise(y: NDArray[np.int64], probability: NDArray[np.float64]) -> float:
    """Return the mean log loss."""
    clipped = np.clip(probability, 1e-12, 1 - 1e-12)
    return float(-np.mean(np.where(y == 1, np.log(clipped), np.log(1 - clipped))))
