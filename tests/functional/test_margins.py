"""Hinges over pairs of bags: against loops, by hand, and weighted."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from admil.functional import pair_margins, pairwise_hinge

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def doubles(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_every_pair_has_its_margin() -> None:
    margins = pair_margins(doubles([0.9, 0.4]), doubles([0.1, 0.5, 0.4]))
    torch.testing.assert_close(margins, torch.tensor([[0.8, 0.4, 0.5], [0.3, -0.1, 0.0]], dtype=torch.float64))
    members = pair_margins(torch.zeros(3, 2), torch.ones(3, 4))
    assert members.shape == (3, 2, 4)
    assert bool((members == -1).all())


@given(SCORES, SCORES)
def test_the_hinge_equals_a_loop_over_all_pairs(positive: list[float], negative: list[float]) -> None:
    each = [max(0.0, 1 - a + b) for a in positive for b in negative]
    assert pairwise_hinge(doubles(positive), doubles(negative)).item() == pytest.approx(sum(each) / len(each))


def test_hinges_computed_by_hand() -> None:
    assert pairwise_hinge(doubles([1.0]), doubles([0.0])).item() == 0.0
    assert pairwise_hinge(doubles([0.0]), doubles([1.0])).item() == 2.0
    assert pairwise_hinge(doubles([0.5]), doubles([0.5])).item() == 1.0
    assert pairwise_hinge(doubles([3.0, 0.5]), doubles([0.0])).item() == 0.25  # beyond the margin counts 0, not -2


@given(SCORES, SCORES, st.data())
def test_whole_number_weights_repeat_a_bag(positive: list[float], negative: list[float], data: st.DataObject) -> None:
    counts = st.integers(0, 3)
    a = data.draw(st.lists(counts, min_size=len(positive), max_size=len(positive)).filter(any))
    b = data.draw(st.lists(counts, min_size=len(negative), max_size=len(negative)).filter(any))
    weighted = pairwise_hinge(doubles(positive), doubles(negative), torch.tensor(a).double(), torch.tensor(b).double())
    repeated = pairwise_hinge(
        doubles(positive).repeat_interleave(torch.tensor(a)), doubles(negative).repeat_interleave(torch.tensor(b))
    )
    torch.testing.assert_close(weighted, repeated)


def test_a_weight_on_one_side_only_is_enough() -> None:
    positive, negative = doubles([0.9, 0.1]), doubles([0.2, 0.4])
    first = pairwise_hinge(positive, negative, positive_weight=doubles([1.0, 0.0]))
    torch.testing.assert_close(first, pairwise_hinge(positive[:1], negative))
    second = pairwise_hinge(positive, negative, negative_weight=doubles([0.0, 2.0]))
    torch.testing.assert_close(second, pairwise_hinge(positive, negative[1:]))


def test_no_pair_costs_nothing_and_has_no_gradient() -> None:
    positive = doubles([0.9, 0.1]).requires_grad_()
    loss = pairwise_hinge(positive, doubles([0.5]), positive_weight=doubles([0.0, 0.0]))
    assert loss.item() == 0.0
    assert torch.autograd.grad(loss, positive)[0].tolist() == [0.0, 0.0]
    assert pairwise_hinge(positive, doubles([])).item() == 0.0
    assert pairwise_hinge(doubles([]), doubles([0.5])).item() == 0.0


def test_members_are_hinged_each_on_their_own() -> None:
    positive = torch.tensor([[0.9, 0.4], [0.1, 0.2]])
    negative = torch.tensor([[0.3], [0.8]])
    weight = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    loss = pairwise_hinge(positive, negative, weight)
    assert loss.tolist() == pytest.approx([0.4, (1.7 + 1.6) / 2])


def test_the_gradient_is_shared_among_the_pairs_within_the_margin() -> None:
    positive, negative = doubles([0.5, 2.0]).requires_grad_(), doubles([0.2, 0.3]).requires_grad_()
    pairwise_hinge(positive, negative).backward()  # type: ignore[no-untyped-call]
    assert positive.grad is not None
    assert negative.grad is not None
    assert positive.grad.tolist() == [-0.5, 0.0]
    assert negative.grad.tolist() == [0.25, 0.25]
