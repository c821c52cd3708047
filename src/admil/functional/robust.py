"""The robust bag score R(f) = max over p in P_n of p . f, solved exactly for a batch of bags.

Scores come padded to (..., N) with a boolean mask of the same shape.  An entry outside the mask has
weight exactly 0 and does not count in n, the bag's size.  A row with an empty mask has all weights 0
and score 0; callers leave such bags out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from admil.functional.robustness import Robustness

__all__ = ["robust_score", "robust_weights"]

_NEWTON_STEPS = 100
_LEAST_LOG_GAIN = 1e-300
_LAST_MOVE = 1e-10  # Newton squares the error: the step after such a one is rounding


def robust_weights(scores: Tensor, mask: Tensor | None = None, robustness: Robustness | None = None) -> Tensor:
    """Return the weights p that maximise p . f within the set that ``robustness`` describes.

    >>> f = torch.tensor([[0.9, 0.8, 0.1]], dtype=torch.float64)
    >>> robust_weights(f, robustness=Robustness.effective(1))
    tensor([[1., 0., 0.]], dtype=torch.float64)
    >>> robust_weights(f, robustness=Robustness.effective(3)).round(decimals=4)
    tensor([[0.3333, 0.3333, 0.3333]], dtype=torch.float64)

    Args:
        scores: (..., N) instance scores; any finite range.
        mask: (..., N) True where an instance is present; None means everywhere.
        robustness: family and strength; None means ``Robustness.effective(2)``.

    Returns:
        (..., N) weights in the dtype of ``scores``; rows sum to 1.  The weights of the two balls carry
        no gradient (see `robust_score`); those of the softmax do.
    """
    robustness = robustness or Robustness.effective(2)
    scores = _real(scores)
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    if robustness.family == "softmax":
        return torch.where(mask, torch.softmax(_from_best(scores, mask, _gamma(scores, robustness)), -1), 0.0)
    with torch.no_grad():
        wide = scores.detach().to(_wide(scores))
        solve = _chi_square_weights if robustness.family == "chi_square" else _kl_weights
        return solve(wide, mask, robustness).to(scores.dtype)


def robust_score(scores: Tensor, mask: Tensor | None = None, robustness: Robustness | None = None) -> Tensor:
    """Return the robust bag score R(f), shape (...), with the gradient that belongs to its family.

    For the two balls dR/df = p where the maximiser is unique and a subgradient elsewhere, so p is
    held constant (Danskin).  For the softmax see `Robustness.temperature`.  R is convex in the
    scores; the loss 1 - R is therefore concave in them, not convex.

    >>> robust_score(torch.tensor([[0.9, 0.5]]), robustness=Robustness.effective(2))
    tensor([0.7000])
    """
    robustness = robustness or Robustness.effective(2)
    scores = _real(scores)
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    if robustness.family == "softmax" and not robustness.through:
        return _log_mean_exp_score(scores, mask, _gamma(scores, robustness))
    weights = robust_weights(scores, mask, robustness)
    return (weights * torch.where(mask, scores, 0.0)).sum(-1)


def _real(scores: Tensor) -> Tensor:
    """Return whole numbers as real ones: weights are fractions."""
    return scores if scores.is_floating_point() else scores.to(torch.get_default_dtype())


def _wide(scores: Tensor) -> torch.dtype:
    """Solve in float64 (the arrays are small); only Apple's mps has no such type."""
    return torch.float32 if scores.device.type == "mps" else torch.float64


def _best(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the largest present score of each row as a constant, (..., 1); 0 for an empty row."""
    best = scores.detach().masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
    return torch.where(mask.any(-1, keepdim=True), best, 0.0)


def _gamma(scores: Tensor, robustness: Robustness) -> float:
    """Return the temperature, within what the scores' dtype can hold (beyond, the limit is reached)."""
    held = torch.finfo(scores.dtype)
    return min(max(robustness.strength, held.tiny), held.max)


def _from_best(scores: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """Return (f - max f) / gamma, -inf outside the mask: a quotient that cannot overflow upwards."""
    return ((scores - _best(scores, mask)) / gamma).masked_fill(~mask, -torch.inf)


def _log_mean_exp_score(scores: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """Return gamma * log(mean(exp(f / gamma))), summed up from the mean where gamma is large.

    There log(sum) - log(n) would cancel, and gamma would magnify what is left.
    """
    some = mask.any(-1)
    present = torch.where(mask, scores, 0.0)
    size = mask.sum(-1).clamp_min(1).to(scores.dtype)
    mean = present.sum(-1) / size
    logits = torch.where(some.unsqueeze(-1), _from_best(scores, mask, gamma), 0.0)
    sharp = _best(scores, mask).squeeze(-1) + gamma * (torch.logsumexp(logits, -1) - size.log())
    offset = torch.where(mask, scores - mean.unsqueeze(-1), 0.0)
    growth = torch.expm1((offset / gamma).clamp(-1, 1))
    soft = mean + gamma * torch.log1p(growth.sum(-1) / size)
    return torch.where(some, torch.where(offset.detach().abs().amax(-1) < gamma, soft, sharp), 0.0)


def _chi_square_weights(scores: Tensor, mask: Tensor, robustness: Robustness) -> Tensor:
    """Solve on the chi-square ball by trying every support size at once.

    With the scores sorted downwards the support is the first k for some k, and on it
    p_i = 1/k + sqrt(r_k / S_k) (f_i - mu_k), where r_k is what the ball leaves after the uniform
    weights on k.  The solution is the largest k with r_k >= 0 and p_k >= 0.
    """
    top, order = scores.masked_fill(~mask, -torch.inf).sort(dim=-1, descending=True, stable=True)
    present = mask.gather(-1, order)
    first = torch.where(mask.any(-1, keepdim=True), top[..., :1], 0.0)
    gap = torch.where(present, top - first, 0.0)  # (..., N), <= 0; exactly 0 for ties at the top
    gap = gap / gap.amin(-1, keepdim=True).neg().clamp_min(torch.finfo(scores.dtype).tiny)  # p has no scale
    size = mask.sum(-1, keepdim=True).to(scores.dtype)  # (..., 1)
    k = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    total = gap.cumsum(-1)
    mean = total / k
    before = (total - gap) / (k - 1).clamp_min(1)  # mean of the first k - 1
    spread = ((gap - before).square() * (k - 1) / k).cumsum(-1)  # S_k, a sum that cannot cancel
    slack = _slack(size, k, robustness)
    # no weights lie further than 1 from uniform; more slack would only overflow
    step = torch.where(spread > 0, (slack.clamp(0, 1) / spread).sqrt(), 0.0)
    step = torch.where(torch.isfinite(step), step, 0.0)  # a spread of almost nothing is a tie
    least = 1 / k + step * (gap - mean)  # the weight of the k-th when the support is k
    tolerance = 8 * torch.finfo(scores.dtype).eps
    valid = present & (slack >= -tolerance) & (least >= -tolerance)
    last = torch.where(valid, k, 0).argmax(-1, keepdim=True)  # index of the largest valid k
    chosen = 1 / k[last] + step.gather(-1, last) * (gap - mean.gather(-1, last))
    inside = present & (k <= k[last])
    weights = torch.where(inside, chosen.clamp_min(0), 0.0)
    weights = weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).tiny)
    return torch.zeros_like(scores).scatter(-1, order, weights)


def _slack(size: Tensor, k: Tensor, robustness: Robustness) -> Tensor:
    """Return r_k, the squared radius left for leaning after uniform weights on k instances.

    Written without the cancelling difference of 1/k and 1/n + lambda/n**2.
    """
    n = size.clamp_min(1)
    if robustness.measure == "effective":
        wanted = n.clamp_max(robustness.strength)
        return (k - wanted) / (wanted * k)
    return robustness.strength / n.square() + (k - n) / (n * k)


def _kl_weights(scores: Tensor, mask: Tensor, robustness: Robustness) -> Tensor:
    """Solve on the KL ball: p proportional to exp(b f), b the root of KL(p_b || uniform) = target.

    The divergence increases with b from 0 to log(n / ties at the top); a target at or beyond that
    puts uniform weights on the ties.
    """
    size = mask.sum(-1, keepdim=True).to(scores.dtype).clamp_min(1)
    best = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
    at_top = mask & (scores == best)
    ties = at_top.sum(-1, keepdim=True).to(scores.dtype).clamp_min(1)
    if robustness.measure == "effective":
        target = (size / size.clamp_max(robustness.strength)).log()
    else:
        target = robustness.strength / size
    worst = scores.masked_fill(~mask, torch.inf).amin(-1, keepdim=True)
    width = best - worst
    limit = (size / ties).log()
    interior = (target > 0) & (target < limit) & (width > 0) & torch.isfinite(width)
    unit = torch.where(mask & interior, (scores - best) / torch.where(interior, width, 1.0), 0.0)
    tilted = _tilt(unit, mask, _kl_root(unit, mask, size, target, interior))
    uniform = torch.where(mask, 1 / size, 0.0)
    beyond = torch.where(at_top, 1 / ties, 0.0)
    flat = torch.where(target >= limit, beyond, uniform)
    return torch.where(interior, tilted, flat)


def _tilt(unit: Tensor, mask: Tensor, b: Tensor) -> Tensor:
    return torch.where(mask, torch.softmax((b * unit).masked_fill(~mask, -torch.inf), -1), 0.0)


def _kl_root(unit: Tensor, mask: Tensor, size: Tensor, target: Tensor, interior: Tensor) -> Tensor:
    """Find b by Newton on log KL against log b, kept inside a bracket by bisection.

    Newton's step is taken only while steps halve: on a bag with one instance far above the rest it
    would else swing across the bracket for ever.  A row that has settled stays where it is while
    others go on: at its root the sign of the excess is noise, and one more step could throw it far off.
    """
    target = torch.where(interior, target, 1.0)
    low = torch.full_like(target, -60.0)
    high = torch.full_like(target, 60.0)
    variance = _variance(unit, mask, size)
    # KL ~ b^2 Var / 2 for small b: a start that is already right for weak robustness
    s = 0.5 * (2 * target / variance.clamp_min(1e-30)).log()
    stride, settled = high - low, ~interior
    rounding = 16 * torch.finfo(s.dtype).eps
    for _ in range(_NEWTON_STEPS):
        gain, slope = _divergence(unit, mask, size, s.exp())
        excess = gain.clamp_min(_LEAST_LOG_GAIN).log() - target.log()
        high = torch.where(excess > 0, s, high)
        low = torch.where(excess > 0, low, s)
        move = -excess * gain / slope.clamp_min(_LEAST_LOG_GAIN)
        exact = (gain - target).abs() <= rounding * s.exp().clamp_max(1)
        last = move.abs() <= _LAST_MOVE * s.abs().clamp_min(1)
        newton = last | ((s + move > low) & (s + move < high) & (move.abs() <= stride / 2))
        step = torch.where(newton, move, (low + high) / 2 - s)
        stride = step.abs()
        s = torch.where(settled | exact, s, s + step)
        settled = settled | exact | last
        if bool(settled.all()):
            break
    return s.exp()


def _variance(unit: Tensor, mask: Tensor, size: Tensor) -> Tensor:
    mean = unit.sum(-1, keepdim=True) / size
    return torch.where(mask, (unit - mean).square(), 0.0).sum(-1, keepdim=True) / size


def _divergence(unit: Tensor, mask: Tensor, size: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return KL(p_b || uniform) and its derivative in log b.

    Measured from the mean for small b and from the top (unit = 0) for large b, where near ties need a
    b so large that b * mean would swallow the rest.
    """
    weights = _tilt(unit, mask, b)
    lean = (weights * unit).sum(-1, keepdim=True)
    slope = b.square() * (weights * (unit - lean).square()).sum(-1, keepdim=True)
    mean = unit.sum(-1, keepdim=True) / size
    centred = torch.where(mask, b * (unit - mean), 0.0)
    small = torch.where(mask, torch.expm1(centred.clamp_max(1.0)), 0.0).sum(-1, keepdim=True) / size
    large = torch.where(mask, (b * unit).exp(), 0.0).sum(-1, keepdim=True) / size
    gain = torch.where(b < 1, b * (lean - mean) - torch.log1p(small), b * lean - large.log())
    return gain, slope
