"""Everything about training that stays fixed between rounds, as one validated value."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from admil.functional import Robustness
from admil.losses import AttentionPooled, BagLoss, Drbl, PooledLoss
from admil.models import Attention, ScalingRule
from admil.settings import Settings

__all__ = ["TrainingRecipe"]


class TrainingRecipe(Settings):
    """How a model is trained.  ``TrainingRecipe()`` is our default, ``TrainingRecipe.paper()`` the paper's.

    >>> TrainingRecipe(members=4, loss=Drbl(robustness=Robustness.effective(3))).robustness
    Robustness.effective(3)

    Attributes:
        loss: the bag loss; or one per member, whose strengths and kinds may differ.
        weights: the robustness that p and the bag score are reported with; None takes the first
            member's where its loss is DRBL, else ``Robustness.effective(2)``.
        answers: how answers enter.  ``bags``: a known positive is a positive bag of one and known
            negatives form extra negative bags, under the same hinge.  ``bce``: the paper's hybrid, beta
            times the cross-entropy over answered instances.
        beta: weight of the answers' term of ``bce``; or one per member.
        singleton_weight: weight of a known positive in ``bags``, that of a positive bag being 1.
        negatives_per_bag: known negatives to an extra negative bag in ``bags``.
        positives_per_step: at most this many known positives enter a step, drawn anew; None for all.
        negatives_per_step: the same for known negatives.
        remove_known_negatives: whether known negatives leave their positive bag.
        members: networks trained side by side, E.
        hidden: units of the hidden layers.
        dropout: share of hidden units dropped while training.
        attention: of a network that attends to instances, which `AttentionPooled` needs; None for one that does not.
        scaling: how inputs are scaled, see `Scaling`.
        optimizer: ``adamw`` or ``sgd``.
        learning_rate: its step size.
        weight_decay: its weight decay.
        bags_per_side: positive bags, and as many negative ones, of a step (fewer where there are fewer).
        instances_per_step: at most about this many instances in the bags of a step: where bags are large a step
            takes fewer of them, one of a side at least.  What a step needs of memory goes with it;
            a bag is taken whole, however large.
        member_share: probability that a member sees a given bag of a step; below 1 members see different
            mini-batches although features are read once.
        max_steps: optimizer steps at most.
        held_out_folds: each member holds out one of this many folds of the bags; 0 holds out none and
            runs ``max_steps``.
        held_out_bags: at most this many bags are ever held out.
        check_every: steps between two looks at the held-out bags.
        patience: looks without an improvement after which training stops.
        precision: type of the first layer's matrix product.
    """

    loss: BagLoss | tuple[BagLoss, ...] = Drbl()
    weights: Robustness | None = None
    answers: Literal["bags", "bce"] = "bags"
    beta: float | tuple[float, ...] = 1.0
    singleton_weight: float = Field(default=1.0, ge=0)
    negatives_per_bag: int = Field(default=20, ge=1)
    positives_per_step: int | None = Field(default=60, ge=1)
    negatives_per_step: int | None = Field(default=240, ge=1)
    remove_known_negatives: bool = True
    members: int = Field(default=8, ge=1)
    hidden: tuple[int, ...] = (32, 16)
    dropout: float = Field(default=0.3, ge=0, lt=1)
    attention: Attention | None = None
    scaling: ScalingRule = "auto"
    optimizer: Literal["adamw", "sgd"] = "adamw"
    learning_rate: float = Field(default=3e-3, gt=0)
    weight_decay: float = Field(default=1e-2, ge=0)
    bags_per_side: int = Field(default=60, ge=1)
    instances_per_step: int = Field(default=50_000, ge=1)
    member_share: float = Field(default=1.0, gt=0, le=1)
    max_steps: int = Field(default=1000, ge=1)
    held_out_folds: int = Field(default=8, ge=0)
    held_out_bags: int = Field(default=1000, ge=2)
    check_every: int = Field(default=10, ge=1)
    patience: int = Field(default=20, ge=1)
    precision: Literal["float32", "bfloat16"] = "float32"

    @classmethod
    def paper(cls, **changes: object) -> Self:
        """Return the paper's training: one network, SGD, the hybrid loss; the strength is ours.

        The paper's stated lambda = 0.01 does not train, so the strength stays at two effective
        instances; pass ``loss=Drbl(robustness=Robustness.chi_square(0.01))`` to see it fail.
        """
        fields = {
            "answers": "bce",
            "members": 1,
            "optimizer": "sgd",
            "learning_rate": 0.01,
            "weight_decay": 1e-3,
            "dropout": 0.6,
            "max_steps": 20_000,
            "check_every": 100,
            "positives_per_step": None,
            "negatives_per_step": None,
            "scaling": "none",
        }
        return cls.model_validate({**fields, **changes})

    @property
    def robustness(self) -> Robustness:
        """The one robustness that p and bag scores are computed with."""
        if self.weights is not None:
            return self.weights
        first = self.member_losses[0]
        return first.robustness if isinstance(first, Drbl) else Robustness.effective(2)

    @property
    def member_losses(self) -> tuple[BagLoss, ...]:
        """The bag loss of every member."""
        return self.loss if isinstance(self.loss, tuple) else (self.loss,) * self.members

    @property
    def member_betas(self) -> tuple[float, ...]:
        """The beta of every member."""
        return self.beta if isinstance(self.beta, tuple) else (self.beta,) * self.members

    @model_validator(mode="after")
    def _losses_that_fit(self) -> Self:
        if len({isinstance(loss, PooledLoss) for loss in self.member_losses}) > 1:
            raise ValueError("members take all the hinge between bags or all the cross-entropy of bags, not some this")
        attentive = {isinstance(loss, AttentionPooled) for loss in self.member_losses}
        if attentive != {self.attention is not None}:
            raise ValueError(
                "AttentionPooled needs attention=Attention(…), and for all members; other losses have none"
            )
        if self.attention is not None and not self.hidden:
            raise ValueError("attention looks at the last hidden layer, but hidden is ()")
        return self

    @model_validator(mode="after")
    def _one_of_each_per_member(self) -> Self:
        for name, values in (("loss", self.member_losses), ("beta", self.member_betas)):
            if len(values) != self.members:
                raise ValueError(
                    f"{name} must be one value or one per member: {self.members} members, {len(values)} values"
                )
        if any(beta < 0 for beta in self.member_betas):
            raise ValueError(f"beta must be >= 0, got {self.beta}")
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"hidden layers need at least one unit, got {self.hidden}")
        return self
