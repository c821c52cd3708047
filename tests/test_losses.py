"""Hinge losses: by hand on small bags, one contract for all of them, and how they meet at their limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from sklearn.metrics import log_loss
from torch import Tensor

from admil.functional import Robustness, pairwise_hinge, theorem1_holds
from admil.losses import (
    BagLoss,
    Drbl,
    HingeLoss,
    MaxScore,
    MeanScore,
    TopK,
    Variance,
    answer_cross_entropy,
)


def bag_hinge(loss: HingeLoss, positive: tuple[Tensor, Tensor], worst: Tensor, above: Tensor, below: Tensor) -> Tensor:
    """Return the mean hinge of positive bags (scores and mask) over negative bags (their maxima)."""
    scores, mask = positive
    return pairwise_hinge(loss.positive_score(scores, mask.expand_as(scores)), worst, above, below)


BAG_LOSS: TypeAdapter[BagLoss] = TypeAdapter(BagLoss)

LOSSES: list[HingeLoss] = [
    *(kind() for kind in get_args(HingeLoss)),
    Drbl(robustness=Robustness.effective(1)),
    Drbl(robustness=Robustness.chi_square(3)),
    Drbl(robustness=Robustness.effective(1.5, "kl")),
    Drbl(robustness=Robustness.temperature(0.1)),
    Drbl(robustness=Robustness.temperature(0.1, through=False)),
    TopK(k=1),
    Variance(c=0),
]
"""Every hinge loss with its default fields (a new one is found here by itself), and some others."""

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)

grid = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.9, 1.0])
bags = st.lists(st.lists(grid, min_size=1, max_size=5), min_size=1, max_size=4)


def _fields(family: str, measure: str, strength: float) -> dict[str, object]:
    return {"family": family, "measure": measure, "strength": strength}


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (MaxScore(), 0.8),
        (MeanScore(), 0.5),
        (TopK(), 0.5),
        (TopK(k=1), 0.8),
        (Variance(), 0.5 + 5 * math.sqrt(0.09 / 2)),
        (Variance(c=0.1), 0.5 + 0.1 * math.sqrt(0.09 / 2)),
        (Drbl(), 0.5),  # two of two instances share the weight
        (Drbl(robustness=Robustness.effective(1)), 0.8),
        (Drbl(robustness=Robustness.effective(1.6)), 0.75 * 0.8 + 0.25 * 0.2),  # 1 / (9/16 + 1/16) = 1.6
        (Drbl(robustness=Robustness.chi_square(0.5)), 0.75 * 0.8 + 0.25 * 0.2),
        (Drbl(robustness=Robustness.kl(2 * (0.75 * math.log(1.5) + 0.25 * math.log(0.5)))), 0.65),
        (Drbl(robustness=Robustness.temperature(0.6 / math.log(3))), 0.65),
        (
            Drbl(robustness=Robustness.temperature(0.6 / math.log(3), through=False)),
            0.2 + 0.6 / math.log(3) * math.log((1 + 3) / 2),
        ),
    ],
    ids=repr,
)
def test_the_score_of_two_instances_by_hand(loss: HingeLoss, expected: float) -> None:
    score = _scores(loss, [[0.8, 0.2]])
    assert score.tolist() == pytest.approx([expected], abs=1e-12)


@every_loss
def test_a_single_instance_is_its_bag(loss: HingeLoss) -> None:
    assert _scores(loss, [[0.3], [0.9]]).tolist() == pytest.approx([0.3, 0.9])


@every_loss
@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
def test_a_bag_of_equal_scores_scores_the_same(loss: HingeLoss, level: float) -> None:
    assert _scores(loss, [[level] * 4, [level] * 2]).tolist() == pytest.approx([level, level])


@every_loss
@settings(max_examples=25)
@given(some=bags, order=st.randoms(use_true_random=False))
def test_order_and_padding_change_nothing(loss: HingeLoss, some: list[list[float]], order: Any) -> None:
    expected = _scores(loss, some)
    shuffled = [order.sample(bag, len(bag)) for bag in some]
    torch.testing.assert_close(_scores(loss, shuffled), expected)
    torch.testing.assert_close(_scores(loss, some, width=11, filler=0.99), expected)
    alone = torch.cat([_scores(loss, [bag]) for bag in some])
    torch.testing.assert_close(alone, expected)
    reversed_bags = _scores(loss, some[::-1])
    torch.testing.assert_close(reversed_bags.flip(0), expected)


@every_loss
@settings(max_examples=25)
@given(some=bags)
def test_a_score_lies_between_the_mean_and_the_maximum(loss: HingeLoss, some: list[list[float]]) -> None:
    score = _scores(loss, some).tolist()
    mean, most = _scores(MeanScore(), some).tolist(), _scores(MaxScore(), some).tolist()
    assert all(low <= value + 1e-12 for low, value in zip(mean, score, strict=True))
    if not isinstance(loss, Variance):  # its bonus knows no bound
        assert all(value <= high + 1e-12 for value, high in zip(score, most, strict=True))


@every_loss
def test_members_are_scored_side_by_side(loss: HingeLoss) -> None:
    members = torch.rand(3, 2, 4, dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False], [True] * 4])
    together = loss.positive_score(members, mask.expand_as(members))
    assert together.shape == (3, 2)
    torch.testing.assert_close(together, torch.stack([loss.positive_score(each, mask) for each in members]))


@every_loss
def test_padding_gets_no_gradient_whatever_stands_there(loss: HingeLoss) -> None:
    scores = torch.tensor([[0.7, 0.2, 5.0], [0.1, -9.0, 0.4]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    (gradient,) = torch.autograd.grad(loss.positive_score(scores, mask).sum(), scores)
    assert gradient[~mask].tolist() == [0.0] * 4
    assert gradient[mask].sum().item() == pytest.approx(1, abs=1e-5)  # all scores up by d: the bag's up by d


@every_loss
def test_a_bag_without_instances_scores_nothing(loss: HingeLoss) -> None:
    score = loss.positive_score(torch.rand(1, 3), torch.zeros(1, 3, dtype=torch.bool))
    assert score.tolist() == [0.0]


@every_loss
def test_the_gradient_is_that_of_the_value(loss: HingeLoss) -> None:
    # bags on which the maximiser is unique, so that the robust score has a gradient
    scores = torch.tensor([[0.9, 0.35, 0.1, 0.3], [0.6, 0.5, 0.45, 0.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True] * 4, [True, True, True, False]])
    negative = torch.tensor([0.2, 0.45], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([1.0, 0.5], dtype=torch.float64)

    def hinge(f: Tensor, worst: Tensor) -> Tensor:
        return bag_hinge(loss, (f, mask), worst, weight, weight)

    assert torch.autograd.gradcheck(hinge, (scores, negative), eps=1e-7, atol=1e-5)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bag", [[0.0] * 3, [1.0] * 3, [0.1] * 3, [1.0, 0.0, 0.0], [1e-38, 0.0, 0.0], [1.0, 1.0, 0.0]])
def test_values_and_gradients_are_finite_at_extremes(loss: HingeLoss, bag: list[float], dtype: torch.dtype) -> None:
    scores = torch.tensor([[bag]], dtype=dtype, requires_grad=True)
    one = torch.ones(1, 1, dtype=dtype)
    mask = torch.ones(1, 3, dtype=torch.bool)
    for worst in (0.0, 1.0):
        value = bag_hinge(loss, (scores, mask), torch.full((1, 1), worst, dtype=dtype), one, one)
        (gradient,) = torch.autograd.grad(value.sum(), scores)
        expected = max(0.0, 1 - loss.positive_score(scores, mask.expand_as(scores)).item() + worst)
        assert value.item() == pytest.approx(expected, abs=1e-6)
        assert torch.isfinite(gradient).all()


@every_loss
@settings(max_examples=25)
@given(
    some=bags,
    worst=st.lists(grid, min_size=1, max_size=4),
    weights=st.lists(st.sampled_from([0.0, 1.0, 1.0, 0.25]), min_size=8, max_size=8),
)
def test_the_hinge_is_a_weighted_mean_over_every_pair(
    loss: HingeLoss, some: list[list[float]], worst: list[float], weights: list[float]
) -> None:
    above, below = weights[: len(some)], weights[4 : 4 + len(worst)]
    value = _hinge(loss, some, worst, above, below)
    total, mass = 0.0, 0.0
    for positive, a in zip(_scores(loss, some).tolist(), above, strict=True):
        for negative, b in zip(worst, below, strict=True):
            total += a * b * max(0.0, 1 - positive + negative)
            mass += a * b
    assert value == pytest.approx(total / mass if mass else 0.0, abs=1e-12)
    kept = [bag for bag, a in zip(some, above, strict=True) if a > 0]
    kept_worst = [f for f, b in zip(worst, below, strict=True) if b > 0]
    if kept and kept_worst:
        left = [a for a in above if a > 0], [b for b in below if b > 0]
        assert value == pytest.approx(_hinge(loss, kept, kept_worst, *left), abs=1e-12)


@every_loss
def test_a_bag_of_weight_nothing_gets_no_gradient_and_no_value(loss: HingeLoss) -> None:
    f = torch.tensor([[[0.6, 0.2], [0.9, 0.8]]], requires_grad=True)
    worst = torch.tensor([[0.5, 0.7]], requires_grad=True)
    mask = torch.ones(2, 2, dtype=torch.bool)
    first = torch.tensor([[1.0, 0.0]])
    value = bag_hinge(loss, (f, mask), worst, first, first)
    assert value.tolist() == bag_hinge(loss, (f[:, :1], mask[:1]), worst[:, :1], first[:, :1], first[:, :1]).tolist()
    gradients = torch.autograd.grad(value.sum(), (f, worst))
    assert gradients[0][0, 1].tolist() == [0.0, 0.0]
    assert gradients[1].tolist() == [[1.0, 0.0]]


@every_loss
def test_no_pair_at_all_costs_nothing(loss: HingeLoss) -> None:
    f = torch.tensor([[[0.6, 0.2]]], requires_grad=True)
    mask, one = torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 1)
    for above, below in ((one * 0, one), (one, one * 0), (one * 0, one * 0)):
        value = bag_hinge(loss, (f, mask), one / 2, above, below)
        (gradient,) = torch.autograd.grad(value.sum(), f)
        assert value.tolist() == [0.0]
        assert gradient.tolist() == [[[0.0, 0.0]]]
    nobody = torch.zeros(1, 0)
    assert bag_hinge(loss, (f, mask), nobody, one, nobody).tolist() == [0.0]


def test_the_hinge_of_two_bags_by_hand() -> None:
    assert _hinge(MaxScore(), [[0.9, 0.1], [0.4, 0.3]], [0.2, 0.6]) == pytest.approx((0.3 + 0.7 + 0.8 + 1.2) / 4)
    assert _hinge(MeanScore(), [[0.9, 0.1]], [0.0], [0.5], [0.5]) == pytest.approx(0.5)


def test_one_effective_instance_is_the_maximum_and_many_are_the_mean() -> None:
    some = [[0.1, 0.4, 0.9], [0.5], [0.2, 0.2], [0.0, 1.0, 1.0, 0.3]]
    for family in ("chi_square", "kl"):
        one, many = (Drbl(robustness=Robustness.effective(k, family)) for k in (1, 1e6))
        torch.testing.assert_close(_scores(one, some), _scores(MaxScore(), some))
        torch.testing.assert_close(_scores(many, some), _scores(MeanScore(), some))
    torch.testing.assert_close(_scores(TopK(k=1), some), _scores(MaxScore(), some))
    torch.testing.assert_close(_scores(TopK(k=99), some), _scores(MeanScore(), some))
    torch.testing.assert_close(_scores(Variance(c=0), some), _scores(MeanScore(), some))
    torch.testing.assert_close(_scores(Drbl(robustness=Robustness.temperature(1e-4)), some), _scores(MaxScore(), some))


@settings(max_examples=60)
@given(some=bags, lam=st.sampled_from([1e-3, 0.1, 1.0, 5.0]))
def test_the_variance_form_is_the_robust_score_where_theorem_1_holds(some: list[list[float]], lam: float) -> None:
    robust = _scores(Drbl(robustness=Robustness.chi_square(lam)), some)
    closed = _scores(Variance(c=math.sqrt(lam)), some)
    holds = torch.cat([theorem1_holds(torch.tensor([bag], dtype=torch.float64), lam=lam) for bag in some])
    torch.testing.assert_close(closed[holds], robust[holds], rtol=0, atol=1e-9)
    assert (closed >= robust - 1e-9).all()


@pytest.mark.parametrize("seed", range(3))
def test_cross_entropy_is_that_of_scikit_learn(seed: int) -> None:
    chance = np.random.default_rng(seed)
    logits, truth, weight = chance.normal(0, 3, (4, 9)), chance.integers(0, 2, 9), chance.integers(0, 3, (4, 9))
    weight[:, 0] = 1
    value = answer_cross_entropy(torch.tensor(logits), torch.tensor(truth), torch.tensor(weight).double())
    f = 1 / (1 + np.exp(-logits))
    expected = [log_loss(truth, f[e], sample_weight=weight[e], labels=[0, 1]) for e in range(4)]
    assert value.tolist() == pytest.approx(expected)


def test_cross_entropy_of_two_answers_by_hand() -> None:
    logits = torch.tensor([[math.log(3.0), math.log(3.0)]])  # f = 3/4
    truth = torch.tensor([True, False])
    value = answer_cross_entropy(logits, truth, torch.ones(1, 2))
    assert value.tolist() == pytest.approx([(math.log(4 / 3) + math.log(4)) / 2])
    value = answer_cross_entropy(logits, truth, torch.tensor([[1.0, 3.0]]))
    assert value.tolist() == pytest.approx([(math.log(4 / 3) + 3 * math.log(4)) / 4])


def test_cross_entropy_without_answers_is_nothing() -> None:
    logits = torch.randn(2, 3, requires_grad=True)
    value = answer_cross_entropy(logits, torch.tensor([1, 0, 1]), torch.zeros(2, 3))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert value.tolist() == [0.0, 0.0]
    assert gradient.abs().sum().item() == 0
    assert answer_cross_entropy(torch.zeros(2, 0), torch.zeros(0), torch.zeros(2, 0)).tolist() == [0.0, 0.0]


def test_cross_entropy_leaves_out_the_answers_of_weight_nothing_member_by_member() -> None:
    logits, truth = torch.randn(2, 4, dtype=torch.float64), torch.tensor([1, 0, 1, 0])
    weight = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1]]).double()
    value = answer_cross_entropy(logits, truth, weight)
    expected = [
        answer_cross_entropy(logits[:1, :2], truth[:2], torch.ones(1, 2)).item(),
        answer_cross_entropy(logits[1:, 1:], truth[1:], torch.ones(1, 3)).item(),
    ]
    assert value.tolist() == pytest.approx(expected)


def test_cross_entropy_stays_finite_where_a_sigmoid_would_saturate() -> None:
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    value = answer_cross_entropy(logits, torch.tensor([0, 1]), torch.ones(1, 2))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert value.tolist() == [200.0]
    assert gradient.tolist() == [[0.5, -0.5]]


def test_cross_entropy_has_the_gradient_of_its_value() -> None:
    logits = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    truth, weight = torch.tensor([1, 0, 1]), torch.tensor([[1.0, 0.5, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: answer_cross_entropy(z, truth, weight), (logits,))


@every_loss
def test_a_loss_survives_json(loss: HingeLoss) -> None:
    text = BAG_LOSS.dump_json(loss)
    assert BAG_LOSS.validate_json(text) == loss
    assert f'"kind":"{loss.kind}"'.encode() in text


def test_every_kind_is_another_word() -> None:
    kinds = [kind().kind for kind in get_args(get_args(BagLoss)[0])]
    assert len(set(kinds)) == len(kinds) == 7


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "drlb"}, "'drbl', 'max', 'top_k'"),
        ({}, "Unable to extract tag"),
        ({"kind": "max", "k": 3}, "has no field"),
        ({"kind": "top_k", "k": 0}, "greater than or equal to 1"),
        ({"kind": "top_k", "k": 2.5}, "valid integer"),
        ({"kind": "variance", "c": -1}, "greater than or equal to 0"),
        ({"kind": "variance", "c": math.inf}, "finite number"),
        ({"kind": "variance", "c": math.nan}, "Variance: c should be a finite number"),
        (
            {"kind": "drbl", "robustness": _fields("chi_square", "effective", 0.5)},
            "a number of instances >= 1, got 0.5",
        ),
        ({"kind": "drbl", "robustness": _fields("kl", "radius", -1)}, "a radius lambda >= 0, got -1"),
        ({"kind": "drbl", "robustness": _fields("softmax", "temperature", 0)}, "a temperature > 0, got 0"),
        ({"kind": "drbl", "robustness": _fields("softmax", "radius", 1)}, "'softmax' has no measure 'radius'"),
        ({"kind": "drbl", "robustness": 2}, "dictionary or an instance of Robustness"),
    ],
)
def test_fields_that_make_no_loss_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        BAG_LOSS.validate_python(fields)


def test_the_fields_of_a_loss_stay_as_they_are() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TopK().k = 5  # type: ignore[misc]
    assert len({TopK(), TopK(k=3), TopK(k=4), Drbl(), Drbl()}) == 3


def _padded(some: Sequence[Sequence[float]], width: int = 0, filler: float = 0.0) -> tuple[Tensor, Tensor]:
    width = max(width, *map(len, some), 1)
    scores = torch.tensor([[*bag, *[filler] * (width - len(bag))] for bag in some], dtype=torch.float64)
    mask = torch.tensor([[at < len(bag) for at in range(width)] for bag in some])
    return scores, mask


def _scores(loss: HingeLoss, some: Sequence[Sequence[float]], width: int = 0, filler: float = 0.0) -> Tensor:
    return loss.positive_score(*_padded(some, width, filler))


def _hinge(
    loss: HingeLoss,
    some: Sequence[Sequence[float]],
    worst: Sequence[float],
    above: Sequence[float] | None = None,
    below: Sequence[float] | None = None,
) -> float:
    """Return the hinge of a single member."""
    scores, mask = _padded(some)
    weights = [torch.tensor([w], dtype=torch.float64) for w in (above or [1] * len(some), below or [1] * len(worst))]
    value = bag_hinge(loss, (scores.unsqueeze(0), mask), torch.tensor([worst], dtype=torch.float64), *weights)
    assert value.shape == (1,)
    return value.item()
