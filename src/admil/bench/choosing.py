"""Training a trial's model where settings are to be chosen: all as members of one network, then one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from admil.bags import BagSource, FloatArray, LabelBook
from admil.bench.plans import Choice
from admil.learner import LearnerState, Recipe, round_generator
from admil.metrics import auroc
from admil.models import Scaling, Scorer, ScorerEnsemble
from admil.training import TrainedModel, TrainingHistory, TrainingRecipe, fit, held_out_check, score

__all__ = ["ChoosingTrainer"]

_LEAST = 3
"""Known positives, and negatives, from which on answers take part in the choice."""

Leak = Callable[[FloatArray], float]
"""Tells how good the scores of the test bags' instances are."""


@dataclass(frozen=True, eq=False)
class ChoosingTrainer:
    """Trains the model of a round; satisfies `admil.learner.Trains`.

    Args:
        choices: the settings; () for that of the recipe.
        test: where given, the test bags by whose truth settings and checkpoints are chosen, as the paper did.
        leak: how good scores of the test bags are.
    """

    choices: tuple[Choice, ...] = ()
    test: BagSource | None = None
    leak: Leak | None = None

    def train(self, recipe: Recipe, bags: BagSource, state: LearnerState) -> TrainedModel:
        """Train all settings as members of one network and return the members of the best."""
        settings = [_with(recipe.training, choice) for choice in self.choices] or [recipe.training]
        runs = [range(at, at + recipe.training.members) for at in range(0, _members(settings), recipe.training.members)]
        leaks = [_Leaked(each, run, self.test, self.leak) for each, run in zip(settings, runs, strict=True)]

        def on_look(step: int, scorer: Scorer) -> None:
            for leaked in leaks:
                leaked.look(step, scorer)

        model = fit(
            _side_by_side(settings),
            bags,
            state.labels,
            round_generator(state.seed, state.round, "fit"),
            warm_start=state.model if recipe.warm_start else None,
            on_look=None if self.leak is None else on_look,
        )
        parts = [model] if len(runs) == 1 else [model.only(run) for run in runs]
        if self.leak is not None:
            best = max(range(len(parts)), key=lambda number: leaks[number].quality)
            return leaks[best].model(parts[best])
        return max(parts, key=lambda part: _quality(part, bags, state.labels))  # the first of equals


class _Leaked:
    """The checkpoint of a setting that is best on the test bags: what no honest protocol could know."""

    def __init__(self, recipe: TrainingRecipe, members: range, test: BagSource | None, leak: Leak | None) -> None:
        self.recipe, self.members, self.test, self.leak = recipe, members, test, leak
        self.quality, self.step = -1.0, 0
        self.scorer: Scorer | None = None

    def look(self, step: int, scorer: Scorer) -> None:
        """Compare the network as it is with the best so far."""
        assert self.test is not None
        assert self.leak is not None
        assert isinstance(scorer, ScorerEnsemble)
        now = scorer.only(self.members)
        unused = Scaling.none(self.test.width)  # the scorer has its own
        quality = self.leak(score(TrainedModel(now, self.recipe, unused, TrainingHistory()), self.test).f)
        if quality > self.quality:
            self.quality, self.step, self.scorer = quality, step, now

    def model(self, honest: TrainedModel) -> TrainedModel:
        """Return a model with these weights instead of its own."""
        if self.scorer is None:
            return honest
        return replace(honest, scorer=self.scorer, history=replace(honest.history, best_step=self.step))


def _with(recipe: TrainingRecipe, choice: Choice) -> TrainingRecipe:
    return TrainingRecipe.model_validate({**dict(recipe), "loss": choice.loss, "beta": choice.beta})


def _members(settings: Sequence[TrainingRecipe]) -> int:
    return sum(each.members for each in settings)


def _side_by_side(settings: Sequence[TrainingRecipe]) -> TrainingRecipe:
    """Return one recipe for the members of all of them; the same one where there is one."""
    if len(settings) == 1:
        return settings[0]
    losses = [loss for each in settings for loss in each.member_losses]
    betas = [beta for each in settings for beta in each.member_betas]
    changes = {"members": _members(settings), "loss": tuple(losses), "beta": tuple(betas)}
    return TrainingRecipe.model_validate({**dict(settings[0]), **changes})


def _quality(model: TrainedModel, bags: BagSource, labels: LabelBook) -> float:
    """Return how well members order the bags, and the answers, that they have not seen: AUROC, the mean of both."""
    check = held_out_check(model, bags, labels)
    of_bags = 0.5 if check is None else check.auroc
    of_answers = _auroc_of_answers(model, bags, labels)
    return of_bags if np.isnan(of_answers) else (of_bags + of_answers) / 2


def _auroc_of_answers(model: TrainedModel, bags: BagSource, labels: LabelBook) -> float:
    """Return the AUROC of answered instances by the members that hold their bag out; nan where they are too few."""
    held_out = [set(ids) for ids in model.history.held_out]
    answered = np.concatenate([labels.positives, labels.negatives])
    bag_of = [bags.index.ids[number] for number in bags.index.bag_of[answered]]
    held = np.array([[bag in ids for bag in bag_of] for ids in held_out]).reshape(len(held_out), len(answered))
    judged = held.any(0) if len(held_out) else np.zeros(len(answered), dtype=bool)
    positive = np.arange(len(answered)) < len(labels.positives)
    if min((judged & positive).sum(), (judged & ~positive).sum()) < _LEAST:
        return float("nan")
    with torch.no_grad():
        logits = model.scorer.forward(bags.rows(answered)).double().numpy()
    own = (logits * held).sum(0) / np.maximum(held.sum(0), 1)
    return auroc(positive[judged], own[judged])
