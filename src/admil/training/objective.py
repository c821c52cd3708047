"""The loss of every member on one step: the bag loss, and what the answers add."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from admil.bags import BagIndex
from admil.losses import answer_cross_entropy
from admil.training.batches import StepBatch
from admil.training.families import family_of
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
        self.family = family_of(recipe.member_losses)

    def __call__(self, outputs: Tensor, batch: StepBatch, generator: Generator) -> Tensor:
        """Return the (E,) losses of a network's outputs (H, E, m) on a batch."""
        first, last = batch.n_positive_rows, batch.n_positive_rows + batch.n_negative_rows
        values = self.family.values_of(outputs)
        answered = values[..., last:]
        positive = batch.positive_classes.per_bag(values[..., :first], batch.kept, self.family.positive)  # (E, A)
        negative = batch.negative_classes.per_bag(values[..., first:last], None, self.family.negative)  # (E, B)
        positive_weight = self._bag_weight(batch.positive, generator)
        positive_weight = positive_weight * batch.judged  # all answered negative: left out
        negative_weight = self._bag_weight(batch.negative, generator)
        if self.recipe.answers == "bags":
            single, single_weight = self._singletons(answered, batch)
            extra, extra_weight = self._extra_negative_bags(answered, batch)
            positive, positive_weight = torch.cat([positive, single], 1), torch.cat([positive_weight, single_weight], 1)
            negative, negative_weight = torch.cat([negative, extra], 1), torch.cat([negative_weight, extra_weight], 1)
        loss = self.family.loss(positive, negative, positive_weight, negative_weight)
        if self.recipe.answers == "bce" and len(batch.answered):
            return loss + self.betas * self._cross_entropy(outputs[0, :, last:], batch)
        return loss

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
        """Return the values (E, G) of bags made of known negatives, and their weights."""
        values = answered[..., batch.n_known_positive :]
        seen = self._answer_seen(batch.answered[batch.n_known_positive :]) > 0
        missing = -values.shape[-1] % self.recipe.negatives_per_bag
        bags = (-1, self.recipe.negatives_per_bag)
        padded = torch.nn.functional.pad(values, (0, missing)).reshape(*values.shape[:-1], *bags)
        mask = torch.nn.functional.pad(seen, (0, missing)).reshape(len(seen), *bags)
        return self.family.negative(padded, mask), mask.any(-1).float()

    def _singletons(self, answered: Tensor, batch: StepBatch) -> tuple[Tensor, Tensor]:
        """Return the values (E, P) of known positives, each a positive bag of one, and their weights.

        Whatever the loss, a bag of one has the value of its instance.
        """
        known = batch.answered[: batch.n_known_positive]
        return answered[0, :, : len(known)], self.recipe.singleton_weight * self._answer_seen(known)

    def _cross_entropy(self, answered: Tensor, batch: StepBatch) -> Tensor:
        truth = torch.arange(len(batch.answered), device=answered.device) < batch.n_known_positive
        return answer_cross_entropy(answered, truth, self._answer_seen(batch.answered))
