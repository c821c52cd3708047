"""Scaling against NumPy, rule by rule."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from admil.models import Scaling, ScalingRule

DENSE = torch.tensor([[1.0, -2.0, 10.0], [3.0, 0.0, 10.0], [8.0, 2.0, 10.0], [4.0, 4.0, 10.0]])


def test_standard_gives_mean_0_and_variance_1() -> None:
    scaling = Scaling.fit([DENSE[:, :2]], "standard")
    rows = DENSE[:, :2].double().numpy()
    np.testing.assert_allclose(scaling.shift, rows.mean(0))
    np.testing.assert_allclose(scaling.factor, 1 / rows.std(0))
    scaled = scaling.apply(DENSE[:, :2].double()).numpy()
    np.testing.assert_allclose(scaled.mean(0), [0, 0], atol=1e-12)
    np.testing.assert_allclose(scaled.var(0), [1, 1])
    np.testing.assert_allclose(scaled, (rows - rows.mean(0)) / rows.std(0))


def test_common_divides_all_features_by_their_root_mean_square() -> None:
    scaling = Scaling.fit([DENSE], "common")
    rows = DENSE.double().numpy()
    size = np.sqrt((rows**2).mean())
    assert scaling.shift.tolist() == [0, 0, 0]
    np.testing.assert_allclose(scaling.factor, [1 / size] * 3)
    np.testing.assert_allclose(scaling.apply(DENSE.double()), rows / size)


def test_none_changes_nothing_but_is_as_wide_as_the_features() -> None:
    for scaling in (Scaling.fit([DENSE], "none"), Scaling.none(3)):
        assert scaling.rule == "none"
        assert scaling.shift.tolist() == [0, 0, 0]
        assert scaling.factor.tolist() == [1, 1, 1]
        assert torch.equal(scaling.apply(DENSE), DENSE)


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ([[0, 0, 0, 0, 3.0], [0, 0, 1.0, 0, 0]], "common"),
        ([[0, 0, 0, 0, 3.0], [0, 0, -1.0, 0, 0]], "standard"),
        ([[0, 0, 0, 0, -3.0]], "standard"),
        ([[0, 2.0, 0, 0, 3.0], [0, 0, 1.0, 0, 0]], "standard"),
        ([[0, 2.0, 0, 0, 0], [0, 0, 1.0, 0, 0]], "common"),
        ([[1.0, 2.0], [3.0, 4.0]], "standard"),
        ([[0.0, 2.0], [3.0, 0.0]], "standard"),
        ([[0.0, -0.0], [0.0, 0.0]], "common"),
    ],
    ids=[
        "sparse",
        "sparse signed",
        "sparse negative",
        "70 % zeros",
        "80 % zeros",
        "dense",
        "half zeros, as after a ReLU",
        "all zeros",
    ],
)
def test_auto_looks_at_zeros_and_signs(rows: list[list[float]], rule: ScalingRule) -> None:
    chosen, named = Scaling.fit([torch.tensor(rows)]), Scaling.fit([torch.tensor(rows)], rule)
    assert chosen.rule == rule
    assert torch.equal(chosen.shift, named.shift)
    assert torch.equal(chosen.factor, named.factor)


def test_auto_looks_at_all_chunks_before_it_decides() -> None:
    zeros, signed = torch.zeros(50, 4), torch.tensor([[0, 0, 0, -1.0]])
    assert Scaling.fit([zeros, signed]).rule == "standard"
    assert Scaling.fit([zeros, -signed]).rule == "common"
    assert Scaling.fit([torch.ones(5, 4), zeros]).rule == "common"


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1e6, 1e-20])
def test_a_constant_feature_becomes_0_also_where_it_varies_later(value: float) -> None:
    rows = torch.tensor([[value, 1.0], [value, 3.0], [value, 8.0]])
    scaling = Scaling.fit([rows[:1], rows[1:]], "standard")
    assert scaling.factor[0].item() == 0
    assert scaling.apply(rows)[:, 0].tolist() == [0, 0, 0]
    assert scaling.apply(torch.tensor([[value + 5, 1.0]]))[0, 0].item() == 0
    assert torch.isfinite(scaling.apply(rows)).all()


def test_the_rounding_noise_of_a_constant_feature_is_not_blown_up() -> None:
    rows = torch.full((1000, 1), 0.1)
    rows[::2] = torch.nextafter(rows[::2], torch.ones(1))
    assert Scaling.fit([rows], "standard").factor.tolist() == [0]


def test_a_single_row_is_constant_throughout() -> None:
    scaling = Scaling.fit([DENSE[:1]], "standard")
    assert scaling.shift.tolist() == [1, -2, 10]
    assert scaling.factor.tolist() == [0, 0, 0]


@pytest.mark.parametrize("rule", ["standard", "common", "auto"])
def test_nothing_but_zeros_is_left_as_it_is(rule: ScalingRule) -> None:
    scaling = Scaling.fit([torch.zeros(4, 3)], rule)
    assert torch.isfinite(scaling.factor).all()
    assert scaling.apply(torch.zeros(4, 3)).tolist() == [[0, 0, 0]] * 4


@pytest.mark.parametrize("mean", [1e3, 1e6, -1e9])
def test_a_small_deviation_beside_a_huge_mean_keeps_its_digits(mean: float) -> None:
    noise = torch.randn(500, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 1e3
    rows = noise + mean
    scaling = Scaling.fit(rows.chunk(70), "standard")
    np.testing.assert_allclose(1 / scaling.factor, rows.numpy().std(0), rtol=1e-7)
    np.testing.assert_allclose(scaling.shift, rows.numpy().mean(0), rtol=1e-12)


def test_a_first_chunk_unlike_the_rest_does_no_harm() -> None:
    rows = torch.cat([torch.full((1, 2), 1e4), torch.randn(999, 2)]).double()
    scaling = Scaling.fit([rows[:1], rows[1:]], "standard")
    np.testing.assert_allclose(1 / scaling.factor, rows.numpy().std(0), rtol=1e-9)


@settings(max_examples=30)
@given(
    rows=st.lists(st.tuples(*[st.sampled_from([0.0, 0.0, 0.5, 3.0, -40.0])] * 3), min_size=2, max_size=12),
    cuts=st.lists(st.integers(1, 11), max_size=4),
    rule=st.sampled_from(["auto", "standard", "common", "none"]),
)
def test_chunks_give_what_the_whole_gives(
    rows: list[tuple[float, float, float]], cuts: list[int], rule: ScalingRule
) -> None:
    whole = torch.tensor(rows)
    chunks = [chunk for chunk in whole.tensor_split(sorted(c for c in cuts if c < len(rows))) if len(chunk)]
    one, many = Scaling.fit([whole], rule), Scaling.fit(chunks, rule)
    assert one.rule == many.rule
    torch.testing.assert_close(many.shift, one.shift)
    torch.testing.assert_close(many.factor, one.factor)


def test_chunks_may_come_in_a_buffer_that_is_used_again() -> None:
    def chunks() -> Iterator[Tensor]:
        buffer = torch.empty(2, 3, dtype=torch.float64)
        for rows in DENSE.chunk(2):
            yield buffer.copy_(rows)

    again, whole = Scaling.fit(chunks()), Scaling.fit([DENSE])
    torch.testing.assert_close(again.shift, whole.shift)
    torch.testing.assert_close(again.factor, whole.factor)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_features_are_scaled_in_their_own_dtype_and_stay_as_they_were(dtype: torch.dtype) -> None:
    features = DENSE.to(dtype)
    scaling = Scaling.fit([features])
    scaled = scaling.apply(features)
    assert scaled.dtype == dtype
    assert scaling.shift.dtype == scaling.factor.dtype == torch.float64
    np.testing.assert_allclose(scaled.double(), scaling.apply(DENSE.double()), atol=0.02)
    assert torch.equal(features, DENSE.to(dtype))


def test_two_scalings_can_be_compared() -> None:
    one, other = Scaling.none(3), Scaling.none(3)
    assert one == one
    assert one != other  # each is itself: tensors have no single truth value
