"""Scores, against one bag at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from admil.bags import BagBatch, BagIndex, Bags, IntArray, LabelBook, LabelState, Need
from admil.errors import InvalidInput
from admil.functional import Robustness, disagreement, robust_score, robust_weights
from admil.losses import Drbl, MaxScore
from admil.training import TrainedModel, fit, score
from tests.training.problems import bags_of, book_of, easy, recipe, trained

SIZES, LABELS = [3, 1, 2, 4, 1, 2, 5], [1, 0, 1, 0, 1, 1, 0]
ANSWERS: Mapping[tuple[int, int], bool | None] = {
    (0, 1): False,
    (0, 2): True,
    (2, 0): None,
    (4, 0): False,
    (5, 1): False,
}


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches every operation for the size of its result."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries = 0

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        made = out if isinstance(out, tuple | list) else (out,)
        self.entries = max([self.entries, *(t.numel() for t in made if isinstance(t, torch.Tensor))])
        return out


def model_of(width: int = 3, **changes: Any) -> TrainedModel:
    return trained(bags_of([2, 1, 2, 3], [1, 0, 1, 0], width, seed=9), **{"max_steps": 3, **changes})


def test_the_score_is_the_sigmoid_of_the_members_mean_logit() -> None:
    bags, model = bags_of(SIZES, LABELS), model_of(members=3)
    with torch.no_grad():
        logits = model.scorer.forward(bags.features)
    expected = torch.sigmoid(logits.double().mean(0))
    scores = score(model, bags)
    np.testing.assert_allclose(scores.f, expected, rtol=1e-6)
    assert {str(values.dtype) for values in (scores.f, scores.p, scores.bag_score)} == {"float64"}
    assert scores.index is bags.index


@pytest.mark.parametrize(
    "strength",
    [Robustness.effective(2), Robustness.effective(1), Robustness.kl(0.5), Robustness.temperature(0.2)],
    ids=repr,
)
def test_weights_and_bag_scores_are_those_of_each_bag_without_its_known_negatives(strength: Robustness) -> None:
    bags, model = bags_of(SIZES, LABELS), model_of(loss=Drbl(robustness=strength))
    book = book_of(bags.index, ANSWERS)
    scores = score(model, bags, book)
    for bag in range(len(bags)):
        rows = bags.index.positions(np.array([bag]))
        kept = rows[book.state[rows] != LabelState.NEGATIVE]
        f = torch.from_numpy(scores.f[kept])[None]
        expected = np.zeros(len(bags.features))
        if len(kept):
            expected[kept] = robust_weights(f, None, strength)[0]
        np.testing.assert_allclose(scores.p[rows], expected[rows], atol=1e-9)
        bag_score = float(robust_score(f, None, strength)) if len(kept) else 0.0
        assert scores.bag_score[bag] == pytest.approx(bag_score, abs=1e-9)
    assert scores.p[book.negatives].tolist() == [0.0, 0.0, 0.0]


def test_known_negatives_stay_where_the_recipe_keeps_them() -> None:
    bags, model = bags_of(SIZES, LABELS), model_of(remove_known_negatives=False)
    plain, answered = score(model, bags), score(model, bags, book_of(bags.index, ANSWERS))
    assert np.array_equal(plain.p, answered.p)
    assert (answered.p[[1, 10]] > 0).all()


def test_the_reported_robustness_may_differ_from_the_loss() -> None:
    bags = bags_of(SIZES, LABELS)
    model = model_of(loss=MaxScore(), weights=Robustness.effective(100))
    np.testing.assert_allclose(score(model, bags).p, 1 / bags.index.sizes[bags.index.bag_of])


def test_bags_need_no_labels_to_be_scored() -> None:
    model = model_of()
    labelled, unlabelled = bags_of(SIZES, LABELS), bags_of(SIZES, None)
    assert np.array_equal(score(model, labelled).f, score(model, unlabelled).f)
    assert np.array_equal(score(model, labelled).bag_score, score(model, unlabelled).bag_score)


def test_bags_of_another_width_are_refused() -> None:
    with pytest.raises(InvalidInput, match="trained on instances of 3 features, these bags have 5"):
        score(model_of(), bags_of(SIZES, LABELS, width=5))


@pytest.mark.parametrize(
    "sizes", [[3, 1, 2, 4, 1, 2, 6], [1, 3, 2, 4, 1, 2, 5]], ids=["of other size", "of equal size"]
)
def test_the_label_book_of_other_bags_is_refused(sizes: list[int]) -> None:
    with pytest.raises(InvalidInput, match="label book belongs to other bags"):
        score(model_of(), bags_of(SIZES, LABELS), LabelBook(bags_of(sizes, LABELS).index))


def test_scoring_many_instances_equals_scoring_a_few_bags_at_a_time() -> None:
    """Instances are read some 16,000 at a time; here are 40,000."""
    chance = np.random.default_rng(0)
    bags, model = bags_of(chance.integers(1, 400, 200).tolist(), [1, 0] * 100, width=3), model_of(members=2)
    assert bags.index.n_instances > 35_000
    book = book_of(bags.index, {(bag, 0): False for bag in range(0, 200, 2)})
    needs: list[Need] = ["disagreement", "expected_gradient_length", "embedding"]
    at_once = score(model, bags, book, needs)
    for some in np.split(np.arange(200), 10):
        part = bags.subset(some)
        answers = tuple(answer for answer in book.answers if answer.instance.bag in part.ids)
        piece = score(model, part, LabelBook(part.index, answers), needs)
        rows = bags.index.positions(some)
        np.testing.assert_allclose(piece.f, at_once.f[rows], rtol=1e-5)
        np.testing.assert_allclose(piece.p, at_once.p[rows], atol=1e-4)
        np.testing.assert_allclose(piece.bag_score, at_once.bag_score[some], rtol=1e-5)
        for need in needs:
            np.testing.assert_allclose(piece.extras[need], at_once.extras[need][rows], rtol=1e-3, atol=1e-5)


def test_a_score_does_not_depend_on_the_bags_beside_it() -> None:
    bags, model = bags_of(SIZES, LABELS), model_of()
    whole = score(model, bags)
    for bag, parts in enumerate(zip(whole.split(), np.split(whole.p, bags.index.offsets[1:-1]), strict=True)):
        alone = score(model, bags.subset([bag]))
        np.testing.assert_allclose(alone.f, parts[0], rtol=1e-5)
        np.testing.assert_allclose(alone.p, parts[1], atol=1e-5)


def test_a_huge_bag_beside_thousands_of_small_ones_is_scored_without_padding_them_to_its_size() -> None:
    """Padded together this would be 6,001 x 10,000 scores: half a gigabyte for each intermediate result."""
    sizes = [1] * 3000 + [10_000] + [1] * 3000
    bags = bags_of(sizes, None, width=2)
    model = model_of(width=2)
    with LargestTensor() as largest:
        scores = score(model, bags)
    assert largest.entries <= 2 * 2 * 16_384 * 8, "logits of a chunk, or weights of a run of like sizes"
    small = np.r_[0:3000, 13_000:16_000]
    assert (scores.p[small] == 1).all()
    assert scores.p[3000:13_000].sum() == pytest.approx(1)
    assert 1 / np.square(scores.p[3000:13_000]).sum() == pytest.approx(2, rel=1e-3)
    np.testing.assert_allclose(np.delete(scores.bag_score, 3000), scores.f[small])


def test_only_what_is_needed_is_computed() -> None:
    bags, model = bags_of(SIZES, LABELS), model_of()
    assert dict(score(model, bags).extras) == {}
    assert set(score(model, bags, needs=["disagreement"]).extras) == {"disagreement"}


def test_disagreement_is_that_of_the_members_probabilities() -> None:
    bags, model = bags_of(SIZES, LABELS), model_of(members=4)
    with torch.no_grad():
        expected = disagreement(torch.sigmoid(model.scorer.forward(bags.features).double()))
    found = score(model, bags, needs=["disagreement"]).extras["disagreement"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-12)
    assert (found > 0).all()
    with pytest.raises(InvalidInput, match="one member cannot disagree; train two or more"):
        score(model_of(members=1), bags, needs=["disagreement"])


@pytest.mark.parametrize(
    ("needs", "named"), [(["foo"], "'foo'"), ("embedding", "'embedding'"), (("embedding", 3), "3")]
)
def test_a_need_that_does_not_exist_is_named_beside_those_that_do(needs: Any, named: str) -> None:
    words = f"'disagreement', 'expected_gradient_length', 'embedding'; got {named}"
    with pytest.raises(InvalidInput, match=words):
        score(model_of(), bags_of(SIZES, LABELS), needs=needs)


def test_the_expected_gradient_length_of_one_member_is_what_autograd_says() -> None:
    bags, model = bags_of([2, 2], [1, 0]), model_of(members=1, scaling="none", hidden=(5, 3))
    found = score(model, bags, needs=["expected_gradient_length"]).extras["expected_gradient_length"]
    parameters = list(model.module.parameters())
    for row, length in zip(bags.features, found, strict=True):
        logit = model.scorer.forward(row[None])[0, 0]
        f = torch.sigmoid(logit).item()
        expected = 0.0
        for y, probability in ((1.0, f), (0.0, 1 - f)):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, torch.tensor(y))
            gradient = torch.autograd.grad(loss, parameters, retain_graph=True)
            expected += probability * float(torch.stack([g.square().sum() for g in gradient]).sum().sqrt())
        assert length == pytest.approx(expected, rel=1e-4)


def test_the_expected_gradient_length_of_an_ensemble_is_the_mean_over_members() -> None:
    bags, model = bags_of(SIZES, LABELS), model_of(members=3)
    with torch.no_grad():
        f = torch.sigmoid(model.scorer.forward(bags.features).double())
    norms = model.scorer.gradient_norm(bags.features).detach()
    found = score(model, bags, needs=["expected_gradient_length"]).extras["expected_gradient_length"]
    np.testing.assert_allclose(found, (2 * f * (1 - f) * norms).mean(0), rtol=1e-5)


def test_the_embedding_is_the_last_hidden_layer_of_every_member() -> None:
    bags, model = bags_of(SIZES, LABELS), model_of(members=3, hidden=(8, 4))
    found = score(model, bags, needs=["embedding"]).extras["embedding"]
    assert found.shape == (bags.index.n_instances, 12)
    with torch.no_grad():
        np.testing.assert_allclose(found, model.scorer.embed(bags.features), rtol=1e-5)
        weights = [p.detach() for name, p in model.module.named_parameters() if name.startswith("weights")]
        biases = [p.detach() for name, p in model.module.named_parameters() if name.startswith("biases")]
        last = torch.einsum("meh,eoh->emo", torch.from_numpy(found).reshape(-1, 3, 4).float(), weights[-1])
        logits = last.squeeze(-1) + biases[-1]
    np.testing.assert_allclose(logits, model.scorer.forward(bags.features).detach(), rtol=1e-3, atol=1e-5)


def test_any_source_of_bags_can_be_trained_on_and_scored() -> None:
    class FromElsewhere:
        """Bags that are not in memory, as far as training can tell."""

        def __init__(self, bags: Bags) -> None:
            self._bags = bags

        @property
        def index(self) -> BagIndex:
            return self._bags.index

        @property
        def width(self) -> int:
            return self._bags.width

        @property
        def in_memory(self) -> bool:
            return False

        def gather(self, bags: IntArray, out: torch.Tensor | None = None) -> BagBatch:
            return self._bags.gather(bags, out)

        def rows(self, positions: IntArray, out: torch.Tensor | None = None) -> torch.Tensor:
            return self._bags.rows(positions, out)

    bags, _ = easy()
    model = fit(recipe(), FromElsewhere(bags), None, torch.Generator().manual_seed(0))
    assert np.array_equal(score(model, FromElsewhere(bags)).f, score(trained(bags), bags).f)
