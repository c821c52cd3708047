"""Samplers that give every instance a priority and ask the highest.

Ties go to the earlier position.  A new one is a class here with a ``kind``, listed in `BuiltinSampler`
(see `admil.sampling`).
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Generator

from admil.bags import FloatArray, LabelBook, LabelState, Need, Query, Scores
from admil.errors import InvalidInput
from admil.functional import SizeClasses, bag_posterior, entropy, gini, miu
from admil.sampling.choice import by_priority, checked_pool, query_of, tied_note
from admil.settings import Settings

__all__ = [
    "EGL",
    "MIALMIU",
    "BagPosterior",
    "Disagreement",
    "FEntropy",
    "MIALUncertainty",
    "PEntropy",
    "RandomSampler",
]


class _Priority(Settings):
    """A sampler that asks the instances of the highest priority."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Nothing beside f, p and the bag score."""
        return ()

    def select(self, scores: Scores, labels: LabelBook, budget: int, generator: Generator) -> Query:
        """Return the instances of the highest priority that may be asked."""
        pool = checked_pool(scores, labels, budget)
        priority = self.priority(scores, labels, generator)
        chosen = by_priority(priority, pool, budget)
        return query_of([(int(i), self.reason) for i in chosen], scores, labels, budget, tied_note(priority, pool))

    @property
    def reason(self) -> str:
        """The word that a question of this sampler carries."""
        return "exploit"

    def priority(self, scores: Scores, labels: LabelBook, generator: Generator) -> FloatArray:
        """Return (M,) priorities."""
        raise InvalidInput(f"{type(self).__name__} gives no priority; use one of the samplers")


class FEntropy(_Priority):
    """Ask where the score is most uncertain: highest H(f) (the paper's F-entropy)."""

    kind: Literal["f_entropy"] = "f_entropy"

    def priority(self, scores: Scores, labels: LabelBook, generator: Generator) -> FloatArray:
        """Return H(f)."""
        return _numpy(entropy(torch.tensor(scores.f)))


class PEntropy(_Priority):
    """Ask where the robust weight is most uncertain: highest H(p).

    With k = 1 every weight is 0 or 1 and none is uncertain: the query then says so.
    """

    kind: Literal["p_entropy"] = "p_entropy"

    def priority(self, scores: Scores, labels: LabelBook, generator: Generator) -> FloatArray:
        """Return H(p)."""
        return _numpy(entropy(torch.tensor(scores.p)))


class RandomSampler(_Priority):
    """Ask at random, every candidate equally likely."""

    kind: Literal["random"] = "random"

    @property
    def reason(self) -> str:
        """Return "random"."""
        return "random"

    def priority(self, scores: Scores, labels: LabelBook, generator: Generator) -> FloatArray:
        """Return a random order."""
        return _numpy(torch.randperm(len(scores.f), generator=generator).double())


class Disagreement(_Priority):
    """Ask where the members of the ensemble disagree most: H(mean f) - mean H(f); there must be two."""

    kind: Literal["disagreement"] = "disagreement"

    @property
    def needs(self) -> tuple[Need, ...]:
        """The members' disagreement."""
        return ("disagreement",)

    def priority(self, scores: Scores, labels: LabelBook, generator: Generator) -> FloatArray:
        """Return the disagreement."""
        return _extra(scores, "disagreement")


class EGL(_Priority):
    """Ask where an answer is expected to move the model most (expected gradient length)."""

    kind: Literal["egl"] = "egl"

    @property
    def needs(self) -> tuple[Need, ...]:
        """The expected gradient length."""
        return ("expected_gradient_length",)

    def priority(self, scores: Scores, labels: LabelBook, generator: Generator) -> FloatArray:
        """Return the expected gradient length."""
        return _extra(scores, "expected_gradient_length")


class MIALUncertainty(_Priority):
    """Ask by the Gini impurity 2 f (1 - f) of Settles et al.; it ranks as `FEntropy` does."""

    kind: Literal["mial_uncertainty"] = "mial_uncertainty"

    def priority(self, scores: Scores, labels: LabelBook, generator: Generator) -> FloatArray:
        """Return 2 f (1 - f)."""
        return _numpy(gini(torch.tensor(scores.f)))


class MIALMIU(_Priority):
    """Ask by the MI uncertainty of Settles et al.: the bag's uncertainty times the instance's pull on it.

    Known negatives take no part in their bag's score.
    """

    kind: Literal["mial_miu"] = "mial_miu"
    alpha: float = Field(default=2.5, gt=0)

    def priority(self, scores: Scores, labels: LabelBook, generator: Generator) -> FloatArray:
        """Return dO/df * 2 O (1 - O)."""
        kept = torch.from_numpy(labels.state != LabelState.NEGATIVE)
        return _numpy(_bags(scores).per_instance(torch.tensor(scores.f), kept, partial(miu, alpha=self.alpha)))


class BagPosterior(_Priority):
    """Ask where the probability of being positive, given that the bag is, is most uncertain.

    In a positive bag without a known positive some instance must be positive: one weak front runner
    among low scores becomes probable, a flat bag stays improbable everywhere.  See
    `admil.functional.bag_posterior`.  The reason is ``explore`` in bags without a known positive,
    ``exploit`` in the others.
    """

    kind: Literal["bag_posterior"] = "bag_posterior"

    def select(self, scores: Scores, labels: LabelBook, budget: int, generator: Generator) -> Query:
        """Return the instances of the highest posterior entropy."""
        pool = checked_pool(scores, labels, budget)
        priority = self.priority(scores, labels, generator)
        confirmed = labels.confirmed[scores.index.bag_of]
        choices = [(int(i), "exploit" if confirmed[i] else "explore") for i in by_priority(priority, pool, budget)]
        return query_of(choices, scores, labels, budget, tied_note(priority, pool))

    def priority(self, scores: Scores, labels: LabelBook, generator: Generator) -> FloatArray:
        """Return the entropy of the bag posterior."""
        f, confirmed = torch.tensor(scores.f), torch.from_numpy(labels.confirmed)
        open_ = torch.from_numpy(np.isin(labels.state, (LabelState.UNKNOWN, LabelState.SKIPPED)))
        posterior = torch.empty_like(f)
        for bags, padding in _bags(scores):
            found = bag_posterior(padding.pad(f), padding.pad(open_), confirmed[bags])
            posterior[padding.positions] = padding.flatten(found)
        return _numpy(entropy(posterior))


def _bags(scores: Scores) -> SizeClasses:
    return SizeClasses.of(torch.from_numpy(scores.index.sizes))


def _extra(scores: Scores, need: Need) -> FloatArray:
    if need not in scores.extras:
        raise InvalidInput(f"this sampler needs {need!r} in the scores; call score(…, needs=sampler.needs)", need)
    return scores.extras[need]


def _numpy(values: torch.Tensor) -> FloatArray:
    array: FloatArray = values.numpy()
    return array
