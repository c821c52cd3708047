"""How uncertain a score is, and how probable an instance is given that its bag is positive."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["bag_posterior", "disagreement", "entropy", "gini", "miu"]


def entropy(probability: Tensor) -> Tensor:
    """Return the binary entropy H(f) = -f log f - (1 - f) log(1 - f) in nats; 0 at f = 0 and f = 1.

    >>> entropy(torch.tensor([0.0, 0.5, 1.0])).round(decimals=4)
    tensor([0.0000, 0.6931, 0.0000])
    """
    # log1p: in float32 log(1 - f) is lost for small f
    rest: Tensor = torch.special.xlog1py(1 - probability, -probability)
    return (-torch.xlogy(probability, probability) - rest).abs()  # rounding near 1, and no -0


def gini(probability: Tensor) -> Tensor:
    """Return 2 f (1 - f), the uncertainty of Settles, Craven and Ray; it ranks as the entropy does."""
    return 2 * probability * (1 - probability)


def disagreement(member_probability: Tensor) -> Tensor:
    """Return H(mean f) - mean H(f) over members, (E, ...) -> (...): how much the members disagree.

    >>> disagreement(torch.tensor([[0.0, 0.5], [1.0, 0.5]])).round(decimals=4)
    tensor([0.6931, 0.0000])
    """
    gain = entropy(member_probability.mean(0)) - entropy(member_probability).mean(0)
    return gain.clamp_min(0)


def miu(scores: Tensor, mask: Tensor, alpha: float = 2.5) -> Tensor:
    """Return the MI uncertainty dO/do_i * 2 O (1 - O) of Settles, Craven and Ray, shape (..., N).

    O is `softmax_mean_score`; its derivative is w_i (1 + alpha (o_i - O)) with w = softmax(alpha o), which is below 0
    for instances far below their bag's score.
    """
    weights = torch.softmax((alpha * scores).masked_fill(~mask, -torch.inf), -1)
    weights, scores = torch.where(mask, weights, 0.0), torch.where(mask, scores, 0.0)
    bag = (weights * scores).sum(-1, keepdim=True)
    slope = weights * (1 + alpha * (scores - bag))
    return slope * gini(bag)


def bag_posterior(scores: Tensor, candidates: Tensor, confirmed: Tensor) -> Tensor:
    """Return P(z_i = 1 | the bag is positive) for independent instances, shape (..., N).

    In a positive bag without a confirmed positive at least one candidate is positive, so the
    probability is f_i / (1 - prod_j (1 - f_j)), the product over the candidates.  Where a positive is
    confirmed, the bag's label says nothing more and the probability is f_i.

    >>> f = torch.tensor([[0.01, 0.01], [0.5, 0.01]], dtype=torch.float64)
    >>> bag_posterior(f, torch.ones(2, 2, dtype=torch.bool), torch.tensor([False, True])).round(decimals=3)
    tensor([[0.5030, 0.5030],
            [0.5000, 0.0100]], dtype=torch.float64)

    Args:
        scores: (..., N) probabilities of single instances.
        candidates: (..., N) True for instances not known to be negative (or padded).
        confirmed: (...) True for bags with a known positive.
    """
    f = torch.where(candidates, scores.double(), 0.0)
    any_positive = -torch.expm1(torch.log1p(-f).sum(-1, keepdim=True))
    count = candidates.sum(-1, keepdim=True).clamp_min(1)
    share = torch.where(any_positive > 0, f / any_positive.clamp_min(5e-324), 1.0 / count.double())
    posterior = torch.where(confirmed.unsqueeze(-1), f, share.clamp(0, 1))
    return torch.where(candidates, posterior, 0.0)
