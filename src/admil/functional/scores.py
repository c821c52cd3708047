"""Other bag scores: maximum, mean, top-k, and the variance form that the robust score approximates.

Shapes and masks are as in `admil.functional.robust`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from admil.errors import InvalidInput

__all__ = [
    "attention_weights",
    "maximum_score",
    "mean_score",
    "softmax_mean_log_odds",
    "softmax_mean_score",
    "theorem1_holds",
    "top_k_score",
    "variance_score",
]


def maximum_score(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the largest score of each bag (the MS-MIL score), shape (...).

    >>> maximum_score(torch.tensor([[0.2, 0.9]]))
    tensor([0.9000])
    """
    mask = _full(scores, mask)
    best = scores.masked_fill(~mask, -torch.inf).amax(-1)
    return torch.where(mask.any(-1), best, 0.0)


def mean_score(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the mean score of each bag, shape (...)."""
    mask = _full(scores, mask)
    return torch.where(mask, scores, 0.0).sum(-1) / _size(scores, mask)


def top_k_score(scores: Tensor, mask: Tensor | None = None, k: int = 3) -> Tensor:
    """Return the mean of the ``k`` largest scores of each bag; ``k`` is clamped to the bag's size.

    >>> top_k_score(torch.tensor([[0.2, 0.8, 0.6]]), k=2)
    tensor([0.7000])
    """
    if k < 1:
        raise InvalidInput(f"k is the number of largest scores, from 1 up, got {k!r}", k)
    mask = _full(scores, mask)
    top, order = scores.masked_fill(~mask, -torch.inf).topk(min(k, scores.shape[-1]), dim=-1)
    chosen = mask.gather(-1, order)
    return torch.where(chosen, top, 0.0).sum(-1) / chosen.sum(-1).clamp_min(1)


def variance_score(scores: Tensor, mask: Tensor | None = None, c: float = 1.0) -> Tensor:
    """Return mean + c * sqrt(Var / n), the bracket of the paper's eq. 2, shape (...).

    With c = sqrt(lambda) it is the closed form of Theorem 1.  At variance 0 the gradient of the root
    is taken as 0.

    >>> variance_score(torch.tensor([[0.0, 1.0]]), c=1.0).round(decimals=4)
    tensor([0.8536])
    """
    mask = _full(scores, mask)
    mean = mean_score(scores, mask)
    size = _size(scores, mask)
    variance = torch.where(mask, scores - mean.unsqueeze(-1), 0.0).square().sum(-1) / size
    varied = variance > 0
    root = torch.where(varied, torch.where(varied, variance / size, 1.0).sqrt(), 0.0)
    return mean + c * root


def softmax_mean_score(scores: Tensor, mask: Tensor | None = None, alpha: float = 2.5) -> Tensor:
    """Return O = sum(o * exp(alpha o)) / sum(exp(alpha o)), the combining function of MI-logistic."""
    mask = _full(scores, mask)
    weights = torch.softmax((alpha * scores).masked_fill(~mask, -torch.inf), -1)
    # masked before the product: an empty row's weights are nan, and so would be their gradient
    return (torch.where(mask, weights, 0.0) * torch.where(mask, scores, 0.0)).sum(-1)


def softmax_mean_log_odds(logits: Tensor, mask: Tensor | None = None, alpha: float = 2.5) -> Tensor:
    """Return log(O / (1 - O)) of the combining function O of MI-logistic, from the instances' logits.

    Finite where O itself rounds to 0 or 1; 0 for an empty bag.

    >>> softmax_mean_log_odds(torch.tensor([[3.0, 3.0]]))
    tensor([3.])
    """
    mask = _full(logits, mask)
    filled = mask | ~mask.any(-1, keepdim=True)  # an empty row would have no gradient but nan
    weight = (alpha * torch.sigmoid(logits)).masked_fill(~filled, -torch.inf)
    odds = torch.logsumexp(weight + logsigmoid(logits), -1) - torch.logsumexp(weight + logsigmoid(-logits), -1)
    return torch.where(mask.any(-1), odds, 0.0)


def attention_weights(energies: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return softmax(e) over each bag, exactly 0 where masked; rows of a bag sum to 1, an empty bag's are 0.

    >>> attention_weights(torch.zeros(1, 2))
    tensor([[0.5000, 0.5000]])
    """
    mask = _full(energies, mask)
    filled = mask | ~mask.any(-1, keepdim=True)
    return torch.where(mask, torch.softmax(energies.masked_fill(~filled, -torch.inf), -1), 0.0)


def theorem1_holds(scores: Tensor, mask: Tensor | None = None, lam: float = 0.01) -> Tensor:
    """Tell, bag by bag, whether Theorem 1's closed form equals the chi-square score exactly.

    The condition is min_i sqrt(lam) (f_i - mean) / sqrt(n Var) >= -1; bags of equal scores meet it.
    Where it fails `variance_score` with c = sqrt(lam) is larger than the robust score.

    >>> theorem1_holds(torch.tensor([[0.1, 0.2], [0.5, 0.5]]), lam=1.0)
    tensor([True, True])
    """
    if not lam >= 0:
        raise InvalidInput(f"lambda is a radius, from 0 up, got {lam!r}", lam)
    mask = _full(scores, mask)
    wide = scores.detach().double() if scores.device.type != "mps" else scores.detach()
    best = torch.where(mask.any(-1), wide.masked_fill(~mask, -torch.inf).amax(-1), 0.0)
    gap = torch.where(mask, wide - best.unsqueeze(-1), 0.0)  # shift first: equal scores give exactly 0
    size = mask.sum(-1).clamp_min(1).to(wide.dtype)
    offset = gap - (gap.sum(-1) / size).unsqueeze(-1)
    lowest = torch.where(mask, offset, torch.inf).amin(-1)
    n_variance = torch.where(mask, offset.square(), 0.0).sum(-1)
    constant = (gap == 0).all(-1)
    return constant | torch.ge(lam**0.5 * lowest, -n_variance.sqrt())


def _full(scores: Tensor, mask: Tensor | None) -> Tensor:
    return torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)


def _size(scores: Tensor, mask: Tensor) -> Tensor:
    return mask.sum(-1).clamp_min(1).to(scores.dtype)
