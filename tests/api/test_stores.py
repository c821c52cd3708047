"""Bags on disk give the numbers that the same bags in memory give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from admil.api import ActiveLearner, BagClassifier
from admil.bags import AnswerValue, Bags, InstanceId, Query
from admil.errors import AdmilWarning, InvalidInput
from admil.learner import Recipe
from admil.sampling import PF, RandomSampler
from admil.store import BagStore, DtypeName
from admil.training import TrainingRecipe, fit, score
from tests.training.problems import book_of, easy, generator, recipe, same_weights

DTYPES: dict[DtypeName, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


def stored(bags: Bags, folder: Path, dtype: DtypeName = "float32", labels: bool = True) -> BagStore:
    """Put bags in memory into a store of several parts."""
    with BagStore.create(folder, dtype=dtype, part_bytes=300) as writer:
        for number, bag in enumerate(bags.ids):
            label = int(bags.index.labels[number]) if labels and bags.index.labels is not None else None
            writer.add(bag, bags[bag], label)
    return BagStore.open(folder)


def problem(folder: Path, dtype: DtypeName = "float32") -> tuple[Bags, BagStore]:
    """Make bags in memory, in the precision of a store, and the store."""
    bags = easy(per_class=12)[0]
    store = stored(bags, folder, dtype)
    assert len(store.header.parts) > 3
    return Bags(bags.index, bags.features.to(DTYPES[dtype])), store


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "changes",
    [{}, {"dropout": 0.5, "scaling": "common", "bags_per_side": 4}, {"answers": "bce"}, {"precision": "bfloat16"}],
    ids=str,
)
def test_training_and_scores_are_the_same_to_the_bit(
    dtype: DtypeName, changes: Mapping[str, Any], tmp_path: Path
) -> None:
    bags, store = problem(tmp_path, dtype)
    answers = {(0, 0): True, (2, 0): False, (4, 1): False, (6, 0): None}
    groups = [number // 3 for number in range(len(bags))]
    models, scores = [], []
    for source in (bags, store):
        book = book_of(source.index, answers)
        model = fit(recipe(**changes), source, book, generator(1), groups=groups)
        models.append(model)
        scores.append(score(model, source, book, needs=["disagreement", "embedding", "expected_gradient_length"]))
    assert same_weights(*models)
    assert models[0].history == models[1].history
    one, other = scores
    assert one.index == other.index
    for name in ("f", "p", "bag_score"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in ("disagreement", "embedding", "expected_gradient_length"):
        assert np.array_equal(one.extras[name], other.extras[name]), name


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 0.0), ("float16", 2e-3), ("bfloat16", 2e-2)])
def test_scores_of_a_model_change_no_more_than_the_precision_of_the_store(
    dtype: DtypeName, tolerance: float, tmp_path: Path
) -> None:
    bags = easy(per_class=12)[0]
    model = fit(recipe(), bags, None, generator())
    store = stored(bags, tmp_path, dtype)
    difference = np.abs(score(model, bags).f - score(model, store).f).max()
    assert difference <= tolerance
    assert tolerance == 0 or difference > 0, "the store does keep less"


def test_some_bags_of_a_store_train_as_those_bags_alone_do(tmp_path: Path) -> None:
    bags, store = problem(tmp_path)
    chosen = [20, 3, 5, 8, 14, 15, 0, 1, 2, 9]
    one, other = (fit(recipe(), source.subset(chosen), None, generator()) for source in (bags, store))
    assert same_weights(one, other)


def test_a_classifier_takes_either(tmp_path: Path) -> None:
    bags, store = problem(tmp_path)
    unlabelled = stored(easy(seed=1)[0], tmp_path / "new", labels=False)
    found = []
    known: list[Any] = [None] * len(bags)
    known[0], known[2] = (
        [value, *[None] * (size - 1)] for value, size in zip((True, None), bags.index.sizes[[0, 2]], strict=True)
    )
    known[2][1] = False
    for train in (bags, store):
        classifier = BagClassifier(members=2, max_steps=20, learning_rate=0.02)
        classifier.fit(train, instance_labels=known, groups=[n // 2 for n in range(24)])
        found.append((classifier, classifier.predict_proba(train), classifier.score_instances(train)))
    (one, one_proba, one_scores), (other, other_proba, other_scores) = found
    assert np.array_equal(one_proba, other_proba)
    assert all(np.array_equal(a, b) for a, b in zip(one_scores, other_scores, strict=True))
    assert np.array_equal(one.classes_, other.classes_)
    assert one.n_features_in_ == other.n_features_in_ == 4
    assert np.array_equal(one.predict(unlabelled.load()), other.predict(unlabelled))
    assert len(other.predict_instances(unlabelled)) == len(unlabelled)


def test_a_classifier_names_bags_without_a_label(tmp_path: Path) -> None:
    store = stored(easy()[0], tmp_path, labels=False)
    with pytest.raises(InvalidInput, match="label"):
        BagClassifier(max_steps=1).fit(store)


# --- the learner ---------------------------------------------------------------------------------


def short(**changes: Any) -> Recipe:
    return Recipe.model_validate({"training": recipe(max_steps=6), "sampler": PF(), "budget": 3, **changes})


def truth_of(query: Query) -> dict[InstanceId, bool]:
    return {item.id: item.id.index == 0 for item in query}


@pytest.mark.parametrize("warm_start", [False, True])
def test_rounds_of_questions_are_the_same(warm_start: bool, tmp_path: Path) -> None:
    made = short(warm_start=warm_start)
    groups = [number // 2 for number in range(24)]
    one, other = (ActiveLearner(source, made, 5, groups=groups) for source in problem(tmp_path))
    for _ in range(3):
        query = one.query()
        assert query == other.query()
        assert len(query) == 3
        for learner in (one, other):
            learner.answer(truth_of(query))
    assert np.array_equal(one.score().f, other.score().f)
    assert one.history == other.history


@pytest.mark.parametrize("saved_with", ["memory", "store"])
def test_a_saved_learner_goes_on_with_either(saved_with: str, tmp_path: Path) -> None:
    bags, store = problem(tmp_path / "s")
    learner = ActiveLearner(store if saved_with == "store" else bags, short(), 5, groups=[0, 1] * 12)
    query = learner.query()
    learner.answer({query.ids[0]: True})
    learner.save(tmp_path / "saved", include_bags=False)
    for source in (bags, store, BagStore.open(tmp_path / "s")):
        loaded = ActiveLearner.load(tmp_path / "saved", bags=source)
        assert loaded.bags is source
        assert loaded.query() == learner.query()
        assert loaded.labels == learner.labels
        assert np.array_equal(loaded.score().f, learner.score().f)
        assert loaded.next_round() == ActiveLearner.load(tmp_path / "saved", bags=bags).next_round()


def test_a_learner_on_a_store_is_saved_without_its_bags_and_says_so(tmp_path: Path) -> None:
    learner = ActiveLearner(problem(tmp_path / "s")[1], short(sampler=RandomSampler()))
    learner.query()
    learner.save(tmp_path / "saved")
    assert not list((tmp_path / "saved").glob("bags-*"))
    with pytest.raises(InvalidInput, match="was saved without its bags; pass bags=… to load it"):
        ActiveLearner.load(tmp_path / "saved")


def test_bags_added_to_the_store_later_take_part_and_answers_stay(tmp_path: Path) -> None:
    store = problem(tmp_path / "s")[1]
    learner = ActiveLearner(store, short())
    first, second, *_ = learner.query().ids
    learner.answer({first: True})
    learner.save(tmp_path / "saved")
    with BagStore.append(tmp_path / "s") as writer:
        writer.add("new", np.zeros((2, 4)), 0)
        writer.add("more", np.ones((2, 4)), 1)
    grown = BagStore.open(tmp_path / "s")
    with pytest.warns(AdmilWarning, match="2 bags are new since .* was saved: they take part from now on"):
        loaded = ActiveLearner.load(tmp_path / "saved", bags=grown)
    assert loaded.labels.of(first) is AnswerValue.POSITIVE
    assert second in loaded.query().ids, "the open questions stay"
    loaded.answer({second: False})
    assert len(loaded.score().f) == grown.index.n_instances
    assert ActiveLearner.load(tmp_path / "saved", bags=grown.subset(range(24))).query() == learner.query()


def test_bags_that_changed_are_not_the_bags_of_the_learner_however_many_came(tmp_path: Path) -> None:
    store = problem(tmp_path / "s")[1]
    ActiveLearner(store, short()).save(tmp_path / "saved")
    with BagStore.append(tmp_path / "s") as writer:
        writer.add("new", np.zeros((2, 4)), 0)
    grown = BagStore.open(tmp_path / "s")
    wrong = grown.subset([1, 0, *range(2, 25)])
    with pytest.raises(InvalidInput, match=r"these are not the bags .* ids, sizes or labels differ"):
        ActiveLearner.load(tmp_path / "saved", bags=wrong)
    grouped = ActiveLearner(store, short(), groups=[number // 2 for number in range(24)])
    grouped.save(tmp_path / "grouped")
    with pytest.raises(InvalidInput, match=r"1 bags are new since .* and of these no group is known"):
        ActiveLearner.load(tmp_path / "grouped", bags=grown)


def test_default_recipes_train_on_a_store_too(tmp_path: Path) -> None:
    bags, store = problem(tmp_path)
    made = TrainingRecipe(max_steps=10)
    assert same_weights(fit(made, bags, None, generator()), fit(made, store, None, generator()))
