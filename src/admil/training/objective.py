"""The loss of every member on one step: the bag loss, and what the answers add."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from admil.bags import BagIndex
from admil.functional import maximum_score, pairwise_hinge
from admil.losses import BagLoss, answer_cross_entropy
from admil.training.batches import StepBatch
from admil.training.recipe import TrainingRecipe

__all__ = ["Objective"]


class Objective:
    """Computes members' losses; knows which bags each member must not see.

    Args:
        recipe: the losses, and how answers enter.
        index: the training bags.
        held_out: (E, B) True where a member holds a bag out.
        device: where to compute.
    """

    def __init__(
        self, recipe: TrainingRecipe, index: BagIndex, held_out: NDArray[np.bool_], device: torch.device
    ) -> None:
        self.recipe, self.index = recipe, index
        self.seen = torch.from_numpy(~held_out).to(device)
        self.betas = torch.tensor(recipe.member_betas, device=device)
        self.loss_groups = _grouped(recipe.member_losses)

    def __call__(self, logits: Tensor, batch: StepBatch, generator: Generator) -> Tensor:
        """Return the (E,) losses of logits (E, m) on a batch."""
        rows = batch.n_positive_rows, batch.n_negative_rows
        scores = torch.sigmoid(logits[:, : sum(rows)])
        answered = logits[:, sum(rows) :]
        positive = self._positive_scores(scores[:, : rows[0]], batch)  # (E, A)
        negative = batch.negative_classes.per_bag(scores[:, rows[0] :], None, maximum_score)  # (E, B)
        positive_weight = self._bag_weight(batch.positive, generator)
        positive_weight = positive_weight * batch.judged  # all answered negative: left out
        negative_weight = self._bag_weight(batch.negative, generator)
        if self.recipe.answers == "bags":
            single, single_weight = self._singletons(answered, batch)
            extra, extra_weight = self._extra_negative_bags(answered, batch)
            positive, positive_weight = torch.cat([positive, single], 1), torch.cat([positive_weight, single_weight], 1)
            negative, negative_weight = torch.cat([negative, extra], 1), torch.cat([negative_weight, extra_weight], 1)
        hinge = pairwise_hinge(positive, negative, positive_weight, negative_weight)
        if self.recipe.answers == "bce" and len(batch.answered):
            return hinge + self.betas * self._cross_entropy(answered, batch)
        return hinge

    def _positive_scores(self, scores: Tensor, batch: StepBatch) -> Tensor:
        """Return the (E, A) scores of positive bags, each member's by its own loss."""
        bags = batch.positive_classes
        return torch.cat([bags.per_bag(scores[run], batch.kept, loss.positive_score) for loss, run in self.loss_groups])

    def _bag_weight(self, bags: NDArray[np.int64], generator: Generator) -> Tensor:
        """Return (E, b): 1 where a member sees a bag in this step."""
        seen = self.seen[:, torch.from_numpy(bags)].float()
        if self.recipe.member_share == 1 or self.recipe.members == 1:
            return seen
        return seen * torch.empty_like(seen).bernoulli_(self.recipe.member_share, generator=generator)

    def _answer_seen(self, positions: NDArray[np.int64]) -> Tensor:
        """Return (E, a): 1 where a member may see the bag that an answered instance lies in."""
        return self.seen[:, torch.from_numpy(self.index.bag_of[positions])].float()

    def _extra_negative_bags(self, answered: Tensor, batch: StepBatch) -> tuple[Tensor, Tensor]:
        """Return the maxima (E, G) of bags made of known negatives, and their weights."""
        scores = torch.sigmoid(answered[:, batch.n_known_positive :])
        seen = self._answer_seen(batch.answered[batch.n_known_positive :]) > 0
        missing = -scores.shape[1] % self.recipe.negatives_per_bag
        shape = (len(scores), -1, self.recipe.negatives_per_bag)
        padded = torch.nn.functional.pad(scores, (0, missing)).reshape(shape)
        mask = torch.nn.functional.pad(seen, (0, missing)).reshape(shape)
        return maximum_score(padded, mask), mask.any(-1).float()

    def _singletons(self, answered: Tensor, batch: StepBatch) -> tuple[Tensor, Tensor]:
        """Return the scores (E, P) of known positives, each a positive bag of one, and their weights.

        Whatever the loss, a bag of one scores what its instance does.
        """
        known = batch.answered[: batch.n_known_positive]
        scores = torch.sigmoid(answered[:, : len(known)])
        return scores, self.recipe.singleton_weight * self._answer_seen(known)

    def _cross_entropy(self, answered: Tensor, batch: StepBatch) -> Tensor:
        truth = torch.arange(len(batch.answered), device=answered.device) < batch.n_known_positive
        return answer_cross_entropy(answered, truth, self._answer_seen(batch.answered))


def _grouped(losses: tuple[BagLoss, ...]) -> list[tuple[BagLoss, slice]]:
    """Return runs of members that share a loss, so that each loss is computed once per run."""
    groups: list[tuple[BagLoss, slice]] = []
    start = 0
    for loss, run in groupby(losses):
        stop = start + len(list(run))
        groups.append((loss, slice(start, stop)))
        start = stop
    return groups
