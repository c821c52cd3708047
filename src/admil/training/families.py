"""The two families of bag losses: what they make of a bag, and how bags make a loss."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TypeVar

import torch
from torch import Tensor

from admil.functional import maximum_score, pairwise_hinge
from admil.losses import BagLogOdds, BagLoss, HingeLoss, PooledLoss, PositiveScore, bag_cross_entropy

__all__ = ["HingeFamily", "PooledFamily", "family_of", "pooled_family"]

_Loss = TypeVar("_Loss")


def family_of(losses: Sequence[BagLoss]) -> HingeFamily | PooledFamily:
    """Return the family that all members' losses are of; a recipe sees to it that they are of one."""
    hinge = [loss for loss in losses if isinstance(loss, HingeLoss)]
    return pooled_family(losses) or HingeFamily(hinge)


def pooled_family(losses: Sequence[BagLoss]) -> PooledFamily | None:
    """Return the family of pooled losses; None where the losses are of the other."""
    pooled = [loss for loss in losses if isinstance(loss, PooledLoss)]
    return PooledFamily(pooled) if pooled else None


class HingeFamily:
    """Orders bags: scores of positive bags by each member's loss, of negative bags by their maximum."""

    def __init__(self, losses: Sequence[PositiveScore]) -> None:
        self.groups = _grouped(losses)

    def values_of(self, outputs: Tensor) -> Tensor:
        """Return (1, E, m) scores."""
        return torch.sigmoid(outputs[:1])

    def positive(self, values: Tensor, mask: Tensor) -> Tensor:
        """Return (E, b) of (1, E, b, N) scores."""
        return torch.cat([loss.positive_score(values[0, run], mask) for loss, run in self.groups])

    def negative(self, values: Tensor, mask: Tensor) -> Tensor:
        """Return (E, b) of (1, E, b, N) scores; the mask may differ between members, (E, b, N)."""
        return maximum_score(values[0], mask)

    def loss(self, positive: Tensor, negative: Tensor, above: Tensor, below: Tensor) -> Tensor:
        """Return (E,) of the bags' values and weights."""
        return pairwise_hinge(positive, negative, above, below)


class PooledFamily:
    """Takes the cross-entropy of bags: one logit of each by the member's loss."""

    def __init__(self, losses: Sequence[BagLogOdds]) -> None:
        self.groups = _grouped(losses)

    def values_of(self, outputs: Tensor) -> Tensor:
        """Return (H, E, m) what the network gives."""
        return outputs

    def positive(self, values: Tensor, mask: Tensor) -> Tensor:
        """Return (E, b) of (H, E, b, N); the mask may differ between members, (E, b, N)."""
        every = mask.expand(values.shape[1:])
        return torch.cat([loss.bag_log_odds(values[:, run], every[run]) for loss, run in self.groups])

    negative = positive

    def loss(self, positive: Tensor, negative: Tensor, above: Tensor, below: Tensor) -> Tensor:
        """Return (E,) of the bags' values and weights."""
        return bag_cross_entropy(positive, negative, above, below)


def _grouped(losses: Sequence[_Loss]) -> list[tuple[_Loss, slice]]:
    """Return runs of members that share a loss, so that each loss is computed once per run."""
    groups: list[tuple[_Loss, slice]] = []
    start = 0
    for loss, run in groupby(losses):
        stop = start + len(list(run))
        groups.append((loss, slice(start, stop)))
        start = stop
    return groups
