"""Bags from what people have, read back whole and row by row, and refusals that name the bag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from admil.bags import Bags, BagSource, InstanceId
from admil.errors import InvalidInput, UnknownInstance

FIRST, SECOND = [[1.0, 0.0], [2.0, 5.0]], [[3.0, 0.0]]
ROWS = [*FIRST, *SECOND]


def array(rows: Any) -> NDArray[np.float64]:
    return np.array(rows, dtype=np.float64)


def three_bags(dtype: torch.dtype = torch.float32) -> Bags:
    """Return bags of 2, 1 and 3 instances whose first feature is the position."""
    flat = np.stack([np.arange(6.0), np.arange(6.0) ** 2], 1)
    return Bags.from_arrays(flat, labels=[1, 0, 1], ids=["a", "b", "c"], offsets=[0, 2, 3, 6], dtype=dtype)


# --- what bags can be made from -----------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        list,
        array,
        lambda rows: array(rows).astype(np.float16),
        lambda rows: array(rows).astype(np.int32),
        lambda rows: np.asfortranarray(array(rows)),
        lambda rows: tuple(map(tuple, rows)),
        torch.tensor,
        lambda rows: torch.tensor(rows, dtype=torch.float64, requires_grad=True),
        lambda rows: torch.tensor(rows).to(torch.bfloat16),
        lambda rows: torch.tensor(rows).to_sparse(),
        lambda rows: scipy.sparse.csr_matrix(array(rows)),
        lambda rows: scipy.sparse.coo_array(array(rows)),
        lambda rows: np.matrix(rows),  # the type old pipelines still produce
    ],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_bags_of_every_kind_of_array_hold_the_same_numbers(make: Callable[[list[list[float]]], Any]) -> None:
    separate = Bags.from_arrays([make(FIRST), make(SECOND)], labels=[1, 0], ids=["x", "y"])
    flat = Bags.from_arrays(make(ROWS), labels=[1, 0], ids=["x", "y"], offsets=[0, 2, 3])
    for bags in (separate, flat):
        assert bags.features.dtype == torch.float32
        assert bags.features.tolist() == ROWS
        assert not bags.features.requires_grad
        assert bags.index.offsets.tolist() == [0, 2, 3]
    assert separate.index == flat.index


def test_a_block_of_equal_bags_is_a_list_of_them() -> None:
    bags = Bags.from_arrays(np.arange(12.0).reshape(3, 2, 2))
    assert bags.index.sizes.tolist() == [2, 2, 2]
    assert bags["2"].tolist() == [[8, 9], [10, 11]]


def test_generators_are_read_once() -> None:
    bags = Bags.from_arrays(
        (part for part in (FIRST, SECOND)), (label for label in (1, 0)), (name for name in ("x", "y"))
    )
    assert bags.ids == ("x", "y")
    assert bags.labels is not None
    assert bags.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    "labels",
    [
        [1, 0, 1],
        [1, -1, 1],
        [1.0, 0.0, 1.0],
        [True, False, True],
        np.array([1, -1, 1]),
        np.array([True, False, True]),
        torch.tensor([1, 0, 1]),
        (label for label in (1, -1, 1)),
    ],
)
def test_labels_of_every_kind_become_ones_and_zeros(labels: Any) -> None:
    bags = Bags.from_arrays([FIRST, SECOND, FIRST], labels)
    assert bags.labels is not None
    assert bags.labels.dtype == np.int64
    assert bags.labels.tolist() == [1, 0, 1]


def test_only_negative_bags_may_be_labelled_either_way() -> None:
    for label in (0, -1):
        bags = Bags.from_arrays([FIRST, SECOND], [label, label])
        assert bags.index.negative.tolist() == [0, 1]


def test_ids_are_kept_as_strings_and_default_to_numbers() -> None:
    assert Bags.from_arrays([FIRST, SECOND]).ids == ("0", "1")
    assert Bags.from_arrays([FIRST, SECOND], ids=[7, "b"]).ids == ("7", "b")
    assert Bags.from_arrays(ROWS, offsets=[0, 2, 3], ids=np.array([4, 5])).ids == ("4", "5")


def test_what_is_known_of_bags_is_shown() -> None:
    bags = three_bags()
    assert len(bags) == 3
    assert bags.width == 2
    assert repr(bags) == "Bags(3 bags, 2 positive, 6 instances, 2 features)"
    unlabelled = Bags.from_arrays([FIRST])
    assert unlabelled.labels is None
    assert repr(unlabelled) == "Bags(1 bags, unlabelled, 2 instances, 2 features)"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_features_are_kept_in_the_type_asked_for(dtype: torch.dtype) -> None:
    assert Bags.from_arrays([FIRST, SECOND], dtype=dtype).features.dtype == dtype
    assert three_bags(dtype).features[:, 1].tolist() == [0, 1, 4, 9, 16, 25]


def test_a_large_sum_is_not_taken_for_an_infinite_feature() -> None:
    huge = [[1.7e308, 1.7e308], [1.7e308, -1.0]]
    assert Bags.from_arrays([huge], dtype=torch.float64)["0"].tolist() == huge


def test_arrays_can_be_changed_afterwards() -> None:
    part, offsets = array(FIRST), np.array([0, 2])
    bags, flat = Bags.from_arrays([part]), Bags.from_arrays(part, offsets=offsets)
    part[:], offsets[1] = 99, 1
    assert bags["0"].tolist() == FIRST
    assert flat["0"].tolist() == FIRST


# --- reading ------------------------------------------------------------------------------------


def test_bags_are_a_source_for_training() -> None:
    source: BagSource = three_bags()
    assert source.index.n_instances == 6
    assert source.width == 2


def test_a_bag_is_found_by_its_id() -> None:
    assert three_bags()["c"][:, 0].tolist() == [3, 4, 5]
    with pytest.raises(UnknownInstance, match="there is no bag 'd' among these 3"):
        three_bags()["d"]


BAG_NUMBERS = st.lists(st.integers(0, 2), max_size=5)
POSITIONS = st.lists(st.integers(0, 5), max_size=9)
TYPES = st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64])


@given(BAG_NUMBERS)
def test_gather_equals_plain_indexing(numbers: list[int]) -> None:
    bags, chosen = three_bags(), np.array(numbers, dtype=np.int64)
    batch = bags.gather(chosen)
    assert batch.bags.tolist() == numbers
    assert batch.sizes.tolist() == [[2, 1, 3][i] for i in numbers]
    plain = [row for i in numbers for row in bags["abc"[i]].tolist()]
    assert batch.features.tolist() == plain
    assert batch.features.shape == (len(plain), 2)


@given(POSITIONS, TYPES, TYPES, st.integers(0, 3))
def test_rows_equal_plain_indexing_also_into_a_buffer_of_another_type(
    positions: list[int], kept: torch.dtype, wanted: torch.dtype, spare: int
) -> None:
    bags, chosen = three_bags(kept), np.array(positions, dtype=np.int64)
    plain = bags.features[positions] if positions else bags.features[:0]
    assert torch.equal(bags.rows(chosen), plain)
    out = torch.full((len(positions) + spare, 2), -1.0, dtype=wanted)
    read = bags.rows(chosen, out)
    assert read.dtype == wanted
    assert torch.equal(read, plain.to(wanted))
    assert read.data_ptr() == out.data_ptr() or not positions  # a view, not a copy
    assert torch.equal(out[: len(positions)], plain.to(wanted))
    assert bool((out[len(positions) :] == -1).all())


@given(BAG_NUMBERS, TYPES)
def test_gather_into_a_buffer_fills_its_first_rows(numbers: list[int], wanted: torch.dtype) -> None:
    bags, chosen = three_bags(), np.array(numbers, dtype=np.int64)
    out = torch.full((20, 2), -1.0, dtype=wanted)
    batch = bags.gather(chosen, out)
    count = len(batch.features)
    assert batch.features.tolist() == bags.gather(chosen).features.tolist()
    assert out[:count].tolist() == batch.features.tolist()
    assert bool((out[count:] == -1).all())


def test_rows_take_positions_that_cannot_be_written_to_or_run_backwards() -> None:
    positions = np.array([4, 1])
    positions.setflags(write=False)
    assert three_bags().rows(positions)[:, 0].tolist() == [4, 1]
    assert three_bags().rows(positions[::-1])[:, 0].tolist() == [1, 4]


def test_what_is_read_is_a_copy() -> None:
    bags = three_bags()
    bags.rows(np.array([0, 1])).zero_()
    bags.gather(np.array([1])).features.zero_()
    assert bags.features[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 2), (1, 2), (5, 3), (5, 1), (6,)])
def test_a_buffer_that_is_too_small_is_refused(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"out needs 3 rows or more of 2 features, its shape is \("):
        three_bags().rows(np.array([0, 1, 2]), torch.zeros(shape, dtype=dtype))


def test_a_subset_holds_the_bags_given_in_that_order() -> None:
    part = three_bags().subset([2, 0])
    assert part.ids == ("c", "a")
    assert part.labels is not None
    assert part.labels.tolist() == [1, 1]
    assert part.features[:, 0].tolist() == [3, 4, 5, 0, 1]
    assert part["a"][:, 0].tolist() == [0, 1]
    assert three_bags().subset(np.array([1])).ids == ("b",)
    part.features.zero_()
    assert three_bags().features[5, 0].item() == 5
    with pytest.raises(InvalidInput, match="expected bag numbers, got values of type bool"):
        three_bags().subset([True, False, True])


# --- what is refused, by name -------------------------------------------------------------------


def refused(message: str, *args: Any, **kwargs: Any) -> InvalidInput:
    with pytest.raises(InvalidInput, match=message) as error:
        Bags.from_arrays(*args, **kwargs)
    return error.value


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_features_that_are_not_finite_are_refused_by_instance_and_column(value: float, shown: str) -> None:
    bad = array(FIRST)
    bad[1, 1] = value
    error = refused(rf"finite: instance y\[1\] has {shown} in column 1 \(1 such", [SECOND, bad], ids=["x", "y"])
    assert error.subject == InstanceId("y", 1)
    refused(rf"instance y\[1\] has {shown} in column 1", np.r_[SECOND, bad], ids=["x", "y"], offsets=[0, 1, 3])
    refused(r"instance 0\[0\] has .* \(2 such instances\)", [np.full((2, 2), value)])
    refused(r"instance 0\[0\] has nan in column 0", [[[np.inf, -np.inf], [0, 0]], [[np.nan, 0]]][::-1])


def test_features_too_large_for_the_type_they_are_kept_in_are_refused() -> None:
    refused(r"instance 0\[1\] has 1e\+06 in column 0, too large for float16", [[[1.0], [1e6]]], dtype=torch.float16)
    refused(r"instance 0\[0\] has 1e\+300 in column 1, too large for float32; scale it", [[[1.0, 1e300]]])


@pytest.mark.parametrize(
    ("part", "came"),
    [
        ([1.0, 2.0], r"an array of shape \(2,\)"),
        ([], r"an array of shape \(0,\)"),
        (3.0, r"an array of shape \(\)"),
        (np.zeros((2, 2, 2)), r"an array of shape \(2, 2, 2\)"),
        (np.zeros((2, 0)), r"an array of shape \(2, 0\)"),
        (torch.zeros(2), r"an array of shape \(2,\)"),
        (np.zeros((1, 2), dtype=complex), "ndarray of complex128"),
        ([[1.0, 2.0], [3.0]], "list that is no rectangular array of numbers"),
        ([["a", "b"]], "list of <U1"),
        (np.array([["1", "2"]]), "ndarray of <U1"),
        ("text", "str of <U4"),
        (None, "NoneType of objects"),
        ({"a": 1}, "dict of objects"),
        ([[None, 1.0]], "list of objects"),
        (np.ma.masked_equal([[1.0, -999.0]], -999.0), "a masked array with values missing; fill or drop them"),
        (torch.zeros(1, 2, dtype=torch.complex64), "a tensor of torch.complex64"),
    ],
    ids=repr,
)
def test_a_bag_that_is_no_table_of_numbers_is_refused_by_name(part: Any, came: str) -> None:
    expected = r"expected a \(n, D\) array of numbers, one row per instance, got "
    for ids in (["x", "y"], np.array(["x", "y"]), iter(["x", "y"]), {"x": 0, "y": 0}.keys()):
        refused(f"bag 'y': {expected}{came}", [FIRST, part], ids=ids)
    refused(f"bag '1': {expected}{came}", [FIRST, part])
    refused(f"the features: {expected}{came}", part, offsets=[0, 1])


def test_one_table_without_offsets_is_refused() -> None:
    refused(r"bag '0': expected a \(n, D\) array .* shape \(2,\)", array(ROWS))


def test_bags_of_different_widths_are_refused_by_both_names() -> None:
    error = refused("bag 'x' has 2, bag 'z' has 3", [FIRST, SECOND, [[1.0, 2.0, 3.0]]], ids=["x", "y", "z"])
    assert error.subject == "z"


def test_an_empty_bag_is_refused_by_name() -> None:
    refused("bag 'y' is empty; .* leave it out", [FIRST, np.zeros((0, 2))], ids=["x", "y"])
    refused("bag 'y' is empty; .* leave it out", ROWS, ids=["x", "y", "z"], offsets=[0, 2, 2, 3])


def test_no_bags_are_refused() -> None:
    refused("expected at least one bag, got none", [])
    refused("expected at least one bag, got none", [], labels=[], ids=[])


@pytest.mark.parametrize("label", [2, 0.5, -2, float("nan"), None, "yes", [1]], ids=repr)
def test_a_label_that_is_neither_is_refused_with_the_bag(label: Any) -> None:
    error = refused(r"bag 'y': expected a label 0/1 or -1/\+1, got ", [FIRST, SECOND], [1, label], ["x", "y"])
    assert error.subject == "y"
    refused("bag '1': expected a label", [FIRST, SECOND], [1, label])
    refused("bag 'y': expected a label", ROWS, [1, label], ["x", "y"], offsets=[0, 2, 3])


def test_labels_that_mix_zero_and_minus_one_are_refused() -> None:
    refused(r"labels mix 0 and -1; use 0/1 or -1/\+1 throughout", [FIRST, SECOND, FIRST], [1, 0, -1])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_wrong_number_of_labels_or_ids_is_refused(count: int) -> None:
    refused(f"expected one label per bag: 2 bags, {count} labels", [FIRST, SECOND], [1] * count)
    refused(f"expected one id per bag: 2 bags, {count} ids", [FIRST, SECOND], ids=list("xyz")[:count])
    refused(f"expected one id per bag: 2 bags, {count} ids", ROWS, ids=list("xyz")[:count], offsets=[0, 2, 3])


def test_ids_that_come_twice_are_refused_by_name() -> None:
    refused("bag ids must be distinct; 'x' comes more than once", [FIRST, SECOND, FIRST], ids=["x", "y", "x"])
    refused("'1' comes more than once", [FIRST, SECOND], ids=[1, "1"])


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 2], "the last offset must be the number of instances: data has 3 rows, offsets end at 2"),
        ([0, 2, 4], "data has 3 rows, offsets end at 4"),
        ([1, 3], "offsets must start at 0"),
        ([0, 3, 2, 3], "offsets must not decrease; they do after bag '1'"),
        ([0, 1.5, 3], "offsets are the start of each bag and the end, as whole numbers"),
        ([0, float("nan"), 3], "offsets are the start of each bag and the end, as whole numbers"),
        ([0, float("inf")], "as whole numbers"),
        ([[0, 3]], "as whole numbers"),
        ([0], "as whole numbers"),
        ([], "as whole numbers"),
        (3, "as whole numbers"),
        ("abc", "as whole numbers"),
        ([0, None], "as whole numbers"),
    ],
    ids=repr,
)
def test_offsets_that_do_not_fit_the_data_are_refused(offsets: Any, message: str) -> None:
    refused(message, ROWS, offsets=offsets)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_features_are_kept_as_floating_point(dtype: torch.dtype) -> None:
    error = refused("features are kept as floating point, not torch.*; use torch.float32", [FIRST], dtype=dtype)
    assert error.subject is dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": None}, "expected a list of arrays, one per bag, got NoneType"),
        ({"data": "abc"}, "expected a list of arrays, one per bag, got str"),
        ({"data": [[[1.0]]], "labels": 1}, "expected a list of labels, one per bag, got int"),
        ({"data": [[[1.0]]], "labels": np.array(1)}, "expected a list of labels, one per bag, got ndarray"),
        ({"data": [[[1.0]]], "ids": 7}, "expected a list of ids, one per bag, got int"),
    ],
)
def test_what_is_no_list_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Bags.from_arrays(**arguments)


@pytest.mark.parametrize(
    "part",
    [
        np.array([[1, 2]], dtype=">f4"),
        np.array([[1, 2]], dtype=np.longdouble),
        np.array([[1, 2.0]], dtype=object),
        np.array([[1, 2]], dtype=np.uint16),
        np.ma.masked_equal([[1.0, 2.0]], 7.0),
        np.array([[1, 2]], dtype=np.int8)[:, ::-1][:, ::-1],
    ],
    ids=lambda part: str(part.dtype),
)
def test_numbers_of_any_kind_are_numbers(part: Any) -> None:
    assert Bags.from_arrays([part]).features.tolist() == [[1.0, 2.0]]


def test_bags_are_a_sequence_too() -> None:
    bags = Bags.from_arrays([[[1.0]], [[2.0], [3.0]]], ids=["a", "b"])
    assert bags[1].tolist() == bags["b"].tolist() == [[2.0], [3.0]]
    assert [bag.tolist() for bag in bags] == [[[1.0]], [[2.0], [3.0]]]
    with pytest.raises(UnknownInstance, match="there is no bag number 2: there are 2 bags, counted from 0"):
        bags[2]


def test_the_digest_tells_bags_apart() -> None:
    def digest(value: float = 2.0, label: int = 0, name: str = "b", dtype: torch.dtype = torch.float32) -> str:
        return Bags.from_arrays([[[1.0]], [[value], [3.0]]], [1, label], ["a", name], dtype=dtype).digest

    assert digest() == digest()
    assert len({digest(), digest(value=2.5), digest(label=1), digest(name="c"), digest(dtype=torch.float64)}) == 5


def test_what_is_the_callers_stays_the_callers() -> None:
    flat = np.zeros((2, 2), np.float32)
    bags = Bags.from_arrays(flat, offsets=[0, 2])
    flat += 1
    assert not bags.features.any()
