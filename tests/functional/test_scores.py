"""The other bag scores, and Theorem 1 that ties the variance form to the robust score."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from admil.errors import InvalidInput
from admil.functional import (
    Robustness,
    maximum_score,
    mean_score,
    robust_score,
    softmax_mean_score,
    theorem1_holds,
    top_k_score,
    variance_score,
)

Score = Callable[[Tensor, Tensor | None], Tensor]
EACH: dict[str, Score] = {
    "maximum": maximum_score,
    "mean": mean_score,
    "top 2": lambda scores, mask: top_k_score(scores, mask, k=2),
    "top 9": lambda scores, mask: top_k_score(scores, mask, k=9),
    "variance": lambda scores, mask: variance_score(scores, mask, c=1.5),
    "softmax mean": lambda scores, mask: softmax_mean_score(scores, mask, alpha=2.5),
}
EVERY = pytest.mark.parametrize("score", EACH.values(), ids=EACH.keys())
ONE_SCORE = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
ONE_BAG = st.lists(ONE_SCORE, min_size=1, max_size=12)


def bag(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# --- by hand ------------------------------------------------------------------------------------


def test_scores_of_a_small_bag_are_those_computed_by_hand() -> None:
    scores = bag([0.2, 0.8, 0.6, 0.0])
    assert maximum_score(scores).item() == 0.8
    assert mean_score(scores).item() == pytest.approx(0.4)
    assert top_k_score(scores, k=1).item() == 0.8
    assert top_k_score(scores, k=2).item() == pytest.approx(0.7)
    assert top_k_score(scores).item() == pytest.approx(1.6 / 3)
    assert top_k_score(scores, k=100).item() == pytest.approx(0.4)
    assert variance_score(scores, c=3.0).item() == pytest.approx(0.4 + 3 * math.sqrt(0.1 / 4))


def test_the_softmax_mean_of_two_instances_weighs_them_as_computed_by_hand() -> None:
    # exp(alpha o) is 1 and 3
    value = softmax_mean_score(bag([0.0, 0.5]), alpha=2 * math.log(3))
    assert value.item() == pytest.approx(0.75 * 0.5)
    assert softmax_mean_score(bag([0.3, 0.9]), alpha=0.0).item() == pytest.approx(0.6)
    assert softmax_mean_score(bag([0.3, 0.9]), alpha=1e4).item() == pytest.approx(0.9)


def test_masked_instances_do_not_count() -> None:
    scores = bag([0.9, 0.2, 0.4])
    mask = torch.tensor([False, True, True])
    assert maximum_score(scores, mask).item() == 0.4
    assert mean_score(scores, mask).item() == pytest.approx(0.3)
    assert top_k_score(scores, mask, k=3).item() == pytest.approx(0.3)
    assert top_k_score(scores, mask, k=1).item() == 0.4
    assert variance_score(scores, mask, c=2.0).item() == pytest.approx(0.3 + 2 * math.sqrt(0.01 / 2))
    assert softmax_mean_score(scores, mask).item() == pytest.approx(softmax_mean_score(scores[1:]).item())


# --- laws ---------------------------------------------------------------------------------------


@EVERY
def test_padding_changes_nothing_and_gets_no_gradient(score: Score) -> None:
    @given(ONE_BAG, st.lists(st.sampled_from([0.0, 1.0, -5.0, 1e9, math.nan, math.inf]), max_size=4))
    def law(values: list[float], padding: list[float]) -> None:
        mask = torch.tensor([True] * len(values) + [False] * len(padding))
        scores = bag(values + padding).requires_grad_()
        value = score(scores, mask)
        torch.testing.assert_close(value, score(bag(values), None), atol=1e-12, rtol=0)
        (gradient,) = torch.autograd.grad(value, scores)
        assert bool((gradient[~mask] == 0).all())
        assert bool(gradient.isfinite().all())

    law()


@EVERY
def test_permuting_the_instances_changes_nothing(score: Score) -> None:
    @given(ONE_BAG.flatmap(lambda values: st.tuples(st.just(values), st.permutations(values))))
    def law(pair: tuple[list[float], list[float]]) -> None:
        torch.testing.assert_close(score(bag(pair[0]), None), score(bag(pair[1]), None), atol=1e-12, rtol=0)

    law()


@EVERY
def test_a_bag_of_equal_scores_has_that_score(score: Score) -> None:
    @given(st.floats(0, 1), st.integers(1, 40))
    def law(value: float, size: int) -> None:
        assert score(bag([value] * size), None).item() == pytest.approx(value, abs=1e-14)

    law()


@EVERY
def test_a_row_without_instances_scores_zero_and_harms_no_gradient(score: Score) -> None:
    scores = torch.tensor([[0.9, 0.3], [0.9, 0.3]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[False, False], [True, True]])
    value = score(scores, mask)
    assert value[0].item() == 0.0
    assert value[1].item() == pytest.approx(score(bag([0.9, 0.3]), None).item())
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    assert gradient[0].tolist() == [0.0, 0.0]
    assert bool(gradient.isfinite().all())


@EVERY
def test_one_mask_serves_all_members(score: Score) -> None:
    scores = torch.rand(3, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False], [True, False, False, False]])
    value = score(scores, mask)
    assert value.shape == (3, 2)
    for member in range(3):
        torch.testing.assert_close(value[member], score(scores[member], mask))


@EVERY
def test_the_gradient_is_the_derivative(score: Score) -> None:
    scores = torch.tensor([[0.91, 0.52, 0.37, 0.08], [0.2, 0.45, 0.11, 0.83]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, True, True], [True, True, False, True]])
    assert torch.autograd.gradcheck(lambda values: score(values, mask), (scores,), eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("values", [[0.1] * 10, [0.3] * 7, [0.0] * 3, [0.7]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_root_of_no_variance_adds_nothing_and_has_no_gradient(values: list[float], dtype: torch.dtype) -> None:
    scores = torch.tensor(values, dtype=dtype, requires_grad=True)
    value = variance_score(scores, c=5.0)
    assert value.item() == pytest.approx(values[0], abs=1e-6)
    (gradient,) = torch.autograd.grad(value, scores)
    torch.testing.assert_close(gradient, torch.full_like(scores, 1 / len(values)), atol=1e-5, rtol=0)


@given(ONE_BAG)
def test_they_agree_with_the_robust_score_at_its_ends(values: list[float]) -> None:
    scores = bag(values)
    largest = robust_score(scores, robustness=Robustness.effective(1))
    torch.testing.assert_close(largest, maximum_score(scores), atol=1e-14, rtol=0)
    even = robust_score(scores, robustness=Robustness.effective(len(values)))
    torch.testing.assert_close(even, mean_score(scores), atol=1e-14, rtol=0)


@given(ONE_BAG, st.integers(1, 6))
def test_the_mean_of_the_top_k_is_never_above_the_score_of_k_effective_instances(values: list[float], k: int) -> None:
    scores = bag(values)  # uniform weights on the top k lie on the ball
    assert top_k_score(scores, k=k).item() <= robust_score(scores, robustness=Robustness.effective(k)).item() + 1e-12


# --- Theorem 1 ----------------------------------------------------------------------------------


def both_forms(scores: Tensor, lam: float, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    closed = variance_score(scores, mask, c=math.sqrt(lam))
    return closed, robust_score(scores, mask, Robustness.chi_square(lam))


@given(ONE_BAG, st.floats(-8, 4).map(lambda power: 10.0**power))
def test_the_closed_form_equals_the_robust_score_where_theorem_1_holds_and_exceeds_it_elsewhere(
    values: list[float], lam: float
) -> None:
    scores = bag(values)
    closed, true = (form.item() for form in both_forms(scores, lam))
    assert closed >= true - 1e-12
    if bool(theorem1_holds(scores, lam=lam)):
        assert closed == pytest.approx(true, abs=1e-12)


def test_the_closed_form_equals_the_robust_score_nowhere_else() -> None:
    rng = np.random.default_rng(0)
    held = failed = 0
    for lam in 10 ** rng.uniform(-3, 3, 100):
        scores = torch.from_numpy(rng.random((20, rng.integers(2, 40))))
        closed, true = both_forms(scores, float(lam))
        holds = theorem1_holds(scores, lam=float(lam))
        assert bool(((closed - true).abs()[holds] <= 1e-12).all())
        # how far outside the condition a bag is: its most negative closed-form weight
        offset = scores - scores.mean(-1, keepdim=True)
        lowest = (1 + math.sqrt(lam) * offset.amin(-1) / offset.square().sum(-1).sqrt())[~holds]
        assert bool(((closed - true)[~holds][lowest < -0.01] > 1e-9).all())
        held, failed = held + int(holds.sum()), failed + int((~holds).sum())
    assert held > 200
    assert failed > 200


def test_theorem_1_of_two_instances_fails_beyond_lambda_2() -> None:
    scores = bag([0.1, 0.7])  # closed-form weights 1/2 +- sqrt(lambda / 8)
    assert theorem1_holds(scores, lam=1.999).item() is True
    assert theorem1_holds(scores, lam=2.001).item() is False
    closed, true = both_forms(scores, 8.0)
    assert true.item() == pytest.approx(0.7)
    assert closed.item() == pytest.approx(0.4 + math.sqrt(8 * 0.09 / 2))


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.01, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_theorem_1_holds_on_bags_of_equal_scores(value: float, lam: float, dtype: torch.dtype) -> None:
    scores = torch.full((2, 13), value, dtype=dtype)
    mask = torch.arange(13) < torch.tensor([[13], [1]])
    assert theorem1_holds(scores, mask, lam=lam).tolist() == [True, True]
    closed, true = both_forms(scores.double(), lam, mask)
    torch.testing.assert_close(closed, true, atol=1e-12, rtol=0)


def test_theorem_1_is_decided_without_the_masked_instances() -> None:
    mask = torch.tensor([[True, True, False], [False, False, False]])
    scores = torch.tensor([[0.1, 0.2, -9.0], [0.3, 0.4, 0.5]], dtype=torch.float64)
    assert theorem1_holds(scores, mask, lam=1.9).tolist() == [True, True]
    assert theorem1_holds(scores, mask, lam=2.1).tolist() == [False, True]
    assert theorem1_holds(scores, lam=1.9).tolist() == [False, True]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.floats(-6, 6).map(lambda power: 10.0**power))
def test_float32_decides_theorem_1_as_float64_does(values: list[float], lam: float) -> None:
    single = torch.tensor(values, dtype=torch.float32)
    assert theorem1_holds(single, lam=lam).item() == theorem1_holds(single.double(), lam=lam).item()


def test_strengths_that_cannot_be_are_refused() -> None:
    scores = torch.tensor([0.1, 0.9])
    for k in (0, -1):
        with pytest.raises(InvalidInput, match=f"k is the number of largest scores, from 1 up, got {k}"):
            top_k_score(scores, k=k)
    for lam in (-1.0, math.nan):
        with pytest.raises(InvalidInput, match=f"lambda is a radius, from 0 up, got {lam}"):
            theorem1_holds(scores, lam=lam)


def test_whole_numbers_are_scores_too() -> None:
    assert robust_score(torch.tensor([[1, 2]]), robustness=Robustness.effective(2)).tolist() == [1.5]
