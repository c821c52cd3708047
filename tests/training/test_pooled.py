"""Training and scoring with pooled losses: MI-logistic and attention."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from admil.api import ActiveLearner, BagClassifier, load_model, save_model
from admil.bags import LabelBook, LabelState
from admil.errors import InvalidInput
from admil.learner import Recipe
from admil.losses import AttentionPooled, BagLoss, Drbl, SoftmaxPooled
from admil.models import Attention
from admil.sampling import FEntropy
from admil.training import TrainingRecipe, fit, score
from admil.training.batches import StepReader
from admil.training.objective import Objective
from tests.training.problems import bags_of, book_of, easy, generator, recipe, trained

CPU = torch.device("cpu")
ANSWERS: dict[tuple[int, int], bool | None] = {(0, 0): True, (0, 1): False, (2, 0): False, (3, 1): None}

KINDS: dict[str, dict[str, Any]] = {
    "softmax": {"loss": SoftmaxPooled()},
    "logistic": {"loss": SoftmaxPooled(), "hidden": ()},
    "attention": {"loss": AttentionPooled(), "attention": Attention()},
    "gated": {"loss": AttentionPooled(), "attention": Attention(form="gated", units=3)},
    "query": {"loss": AttentionPooled(), "attention": Attention(form="query")},
    "classifier": {"loss": AttentionPooled(), "attention": Attention(instance_score="classifier")},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def _log_odds(loss: BagLoss, instances: list[tuple[float, float]]) -> float:
    """Return the logit of a bag of (logit, energy) instances, as a person would write it down."""
    if isinstance(loss, AttentionPooled):
        total = sum(math.exp(energy) for _, energy in instances)
        return sum(math.exp(energy) / total * logit for logit, energy in instances)
    f = [1 / (1 + math.exp(-logit)) for logit, _ in instances]
    pooled = sum(each * math.exp(2.5 * each) for each in f) / sum(math.exp(2.5 * each) for each in f)
    return math.log(pooled / (1 - pooled))


@pytest.mark.parametrize("answers", ["bags", "bce"])
@pytest.mark.parametrize("kind", ["softmax", "attention"])
def test_the_loss_of_a_step_is_that_of_loops_over_bags_and_answers(kind: str, answers: str) -> None:
    made = recipe(members=2, answers=answers, negatives_per_bag=2, beta=(0.5, 2.0), **KINDS[kind])
    bags = bags_of([2, 3, 2, 4, 1], [1, 1, 1, 1, 0])
    book = book_of(bags.index, {**ANSWERS, (1, 0): False, (1, 2): False})
    out = np.zeros((2, 5), dtype=bool)
    out[1, 0] = True
    batch = StepReader(made, bags, book, CPU).read(np.arange(4), np.array([4]), book.positives, book.negatives)
    outputs = torch.randn(2, 2, len(batch.features), generator=generator(1), dtype=torch.float64)
    found = Objective(made, bags.index, out, CPU)(outputs, batch, generator())
    for member in range(2):
        expected = _loss_by_loops(made, member, outputs[:, member].T.tolist(), book, out[member])
        assert found[member].item() == pytest.approx(expected, rel=1e-6)


def _loss_by_loops(
    made: TrainingRecipe, member: int, instances: list[tuple[float, float]], book: LabelBook, out: np.ndarray
) -> float:
    loss, index = made.member_losses[member], book.index
    terms: list[tuple[float, float, bool]] = []  # weight, logit, whether positive
    row = iter(instances)
    for bag in range(len(index)):
        inside = [next(row) for _ in range(index.sizes[bag])]
        states = book.state[index.offsets[bag] : index.offsets[bag + 1]]
        kept = [each for each, state in zip(inside, states, strict=True) if state != LabelState.NEGATIVE]
        if not out[bag] and kept:
            terms.append((1.0, _log_odds(loss, kept), bag < 4))
    answered = list(zip([*book.positives, *book.negatives], row, strict=True))
    seen = [(at in book.positives, pair) for at, pair in answered if not out[index.bag_of[at]]]
    refuted = [None if out[index.bag_of[at]] else pair for at, pair in answered if at in book.negatives]
    if made.answers == "bags":
        terms += [(made.singleton_weight, pair[0], True) for positive, pair in seen if positive]
        for start in range(0, len(refuted), made.negatives_per_bag):
            some = [pair for pair in refuted[start : start + made.negatives_per_bag] if pair is not None]
            terms += [(1.0, _log_odds(loss, some), False)] if some else []
    costs = [(w, math.log1p(math.exp(-x if positive else x))) for w, x, positive in terms]
    value = sum(w * cost for w, cost in costs) / sum(w for w, _ in costs)
    if made.answers == "bce":
        each = [math.log1p(math.exp(-pair[0] if positive else pair[0])) for positive, pair in seen]
        value += made.member_betas[member] * sum(each) / len(each)
    return value


@every_kind
def test_an_easy_problem_is_learned(kind: str) -> None:
    bags, truth = easy(per_class=40, smallest=2)
    model = trained(bags, **{**KINDS[kind], "max_steps": 300, "members": 4})
    assert model.history.held_out_auroc is not None
    assert model.history.held_out_auroc > 0.9
    scores = score(model, bags)
    best = np.array([f.argmax() for f in scores.split()])[bags.index.positive] + bags.index.offsets[bags.index.positive]
    assert truth.positive[best].mean() > 0.9
    assert bags.labels is not None
    assert scores.bag_score[bags.labels == 1].min() > scores.bag_score[bags.labels == 0].max()


@pytest.mark.parametrize("form", ["attention", "gated", "query"])
def test_a_score_is_the_attention_times_the_probability_of_the_bag(form: str) -> None:
    bags = bags_of([3, 1, 4], [1, 0, 1])
    model = trained(bags, **{**KINDS[form], "max_steps": 2, "members": 3})
    with torch.no_grad():
        logits, energies = model.scorer.outputs(bags.features).double()
    found = score(model, bags)
    for bag in range(3):
        here = slice(bags.index.offsets[bag], bags.index.offsets[bag + 1])
        attention = torch.softmax(energies[:, here], -1)
        probability = torch.sigmoid((attention * logits[:, here]).sum(-1).mean())
        np.testing.assert_allclose(found.f[here], attention.mean(0) * probability, rtol=1e-6)
        np.testing.assert_allclose(found.bag_score[bag], probability, rtol=1e-6)


def test_a_score_of_the_classifier_is_that_of_the_instance_alone() -> None:
    bags = bags_of([3, 1, 4], [1, 0, 1])
    model = trained(bags, **{**KINDS["classifier"], "max_steps": 2})
    with torch.no_grad():
        expected = torch.sigmoid(model.scorer.forward(bags.features).double().mean(0))
    np.testing.assert_allclose(score(model, bags).f, expected, rtol=1e-6)


@every_kind
def test_known_negatives_take_no_part_in_the_score_of_their_bag(kind: str) -> None:
    bags = bags_of([3, 2], [1, 0])
    model = trained(bags, **{**KINDS[kind], "max_steps": 2, "held_out_folds": 0})
    without = score(model, bags, book_of(bags.index, {(0, 1): False}))
    alone = score(model, bags_of([3, 2], [1, 0]).subset([0]))
    features = torch.cat([bags.features[:1], bags.features[2:3]])
    rest = score(model, bags_of([2], None))
    assert rest.bag_score.shape == (1,)
    with torch.no_grad():
        outputs = model.scorer.outputs(features).double()
    loss = model.recipe.member_losses[0]
    assert isinstance(loss, AttentionPooled | SoftmaxPooled)
    expected = torch.sigmoid(loss.bag_log_odds(outputs.unsqueeze(2), torch.ones(1, 2, dtype=torch.bool)).mean())
    assert without.bag_score[0] == pytest.approx(expected.item(), abs=1e-6)
    assert alone.bag_score[0] != without.bag_score[0]


@every_kind
def test_a_learner_asks_goes_on_and_is_saved(kind: str, tmp_path: Path) -> None:
    bags, truth = easy(smallest=2)
    chosen = Recipe(training=recipe(**{**KINDS[kind], "max_steps": 10}), sampler=FEntropy(), budget=3)
    learner = ActiveLearner(bags, chosen, seed=1)
    query = learner.query()
    learner.answer({item.id: bool(truth.positive[bags.index.position(item.id)]) for item in query})
    learner.save(tmp_path / "learner")
    loaded = ActiveLearner.load(tmp_path / "learner")
    assert loaded.query() == learner.query()
    save_model(learner.model, tmp_path / "model")
    found = score(load_model(tmp_path / "model"), bags)
    assert np.array_equal(found.f, score(learner.model, bags).f)


def test_warm_starts_keep_their_attention() -> None:
    bags, _ = easy()
    model = trained(bags, **{**KINDS["gated"], "max_steps": 3})
    on = fit(model.recipe, bags, None, generator(), warm_start=model)
    assert on.recipe == model.recipe
    other = model.recipe.model_copy(update={"attention": Attention()})
    with pytest.raises(InvalidInput, match=r"the warm start has Attention\(form='gated'.*, the recipe wants"):
        fit(other, bags, None, generator(), warm_start=model)


def test_a_module_of_ones_own_has_no_attention() -> None:
    bags, _ = easy()
    with pytest.raises(InvalidInput, match="a module of your own has no attention"):
        fit(recipe(members=1, **KINDS["attention"]), bags, None, generator(), module=nn.Linear(4, 1))


def test_a_module_of_ones_own_may_be_pooled_by_its_scores() -> None:
    bags, _ = easy()
    model = fit(recipe(members=1, loss=SoftmaxPooled()), bags, None, generator(), module=nn.Linear(4, 1))
    assert model.history.held_out_auroc is not None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"loss": (Drbl(), SoftmaxPooled())}, "all the hinge between bags or all the cross-entropy of bags"),
        ({"loss": AttentionPooled()}, r"AttentionPooled needs attention=Attention"),
        ({"attention": Attention()}, r"AttentionPooled needs attention=Attention"),
        ({"loss": (AttentionPooled(), SoftmaxPooled()), "attention": Attention()}, "and for all members"),
        ({"loss": AttentionPooled(), "attention": Attention(), "hidden": ()}, r"last hidden layer, but hidden is \(\)"),
    ],
)
def test_recipes_that_do_not_fit_together_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        recipe(**fields)


@pytest.mark.parametrize("kind", ["softmax", "attention"])
def test_the_estimator_tells_bags_apart_by_their_own_probability(kind: str) -> None:
    bags, _ = easy(per_class=40, smallest=2)
    estimator = BagClassifier(members=2, max_steps=100, recipe=recipe(**KINDS[kind]), random_state=0).fit(bags)
    found = score(estimator.model_, bags).bag_score
    np.testing.assert_allclose(estimator.decision_function(bags), np.log(found / (1 - found)), rtol=1e-6)
    assert (estimator.predict(bags) == bags.labels).mean() > 0.9
