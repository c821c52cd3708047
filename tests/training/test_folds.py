"""Folds of held-out bags: balanced, of whole groups, never too many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from admil.bags import BagIndex
from admil.errors import InvalidInput
from admil.training.folds import held_out_by_member, still_held_out
from tests.training.problems import generator, index_of

HeldOut = NDArray[np.bool_]


def split(
    labels: Sequence[int],
    members: int = 4,
    folds: int = 4,
    at_most: int = 1000,
    seed: int = 0,
    groups: Sequence[object] | torch.Tensor | None = None,
) -> HeldOut:
    index = index_of([1] * len(labels), labels)
    return held_out_by_member(index, index.positive, members, folds, at_most, generator(seed), groups)


def counts(held_out: HeldOut, labels: Sequence[int]) -> set[tuple[int, int]]:
    """Return the (negative, positive) bags that members hold out."""
    positive = np.array(labels) == 1
    return {(int((row & ~positive).sum()), int((row & positive).sum())) for row in held_out}


def test_folds_share_out_positive_and_negative_bags_evenly() -> None:
    labels = [1] * 8 + [0] * 12
    held_out = split(labels)
    assert counts(held_out, labels) == {(3, 2)}
    assert held_out.sum(0).tolist() == [1] * 20, "with as many members as folds each bag is held out once"


def test_folds_that_do_not_divide_evenly_differ_by_one_bag_of_each_kind() -> None:
    labels = [1] * 9 + [0] * 14
    assert counts(split(labels), labels) <= {(3, 2), (3, 3), (4, 2), (4, 3)}


def test_member_e_holds_out_fold_e_modulo_the_number_of_folds() -> None:
    held_out = split([1, 0] * 6, members=7, folds=3)
    assert [next(f for f in range(3) if (held_out[f] == row).all()) for row in held_out] == [0, 1, 2, 0, 1, 2, 0]
    assert held_out[:3].sum(0).tolist() == [1] * 12


def test_fewer_members_than_folds_hold_out_their_own_folds_only() -> None:
    held_out = split([1, 0] * 8, members=2, folds=4)
    assert held_out.sum(1).tolist() == [4, 4]
    assert held_out.any(0).sum() == 8


def test_the_seed_decides_the_folds() -> None:
    labels = [1, 0] * 10
    assert (split(labels, seed=3) == split(labels, seed=3)).all()
    assert (split(labels, seed=3) != split(labels, seed=4)).any()


@pytest.mark.parametrize(
    ("labels", "groups"),
    [([1, 0], None), ([1, 0, 0, 0], None), ([1, 1, 0, 0], [0, 0, 0, 0]), ([1, 1, 0, 0], ["a", "a", "b", "b"])],
    ids=["one bag of each kind", "one positive bag", "one group", "groups of one kind"],
)
def test_nothing_is_held_out_where_no_two_folds_can_hold_both_kinds(
    labels: list[int], groups: list[object] | None
) -> None:
    assert not split(labels, groups=groups).any()


@pytest.mark.parametrize("folds", [0, 1])
def test_less_than_two_folds_hold_out_nothing(folds: int) -> None:
    assert not split([1, 0] * 10, folds=folds).any()


def test_fewer_folds_are_made_where_bags_are_few() -> None:
    labels = [1, 1, 0, 0, 0]
    held_out = split(labels, members=8, folds=8)
    assert counts(held_out, labels) <= {(1, 1), (2, 1)}
    assert held_out.any(0).all()


def test_at_most_so_many_bags_are_held_out() -> None:
    labels = [1] * 30 + [0] * 90
    held_out = split(labels, members=4, folds=4, at_most=41)
    assert counts(held_out, labels) == {(7, 3)}, "ten a member, in the proportion of all bags"


def test_a_member_that_is_alone_may_hold_out_the_whole_allowance() -> None:
    labels = [1] * 30 + [0] * 30
    assert split(labels, members=1, folds=4, at_most=10).sum() == 10


def test_an_allowance_too_small_for_the_folds_makes_fewer_folds() -> None:
    labels = [1] * 50 + [0] * 50
    held_out = split(labels, members=8, folds=8, at_most=4)
    assert held_out.any(0).sum() == 4
    assert counts(held_out, labels) == {(1, 1)}


def test_capped_folds_do_not_favour_the_first_bags() -> None:
    labels = [1, 0] * 100
    held = np.sum([split(labels, at_most=40, seed=seed).any(0) for seed in range(20)], axis=0)
    assert held.sum() == 800
    assert 300 <= held[:100].sum() <= 500


def test_bags_whose_label_is_contradicted_are_not_counted_as_positive() -> None:
    index = index_of([1] * 6, [1, 1, 1, 1, 0, 0])
    held_out = held_out_by_member(index, np.array([2, 3]), 2, 4, 100, generator())
    assert held_out[:, [2, 3]].sum(0).tolist() == [1, 1]
    assert held_out[:, [2, 3]].sum(1).tolist() == [1, 1], "each member judges one positive bag that counts"
    assert not held_out[:, [0, 1]].any()


def test_a_contradicted_bag_goes_where_its_group_goes() -> None:
    index = index_of([1] * 8, [1, 1, 0, 1, 0, 0, 1, 0])
    groups = ["a", "b", "b", "c", "c", "d", "d", "a"]
    held_out = held_out_by_member(index, np.array([1, 3, 6]), 3, 3, 100, generator(), groups)
    assert held_out.any()
    _assert_whole_groups(held_out, groups)
    assert held_out[:, 0].sum() == 1


def test_members_that_go_on_hold_out_what_they_have_not_seen() -> None:
    index = index_of([1] * 6, [1, 1, 1, 0, 0, 0])
    before = [("bag1", "bag4", "gone"), ("bag2",), ("bag3",)]
    held_out = still_held_out(index, index.positive, before)
    assert held_out is not None
    assert [np.flatnonzero(row).tolist() for row in held_out] == [[1, 4], [2], [3]]


@pytest.mark.parametrize("before", [[(), ()], [("bag0", "bag1"), ("bag4",)], [("bag0", "bag3")]], ids=str)
def test_members_that_have_seen_too_much_hold_out_nothing(before: list[tuple[str, ...]]) -> None:
    index = index_of([1] * 6, [1, 1, 1, 0, 0, 0])
    counted = np.array([1, 2])  # bag 0 is contradicted
    held_out = still_held_out(index, counted, before)
    assert held_out is not None
    assert held_out.shape == (len(before), 6)
    assert not held_out.any()


def test_members_that_come_from_other_bags_may_hold_out_any() -> None:
    index = index_of([1] * 4, [1, 1, 0, 0])
    assert still_held_out(index, index.positive, [("elsewhere 1",), ("elsewhere 2",)]) is None


def test_every_bag_needs_a_group() -> None:
    with pytest.raises(InvalidInput, match="one group per bag: 4 bags, 3 groups"):
        split([1, 0, 1, 0], groups=["a", "b", "c"])


@pytest.mark.parametrize("make", [torch.tensor, np.array, list], ids=["tensor", "array", "list"])
def test_groups_may_come_as_a_list_an_array_or_a_tensor(make: type) -> None:
    groups = [0, 0, 1, 1, 2, 2, 3, 3]
    held_out = split([1, 0] * 4, groups=make(groups))
    assert held_out.any()
    _assert_whole_groups(held_out, groups)


@st.composite
def grouped_bags(draw: st.DrawFn) -> tuple[BagIndex, list[int]]:
    """Draw bags of both kinds in groups of very different sizes."""
    groups = draw(st.lists(st.integers(0, 6), min_size=2, max_size=40))
    heavy = draw(st.integers(0, 30))
    groups = [*groups, *[0] * heavy]
    labels = draw(st.lists(st.integers(0, 1), min_size=len(groups), max_size=len(groups)))
    return index_of([1] * len(groups), labels), groups


@settings(max_examples=150)
@given(
    problem=grouped_bags(),
    members=st.integers(1, 9),
    folds=st.integers(2, 8),
    at_most=st.integers(2, 60),
    seed=st.integers(0, 99),
)
def test_whole_groups_are_held_out_within_the_allowance_and_every_member_holds_both_kinds(
    problem: tuple[BagIndex, list[int]], members: int, folds: int, at_most: int, seed: int
) -> None:
    index, groups = problem
    held_out = held_out_by_member(index, index.positive, members, folds, at_most, generator(seed), groups)
    assert held_out.shape == (members, len(index))
    _assert_whole_groups(held_out, groups)
    assert held_out.any(0).sum() <= at_most
    if held_out.any():
        assert held_out[:, index.positive].any(1).all()
        assert held_out[:, index.negative].any(1).all()
        assert not held_out.all(1).any(), "every member trains on something"


def _assert_whole_groups(held_out: HeldOut, groups: Sequence[object]) -> None:
    for row in held_out:
        out = {group for group, held in zip(groups, row, strict=True) if held}
        kept = {group for group, held in zip(groups, row, strict=True) if not held}
        assert not out & kept
