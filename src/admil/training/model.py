"""What training returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from torch import nn

from admil.models import ModuleEnsemble, Scaling, Scorer, ScorerEnsemble
from admil.training.recipe import TrainingRecipe

__all__ = ["Check", "Progress", "TrainedModel", "TrainingHistory"]

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Check:
    """One look at the held-out bags: the share of their pairs ordered right, and their hinge.

    The best of many looks flatters; for how good a model is see `TrainingHistory.held_out_auroc`.
    """

    step: int
    auroc: float
    hinge: float


@dataclass(frozen=True)
class Progress:
    """Where training stands; ``check`` is the newest look, if there was one."""

    step: int
    max_steps: int
    loss: float
    check: Check | None


@dataclass(frozen=True)
class TrainingHistory:
    """How training went.

    Attributes:
        losses: the training loss of every step, mean over members.
        checks: the looks at the held-out bags.
        best_step: the step whose weights were kept.
        held_out_auroc: AUROC of bags scored by members that did not see them; the step is chosen by other
            folds than those judged, so that it is no maximum over looks.  None where no bags were held out.
        held_out_scores: by bag id, the logit of the bag's highest instance by members that did not see it,
            see `HeldOutJudge.bag_scores`.
        held_out: by member, the ids of the bags that it never saw; who goes on from these weights keeps to it.
        warnings: what a user should know.
    """

    losses: tuple[float, ...] = ()
    checks: tuple[Check, ...] = ()
    best_step: int = 0
    held_out_auroc: float | None = None
    held_out_scores: Mapping[str, float] = field(default_factory=dict)
    held_out: tuple[tuple[str, ...], ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained network with all that is needed to score bags and to go on training.

    Attributes:
        scorer: an nn.Module that is also a `Scorer`, in eval mode.
        recipe: how it was trained.
        scaling: how inputs are scaled (the scorer holds it too).
        history: how training went.
    """

    scorer: Scorer
    recipe: TrainingRecipe
    scaling: Scaling
    history: TrainingHistory

    @property
    def width(self) -> int:
        """The number of features an instance must have."""
        return len(self.scaling.shift)

    def only(self, members: Sequence[int]) -> TrainedModel:
        """Return the model of some of the members; what its history says of all of them together it says no more."""
        assert isinstance(self.scorer, ScorerEnsemble | ModuleEnsemble)
        losses = [self.recipe.member_losses[member] for member in members]
        betas = [self.recipe.member_betas[member] for member in members]
        changes: dict[str, object] = {"members": len(members), "loss": _one(losses), "beta": _one(betas)}
        held_out = tuple(self.history.held_out[member] for member in members) if self.history.held_out else ()
        return TrainedModel(
            self.scorer.only(members),
            TrainingRecipe.model_validate({**dict(self.recipe), **changes}),
            self.scaling,
            replace(self.history, held_out=held_out, held_out_auroc=None, held_out_scores={}),
        )

    @property
    def module(self) -> nn.Module:
        """The scorer as the nn.Module it is."""
        assert isinstance(self.scorer, nn.Module)
        return self.scorer


def _one(values: Sequence[_Value]) -> _Value | tuple[_Value, ...]:
    """Return the value that all have, else all of them."""
    return values[0] if all(value == values[0] for value in values) else tuple(values)
