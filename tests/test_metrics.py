"""Metrics: by hand, where they are not defined, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admil.errors import InvalidInput
from admil.metrics import (
    area_under_curve,
    auroc,
    average_precision,
    expected_calibration_error,
    per_bag_average_precision,
    positive_bag_share,
)

TRUTH = st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0])), min_size=1, max_size=25)

# --- average precision --------------------------------------------------------------------------


def test_average_precisions_computed_by_hand() -> None:
    assert average_precision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1]) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision([0, 1], [0.9, 0.1]) == pytest.approx(0.5)
    assert average_precision([1, 1, 0], [0.9, 0.8, 0.7]) == 1.0
    assert average_precision([1, 0, 0, 0], [0.5] * 4) == pytest.approx(0.25)  # ties count as one threshold
    assert average_precision(np.array([True, False]), np.array([1, 0])) == 1.0


def slow_average_precision(pairs: list[tuple[int, float]]) -> float:
    """Return the sum over distinct scores of precision x the recall gained there."""
    positives, area, found = sum(z for z, _ in pairs), 0.0, 0
    for threshold in sorted({f for _, f in pairs}, reverse=True):
        above = [z for z, f in pairs if f >= threshold]
        area += sum(above) / len(above) * (sum(above) - found) / positives
        found = sum(above)
    return area


@given(TRUTH)
def test_average_precision_equals_its_definition(pairs: list[tuple[int, float]]) -> None:
    value = average_precision([z for z, _ in pairs], [f for _, f in pairs])
    if not any(z for z, _ in pairs):
        assert math.isnan(value)
    else:
        assert value == pytest.approx(slow_average_precision(pairs))


def test_average_precision_within_bags_is_averaged_over_bags_with_a_positive() -> None:
    truth, scores = [0, 1, 0, 0, 1, 1], [0.9, 0.1, 0.8, 0.7, 0.6, 0.5]
    assert per_bag_average_precision(truth, scores, [0, 2, 4, 6]) == pytest.approx((0.5 + 1) / 2)
    assert per_bag_average_precision(truth, scores, np.array([0, 6])) == pytest.approx(average_precision(truth, scores))
    assert math.isnan(per_bag_average_precision([0, 0], [0.1, 0.2], [0, 1, 2]))
    assert math.isnan(per_bag_average_precision([], [], [0]))


@pytest.mark.parametrize("offsets", [[0, 2], [0, 4], [1, 3], [0, 2, 1, 3], [], [[0, 3]], 3], ids=repr)
def test_offsets_that_do_not_cover_the_instances_are_refused(offsets: Any) -> None:
    with pytest.raises(InvalidInput, match="offsets must rise from 0 to the 3 instances, got "):
        per_bag_average_precision([1, 0, 1], [0.1, 0.2, 0.3], offsets)


# --- AUROC --------------------------------------------------------------------------------------


@given(TRUTH)
def test_auroc_is_the_share_of_pairs_in_order(pairs: list[tuple[int, float]]) -> None:
    positive, negative = ([f for z, f in pairs if z == side] for side in (1, 0))
    value = auroc([z for z, _ in pairs], [f for _, f in pairs])
    if not positive or not negative:
        assert math.isnan(value)
    else:
        wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a in positive for b in negative]
        assert value == pytest.approx(sum(wins) / len(wins))


def test_metrics_without_what_they_need_are_nan() -> None:
    assert math.isnan(average_precision([], []))
    assert math.isnan(average_precision([0, 0], [0.1, 0.2]))
    assert math.isnan(auroc([], []))
    assert math.isnan(auroc([1, 1], [0.1, 0.2]))
    assert math.isnan(auroc([0, 0], [0.1, 0.2]))
    assert math.isnan(expected_calibration_error([], []))
    assert math.isnan(positive_bag_share([0, 0], [False, True]))
    assert math.isnan(positive_bag_share([], []))


# --- share of positive bags ---------------------------------------------------------------------


def test_the_share_counts_positive_bags_only() -> None:
    assert positive_bag_share([1, 1, 1, 0], [True, False, True, True]) == pytest.approx(2 / 3)
    assert positive_bag_share([1, -1], np.array([1, 0])) == 1.0
    assert positive_bag_share([True, False], [False, False]) == 0.0


@pytest.mark.parametrize(("labels", "found"), [([1, 1], [True]), ([1], [True, False]), ([[1]], [[True]])])
def test_one_value_per_bag_is_expected(labels: Any, found: Any) -> None:
    with pytest.raises(InvalidInput, match=r"expected one value per bag, got shapes \("):
        positive_bag_share(labels, found)


# --- calibration --------------------------------------------------------------------------------


def test_calibration_errors_computed_by_hand() -> None:
    assert expected_calibration_error([1, 1, 0, 0], [0.9, 0.9, 0.1, 0.1]) == pytest.approx(0.1)
    assert expected_calibration_error([1, 0], [1.0, 0.0]) == 0.0
    assert expected_calibration_error([0, 1], [1.0, 0.0]) == 1.0
    assert expected_calibration_error([1, 0, 0, 0], [0.25] * 4) == 0.0
    # one bin: only the averages count; two bins: 0.2 and 0.8 are apart
    assert expected_calibration_error([1, 0], [0.2, 0.8], bins=1) == pytest.approx(0)
    assert expected_calibration_error([1, 0], [0.2, 0.8], bins=2) == pytest.approx(0.8)
    # weighted by how many fall into a bin: 3/4 x |1/3 - 0.1| + 1/4 x |1 - 0.6|
    assert expected_calibration_error([1, 0, 0, 1], [0.1, 0.1, 0.1, 0.6], bins=2) == pytest.approx(0.175 + 0.1)


def test_a_probability_of_one_falls_into_the_last_bin() -> None:
    assert expected_calibration_error([1, 0], [1.0, 0.95], bins=10) == pytest.approx(0.475)


@pytest.mark.parametrize(("low", "high"), [(-0.1, 0.5), (0.5, 1.1)])
def test_calibration_refuses_what_is_no_probability(low: float, high: float) -> None:
    with pytest.raises(InvalidInput, match=rf"probabilities in \[0, 1\], got {low:g} to {high:g}"):
        expected_calibration_error([1, 0], [low, high])


@pytest.mark.parametrize("bins", [0, -1])
def test_calibration_needs_a_bin(bins: int) -> None:
    with pytest.raises(InvalidInput, match=f"calibration needs at least one bin, got {bins}"):
        expected_calibration_error([1, 0], [0.1, 0.5], bins)


# --- area under a curve -------------------------------------------------------------------------


def test_areas_computed_by_hand() -> None:
    assert area_under_curve([0, 10, 20], [0.5, 0.7, 0.9]) == pytest.approx(0.7)
    assert area_under_curve([0, 10, 100], [0.0, 1.0, 1.0]) == pytest.approx(0.95)
    assert area_under_curve([5], [0.3]) == 0.3
    assert area_under_curve(np.array([100, 200]), [0.2, 0.4]) == pytest.approx(0.3)
    assert math.isnan(area_under_curve([0, 1], [0.5, math.nan]))


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=8, unique=True).map(sorted),
    st.floats(0, 1),
    st.floats(-100, 100),
)
def test_a_flat_curve_has_its_own_height_wherever_it_starts(answers: list[int], height: float, shift: float) -> None:
    assert area_under_curve([n + shift for n in answers], [height] * len(answers)) == pytest.approx(height)


@pytest.mark.parametrize(
    ("answers", "quality", "message"),
    [
        ([0, 1], [0.5], r"as many answers as values, got shapes \(2,\) and \(1,\)"),
        ([], [], r"as many answers as values, got shapes \(0,\) and \(0,\)"),
        ([[0, 1]], [[0, 1]], r"as many answers as values, got shapes \(1, 2\) and \(1, 2\)"),
        ([0, 0], [0.5, 0.6], "the number of answers must increase along a curve, got"),
        ([10, 0], [0.5, 0.6], "the number of answers must increase"),
        ([0, math.nan], [0.5, 0.6], "the number of answers must increase"),
    ],
)
def test_what_is_no_curve_is_refused(answers: Any, quality: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        area_under_curve(answers, quality)


# --- invalid input ------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [average_precision, auroc, expected_calibration_error])
@pytest.mark.parametrize(
    ("truth", "scores", "message"),
    [
        ([1, 0], [0.5], r"expected one score per label, got shapes \(2,\) and \(1,\)"),
        ([[1, 0]], [[0.5, 0.5]], r"expected one score per label, got shapes \(1, 2\)"),
        ([1, -1], [0.5, 0.5], r"labels must be 0 or 1 \(or booleans\)"),
        ([1, 2], [0.5, 0.5], "labels must be 0 or 1"),
        ([1, 0.5], [0.5, 0.5], "labels must be 0 or 1"),
        ([1, math.nan], [0.5, 0.5], "labels must be 0 or 1"),
        ([1, 0], [0.5, math.nan], "scores must be finite"),
        ([1, 0], [0.5, math.inf], "scores must be finite"),
    ],
)
def test_labels_and_scores_that_cannot_be_used_are_refused(metric: Any, truth: Any, scores: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        metric(truth, scores)


def test_the_metric_within_bags_refuses_the_same() -> None:
    with pytest.raises(InvalidInput, match="scores must be finite"):
        per_bag_average_precision([1, 0], [0.5, math.nan], [0, 2])
