"""Hinges over every positive x negative pair of bags."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["pair_margins", "pairwise_hinge"]


def pair_margins(positive: Tensor, negative: Tensor) -> Tensor:
    """Return positive_a - negative_b for every pair, (..., A) and (..., B) -> (..., A, B)."""
    return positive.unsqueeze(-1) - negative.unsqueeze(-2)


def pairwise_hinge(
    positive: Tensor,
    negative: Tensor,
    positive_weight: Tensor | None = None,
    negative_weight: Tensor | None = None,
) -> Tensor:
    """Return the weighted mean over pairs of relu(1 - margin), shape (...).

    Without weights this is the mean over all pairs.  No pair of positive weight gives 0.

    >>> pairwise_hinge(torch.tensor([1.0, 0.5]), torch.tensor([0.0]))
    tensor(0.2500)

    Args:
        positive: (..., A) scores of positive bags.
        negative: (..., B) scores of negative bags.
        positive_weight: (..., A) weight of each positive bag, >= 0.
        negative_weight: (..., B) weight of each negative bag, >= 0.
    """
    hinge = torch.relu(1 - pair_margins(positive, negative))
    a = torch.ones_like(positive) if positive_weight is None else positive_weight
    b = torch.ones_like(negative) if negative_weight is None else negative_weight
    weight = a.unsqueeze(-1) * b.unsqueeze(-2)
    total = weight.sum((-2, -1))
    return (hinge * weight).sum((-2, -1)) / torch.where(total > 0, total, 1.0)
