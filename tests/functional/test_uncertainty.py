"""Uncertainties: by hand, at their limits, against autograd and against enumeration."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from admil.functional import bag_posterior, disagreement, entropy, gini, miu, softmax_mean_score

PROBABILITY = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))


def doubles(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# --- entropy and Gini ---------------------------------------------------------------------------


def test_entropies_are_those_computed_by_hand() -> None:
    quarter = 0.25 * math.log(4) + 0.75 * math.log(4 / 3)
    expected = doubles([0.0, quarter, math.log(2), quarter, 0.0])
    torch.testing.assert_close(entropy(doubles([0, 0.25, 0.5, 0.75, 1])), expected, atol=1e-15, rtol=0)
    assert entropy(doubles([0.7])).item() == pytest.approx(0.6109, abs=5e-5)  # the authors' threshold


def test_a_certain_score_has_entropy_plus_zero() -> None:
    for dtype in (torch.float32, torch.float64):
        certain = entropy(torch.tensor([0.0, 1.0], dtype=dtype))
        assert certain.tolist() == [0.0, 0.0]
        assert certain.signbit().tolist() == [False, False]


@given(PROBABILITY)
def test_entropy_is_symmetric_and_at_most_a_coin_flip(value: float) -> None:
    one, other = entropy(doubles([value, 1 - value])).tolist()
    assert 0 <= one <= math.log(2) + 1e-15
    assert one == pytest.approx(other, abs=1e-14)


@pytest.mark.parametrize("value", [1e-5, 3e-8, 1e-9, 1e-20, 1e-37])
def test_float32_keeps_the_entropy_of_small_scores(value: float) -> None:
    single = torch.tensor([value], dtype=torch.float32)
    assert entropy(single).item() == pytest.approx(entropy(single.double()).item(), rel=1e-5)
    assert entropy(single).item() == pytest.approx(value * (1 - math.log(value)), rel=1e-4)


def test_gini_is_the_one_computed_by_hand() -> None:
    torch.testing.assert_close(gini(doubles([0, 0.1, 0.5, 0.75, 1])), doubles([0, 0.18, 0.5, 0.375, 0]))


@given(st.lists(st.floats(0.01, 0.99), min_size=2, max_size=20))
def test_gini_and_entropy_rank_alike(values: list[float]) -> None:
    scores = doubles(values)
    by_gini, by_entropy = gini(scores), entropy(scores)
    more = by_gini.unsqueeze(0) > by_gini.unsqueeze(1) + 1e-9
    assert bool((by_entropy.unsqueeze(0) > by_entropy.unsqueeze(1))[more].all())


def test_the_entropy_has_the_log_odds_as_its_derivative() -> None:
    scores = doubles([0.1, 0.4, 0.9]).requires_grad_()
    (gradient,) = torch.autograd.grad(entropy(scores).sum(), scores)
    torch.testing.assert_close(gradient, torch.log((1 - scores) / scores).detach())


# --- disagreement -------------------------------------------------------------------------------


def test_members_who_are_certain_of_opposites_disagree_most() -> None:
    members = doubles([0.0, 0.5, 0.25, 0.9]).repeat(2, 1)
    members[1] = doubles([1.0, 0.5, 0.75, 0.9])
    quarter = 0.25 * math.log(4) + 0.75 * math.log(4 / 3)
    expected = doubles([math.log(2), 0.0, math.log(2) - quarter, 0.0])
    torch.testing.assert_close(disagreement(members), expected, atol=1e-15, rtol=0)


@given(st.lists(PROBABILITY, min_size=1, max_size=8))
def test_disagreement_lies_between_zero_and_the_entropy_of_the_mean(values: list[float]) -> None:
    members = doubles(values).unsqueeze(1)
    gain = disagreement(members).item()
    assert 0 <= gain <= entropy(members.mean(0)).item() + 1e-15
    assert disagreement(members[:1]).item() == 0.0
    assert disagreement(members.expand(-1, 3)[:, 2:]).item() == gain


def test_disagreement_reduces_the_first_dimension_only() -> None:
    members = torch.rand(5, 2, 3, generator=torch.Generator().manual_seed(0))
    gain = disagreement(members)
    assert gain.shape == (2, 3)
    torch.testing.assert_close(gain[1, 2], disagreement(members[:, 1, 2].unsqueeze(1))[0])


# --- MIU ----------------------------------------------------------------------------------------


@given(st.lists(PROBABILITY, min_size=1, max_size=8), st.floats(0, 10))
def test_miu_is_the_derivative_of_the_combined_score_times_its_uncertainty(values: list[float], alpha: float) -> None:
    scores = doubles(values).requires_grad_()
    bag = softmax_mean_score(scores, alpha=alpha)
    (slope,) = torch.autograd.grad(bag, scores)
    mask = torch.ones(len(values), dtype=torch.bool)
    expected = slope * gini(bag.detach())
    torch.testing.assert_close(miu(scores.detach(), mask, alpha), expected, atol=1e-12, rtol=0)


def test_miu_of_two_instances_is_the_one_computed_by_hand() -> None:
    alpha = 2 * math.log(3)  # weights 1/4 and 3/4 on scores 0 and 1/2: O = 3/8
    slopes = doubles([0.25 * (1 - alpha * 3 / 8), 0.75 * (1 + alpha / 8)])
    value = miu(doubles([0.0, 0.5]), torch.tensor([True, True]), alpha)
    torch.testing.assert_close(value, slopes * 2 * (3 / 8) * (5 / 8))


def test_miu_of_a_score_far_below_its_bag_is_negative_and_comes_last() -> None:
    scores, mask = doubles([0.01, 0.52, 0.99, 0.95]), torch.ones(4, dtype=torch.bool)
    assert (1 + 2.5 * (0.01 - softmax_mean_score(scores).item())) < 0  # raising it would lower O
    expected = [-0.0096, 0.0034, 0.1229, 0.1029]
    torch.testing.assert_close(miu(scores, mask), doubles(expected), atol=3e-4, rtol=0)


@given(st.lists(PROBABILITY, min_size=1, max_size=6), st.lists(st.sampled_from([0.0, 1.0, math.nan, 1e9]), max_size=3))
def test_miu_ignores_what_is_masked(values: list[float], padding: list[float]) -> None:
    mask = torch.tensor([True] * len(values) + [False] * len(padding))
    value = miu(doubles(values + padding), mask)
    assert bool((value[~mask] == 0).all())
    torch.testing.assert_close(value[mask], miu(doubles(values), mask[: len(values)]), atol=1e-14, rtol=0)
    assert miu(doubles([0.5]), torch.tensor([False])).tolist() == [0.0]


# --- the posterior given a positive bag ---------------------------------------------------------


def by_enumeration(values: list[float]) -> list[float]:
    """Sum the probability of all 2^n outcomes but the one without a positive."""
    total, each = 0.0, np.zeros(len(values))
    for outcome in product((0, 1), repeat=len(values)):
        if any(outcome):
            chance = math.prod(f if z else 1 - f for f, z in zip(values, outcome, strict=True))
            total += chance
            each += chance * np.array(outcome)
    return [float(value) for value in each / total]


def posterior(values: list[float], confirmed: bool = False) -> Tensor:
    candidates = torch.ones(len(values), dtype=torch.bool)
    return bag_posterior(doubles(values), candidates, torch.tensor(confirmed))


@given(st.lists(st.one_of(st.floats(1e-6, 1), st.just(1.0)), min_size=1, max_size=7))
def test_the_posterior_equals_enumeration_of_all_outcomes(values: list[float]) -> None:
    assert posterior(values).tolist() == pytest.approx(by_enumeration(values), abs=1e-9)


def test_the_posterior_of_two_instances_is_the_one_computed_by_hand() -> None:
    assert posterior([0.5, 0.5]).tolist() == pytest.approx([2 / 3, 2 / 3])
    assert posterior([0.2, 0.0]).tolist() == pytest.approx([1.0, 0.0])
    assert posterior([1.0, 0.3]).tolist() == pytest.approx([1.0, 0.3])
    assert posterior([1.0, 1.0]).tolist() == [1.0, 1.0]


def test_a_single_candidate_of_a_positive_bag_is_certain() -> None:
    for value in (1.0, 0.3, 1e-12, 1e-300, 5e-324, 0.0):
        assert posterior([value]).tolist() == [1.0]


def test_a_confirmed_positive_leaves_the_scores_as_they_are() -> None:
    assert posterior([0.5, 0.01, 0.0, 1.0], confirmed=True).tolist() == [0.5, 0.01, 0.0, 1.0]


@pytest.mark.parametrize("value", [1e-3, 1e-9, 1e-30, 1e-300, 1e-320, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_tiny_scores_share_one_positive(value: float, dtype: torch.dtype) -> None:
    scores = torch.full((32,), value, dtype=dtype)
    after = bag_posterior(scores, torch.ones(32, dtype=torch.bool), torch.tensor(False))
    assert after.dtype == torch.float64
    assert after.tolist() == pytest.approx([1 / 32] * 32, rel=0.02)
    assert entropy(after).tolist() == pytest.approx([0.139] * 32, abs=2e-3)  # 0.14 nats each


def test_a_front_runner_among_tiny_scores_is_nearly_certain() -> None:
    after = posterior([1e-6] * 31 + [1e-3])
    assert after[-1].item() == pytest.approx(1e-3 / (1e-3 + 31e-6), rel=1e-3)


def test_known_negatives_are_out_and_the_rest_share_the_label() -> None:
    candidates = torch.tensor([[True, False, True], [False, False, False]])
    scores = torch.tensor([[0.5, 0.9, 0.5], [0.5, 0.9, 0.5]])
    after = bag_posterior(scores, candidates, torch.tensor([False, False]))
    assert after[0].tolist() == pytest.approx([2 / 3, 0, 2 / 3])
    assert after[1].tolist() == [0.0, 0.0, 0.0]
    ignored = bag_posterior(torch.tensor([[0.5, math.nan, 0.5]]), candidates[:1], torch.tensor([False]))
    assert ignored[0].tolist() == pytest.approx([2 / 3, 0, 2 / 3])


@given(st.lists(PROBABILITY, min_size=1, max_size=40))
def test_the_posterior_is_a_probability_at_least_the_score_and_adds_up_to_one_positive(values: list[float]) -> None:
    after = posterior(values)
    assert bool(((after >= doubles(values)) & (after <= 1)).all())
    assert after.sum().item() >= 1 - 1e-12


def test_the_posterior_takes_leading_dimensions() -> None:
    scores = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    confirmed = torch.tensor([[True, False, False], [False, True, False]])
    after = bag_posterior(scores, torch.ones_like(scores, dtype=torch.bool), confirmed)
    assert after.shape == (2, 3, 4)
    assert after[0, 0].tolist() == scores[0, 0].tolist()
    assert after[0, 1].tolist() == pytest.approx(by_enumeration(scores[0, 1].tolist()))
