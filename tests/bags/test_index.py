"""BagIndex: names, positions and numbers agree, and what cannot be an index is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admil.bags import BagIndex, InstanceId
from admil.errors import InvalidInput, UnknownInstance


def index_of(sizes: list[int], labels: list[int] | None = None) -> BagIndex:
    ids = tuple("abcdefgh"[: len(sizes)])
    return BagIndex(ids, np.cumsum([0, *sizes]), None if labels is None else np.array(labels))


SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=8)


# --- names and positions ------------------------------------------------------------------------


def test_an_instance_is_named_by_its_bag_and_place() -> None:
    assert str(InstanceId("slide 7", 12)) == "slide 7[12]"
    assert InstanceId("a", 1) == InstanceId("a", 1)
    assert len({InstanceId("a", 1), InstanceId("a", 1), InstanceId("a", 2)}) == 2
    assert sorted([InstanceId("b", 0), InstanceId("a", 10), InstanceId("a", 9)]) == [
        InstanceId("a", 9),
        InstanceId("a", 10),
        InstanceId("b", 0),
    ]


def test_three_bags_are_numbered_as_written_out() -> None:
    index = index_of([2, 1, 3], [1, 0, 1])
    assert len(index) == 3
    assert index.n_instances == 6
    assert index.sizes.tolist() == [2, 1, 3]
    assert index.bag_of.tolist() == [0, 0, 1, 2, 2, 2]
    assert index.positive.tolist() == [0, 2]
    assert index.negative.tolist() == [1]
    assert index.number("c") == 2
    assert index.position(InstanceId("c", 2)) == 5
    assert index.instance(3) == InstanceId("c", 0)
    assert index.positions(np.array([2, 0])).tolist() == [3, 4, 5, 0, 1]


@given(SIZES)
def test_name_and_position_undo_each_other(sizes: list[int]) -> None:
    index = index_of(sizes)
    names = [index.instance(position) for position in range(index.n_instances)]
    assert names == [InstanceId(bag, i) for bag, size in zip(index.ids, sizes, strict=True) for i in range(size)]
    assert [index.position(name) for name in names] == list(range(sum(sizes)))


@given(SIZES, st.data())
def test_positions_of_bags_equal_plain_ranges(sizes: list[int], data: st.DataObject) -> None:
    index = index_of(sizes)
    bags = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=6))  # bags may come twice, or none
    plain = [i for bag in bags for i in range(index.offsets[bag], index.offsets[bag + 1])]
    assert index.positions(np.array(bags, dtype=np.int64)).tolist() == plain


@given(SIZES, st.data())
def test_a_subset_keeps_ids_sizes_and_labels_in_the_order_given(sizes: list[int], data: st.DataObject) -> None:
    labels = data.draw(st.lists(st.integers(0, 1), min_size=len(sizes), max_size=len(sizes)))
    order = data.draw(st.permutations(range(len(sizes))))
    order = order[: data.draw(st.integers(1, len(sizes)))]
    part = index_of(sizes, labels).subset(order)
    assert part.ids == tuple("abcdefgh"[i] for i in order)
    assert part.sizes.tolist() == [sizes[i] for i in order]
    assert part.labels is not None
    assert part.labels.tolist() == [labels[i] for i in order]
    assert index_of(sizes).subset(order).labels is None


def test_indices_are_equal_by_content() -> None:
    assert index_of([2, 1], [1, 0]) == index_of([2, 1], [1, 0])
    assert index_of([2, 1]) == index_of([2, 1])
    assert index_of([2, 1], [1, 0]) != index_of([2, 1], [1, 1])
    assert index_of([2, 1], [1, 0]) != index_of([2, 1])
    assert index_of([2, 1]) != index_of([2, 1], [1, 0])
    assert index_of([2, 1]) != index_of([1, 2])
    assert index_of([1]) != BagIndex(("z",), np.array([0, 1]))
    assert index_of([1]) != "a"
    with pytest.raises(TypeError, match="unhashable"):
        hash(index_of([1]))


# --- it is frozen -------------------------------------------------------------------------------


def test_offsets_and_labels_cannot_be_written_to_and_the_callers_arrays_are_left_alone() -> None:
    offsets, labels = np.array([0, 2, 3]), np.array([1, 0])
    index = BagIndex(("a", "b"), offsets, labels)
    offsets[1], labels[0] = 1, 0
    assert index.offsets.tolist() == [0, 2, 3]
    assert index.labels is not None
    assert index.labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match="read-only"):
        index.offsets[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        index.labels[0] = 0


# --- what is refused ----------------------------------------------------------------------------


def test_an_unknown_bag_is_named_and_some_known_ones_are_shown() -> None:
    with pytest.raises(UnknownInstance, match=r"there is no bag 'x' among these 2 \('a', 'b', …\)") as error:
        index_of([1, 1]).number("x")
    assert error.value.subject == "x"
    with pytest.raises(LookupError, match="there is no bag 'x'"):
        index_of([1, 1]).position(InstanceId("x", 0))


@pytest.mark.parametrize("place", [2, 99, -1])
def test_an_unknown_instance_is_named_with_the_size_of_its_bag(place: int) -> None:
    with pytest.raises(UnknownInstance, match=rf"no instance a\[{place}\]: bag 'a' has 2 instances, indexed 0 to 1"):
        index_of([2, 1]).position(InstanceId("a", place))


@pytest.mark.parametrize("position", [3, -1])
def test_a_position_beyond_the_instances_has_no_name(position: int) -> None:
    with pytest.raises(UnknownInstance, match=f"there is no position {position} among 3 instances"):
        index_of([2, 1]).instance(position)


def test_labels_that_are_not_known_are_asked_for() -> None:
    for name in ("positive", "negative"):
        with pytest.raises(InvalidInput, match=r"bag labels are needed here .* pass labels="):
            getattr(index_of([2, 1]), name)


def test_ids_that_come_twice_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="bag ids must be distinct; 'b' comes more than once") as error:
        BagIndex(("a", "b", "c", "b"), np.arange(5))
    assert error.value.subject == "b"
    with pytest.raises(InvalidInput, match="'a' comes more than once"):
        index_of([1, 2, 3]).subset([0, 1, 0])


@pytest.mark.parametrize(
    ("ids", "offsets", "message"),
    [
        ("", [0], "expected at least one bag, got none"),
        ("ab", [0, 2], "2 bags need 3 entries, got 2 starting at"),
        ("ab", [0, 1, 2, 3], "2 bags need 3 entries, got 4"),
        ("ab", [1, 2, 3], r"offsets must start at 0 .* starting at \[1\]"),
        ("abc", [0, 3, 2, 4], "offsets must not decrease; they do after bag 'b'"),
        ("abc", [0, 1, 1, 4], "bag 'b' is empty; a bag needs at least one instance: leave it out"),
        ("ab", [0, 0, 1], "bag 'a' is empty"),
    ],
)
def test_offsets_that_do_not_fit_are_refused(ids: str, offsets: list[int], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        BagIndex(tuple(ids), np.array(offsets))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1], r"expected one label per bag: 2 bags, labels of shape \(1,\)"),
        ([1, 0, 1], r"expected one label per bag: 2 bags, labels of shape \(3,\)"),
        ([[1, 0]], r"labels of shape \(1, 2\)"),
        ([1, -1], "bag 'b': expected a label 0 or 1, got -1"),
        ([2, 0], "bag 'a': expected a label 0 or 1, got 2"),
        ([0.5, 0], "bag 'a': expected a label 0 or 1, got 0.5"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        BagIndex(("a", "b"), np.array([0, 1, 2]), np.array(labels))


@pytest.mark.parametrize("bags", [[True, False], [0.0, 1.0], ["a"]])
def test_a_subset_is_given_by_numbers_not_by_a_mask_or_by_names(bags: Any) -> None:
    with pytest.raises(InvalidInput, match=r"expected bag numbers, got values of type .*; use np.flatnonzero"):
        index_of([1, 1]).subset(bags)


def test_an_empty_subset_is_refused() -> None:
    with pytest.raises(InvalidInput, match="expected at least one bag, got none"):
        index_of([1, 1]).subset([])
