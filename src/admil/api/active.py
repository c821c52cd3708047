"""The learner a Python user meets."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from admil.api.files import load_learner, save_learner
from admil.bags import Answer, AnswerValue, BagSource, InstanceId, LabelBook, LabelState, Query, Scores
from admil.device import usable_device
from admil.errors import InvalidInput, warn
from admil.learner import LearnerState, Recipe, RoundRecord, Trainer, absorb, propose, refreshed
from admil.sampling import Sampler
from admil.training import ModuleMaker, Progress, TrainedModel, score

__all__ = ["ActiveLearner"]


class ActiveLearner:
    """Ask, take answers, learn, rank.

    ``query()`` returns the open questions and starts a round (train, score, select) where none are
    open; ``answer()`` takes answers one by one or all at once; ``score()`` ranks any bags with a model
    that has seen every answer so far.  The object changes only once a call has succeeded, so Ctrl-C
    and errors leave it as it was.

    Args:
        bags: labelled training bags of both classes: `Bags`, a `BagStore`, or any other `BagSource`.
        recipe: how to train and whom to ask; a `Recipe` or the name of one.
        seed: the source of all randomness: same seed and answers, same questions.
        device: where to train.
        groups: one per bag; a group's bags are never split between training and held-out bags.
        module: your own network instead of the paper's, see `admil.training.fit`.
        on_step: called with the progress of training.
    """

    def __init__(
        self,
        bags: BagSource,
        recipe: Recipe | str | None = None,
        seed: int = 0,
        *,
        device: torch.device | str = "cpu",
        groups: Sequence[object] | None = None,
        module: nn.Module | ModuleMaker | None = None,
        on_step: Callable[[Progress], None] | None = None,
    ) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise InvalidInput(f"the seed is a whole number >= 0, got {seed!r}", seed)
        if not isinstance(bags, BagSource):
            raise InvalidInput(
                f"expected bags, got {type(bags).__name__}; make them with Bags.from_arrays(arrays, labels)", bags
            )
        self.bags = bags
        self.recipe = _recipe(recipe)
        self._trainer = Trainer(device, groups, module, on_step)
        self._state = LearnerState(int(seed), LabelBook(bags.index))
        self._view: LearnerState | None = None  # a model for score() that later training must not start from

    def query(self) -> Query:
        """Return the open questions, in order; a new round starts where none are left.

        Returns:
            At most the budget; empty, with a note, once nothing is left to ask.
        """
        state = self._state
        if len(state.open_items):
            return state.open_items
        if state.query is not None and state.is_current:
            return state.query  # nothing to ask and nothing new: asking again changes nothing
        return self.next_round()

    def next_round(self) -> Query:
        """Start a round now, even if questions of the open one are unanswered."""
        state = self._state
        if state.query is None:
            state = self._viewed() or state  # what score() trained is this round's model
        self._state = propose(self.recipe, self.bags, state, self._trainer)
        assert self._state.query is not None
        return self._state.query

    def answer(self, answers: Mapping[Any, Any]) -> None:
        """Take answers: True positive, False negative, None skipped.  All of them, or an error and none.

        Args:
            answers: by `InstanceId` or (bag id, index); they need not have been asked.

        Raises:
            UnknownInstance: no such instance.
            AnswerConflict: answered already, or an instance of a negative bag.
        """
        given = [Answer(_instance(key), AnswerValue.of(value)) for key, value in answers.items()]
        known = set(self.labels.contradicted)
        self._state = absorb(self._state, given)
        for bag in self.labels.contradicted:
            if bag not in known:
                warn(
                    f"every instance of positive bag {bag!r} is answered negative now: its label or an answer is wrong"
                )

    def undo(self, instance: InstanceId | tuple[str, int]) -> None:
        """Take the answer about an instance back; it may be asked again."""
        self._state = replace(self._state, labels=self._state.labels.retracted(_instance(instance)))

    def score(self, bags: BagSource | None = None) -> Scores:
        """Score bags (the training bags by default) with a model that has seen every answer."""
        if bags is None:
            return score(self.model, self.bags, self.labels)
        return score(self.model, bags)

    def ranking(self) -> list[InstanceId]:
        """Return the instances of the positive training bags that may be positive, the likeliest first.

        First come those answered positive and those that must be, by score, then the unanswered and the skipped ones,
        by score.  Those answered negative are left out.
        """
        state, f = self.labels.state, self.score().f
        known = np.isin(state, (LabelState.POSITIVE, LabelState.IMPLIED))
        in_positive_bag = np.isin(self.bags.index.bag_of, self.bags.index.positive)
        order = np.lexsort((-f, ~known))
        listed = order[(in_positive_bag & (state != LabelState.NEGATIVE))[order]]
        return [self.bags.index.instance(int(position)) for position in listed]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the newest model's training, such as a k above the size of some bags."""
        return () if self._state.model is None else self._state.model.history.warnings

    @property
    def model(self) -> TrainedModel:
        """A model that has seen every answer so far; trained now if need be."""
        state = self._state
        if not state.is_current:
            state = self._viewed() or refreshed(self.recipe, self.bags, state, self._trainer)
            if state.query is None and not self.recipe.warm_start:
                self._state = state  # between rounds: the next round uses this very model
            else:
                self._view = state
        assert state.model is not None
        return state.model

    def _viewed(self) -> LearnerState | None:
        """Return what score() trained if it belongs to this round and has seen every answer."""
        view, state = self._view, self._state
        if view is not None and (view.round, view.trained_on) == (state.round, state.labels):
            return view
        return None

    @property
    def labels(self) -> LabelBook:
        """The answers so far and what follows from them."""
        return self._state.labels

    @property
    def round(self) -> int:
        """The number of the open round, or of the next."""
        return self._state.round

    @property
    def seed(self) -> int:
        """The seed."""
        return self._state.seed

    @property
    def history(self) -> tuple[RoundRecord, ...]:
        """A record of every round so far."""
        return self._state.history

    def save(self, path: str | Path, include_bags: bool = True) -> None:
        """Write everything to a folder, as JSON and safetensors.

        Args:
            path: the folder; made if need be, replaced file by file if there.
            include_bags: whether to write the features too; without them, and where the bags lie in a
                store of their own, `load` needs ``bags``.
        """
        groups = self._trainer.groups
        numbers: dict[object, int] = {}
        numbered = None if groups is None else [numbers.setdefault(group, len(numbers)) for group in groups]
        save_learner(Path(path), self.bags, include_bags, self.recipe, self._state, numbered)

    @classmethod
    def load(
        cls,
        path: str | Path,
        bags: BagSource | None = None,
        *,
        device: torch.device | str = "cpu",
        module: nn.Module | ModuleMaker | None = None,
        sampler: Sampler | None = None,
        on_step: Callable[[Progress], None] | None = None,
    ) -> Self:
        """Read what `save` wrote; the next query is the one the saved learner would have made.

        Bags that came after those it was saved with take part from then on, with a warning; answers stay, and the
        open questions too.

        Args:
            path: the folder.
            bags: the training bags, where they were not written.
            device: where to go on training.
            module: your own network, where one was used.
            sampler: your own sampler, where one was used.
            on_step: called with the progress of training.
        """
        read, recipe, state, groups = load_learner(Path(path), bags, module, sampler)
        learner = cls(read, recipe, state.seed, device=device, groups=groups, module=module, on_step=on_step)
        if state.model is not None:
            state.model.module.to(usable_device(device))
        learner._state = state
        return learner


def _recipe(given: Recipe | str | None) -> Recipe:
    if given is None:
        return Recipe()
    if isinstance(given, str):
        return Recipe.named(given)  # type: ignore[arg-type]  # the name is checked there
    if isinstance(given, Recipe):
        return given
    raise InvalidInput(f"expected a Recipe or the name of one, got {given!r}; try Recipe(training=…)", given)


def _instance(key: Any) -> InstanceId:
    if isinstance(key, InstanceId):
        return key
    try:
        if isinstance(key, str):  # "a1" would unpack to bag "a", index 1
            raise TypeError
        bag, index = key
        return InstanceId(str(bag), operator.index(index))
    except (TypeError, ValueError):
        raise InvalidInput(f"an instance is named by InstanceId or (bag id, index), got {key!r}", key) from None
