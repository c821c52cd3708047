"""How well members order the bags they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from admil.bags import BagSource, IntArray, LabelBook, LabelState
from admil.functional import pair_margins
from admil.models import Scorer
from admil.training.families import PooledFamily, pooled_family
from admil.training.model import Check, TrainedModel
from admil.training.scoring import bag_logits, highest_logits

__all__ = ["HeldOutJudge", "held_out_check"]


class HeldOutJudge:
    """Judges how members order the bags they have not seen.

    Args:
        bags: the training bags.
        labels: answers so far; known negatives do not count as instances of their bag.
        held_out: (E, B) True where a member holds a bag out.
        device: where the members are.
        pooled: where members have pooled losses: what makes a bag's logit; else it is that of its highest instance.
    """

    def __init__(
        self,
        bags: BagSource,
        labels: LabelBook,
        held_out: NDArray[np.bool_],
        device: torch.device,
        pooled: PooledFamily | None = None,
    ) -> None:
        self.bags, self.device, self.pooled = bags, device, pooled
        self.numbers = np.flatnonzero(held_out.any(0))
        kept = labels.state[bags.index.positions(self.numbers)] != LabelState.NEGATIVE
        self.kept = torch.from_numpy(kept).to(device)
        sizes = bags.index.sizes[self.numbers]
        self.held = held_out[:, self.numbers] & np.logical_or.reduceat(kept, np.cumsum(sizes) - sizes)
        assert bags.index.labels is not None
        self._folds = _folds(self.held, bags.index.labels[self.numbers] == 1)
        self._parts = self._folds if len(self._folds) > 1 else _halves(self._folds)
        self._looks: list[tuple[Check, Tensor]] = []

    def look(self, scorer: Scorer, step: int) -> Check:
        """Compare every positive with every negative bag that the same member holds out."""
        best, _ = self._highest(scorer)
        whole = torch.stack([fold.judged(best) for fold in self._folds]).sum(0)
        parts = torch.stack([part.judged(best) for part in self._parts]) if self._parts else torch.zeros(0, 3)
        ordered, hinge, count = whole.tolist()
        check = Check(step, ordered / count, hinge / count)
        self._looks.append((check, parts))
        return check

    def auroc(self) -> float:
        """Return the share of held-out pairs ordered right, not flattered by the choice of the step.

        The best of many looks is too good to be true.  So each fold is judged at the look that is best for the other
        folds; one fold alone is judged in two halves, or, where it is too small for that, at its own best look.
        """
        if len(self._parts) < 2:
            return max(check.auroc for check, _ in self._looks)
        judged = torch.stack([parts for _, parts in self._looks])  # (looks, parts, 3)
        others = judged.sum(1, keepdim=True) - judged
        chosen = [_best_look(others[:, part]) for part in range(len(self._parts))]
        ordered, _, count = judged[chosen, torch.arange(len(self._parts))].sum(0).tolist()
        return float(ordered / count)

    def bag_scores(self, scorer: Scorer) -> dict[str, float]:
        """Return, by bag id, the logit that the ensemble might give the bag's highest instance had it not seen the bag.

        That is the mean over the members that hold it out of their highest logit, plus what averaging does: the highest
        of the mean logits lies below the mean of the highest, by as much as all members show on this bag.
        """
        best, of_mean = self._highest(scorer)
        held = torch.from_numpy(self.held).to(best)
        own = (best * held).sum(0) / held.sum(0).clamp_min(1)
        values = (own + of_mean - best.mean(0)).tolist()
        ids = self.bags.index.ids
        return {ids[self.numbers[place]]: values[place] for place in np.flatnonzero(self.held.any(0))}

    def _highest(self, scorer: Scorer) -> tuple[Tensor, Tensor]:
        where = self.bags, self.numbers, self.kept, self.device
        if self.pooled is not None:
            best = bag_logits(self.pooled, scorer, *where)
            return best.cpu(), best.mean(0).cpu()
        best, of_mean = highest_logits(scorer, *where)
        return best.cpu(), of_mean.cpu()


def held_out_check(model: TrainedModel, bags: BagSource, labels: LabelBook) -> Check | None:
    """Judge a model's members by the bags that each held out; None where they held out none.

    It flatters, like every look; between models whose members held out the same bags it tells which is better.
    """
    held_out = np.zeros((model.scorer.members, len(bags.index)), dtype=bool)
    for member, ids in enumerate(model.history.held_out):
        held_out[member, [bags.index.number(bag) for bag in ids]] = True
    if not held_out.any():
        return None
    device = next(model.module.parameters()).device
    judge = HeldOutJudge(bags, labels, held_out, device, pooled_family(model.recipe.member_losses))
    return judge.look(model.scorer, model.history.best_step)


@dataclass(frozen=True, eq=False)
class _Fold:
    """Bags that some members hold out: the members, and the places of the positive and negative ones."""

    members: IntArray
    positive: IntArray
    negative: IntArray

    def judged(self, best: Tensor) -> Tensor:
        """Return over all pairs: how many are ordered right, the sum of their hinges, and how many there are."""
        own = best[self.members].double()
        positive, negative = own[:, self.positive], own[:, self.negative]
        margins = pair_margins(positive, negative)
        ordered = (margins > 0).double() + 0.5 * (margins == 0).double()
        hinge = torch.relu(1 - pair_margins(torch.sigmoid(positive), torch.sigmoid(negative)))
        return torch.stack([ordered.sum(), hinge.sum(), torch.tensor(float(margins.numel())).double()])


def _folds(held: NDArray[np.bool_], positive: NDArray[np.bool_]) -> list[_Fold]:
    """Return the folds that have bags of both kinds; members that hold out the same bags share one."""
    rows, of = np.unique(held, axis=0, return_inverse=True)
    folds = [
        _Fold(np.flatnonzero(of.reshape(-1) == number), np.flatnonzero(row & positive), np.flatnonzero(row & ~positive))
        for number, row in enumerate(rows)
    ]
    return [fold for fold in folds if len(fold.positive) and len(fold.negative)]


def _halves(folds: Sequence[_Fold]) -> list[_Fold]:
    """Return two halves of the one fold; none where it has fewer than two bags of a kind."""
    (fold,) = folds
    if min(len(fold.positive), len(fold.negative)) < 2:
        return []
    return [_Fold(fold.members, fold.positive[half::2], fold.negative[half::2]) for half in (0, 1)]


def _best_look(judged: Tensor) -> int:
    """Return the first look (looks, 3) with the most pairs in order, of those with the smallest hinge."""
    return min(range(len(judged)), key=lambda look: (-float(judged[look, 0]), float(judged[look, 1]), look))
