"""One round of active learning, in memory: states in, states out.

A round is a straight line: train on the labels so far, score, select a query; then answers come, from
a person or a simulation, and are absorbed.  The randomness of round r comes from (seed, r) alone, so
the same state always proposes the same query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol, Self

import numpy as np
import torch
from pydantic import ConfigDict, Field, SerializeAsAny, TypeAdapter, ValidationError, field_validator
from torch import Generator, nn

from admil.bags import Answer, AnswerValue, BagSource, InstanceId, LabelBook, Query, Scores
from admil.errors import InvalidInput
from admil.sampling import BagPosterior, BuiltinSampler, Sampler
from admil.settings import Settings, first_fault
from admil.training import ModuleMaker, Progress, TrainedModel, TrainingRecipe, fit, score

__all__ = [
    "LearnerState",
    "Recipe",
    "RoundRecord",
    "Trainer",
    "Trains",
    "absorb",
    "propose",
    "refreshed",
    "round_generator",
]

_BUILTIN: TypeAdapter[Any] = TypeAdapter(BuiltinSampler)


class Recipe(Settings):
    """What stays fixed between rounds: how to train, whom to ask, how many questions.

    >>> Recipe().budget
    20
    >>> Recipe.named("paper").training.answers
    'bce'

    Attributes:
        training: how a model is trained.
        sampler: who is asked; one of `admil.sampling`, or an object of yours that is a `Sampler`.
        budget: questions of a round, at most.
        warm_start: whether a round's training starts from the last round's weights.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    training: TrainingRecipe = TrainingRecipe()
    sampler: SerializeAsAny[Any] = BagPosterior()
    budget: Annotated[int, Field(ge=1, strict=True)] = 20
    warm_start: bool = False

    @classmethod
    def named(cls, name: Literal["default", "paper"]) -> Self:
        """Return a recipe by name: ``default``, or ``paper`` for the paper's training and P-F sampling."""
        if name == "default":
            return cls()
        if name == "paper":
            from admil.sampling import PF

            return cls(training=TrainingRecipe.paper(), sampler=PF())
        raise InvalidInput(f"there is no recipe {name!r}; the names are 'default' and 'paper'", name)

    @field_validator("sampler", mode="before")
    @classmethod
    def _is_a_sampler(cls, value: object) -> object:
        if isinstance(value, Sampler) and not isinstance(value, type):  # PF has what a sampler has, PF() is one
            return value
        try:
            return _BUILTIN.validate_python(value)
        except ValidationError as error:
            raise ValueError(
                "expected a sampler (an object with needs and select, or the fields of a built-in one), "
                f"got {value!r}: {first_fault(None, error)}"
            ) from error


@dataclass(frozen=True)
class RoundRecord:
    """What one round asked and what was known when it did.

    Attributes:
        round: its number, from 0.
        asked: the instances of its query.
        answered: positive and negative answers before it.
        positives: positive answers before it.
        skipped: skipped instances before it.
        bags_confirmed: positive bags with a positive answer before it.
        held_out_auroc: order of held-out bags under its model; None where none could be held out.
        steps: optimizer steps of the weights it used.
    """

    round: int
    asked: tuple[InstanceId, ...]
    answered: int
    positives: int
    skipped: int
    bags_confirmed: int
    held_out_auroc: float | None
    steps: int


@dataclass(frozen=True, eq=False)
class LearnerState:
    """Everything that changes from round to round.

    Attributes:
        seed: the source of all randomness.
        labels: the answers so far.
        round: the number of the open round, or of the next one where none is open.
        query: the open round's query; None before `propose` and once all of it is answered.
        model: the newest round's model.
        trained_on: the labels that ``model`` was trained on.
        history: a record of every round so far.
    """

    seed: int
    labels: LabelBook
    round: int = 0
    query: Query | None = None
    model: TrainedModel | None = None
    trained_on: LabelBook | None = None
    history: tuple[RoundRecord, ...] = ()

    @property
    def open_items(self) -> Query:
        """The open query's questions without an answer, in order; what the answers imply is not asked any more."""
        if self.query is None:
            return Query()
        return Query(tuple(item for item in self.query if not self.labels.knows(item.id)), self.query.note)

    @property
    def is_current(self) -> bool:
        """Whether the model has seen every answer."""
        return self.model is not None and self.trained_on == self.labels


class Trains(Protocol):
    """What trains the model of a round."""

    def train(self, recipe: Recipe, bags: BagSource, state: LearnerState) -> TrainedModel:
        """Train the model of the state's round on its labels."""


@dataclass(frozen=True, eq=False)
class Trainer:
    """Where and how to run training, beside the recipe; see `admil.training.fit`."""

    device: torch.device | str = "cpu"
    groups: Sequence[object] | None = None
    module: nn.Module | ModuleMaker | None = None
    on_step: Callable[[Progress], None] | None = None

    def train(self, recipe: Recipe, bags: BagSource, state: LearnerState) -> TrainedModel:
        """Train the model of the state's round on its labels."""
        return fit(
            recipe.training,
            bags,
            state.labels,
            round_generator(state.seed, state.round, "fit"),
            self.device,
            self.groups,
            state.model if recipe.warm_start else None,
            self.on_step,
            self.module,
        )


def refreshed(recipe: Recipe, bags: BagSource, state: LearnerState, trainer: Trains | None = None) -> LearnerState:
    """Return the state with a model that has seen every answer; the same state if it has one."""
    if state.is_current:
        return state
    model = (trainer or Trainer()).train(recipe, bags, state)
    return replace(state, model=model, trained_on=state.labels)


def propose(recipe: Recipe, bags: BagSource, state: LearnerState, trainer: Trains | None = None) -> LearnerState:
    """Open the next round: train, score, select.  A round that is still open is closed as it stands."""
    state = replace(state, round=state.round + 1, query=None) if state.query is not None else state
    state = refreshed(recipe, bags, state, trainer)
    assert state.model is not None
    scores = score(state.model, bags, state.labels, recipe.sampler.needs)
    query = _select(recipe, scores, state)
    record = RoundRecord(
        round=state.round,
        asked=query.ids,
        answered=state.labels.count(AnswerValue.POSITIVE) + state.labels.count(AnswerValue.NEGATIVE),
        positives=state.labels.count(AnswerValue.POSITIVE),
        skipped=state.labels.count(AnswerValue.SKIPPED),
        bags_confirmed=int(state.labels.found.sum()),
        held_out_auroc=state.model.history.held_out_auroc,
        steps=state.model.history.best_step,
    )
    return replace(state, query=query, history=(*state.history, record))


def absorb(state: LearnerState, answers: Iterable[Answer]) -> LearnerState:
    """Return the state with these answers; the round closes once its whole query is answered.

    Answers about instances that were not asked are welcome too.  All are taken, or an error and none.
    """
    state = replace(state, labels=state.labels.extended(answers))
    if state.query is not None and len(state.query) and not len(state.open_items):
        return replace(state, round=state.round + 1, query=None)
    return state


def _select(recipe: Recipe, scores: Scores, state: LearnerState) -> Query:
    sampler: Sampler = recipe.sampler
    return sampler.select(scores, state.labels, recipe.budget, round_generator(state.seed, state.round, "select"))


def round_generator(seed: int, round_: int, purpose: Literal["fit", "select"]) -> Generator:
    """Return the generator of a round: derived from (seed, round, purpose) alone."""
    words = np.random.SeedSequence([seed, round_, ("fit", "select").index(purpose)]).generate_state(2, np.uint32)
    return Generator().manual_seed(int(words[0]) << 31 ^ int(words[1]))
