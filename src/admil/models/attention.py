"""What makes a network look at some instances of a bag more than at others: attention over instances."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Generator, Tensor, nn

from admil.settings import Settings

__all__ = ["Attention", "AttentionHead", "uniform"]


class Attention(Settings):
    """The energy e_i of an instance with last hidden activations h; its attention is softmax(e) over its bag.

    ``plain``: e = w . tanh(V h), Ilse, Tomczak and Welling 2018, eq. 8.
    ``gated``: e = w . (tanh(V h) * sigmoid(U h)), their eq. 9.
    ``query``: e = w . tanh(q * (V h)), the compatibility of an instance with a learned query q, after Hsu et al. 2020
    with one query for the one class.

    Attributes:
        form: which of the three.
        units: length of V h.
        instance_score: what the score f of an instance is: its ``attention`` times the probability of its bag, or what
            the bag's ``classifier`` makes of it alone.
    """

    form: Literal["plain", "gated", "query"] = "plain"
    units: int = Field(default=32, ge=1)
    instance_score: Literal["attention", "classifier"] = "attention"


class AttentionHead(nn.Module):
    """The energies of E members side by side.

    Args:
        settings: the form and its size.
        members: E.
        width: length of the activations, H.
        generator: draws the initial weights.
    """

    def __init__(self, settings: Attention, members: int, width: int, generator: Generator | None = None) -> None:
        super().__init__()
        self.form, units = settings.form, settings.units
        self.value = nn.Parameter(uniform((members, units, width), width**-0.5, generator))
        self.value_bias = nn.Parameter(uniform((members, units), width**-0.5, generator))
        self.energy = nn.Parameter(uniform((members, 1, units), units**-0.5, generator))
        if settings.form == "gated":
            self.gate = nn.Parameter(uniform((members, units, width), width**-0.5, generator))
            self.gate_bias = nn.Parameter(uniform((members, units), width**-0.5, generator))
        if settings.form == "query":
            self.query = nn.Parameter(uniform((members, 1, units), 1.0, generator))

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the energies (E, M) of activations (E, M, H)."""
        value = torch.baddbmm(self.value_bias.unsqueeze(1), hidden, self.value.mT)  # (E, M, L)
        value = torch.tanh(self.query * value if self.form == "query" else value)
        if self.form == "gated":
            value = value * torch.sigmoid(torch.baddbmm(self.gate_bias.unsqueeze(1), hidden, self.gate.mT))
        return torch.bmm(value, self.energy.mT).squeeze(-1)


def uniform(shape: tuple[int, ...], bound: float, generator: Generator | None) -> Tensor:
    """Draw from [-bound, bound], as torch's own linear layers do for their fan-in."""
    return (torch.rand(shape, generator=generator) * 2 - 1) * bound
