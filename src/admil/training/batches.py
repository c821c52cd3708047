"""Mini-batches: positive and negative bags, and the answers that go with them, in one read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from admil.bags import BagSource, IntArray, LabelBook, LabelState
from admil.functional import SizeClasses
from admil.training.ahead import Room, one_ahead
from admil.training.recipe import TrainingRecipe

__all__ = ["StepBatch", "StepReader"]


@dataclass(frozen=True)
class StepBatch:
    """What one optimizer step sees.

    Attributes:
        positive: bag numbers of the positive bags.
        negative: bag numbers of the negative bags.
        answered: positions of the answered instances of this step, known positives first.
        n_known_positive: how many of them are positive.
        features: (m, D) rows of positive bags, negative bags and answered instances, in that order.
        positive_classes: where the positive bags' instances stand among the rows.
        kept: (rows of the positive bags,) True for instances that are in the bag loss; None for all.
        judged: (A,) True for positive bags of which any instance is.
        negative_classes: where those of the negative bags stand, counted from their first row.
        n_positive_rows: rows of the positive bags.
        n_negative_rows: rows of the negative bags.
    """

    positive: IntArray
    negative: IntArray
    answered: IntArray
    n_known_positive: int
    features: Tensor
    positive_classes: SizeClasses
    kept: Tensor | None
    judged: Tensor
    negative_classes: SizeClasses
    n_positive_rows: int
    n_negative_rows: int


class StepReader:
    """Reads step after step into buffers that are reused; bags on disk are read a step ahead, in a thread."""

    def __init__(self, recipe: TrainingRecipe, bags: BagSource, labels: LabelBook, device: torch.device) -> None:
        self.recipe, self.bags, self.labels, self.device = recipe, bags, labels, device
        dtype = torch.bfloat16 if recipe.precision == "bfloat16" else torch.float32
        self.rooms = [Room(bags, dtype, device) for _ in range(1 if bags.in_memory else 2)]
        self.known_positive = _taught(recipe, labels)
        self.in_loss = labels.state != LabelState.NEGATIVE if recipe.remove_known_negatives else None

    def steps(self, positive: IntArray, negative: IntArray, generator: Generator) -> Iterator[StepBatch]:
        """Yield batches for ever: both sides in shuffled passes of their own.

        A batch's features are overwritten once the one after it is asked for.
        """
        positives, negatives = (self._passes(bags, generator) for bags in (positive, negative))
        jobs = (
            partial(self.read, some_positive, some_negative, *self._drawn_answers(generator), room)
            for some_positive, some_negative, room in zip(positives, negatives, cycle(self.rooms), strict=False)
        )
        yield from one_ahead(jobs, thread=not self.bags.in_memory)

    def _passes(self, bags: IntArray, generator: Generator) -> Iterator[IntArray]:
        at_most = self.recipe.instances_per_step // 2
        return _passes(bags, self.bags.index.sizes, self.recipe.bags_per_side, at_most, generator)

    def read(
        self, positive: IntArray, negative: IntArray, known: IntArray, refuted: IntArray, room: Room | None = None
    ) -> StepBatch:
        """Read one step: whole bags, then single answered instances, one after another."""
        sizes = self.bags.index.sizes
        n_positive, n_negative = int(sizes[positive].sum()), int(sizes[negative].sum())
        answered = np.concatenate([known, refuted])

        def fill(out: Tensor) -> None:
            self.bags.gather(np.concatenate([positive, negative]), out=out)
            if len(answered):
                self.bags.rows(answered, out=out[n_positive + n_negative :])

        kept, judged = self._in_loss(positive)
        return StepBatch(
            positive=positive,
            negative=negative,
            answered=answered,
            n_known_positive=len(known),
            features=(room or self.rooms[0]).read(n_positive + n_negative + len(answered), fill),
            positive_classes=self._classes(positive),
            kept=kept,
            judged=judged,
            negative_classes=self._classes(negative),
            n_positive_rows=n_positive,
            n_negative_rows=n_negative,
        )

    def _classes(self, bags: IntArray) -> SizeClasses:
        return SizeClasses.of(torch.from_numpy(self.bags.index.sizes[bags]), self.device)

    def _in_loss(self, bags: IntArray) -> tuple[Tensor | None, Tensor]:
        """Return which instances of positive bags are in the bag loss, and which bags have any."""
        if self.in_loss is None:
            return None, torch.ones(len(bags), dtype=torch.bool, device=self.device)
        sizes = self.bags.index.sizes[bags]
        kept: NDArray[np.bool_] = self.in_loss[self.bags.index.positions(bags)]
        judged = np.logical_or.reduceat(kept, np.cumsum(sizes) - sizes)
        return torch.from_numpy(kept).to(self.device), torch.from_numpy(judged).to(self.device)

    def _drawn_answers(self, generator: Generator) -> tuple[IntArray, IntArray]:
        known = _drawn(self.known_positive, self.recipe.positives_per_step, generator)
        refuted = _drawn(self.labels.negatives, self.recipe.negatives_per_step, generator)
        return known, refuted


def _taught(recipe: TrainingRecipe, labels: LabelBook) -> IntArray:
    """Return the positions of the known positives that answers add.

    Where answers enter as bags and known negatives leave theirs, a positive that is all that is left of its
    bag adds nothing: the bag is that bag of one already.
    """
    if recipe.answers != "bags" or not recipe.remove_known_negatives:
        return labels.positives
    index = labels.index
    left = np.bincount(index.bag_of, labels.state != LabelState.NEGATIVE, len(index))
    return labels.positives[left[index.bag_of[labels.positives]] > 1]


def _passes(bags: IntArray, sizes: IntArray, count: int, instances: int, generator: Generator) -> Iterator[IntArray]:
    """Yield ``count`` bags at a time (all, where there are fewer), each pass in a new order.

    Fewer come, one at least, where together they would have more than so many ``instances``.
    """
    count = min(count, len(bags))
    waiting = np.zeros(0, dtype=np.int64)
    while True:
        if len(waiting) < count:
            # a bag left over from the last pass must not come twice in one step
            fresh = bags[torch.randperm(len(bags), generator=generator).numpy()]
            late = np.isin(fresh, waiting)
            waiting = np.concatenate([waiting, fresh[~late], fresh[late]])
        fitting = int(np.searchsorted(np.cumsum(sizes[waiting[:count]]), instances, side="right"))
        taken = max(1, fitting)
        yield waiting[:taken]
        waiting = waiting[taken:]


def _drawn(positions: IntArray, at_most: int | None, generator: Generator) -> IntArray:
    drawn: IntArray = positions[torch.randperm(len(positions), generator=generator).numpy()[:at_most]]
    return drawn
