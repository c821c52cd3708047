"""Whom to ask next."""

from typing import Annotated

from pydantic import Field

from admil.sampling.choice import Choice, Sampler, by_priority, checked_pool, query_of, tied_note
from admil.sampling.pf import PF
from admil.sampling.samplers import (
    EGL,
    MIALMIU,
    BagPosterior,
    Disagreement,
    FEntropy,
    MIALUncertainty,
    PEntropy,
    RandomSampler,
)

__all__ = [
    "EGL",
    "MIALMIU",
    "PF",
    "BagPosterior",
    "BuiltinSampler",
    "Choice",
    "Disagreement",
    "FEntropy",
    "MIALUncertainty",
    "PEntropy",
    "RandomSampler",
    "Sampler",
    "by_priority",
    "checked_pool",
    "query_of",
    "tied_note",
]

BuiltinSampler = Annotated[
    PF | FEntropy | PEntropy | RandomSampler | Disagreement | EGL | MIALUncertainty | MIALMIU | BagPosterior,
    Field(discriminator="kind"),
]
"""Every sampler that a recipe can name; a sampler of your own is passed as an object."""
