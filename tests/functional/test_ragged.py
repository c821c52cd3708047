"""Padding: there and back, with what lies outside at exactly 0."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from admil.functional import Padding, SizeClasses, maximum_score, robust_weights

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


# --- size classes --------------------------------------------------------------------------------


def several(sizes: list[int]) -> SizeClasses:
    """Make classes however little there is to pad."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("admil.functional.ragged._ENTRIES", 0)
        return SizeClasses.of(torch.tensor(sizes))


def test_bags_are_sorted_into_classes_in_which_none_is_smaller_than_half_the_largest() -> None:
    classes = several([3, 40, 1, 21, 7, 19, 2])
    assert [(bags.tolist(), padding.mask.shape[1]) for bags, padding in classes] == [
        ([1, 3], 40),
        ([5], 19),
        ([4], 7),
        ([0, 6], 3),
        ([2], 1),
    ]


def test_bags_that_are_much_alike_or_few_are_one_class_in_their_order() -> None:
    for sizes in ([30, 49, 31], [2000, 1, 5]):
        (one,) = SizeClasses.of(torch.tensor(sizes))
        assert one[0].tolist() == [0, 1, 2]
        assert one[1].mask.sum(-1).tolist() == sizes


def test_a_huge_bag_pads_none_of_the_small_ones() -> None:
    sizes = [10] * 500 + [50_000]
    padded = sum(padding.mask.numel() for _, padding in SizeClasses.of(torch.tensor(sizes)))
    assert padded == sum(sizes)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.data())
def test_whatever_the_classes_each_bag_gets_what_it_would_alone(sizes: list[int], data: st.DataObject) -> None:
    chance = np.random.default_rng(data.draw(st.integers(0, 99)))
    flat = torch.from_numpy(chance.random((2, sum(sizes))))
    kept = torch.from_numpy(chance.random(sum(sizes)) < 0.7)
    classes = several(sizes)
    bounds = np.cumsum([0, *sizes])
    highest = classes.per_bag(flat, kept, maximum_score)
    weights = classes.per_instance(flat, kept, robust_weights)
    everything = classes.per_bag(flat, None, maximum_score)
    for bag, (start, stop) in enumerate(itertools.pairwise(bounds)):
        alone, mask = flat[:, None, start:stop], kept[None, start:stop]
        assert torch.equal(highest[:, [bag]], maximum_score(alone, mask))
        assert torch.equal(everything[:, [bag]], maximum_score(alone))
        torch.testing.assert_close(weights[:, start:stop], robust_weights(alone, mask)[:, 0])


def test_gradients_flow_to_the_bags_of_every_class() -> None:
    flat = torch.arange(1.0, 6.0, requires_grad=True)
    score = several([1, 4]).per_bag(flat, None, lambda values, mask: (values * mask).sum(-1))
    (score * torch.tensor([10.0, 1.0])).sum().backward()  # type: ignore[no-untyped-call]
    assert flat.grad is not None
    assert flat.grad.tolist() == [10, 1, 1, 1, 1]
