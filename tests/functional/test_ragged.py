"""Padding: there and back, with what lies outside at exactly 0."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from admil.functional import Padding

SIZES = st.lists(st.integers(0, 7), max_size=8)


def test_bags_of_two_and_one_are_padded_as_written_out() -> None:
    padding = Padding.of(torch.tensor([2, 1, 3]))
    assert padding.index.tolist() == [[0, 1, 0], [2, 0, 0], [3, 4, 5]]
    assert padding.mask.tolist() == [[True, True, False], [True, False, False], [True, True, True]]
    padded = padding.pad(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    assert padded.tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]]


@given(SIZES, st.integers(0, 3))
def test_flatten_undoes_pad_for_all_leading_dimensions(sizes: list[int], members: int) -> None:
    padding = Padding.of(torch.tensor(sizes, dtype=torch.int64))
    flat = torch.arange(members * sum(sizes), dtype=torch.float64).reshape(members, sum(sizes)) + 1
    padded = padding.pad(flat)
    assert padded.shape == (members, len(sizes), max(sizes, default=0))
    assert torch.equal(padding.flatten(padded), flat)
    assert bool((padded[..., ~padding.mask] == 0).all())
    assert padding.mask.sum(-1).tolist() == sizes


@given(st.lists(st.integers(0, 7), min_size=1, max_size=8))
def test_each_row_holds_its_own_bag(sizes: list[int]) -> None:
    flat = torch.arange(sum(sizes))
    rows = Padding.of(torch.tensor(sizes)).pad(flat)
    for row, part in zip(rows, np.split(flat.numpy(), np.cumsum(sizes)[:-1]), strict=True):
        assert row[: len(part)].tolist() == part.tolist()


def test_types_are_kept() -> None:
    padding = Padding.of(torch.tensor([2, 1]))
    for flat in (
        torch.tensor([True, True, True]),
        torch.tensor([1, 2, 3]),
        torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16),
    ):
        padded = padding.pad(flat)
        assert padded.dtype == flat.dtype
        assert padded[1, 1].item() == 0
        assert torch.equal(padding.flatten(padded), flat)


def test_a_value_outside_the_first_bag_does_not_leak_into_the_padding() -> None:
    flat = torch.tensor([float("nan"), 2.0, 3.0])  # position 0 is what padded entries point to
    assert Padding.of(torch.tensor([1, 2])).pad(flat)[0, 1].item() == 0.0


def test_gradients_flow_back_to_the_flat_values_and_only_once() -> None:
    flat = torch.ones(3, requires_grad=True)
    padded = Padding.of(torch.tensor([1, 2])).pad(flat)
    (padded * torch.tensor([[1.0, 10.0], [100.0, 1000.0]])).sum().backward()  # type: ignore[no-untyped-call]
    assert flat.grad is not None
    assert flat.grad.tolist() == [1.0, 100.0, 1000.0]


def test_no_bags_make_an_empty_padding() -> None:
    padding = Padding.of(torch.tensor([], dtype=torch.int64))
    assert padding.mask.shape == (0, 0)
    assert padding.pad(torch.zeros(2, 0)).shape == (2, 0, 0)
