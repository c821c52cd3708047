"""The one training loop."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from admil.bags import BagIndex, BagSource, IntArray, LabelBook
from admil.device import usable_device
from admil.errors import InvalidInput, TrainingDiverged, warn
from admil.losses import Drbl, TopK
from admil.models import ModuleEnsemble, Scaling, Scorer, ScorerEnsemble
from admil.training.families import pooled_family
from admil.training.folds import held_out_by_member, still_held_out
from admil.training.judge import HeldOutJudge
from admil.training.model import Check, Progress, TrainedModel, TrainingHistory
from admil.training.recipe import TrainingRecipe
from admil.training.scoring import read_in_chunks
from admil.training.step import Stepper

__all__ = ["ModuleMaker", "TrainingInterrupted", "build_scorer", "fit"]

ModuleMaker = Callable[[int], nn.Module]
"""Makes a module mapping (M, D) to (M,) logits, given D."""

_SCALING_BAGS = 2_000
"""Bags that scaling is fitted on at most (a seeded draw)."""

_MONSTROUS = 1e3
"""Scaled inputs above this explain why training diverged."""

_LOSSES_AT_ONCE = 20
"""Steps whose losses are fetched from the device together."""


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C while training; ``model`` holds the best weights so far."""

    def __init__(self, model: TrainedModel, step: int) -> None:
        super().__init__(f"interrupted at step {step}; the weights of step {model.history.best_step} are kept")
        self.model = model


def fit(
    recipe: TrainingRecipe,
    bags: BagSource,
    labels: LabelBook | None,
    generator: Generator,
    device: torch.device | str = "cpu",
    groups: Sequence[object] | None = None,
    warm_start: TrainedModel | None = None,
    on_step: Callable[[Progress], None] | None = None,
    module: nn.Module | ModuleMaker | None = None,
    on_look: Callable[[int, Scorer], None] | None = None,
) -> TrainedModel:
    """Train on bag labels and answers.

    Each member holds out one fold of the bags, answers in them included; training stops when the
    order of held-out bags improves no more, and the best weights are kept.  Only training bags and
    bought answers are ever looked at.

    Args:
        recipe: how to train.
        bags: labelled training bags of both classes.
        labels: answers so far; None for none.
        generator: a CPU generator; the source of everything random.
        device: where to train.
        groups: one per bag (a patient, a video, an author); a group is never split between training
            and held-out bags.
        warm_start: a model to start from instead of random weights; scaling, and which member holds out
            which bags, are taken from it.
        on_step: called with the progress after every step.
        module: your own network (one member, a copy is trained), or a function that makes one from
            the number of features (called once per member); None for the paper's network.
        on_look: called with the step and the network as it is, in eval mode, whenever held-out bags are looked at.

    Raises:
        InvalidInput: the bags cannot be trained on.
        TrainingDiverged: the loss became NaN or infinite.
        TrainingInterrupted: Ctrl-C; carries the best model so far.
    """
    if not isinstance(generator, Generator):
        raise InvalidInput(
            f"expected a torch.Generator, got {generator!r}; try torch.Generator().manual_seed(0)", generator
        )
    labels = LabelBook(bags.index) if labels is None else labels
    positive, notes = _usable_positive_bags(bags, labels)
    notes += _clamped(recipe, bags.index)
    place = usable_device(device)
    seed = int(torch.randint(2**62, (), generator=generator))
    with _global_generators_seeded(place, seed):  # for modules of the user's; ours draw from generators
        scaling = warm_start.scaling if warm_start else _fitted_scaling(recipe, bags, generator)
        scorer = _initial_scorer(recipe, bags.width, scaling, generator, warm_start, module).to(place)
        recipe = _with_members(recipe, scorer.members)
        held_out = _held_out(recipe, bags.index, positive, generator, groups, warm_start)
        run = _Run(recipe, bags, labels, scorer, scaling, held_out, place, notes)
        step = Stepper(recipe, bags, labels, scorer, held_out, positive, place, generator)
        return run.train(step, on_step, on_look)


def build_scorer(
    recipe: TrainingRecipe,
    width: int,
    scaling: Scaling,
    generator: Generator | None = None,
    module: nn.Module | ModuleMaker | None = None,
) -> ScorerEnsemble | ModuleEnsemble:
    """Build the untrained network of a recipe; also what saved weights are loaded into."""
    if module is None:
        settings = recipe.hidden, recipe.dropout, scaling, generator, recipe.attention
        return ScorerEnsemble(width, recipe.members, *settings)
    if recipe.attention is not None:
        raise InvalidInput("a module of your own has no attention; leave attention and AttentionPooled out", module)
    if isinstance(module, nn.Module):
        return ModuleEnsemble([copy.deepcopy(module)], scaling)
    return ModuleEnsemble([module(width) for _ in range(recipe.members)], scaling)


@dataclass
class _Best:
    """The best weights so far; mutable, private to one run."""

    state: dict[str, Tensor]
    check: Check | None = None
    step: int = 0

    def improved_by(self, check: Check) -> bool:
        if self.check is None:
            return True
        return (check.auroc, -check.hinge) > (self.check.auroc, -self.check.hinge)


class _Run:
    """One call of `fit`: the history so far and the best weights."""

    def __init__(
        self,
        recipe: TrainingRecipe,
        bags: BagSource,
        labels: LabelBook,
        scorer: ScorerEnsemble | ModuleEnsemble,
        scaling: Scaling,
        held_out: NDArray[np.bool_],
        device: torch.device,
        notes: tuple[str, ...],
    ) -> None:
        self.recipe, self.bags, self.labels = recipe, bags, labels
        self.scorer, self.scaling, self.device = scorer, scaling, device
        pooled = pooled_family(recipe.member_losses)
        self.judge = HeldOutJudge(bags, labels, held_out, device, pooled) if held_out.any() else None
        self.held_out = tuple(tuple(bags.index.ids[bag] for bag in np.flatnonzero(row)) for row in held_out)
        if self.judge is None and recipe.held_out_folds > 1:
            notes += (
                "too few bags (or groups) to hold any out, or a warm start that has seen them all: "
                "trained for all steps without early stopping",
            )
        self.best = _Best(_snapshot(scorer))
        self.losses: list[float] = []
        self.pending: list[Tensor] = []  # losses still on the device
        self.checks: list[Check] = []
        self.notes = notes

    def train(
        self,
        step: Stepper,
        on_step: Callable[[Progress], None] | None,
        on_look: Callable[[int, Scorer], None] | None,
    ) -> TrainedModel:
        try:
            self._loop(step, on_step, on_look)
        except KeyboardInterrupt:
            self.losses += [float(loss) for loss in self.pending]
            if self.best.check is None and self._is_finite():  # never judged: the newest weights are all there is
                self.best = _Best(_snapshot(self.scorer), None, len(self.losses))
            raise TrainingInterrupted(self._best_model(), len(self.losses)) from None
        return self._best_model()

    def _loop(
        self,
        take_step: Stepper,
        on_step: Callable[[Progress], None] | None,
        on_look: Callable[[int, Scorer], None] | None,
    ) -> None:
        recipe = self.recipe
        self.scorer.train()
        for step in range(1, recipe.max_steps + 1):
            self.pending.append(take_step())
            look = step == recipe.max_steps or step % recipe.check_every == 0
            if look or on_step is not None or len(self.pending) == _LOSSES_AT_ONCE:
                self._fetch()
            stop = self._look(step) if look else False
            if look and on_look is not None:
                self.scorer.eval()
                on_look(step, self.scorer)
                self.scorer.train()
            if on_step is not None:
                check = self.checks[-1] if look and self.checks else None
                on_step(Progress(step, recipe.max_steps, self.losses[-1], check))
            if stop:
                break

    def _fetch(self) -> None:
        """Move losses from the device into the history and stop at one that is not finite."""
        fetched = torch.stack(self.pending).tolist()
        self.pending.clear()
        for value in fetched:
            self.losses.append(value)
            if not math.isfinite(value):
                raise TrainingDiverged(self._why_diverged(len(self.losses), value), value)

    def _look(self, step: int) -> bool:
        """Judge the held-out bags, keep the weights if they are the best, tell whether to stop."""
        if not self._is_finite():
            raise TrainingDiverged(self._why_diverged(step, float("nan")), step)
        if self.judge is None:
            self.best = _Best(_snapshot(self.scorer), None, step)
            return False
        check = self.judge.look(self.scorer, step)
        self.checks.append(check)
        if self.best.improved_by(check):
            self.best = _Best(_snapshot(self.scorer), check, step)
        return step - self.best.step >= self.recipe.patience * self.recipe.check_every

    def _is_finite(self) -> bool:
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.scorer.parameters())

    def _best_model(self) -> TrainedModel:
        self.scorer.load_state_dict(self.best.state)
        self.scorer.eval()
        for parameter in self.scorer.parameters():
            parameter.grad = None
        history = TrainingHistory(
            losses=tuple(self.losses),
            checks=tuple(self.checks),
            best_step=self.best.step,
            held_out_auroc=self.judge.auroc() if self.judge and self.checks else None,
            held_out_scores=self.judge.bag_scores(self.scorer) if self.judge else {},
            held_out=self.held_out,
            warnings=self.notes,
        )
        return TrainedModel(self.scorer, self.recipe, self.scaling, history)

    def _why_diverged(self, step: int, value: float) -> str:
        largest, bag = _largest_input(self.bags, self.scaling)
        if largest > _MONSTROUS:
            way_out = "look at its features" if self.scaling.rule == "standard" else "use scaling='standard'"
            cause = f"inputs reach {largest:.3g} after scaling {self.scaling.rule!r}, in bag {bag!r}: {way_out}"
        else:
            cause = f"the learning rate {self.recipe.learning_rate:g} is too high: try a tenth of it"
        return f"training diverged at step {step} (loss {value}); the likely cause: {cause}"


def _largest_input(bags: BagSource, scaling: Scaling) -> tuple[float, str]:
    """Return the largest scaled feature, in absolute value, and the bag that it is in, of some thousand bags."""
    some = np.unique(np.linspace(0, len(bags.index) - 1, _SCALING_BAGS).astype(np.int64))
    highest = [
        float(scaling.apply(bags.gather(some[[place]]).features.float()).abs().max()) for place in range(len(some))
    ]
    place = int(np.nanargmax(np.nan_to_num(highest, nan=np.inf)))
    return highest[place], bags.index.ids[some[place]]


def _usable_positive_bags(bags: BagSource, labels: LabelBook) -> tuple[IntArray, tuple[str, ...]]:
    index = bags.index
    if labels.index is not index and labels.index != index:
        raise InvalidInput("the label book belongs to other bags; make it with LabelBook(bags.index)")
    if not len(index.positive) or not len(index.negative):
        only = "positive" if len(index.positive) else "negative"
        raise InvalidInput(f"training needs positive and negative bags; all {len(index)} bags are {only}")
    notes: tuple[str, ...] = ()
    positive = index.positive
    if labels.contradicted:
        named = ", ".join(map(repr, labels.contradicted[:5])) + (" …" if len(labels.contradicted) > 5 else "")
        notes = (
            f"every instance of positive bag {named} was answered negative, which its label contradicts; "
            "it is left out of training: check the label or the answers",
        )
        warn(notes[0])
        left_out = {index.number(bag) for bag in labels.contradicted}
        positive = np.array([number for number in positive if number not in left_out], dtype=np.int64)
        if not len(positive):
            raise InvalidInput("every positive bag was answered negative throughout: nothing is left to train on")
    return positive, notes


def _clamped(recipe: TrainingRecipe, index: BagIndex) -> tuple[str, ...]:
    """Say which k is above the size of a positive bag, where it counts as that size."""
    notes = []
    sizes = index.sizes[index.positive]
    wanted = {
        loss.robustness.strength
        for loss in recipe.member_losses
        if isinstance(loss, Drbl) and loss.robustness.measure == "effective"
    }
    wanted |= {float(loss.k) for loss in recipe.member_losses if isinstance(loss, TopK)}
    for k in sorted(wanted):
        if (small := int((sizes < k).sum())) > 0:
            least = index.ids[index.positive[int(sizes.argmin())]]
            notes.append(
                f"k = {k:g} is above the size of {small} positive bags (the smallest, {least!r}, has {sizes.min()}); "
                "in each of them it counts as the bag's size"
            )
    return tuple(notes)


@contextmanager
def _global_generators_seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch's global generators, of the CPU and of ``device``, and restore them afterwards."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed, and leave seeded, every device
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def _fitted_scaling(recipe: TrainingRecipe, bags: BagSource, generator: Generator) -> Scaling:
    drawn = torch.randperm(len(bags.index), generator=generator)[:_SCALING_BAGS].sort().values.numpy()
    return Scaling.fit(read_in_chunks(bags, drawn, torch.device("cpu")), recipe.scaling)


def _initial_scorer(
    recipe: TrainingRecipe,
    width: int,
    scaling: Scaling,
    generator: Generator,
    warm_start: TrainedModel | None,
    module: nn.Module | ModuleMaker | None,
) -> ScorerEnsemble | ModuleEnsemble:
    if warm_start is None:
        return build_scorer(recipe, width, scaling, generator, module)
    if warm_start.width != width:
        raise InvalidInput(f"the warm start has {warm_start.width} features, the bags have {width}", warm_start)
    started = copy.deepcopy(warm_start.module)
    assert isinstance(started, ScorerEnsemble | ModuleEnsemble)
    if isinstance(started, ScorerEnsemble):
        if started.hidden != recipe.hidden:
            raise InvalidInput(
                f"the warm start has hidden layers of {started.hidden}, the recipe wants {recipe.hidden}", warm_start
            )
        if warm_start.recipe.attention != recipe.attention:
            raise InvalidInput(
                f"the warm start has {warm_start.recipe.attention!r}, the recipe wants {recipe.attention!r}", warm_start
            )
        started.dropout = recipe.dropout
    return started


def _held_out(
    recipe: TrainingRecipe,
    index: BagIndex,
    positive: IntArray,
    generator: Generator,
    groups: Sequence[object] | None,
    warm_start: TrainedModel | None,
) -> NDArray[np.bool_]:
    """Draw who holds out what, (E, B); members that go on training hold out what they have not seen."""
    drawn = held_out_by_member(
        index, positive, recipe.members, recipe.held_out_folds, recipe.held_out_bags, generator, groups
    )
    if warm_start is None or recipe.held_out_folds < 2:
        return drawn
    before = warm_start.history.held_out or ((),) * recipe.members
    kept = still_held_out(index, positive, before)
    return drawn if kept is None else kept


def _with_members(recipe: TrainingRecipe, members: int) -> TrainingRecipe:
    if members == recipe.members:
        return recipe
    if isinstance(recipe.loss, tuple) or isinstance(recipe.beta, tuple):
        raise InvalidInput(f"the network has {members} members, the recipe names {recipe.members} losses or betas")
    return recipe.model_copy(update={"members": members})


def _snapshot(scorer: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in scorer.state_dict().items()}
