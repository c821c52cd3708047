"""Losses: what the bag labels say, and what the answers add.

There are two families.  A *hinge* loss scores positive bags its own way and negative bags by their maximum, and
hinges every positive x negative pair: relu(1 - score(+) + max(-)).  A new one is a class here with a ``kind`` and
``positive_score``, listed in `HingeLoss`.  A *pooled* loss makes one logit of a bag, whatever its label, and takes
the cross-entropy: a class with a ``kind`` and ``bag_log_odds``, listed in `PooledLoss`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as nnf

from admil.functional import (
    Robustness,
    attention_weights,
    maximum_score,
    mean_score,
    robust_score,
    softmax_mean_log_odds,
    top_k_score,
    variance_score,
)
from admil.settings import Settings

__all__ = [
    "AttentionPooled",
    "BagLogOdds",
    "BagLoss",
    "Drbl",
    "HingeLoss",
    "MaxScore",
    "MeanScore",
    "PooledLoss",
    "PositiveScore",
    "SoftmaxPooled",
    "TopK",
    "Variance",
    "answer_cross_entropy",
    "bag_cross_entropy",
]


class PositiveScore(Protocol):
    """How a bag loss scores a positive bag."""

    def positive_score(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return (..., B) bag scores of (..., B, N) instance scores in [0, 1]."""


class BagLogOdds(Protocol):
    """How a pooled loss makes the logit of a bag."""

    def bag_log_odds(self, outputs: Tensor, mask: Tensor) -> Tensor:
        """Return (..., B) logits of bags from a network's (H, ..., B, N) outputs: logits, and energies if any."""


class Drbl(Settings):
    """The robust bag likelihood (eq. 7): a positive bag counts by its robust score."""

    kind: Literal["drbl"] = "drbl"
    robustness: Robustness = Robustness.effective(2)

    def positive_score(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return `robust_score`."""
        return robust_score(scores, mask, self.robustness)


class MaxScore(Settings):
    """MS-MIL (eq. 1): a positive bag counts by its highest score."""

    kind: Literal["max"] = "max"

    def positive_score(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return `maximum_score`."""
        return maximum_score(scores, mask)


class TopK(Settings):
    """A positive bag counts by the mean of its k highest scores."""

    kind: Literal["top_k"] = "top_k"
    k: int = Field(default=3, ge=1)

    def positive_score(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return `top_k_score`."""
        return top_k_score(scores, mask, self.k)


class MeanScore(Settings):
    """A positive bag counts by its mean score: the ablation that cannot separate sparse bags."""

    kind: Literal["mean"] = "mean"

    def positive_score(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return `mean_score`."""
        return mean_score(scores, mask)


class Variance(Settings):
    """The variance-regularised score (eq. 2): mean + c sqrt(Var / n)."""

    kind: Literal["variance"] = "variance"
    c: float = Field(default=5.0, ge=0, allow_inf_nan=False)

    def positive_score(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return `variance_score`."""
        return variance_score(scores, mask, self.c)


class SoftmaxPooled(Settings):
    """MI-logistic: the probability of a bag is O = sum(o exp(alpha o)) / sum(exp(alpha o)) (Settles et al. 2007)."""

    kind: Literal["softmax_pooled"] = "softmax_pooled"
    alpha: float = Field(default=2.5, ge=0, allow_inf_nan=False)

    def bag_log_odds(self, outputs: Tensor, mask: Tensor) -> Tensor:
        """Return `softmax_mean_log_odds` of the logits."""
        return softmax_mean_log_odds(outputs[0], mask, self.alpha)


class AttentionPooled(Settings):
    """Attention MIL: a bag's logit is that of its instances, weighted by their attention (Ilse et al. 2018).

    The network must have attention; which, says the recipe.
    """

    kind: Literal["attention_pooled"] = "attention_pooled"

    def bag_log_odds(self, outputs: Tensor, mask: Tensor) -> Tensor:
        """Return sum a_i logit_i, where a = softmax(energies)."""
        logits, energies = outputs
        return (attention_weights(energies, mask) * torch.where(mask, logits, 0.0)).sum(-1)


HingeLoss = Drbl | MaxScore | TopK | MeanScore | Variance
"""Losses that order every positive bag above every negative one."""

PooledLoss = SoftmaxPooled | AttentionPooled
"""Losses that take the cross-entropy of a bag's own logit."""

BagLoss = Annotated[HingeLoss | PooledLoss, Field(discriminator="kind")]
"""Every bag loss that a recipe can name."""


def answer_cross_entropy(logits: Tensor, truth: Tensor, weight: Tensor) -> Tensor:
    """Return the mean binary cross-entropy over answered instances (the paper's BCE term), (E,).

    Args:
        logits: (E, A) logits of answered instances.
        truth: (A,) 1 for positive answers, 0 for negative ones.
        weight: (E, A) 0 where a member leaves an answer out.
    """
    each = nnf.binary_cross_entropy_with_logits(logits, truth.to(logits).expand_as(logits), reduction="none")
    total = weight.sum(-1)
    return (each * weight).sum(-1) / torch.where(total > 0, total, 1.0)


def bag_cross_entropy(positive: Tensor, negative: Tensor, above: Tensor, below: Tensor) -> Tensor:
    """Return the mean binary cross-entropy over bags, (E,).

    Args:
        positive: (E, A) logits of positive bags.
        negative: (E, B) logits of negative bags.
        above: (E, A) weights of the positive bags.
        below: (E, B) weights of the negative bags.
    """
    each = torch.cat([nnf.softplus(-positive), nnf.softplus(negative)], -1)
    weight = torch.cat([above, below], -1)
    total = weight.sum(-1)
    return (each * weight).sum(-1) / torch.where(total > 0, total, 1.0)
