"""Scaling of inputs, fitted on training bags and part of the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

__all__ = ["Scaling", "ScalingRule"]

ScalingRule = Literal["auto", "standard", "common", "none"]

_SPARSE_FROM = 0.8
"""Share of exact zeros from which ``auto`` calls features sparse (text is near 0.99, ReLU outputs are below)."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Scale features as (x - shift) * factor.

    Rules: ``standard`` gives every feature mean 0 and variance 1, which dense features want;
    ``common`` divides all features by one number, their overall root mean square, which keeps zeros
    and the weight of rare features (standardising sparse features blows rare ones up and ruins the
    model); ``none`` changes nothing; ``auto`` takes ``common`` where at least 80 % of the entries are
    exactly 0 and none is negative, ``standard`` elsewhere.

    Attributes:
        rule: the rule that was applied, never ``auto``.
        shift: (D,) in float64.
        factor: (D,) in float64.
    """

    rule: ScalingRule
    shift: Tensor
    factor: Tensor

    @classmethod
    def fit(cls, chunks: Iterable[Tensor], rule: ScalingRule = "auto") -> Scaling:
        """Fit to the rows of all chunks, each (m, D), read once."""
        count, zeros, lowest = 0, 0, 0.0
        total = squares = torch.zeros(())
        mean: Tensor | None = None
        for chunk in chunks:
            wide = chunk.double()
            if mean is None:  # a provisional shift keeps the sums of squares exact enough
                mean = wide.mean(0)
                total, squares = torch.zeros_like(mean), torch.zeros_like(mean)
            centred = wide - mean
            total += centred.sum(0)
            squares += centred.square().sum(0)
            zeros += int((wide == 0).sum())
            lowest = min(lowest, float(wide.min()))
            count += len(wide)
        assert mean is not None, "bags hold at least one instance"
        if rule == "auto":
            sparse = lowest >= 0 and zeros >= _SPARSE_FROM * count * len(mean)
            rule = "common" if sparse else "standard"
        variance = (squares / count - (total / count).square()).clamp_min(0)
        return cls(rule, *_shift_and_factor(rule, mean + total / count, variance))

    @classmethod
    def none(cls, width: int) -> Scaling:
        """Return the scaling that changes nothing."""
        return cls("none", torch.zeros(width).double(), torch.ones(width).double())

    def apply(self, features: Tensor) -> Tensor:
        """Return scaled features in their own dtype."""
        shift, factor = self.shift.to(features), self.factor.to(features)
        return (features - shift) * factor


def _shift_and_factor(rule: ScalingRule, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    nothing, one = torch.zeros_like(mean), torch.ones_like(mean)
    if rule == "none":
        return nothing, one
    if rule == "common":
        size = (variance + mean.square()).mean().sqrt()
        return nothing, one / size if size > 0 else one
    deviation = variance.sqrt()
    constant = deviation <= 1e-7 * mean.abs().clamp_min(1e-30)  # rounding noise of a constant feature
    return mean, torch.where(constant, 0.0, 1 / torch.where(constant, 1.0, deviation))
