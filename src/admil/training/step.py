"""One optimizer step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from admil.bags import BagSource, IntArray, LabelBook
from admil.models import ModuleEnsemble, Scaling, ScorerEnsemble
from admil.training.batches import StepReader
from admil.training.objective import Objective
from admil.training.recipe import TrainingRecipe

__all__ = ["Stepper", "training_step"]


class Stepper:
    """Reads a mini-batch, computes every member's loss and moves the weights; changes the scorer.

    Args:
        recipe: how to train.
        bags: training bags.
        labels: answers so far.
        scorer: the network to train.
        held_out: (E, B) True where a member holds a bag out.
        positive: bag numbers of the positive bags to train on.
        device: where the scorer is.
        generator: a CPU generator.
    """

    def __init__(
        self,
        recipe: TrainingRecipe,
        bags: BagSource,
        labels: LabelBook,
        scorer: ScorerEnsemble | ModuleEnsemble,
        held_out: NDArray[np.bool_],
        positive: IntArray,
        device: torch.device,
        generator: Generator,
    ) -> None:
        self.scorer = scorer
        self.objective = Objective(recipe, bags.index, held_out, device)
        self.optimizer = _optimizer(recipe, scorer)
        self.generator = Generator(device).manual_seed(int(torch.randint(2**62, (), generator=generator)))
        reader = StepReader(recipe, bags, labels, device)
        self.batches = reader.steps(positive, bags.index.negative, generator)

    def __call__(self) -> Tensor:
        """Take one step; return the loss, mean over members, still on its device."""
        batch = next(self.batches)
        outputs = self.scorer.outputs(batch.features, self.generator)
        losses = self.objective(outputs, batch, self.generator)
        self.optimizer.zero_grad(set_to_none=True)
        # summed, not averaged: members share no weights, so each trains as it would alone
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return losses.detach().mean()


def training_step(recipe: TrainingRecipe, bags: BagSource, generator: Generator) -> Callable[[], Tensor]:
    """Return a function that takes one step on fresh weights and no answers; for measuring time."""
    scaling = Scaling.none(bags.width)
    scorer = ScorerEnsemble(bags.width, recipe.members, recipe.hidden, recipe.dropout, scaling, generator)
    held_out = np.zeros((recipe.members, len(bags.index)), dtype=bool)
    positive = bags.index.positive
    device = torch.device("cpu")
    return Stepper(recipe, bags, LabelBook(bags.index), scorer, held_out, positive, device, generator)


def _optimizer(recipe: TrainingRecipe, scorer: torch.nn.Module) -> torch.optim.Optimizer:
    kind = torch.optim.AdamW if recipe.optimizer == "adamw" else torch.optim.SGD
    return kind(scorer.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
