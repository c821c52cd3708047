"""How well members order the bags they have not seen."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from admil.bags import BagSource, LabelBook, LabelState
from admil.functional import Padding, maximum_score, pair_margins
from admil.models import Scorer
from admil.training.model import Check
from admil.training.scoring import member_logits

__all__ = ["HeldOutJudge"]


class HeldOutJudge:
    """Judges how members order the bags they have not seen."""

    def __init__(self, bags: BagSource, labels: LabelBook, held_out: NDArray[np.bool_], device: torch.device) -> None:
        self.bags, self.device = bags, device
        self.numbers = np.flatnonzero(held_out.any(0))
        self.padding = Padding.of(torch.from_numpy(bags.index.sizes[self.numbers]).to(device))
        kept = labels.state[bags.index.positions(self.numbers)] != LabelState.NEGATIVE
        self.mask = self.padding.pad(torch.from_numpy(kept).to(device))
        self.held = torch.from_numpy(held_out[:, self.numbers]).to(device) & self.mask.any(-1)
        assert bags.index.labels is not None
        self.positive = torch.from_numpy(bags.index.labels[self.numbers] == 1).to(device)

    def look(self, scorer: Scorer, step: int) -> Check:
        """Compare every positive with every negative bag that the same member holds out."""
        best = self._bag_logits(scorer)  # (E, b)
        pairs = (self.held & self.positive).unsqueeze(-1) & (self.held & ~self.positive).unsqueeze(-2)
        margins = pair_margins(best, best)
        ordered = (margins > 0).double() + 0.5 * (margins == 0).double()
        f = torch.sigmoid(best)
        hinge = torch.relu(1 - pair_margins(f, f))
        count = pairs.sum()
        return Check(step, float((ordered * pairs).sum() / count), float((hinge * pairs).sum() / count))

    def bag_scores(self, scorer: Scorer) -> dict[str, float]:
        """Return, by bag id, the mean over the members that hold it out of its highest logit."""
        best = self._bag_logits(scorer)
        mean = (best * self.held).sum(0) / self.held.sum(0).clamp_min(1)
        judged = self.held.any(0)
        ids = self.bags.index.ids
        return {
            ids[number]: float(value)
            for number, value, known in zip(self.numbers, mean.tolist(), judged.tolist(), strict=True)
            if known
        }

    def _bag_logits(self, scorer: Scorer) -> Tensor:
        logits = member_logits(scorer, self.bags, self.numbers, self.device)
        logits = logits.nan_to_num(0.0, 1e30, -1e30)  # one monstrous instance must not spoil files and calibration
        return maximum_score(self.padding.pad(logits), self.mask.unsqueeze(0))
