"""Pooled losses: by hand on small bags, one contract for all of them, and their cross-entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from sklearn.metrics import log_loss
from torch import Tensor

from admil.functional import attention_weights, softmax_mean_log_odds, softmax_mean_score
from admil.losses import AttentionPooled, BagLoss, PooledLoss, SoftmaxPooled, bag_cross_entropy

LOSSES: list[PooledLoss] = [*(kind() for kind in get_args(PooledLoss)), SoftmaxPooled(alpha=0)]
"""Every pooled loss with its default fields (a new one is found here by itself), and another."""

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)

values = st.floats(-8, 8)
bags = st.lists(st.lists(st.tuples(values, values), min_size=1, max_size=5), min_size=1, max_size=4)


def log_odds(loss: PooledLoss, some: Sequence[Sequence[tuple[float, float]]], width: int = 0) -> Tensor:
    """Return the logits of bags of (logit, energy) instances, padded with what must not count."""
    width = max(width, *map(len, some))
    rows = [[*bag, *[(77.0, 88.0)] * (width - len(bag))] for bag in some]
    outputs = torch.tensor(rows, dtype=torch.float64).permute(2, 0, 1)
    mask = torch.tensor([[place < len(bag) for place in range(width)] for bag in some])
    return loss.bag_log_odds(outputs, mask)


def test_softmax_pooling_by_hand() -> None:
    f = [0.2, 0.8]
    weight = [math.exp(2.5 * each) for each in f]
    pooled = sum(w * each for w, each in zip(weight, f, strict=True)) / sum(weight)
    bag = [(math.log(each / (1 - each)), 0.0) for each in f]
    assert log_odds(SoftmaxPooled(), [bag]).item() == pytest.approx(math.log(pooled / (1 - pooled)))


def test_attention_pooling_by_hand() -> None:
    """Energies log 3 and 0 share attention 3 to 1."""
    bag = [(2.0, math.log(3.0)), (-6.0, 0.0)]
    assert log_odds(AttentionPooled(), [bag]).item() == pytest.approx(0.75 * 2 - 0.25 * 6)


@every_loss
@given(logit=values, energy=values)
@settings(max_examples=20)
def test_a_bag_of_one_has_the_logit_of_its_instance(loss: PooledLoss, logit: float, energy: float) -> None:
    assert log_odds(loss, [[(logit, energy)]]).item() == pytest.approx(logit, abs=1e-9)


@every_loss
@given(some=bags)
@settings(max_examples=30)
def test_order_padding_and_neighbours_change_nothing(loss: PooledLoss, some: list[list[tuple[float, float]]]) -> None:
    together = log_odds(loss, some)
    torch.testing.assert_close(log_odds(loss, some, width=9), together)
    torch.testing.assert_close(log_odds(loss, [bag[::-1] for bag in some]), together)
    torch.testing.assert_close(torch.cat([log_odds(loss, [bag]) for bag in some]), together)


@every_loss
@given(some=bags)
@settings(max_examples=30)
def test_a_bag_lies_between_its_lowest_and_highest_instance(
    loss: PooledLoss, some: list[list[tuple[float, float]]]
) -> None:
    for bag, value in zip(some, log_odds(loss, some).tolist(), strict=True):
        logits = [logit for logit, _ in bag]
        assert min(logits) - 1e-9 <= value <= max(logits) + 1e-9


@given(st.lists(values, min_size=1, max_size=6), st.floats(0, 5))
@settings(max_examples=50)
def test_the_log_odds_are_those_of_the_softmax_mean(logits: list[float], alpha: float) -> None:
    given_logits = torch.tensor([logits], dtype=torch.float64)
    pooled = softmax_mean_score(torch.sigmoid(given_logits), alpha=alpha)
    torch.testing.assert_close(softmax_mean_log_odds(given_logits, alpha=alpha), torch.logit(pooled))


def test_log_odds_stay_finite_where_the_probability_rounds_to_one() -> None:
    logits = torch.tensor([[200.0, 199.0]])
    assert torch.logit(softmax_mean_score(torch.sigmoid(logits))).isinf()
    assert 199 <= softmax_mean_log_odds(logits).item() <= 200


def test_attention_weights_are_a_softmax_of_those_that_are_there() -> None:
    weights = attention_weights(torch.tensor([[0.0, math.log(3.0), 50.0]]), torch.tensor([[True, True, False]]))
    assert weights.tolist() == [[pytest.approx(0.25), pytest.approx(0.75), 0.0]]
    assert attention_weights(torch.rand(1, 2), torch.zeros(1, 2, dtype=torch.bool)).tolist() == [[0.0, 0.0]]


@every_loss
def test_an_empty_bag_says_nothing_and_has_no_gradient(loss: PooledLoss) -> None:
    outputs = torch.tensor([[[7.0, 5.0], [1.0, 2.0]], [[3.0, 1.0], [0.0, 1.0]]], requires_grad=True)
    bag = loss.bag_log_odds(outputs, torch.tensor([[False, False], [True, False]]))
    assert bag[0].item() == 0
    bag.sum().backward()  # type: ignore[no-untyped-call]
    assert outputs.grad is not None
    assert outputs.grad[:, 0].abs().sum() == 0
    assert outputs.grad[0, 1].tolist() == pytest.approx([1.0, 0.0])


@every_loss
def test_members_are_pooled_side_by_side(loss: PooledLoss) -> None:
    outputs = torch.randn(2, 3, 2, 4, dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False], [True] * 4])
    together = loss.bag_log_odds(outputs, mask)
    assert together.shape == (3, 2)
    torch.testing.assert_close(together, torch.stack([loss.bag_log_odds(outputs[:, e], mask) for e in range(3)]))


@every_loss
def test_the_gradient_is_that_of_the_value(loss: PooledLoss) -> None:
    outputs = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, False], [True] * 3])
    assert torch.autograd.gradcheck(lambda given: loss.bag_log_odds(given, mask), (outputs,))


def test_the_cross_entropy_is_that_of_scikit_learn() -> None:
    positive, negative = torch.tensor([[2.0, -1.0]]), torch.tensor([[0.5, -3.0, 1.0]])
    weights = [1.0, 0.5, 1.0, 0.0, 0.3]
    found = bag_cross_entropy(positive, negative, torch.tensor([weights[:2]]), torch.tensor([weights[2:]]))
    probabilities = torch.sigmoid(torch.cat([positive, negative], 1))[0].double().numpy()
    expected = log_loss([1, 1, 0, 0, 0], probabilities, sample_weight=weights)
    assert found.item() == pytest.approx(expected, abs=1e-6)


def test_no_bag_at_all_costs_nothing() -> None:
    none = torch.zeros(2, 0)
    assert bag_cross_entropy(none, none, none, none).tolist() == [0.0, 0.0]


def test_extreme_logits_cost_what_they_are_off() -> None:
    found = bag_cross_entropy(torch.tensor([[-500.0]]), torch.tensor([[500.0]]), torch.ones(1, 1), torch.ones(1, 1))
    assert found.item() == pytest.approx(500)


@every_loss
def test_a_loss_survives_json(loss: PooledLoss) -> None:
    adapter: TypeAdapter[BagLoss] = TypeAdapter(BagLoss)
    assert adapter.validate_json(adapter.dump_json(loss)) == loss
