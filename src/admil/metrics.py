"""How good a ranking is.  Plain arrays in, floats out; nan where a metric is not defined."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import metrics as sk

from admil.errors import InvalidInput

__all__ = [
    "area_under_curve",
    "auroc",
    "average_precision",
    "expected_calibration_error",
    "per_bag_average_precision",
    "positive_bag_share",
]


def average_precision(truth: ArrayLike, scores: ArrayLike) -> float:
    """Return the average precision of all instances pooled; nan without a positive.

    >>> average_precision([1, 0, 1], [0.9, 0.8, 0.7])
    0.8333333333333333
    """
    labels, values = _checked(truth, scores)
    return float(sk.average_precision_score(labels, values)) if labels.any() else float("nan")


def auroc(truth: ArrayLike, scores: ArrayLike) -> float:
    """Return the area under the ROC curve (of instances or bags); nan unless both classes are there."""
    labels, values = _checked(truth, scores)
    return float(sk.roc_auc_score(labels, values)) if 0 < labels.sum() < len(labels) else float("nan")


def per_bag_average_precision(truth: ArrayLike, scores: ArrayLike, offsets: ArrayLike) -> float:
    """Return the mean over bags with a positive of the average precision within the bag."""
    labels, values = _checked(truth, scores)
    bounds = np.asarray(offsets)
    ends = bounds[[0, -1]].tolist() if bounds.ndim == 1 and len(bounds) else None
    if ends != [0, len(labels)] or (np.diff(bounds) < 0).any():
        raise InvalidInput(f"offsets must rise from 0 to the {len(labels)} instances, got {bounds.tolist()}")
    each = [
        float(sk.average_precision_score(labels[a:b], values[a:b])) for a, b in pairwise(bounds) if labels[a:b].any()
    ]
    return float(np.mean(each)) if each else float("nan")


def positive_bag_share(bag_labels: ArrayLike, confirmed: ArrayLike) -> float:
    """Return the share of positive bags in which a positive instance has been found (TP bags).

    >>> positive_bag_share([1, 1, 0], [True, False, False])
    0.5
    """
    positive, found = np.asarray(bag_labels) == 1, np.asarray(confirmed, dtype=bool)
    if positive.shape != found.shape or positive.ndim != 1:
        raise InvalidInput(f"expected one value per bag, got shapes {positive.shape} and {found.shape}")
    return float(found[positive].mean()) if positive.any() else float("nan")


def expected_calibration_error(truth: ArrayLike, probabilities: ArrayLike, bins: int = 15) -> float:
    """Return the mean |accuracy - confidence| over equal-width bins of the probability, by their share.

    >>> round(expected_calibration_error([1, 1, 0, 0], [0.9, 0.9, 0.1, 0.1]), 4)
    0.1
    """
    labels, values = _checked(truth, probabilities)
    if bins < 1:
        raise InvalidInput(f"calibration needs at least one bin, got {bins}")
    if len(values) == 0:
        return float("nan")
    if values.min() < 0 or values.max() > 1:
        raise InvalidInput(f"calibration needs probabilities in [0, 1], got {values.min():g} to {values.max():g}")
    place = np.minimum((values * bins).astype(int), bins - 1)
    gap = np.bincount(place, labels, bins) - np.bincount(place, values, bins)
    return float(np.abs(gap).sum() / len(values))


def area_under_curve(answers: ArrayLike, quality: ArrayLike) -> float:
    """Return the mean height of a curve over the number of answers (trapezoids), in the unit of quality.

    >>> area_under_curve([0, 10, 20], [0.5, 0.7, 0.9])
    0.7
    """
    x, y = np.asarray(answers, dtype=float), np.asarray(quality, dtype=float)
    if x.shape != y.shape or x.ndim != 1 or len(x) == 0:
        raise InvalidInput(f"a curve needs as many answers as values, got shapes {x.shape} and {y.shape}")
    if not (np.diff(x) > 0).all():  # nan included
        raise InvalidInput(f"the number of answers must increase along a curve, got {x.tolist()}")
    if len(x) == 1:
        return float(y[0])
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / (x[-1] - x[0]))  # np.trapezoid came with NumPy 2


def _checked(truth: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    labels, values = np.asarray(truth), np.asarray(scores, dtype=np.float64)
    if labels.shape != values.shape or labels.ndim != 1:
        raise InvalidInput(f"expected one score per label, got shapes {labels.shape} and {values.shape}")
    if not np.isin(labels, (0, 1)).all():
        raise InvalidInput("labels must be 0 or 1 (or booleans)")
    if not np.isfinite(values).all():
        raise InvalidInput("scores must be finite")
    return labels.astype(bool), values
