"""Networks that give every instance a logit, E members at a time."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, cast

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as nnf

from admil.errors import InvalidInput
from admil.models.attention import Attention, AttentionHead, uniform
from admil.models.scaling import Scaling

__all__ = ["ModuleEnsemble", "Scorer", "ScorerEnsemble"]

_GRADIENT_ENTRIES = 2**26
"""Entries of per-instance gradients that are held at once (256 MiB in float32)."""


class Scorer(Protocol):
    """What training and scoring need of a network: a plain nn.Module with E members.

    ``forward`` maps unscaled features (M, D) to logits (E, M).
    """

    members: int

    def forward(self, features: Tensor, generator: Generator | None = None) -> Tensor:
        """Return (E, M) logits; dropout draws from ``generator`` while training."""

    def outputs(self, features: Tensor, generator: Generator | None = None) -> Tensor:
        """Return (H, E, M): the logits, and from a network with attention the energies after them."""

    def embed(self, features: Tensor) -> Tensor:
        """Return (M, H) activations of the last hidden layer."""

    def gradient_norm(self, features: Tensor) -> Tensor:
        """Return (E, M) the norm of the logit's gradient in a member's parameters."""


class ScorerEnsemble(nn.Module):
    """E members of the paper's network (FC 32, ReLU, FC 16, FC 1, dropout between) as one network.

    The first layer of all members is a single matrix product, so features are read once whatever E.
    Scaling is folded into its weights: the features themselves are never copied or changed.

    Args:
        width: number of features, D.
        members: E.
        hidden: units of the hidden layers; ReLU follows the first only, as in the paper.
        dropout: share of hidden units dropped while training.
        scaling: how inputs are scaled; None for not at all.
        generator: draws the initial weights.
        attention: of a network that attends to instances: the last hidden layer feeds it, and the classifier; then the
            logit of a bag, as Ilse et al. make it of the attention-weighted sum of hidden activations, is the sum of
            its instances' logits, weighted by their attention.  There must be a hidden layer.
    """

    shift: Tensor
    factor: Tensor

    def __init__(
        self,
        width: int,
        members: int = 8,
        hidden: Sequence[int] = (32, 16),
        dropout: float = 0.6,
        scaling: Scaling | None = None,
        generator: Generator | None = None,
        attention: Attention | None = None,
    ) -> None:
        super().__init__()
        self.members = members
        self.attention = None if attention is None else AttentionHead(attention, members, hidden[-1], generator)
        self.hidden = tuple(hidden)
        self.dropout = dropout
        scaling = scaling or Scaling.none(width)
        self.register_buffer("shift", scaling.shift.clone())
        self.register_buffer("factor", scaling.factor.clone())
        sizes = [width, *self.hidden, 1]
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for fan_in, fan_out in pairwise(sizes):
            bound = fan_in**-0.5
            self.weights.append(nn.Parameter(uniform((members, fan_out, fan_in), bound, generator)))
            self.biases.append(nn.Parameter(uniform((members, fan_out), bound, generator)))

    def forward(self, features: Tensor, generator: Generator | None = None) -> Tensor:
        """Return (E, M) logits of unscaled features (M, D)."""
        return self._outputs_of(features, generator)[-1].squeeze(-1)

    def outputs(self, features: Tensor, generator: Generator | None = None) -> Tensor:
        """Return (H, E, M): the logits, and the energies where there is attention."""
        *hidden, logits = self._outputs_of(features, generator)
        logits = logits.squeeze(-1)
        return torch.stack([logits] if self.attention is None else [logits, self.attention(hidden[-1])])

    def embed(self, features: Tensor) -> Tensor:
        """Return (M, E * H) activations of the last hidden layer of all members, without dropout.

        A network without hidden layers returns its scaled inputs (M, D).
        """
        if not self.hidden:
            return self._scaled(features)
        last = self._layers(features)[-2]  # (E, M, H)
        return last.permute(1, 0, 2).flatten(1)

    def gradient_norm(self, features: Tensor) -> Tensor:
        """Return (E, M) norms of d logit / d parameters, in closed form and without dropout.

        A layer with input h and back-propagated signal d adds |d|^2 (|h|^2 + 1).
        """
        hidden = self._layers(features)
        inputs = [self._scaled(features), *hidden[:-1]]  # (M, D), shared by the members, then (E, M, H)
        signal = torch.ones_like(hidden[-1])  # (E, M, 1)
        squared = torch.zeros_like(hidden[-1].squeeze(-1))
        for layer in reversed(range(len(self.weights))):
            squared = squared + signal.square().sum(-1) * (inputs[layer].square().sum(-1) + 1)
            if layer > 0:
                signal = signal @ self.weights[layer]
            if layer == 1:
                signal = signal * (hidden[0] > 0)
        return squared.sqrt()

    def only(self, members: Sequence[int]) -> ScorerEnsemble:
        """Return an ensemble of some of the members, with weights of its own."""
        chosen = copy.deepcopy(self)
        chosen.members = len(members)
        for parameter in chosen.parameters():
            parameter.data = parameter.data[list(members)].clone()
        return chosen

    def _outputs_of(self, features: Tensor, generator: Generator | None) -> list[Tensor]:
        return self._layers(features, self.dropout if self.training else 0.0, generator)

    def _layers(self, features: Tensor, dropout: float = 0.0, generator: Generator | None = None) -> list[Tensor]:
        """Return the output of every layer, (E, M, H) each, the logits (E, M, 1) last."""
        h = self._first(features)
        outputs = [h]
        for layer in range(1, len(self.weights)):
            if layer == 1:
                h = torch.relu(h)
                outputs[0] = h
            h = _dropped(h, dropout, generator)
            h = torch.baddbmm(self.biases[layer].unsqueeze(1), h, self.weights[layer].mT)
            outputs.append(h)
        return outputs

    def _first(self, features: Tensor) -> Tensor:
        weight, bias = self.weights[0], self.biases[0]
        scaled = weight * self.factor.to(weight)
        bias = bias - (scaled.double() @ self.shift.double()).to(bias)
        out = nnf.linear(features, scaled.flatten(0, 1).to(features.dtype))  # (M, E * H), one product
        out = out.to(weight.dtype).reshape(len(features), *weight.shape[:2])
        return torch.add(out.permute(1, 0, 2), bias.unsqueeze(1))

    def _scaled(self, features: Tensor) -> Tensor:
        return ((features.to(self.shift) - self.shift) * self.factor).to(self.weights[0].dtype)


class ModuleEnsemble(nn.Module):
    """Any modules that map (M, D) to (M,) logits, side by side as members.

    Their own dropout layers draw from torch's global generator; `fit` seeds it for the time of
    training and restores it.
    """

    shift: Tensor
    factor: Tensor

    def __init__(self, modules: Sequence[nn.Module], scaling: Scaling) -> None:
        super().__init__()
        if not modules:
            raise InvalidInput("an ensemble needs at least one module, got none")
        self.members = len(modules)
        self.member_modules = nn.ModuleList(modules)
        self.register_buffer("shift", scaling.shift.clone())
        self.register_buffer("factor", scaling.factor.clone())

    def forward(self, features: Tensor, generator: Generator | None = None) -> Tensor:
        """Return (E, M) logits of unscaled features (M, D)."""
        # scaled anew for each: a module may work in place on what it is given
        logits = [module(self._scaled(features)) for module in self.member_modules]
        return torch.stack([_checked(each, len(features)) for each in logits])

    def outputs(self, features: Tensor, generator: Generator | None = None) -> Tensor:
        """Return (1, E, M): the logits."""
        return torch.stack([self(features, generator)])

    def embed(self, features: Tensor) -> Tensor:
        """Refuse: the hidden layer of an unknown module is not known."""
        raise InvalidInput("an embedding is not known for a module of your own; choose a sampler that needs none")

    def only(self, members: Sequence[int]) -> ModuleEnsemble:
        """Return an ensemble of some of the members, with weights of its own."""
        chosen = copy.deepcopy(self)
        chosen.members = len(members)
        chosen.member_modules = nn.ModuleList([chosen.member_modules[member] for member in members])
        return chosen

    def gradient_norm(self, features: Tensor) -> Tensor:
        """Return (E, M) norms of d logit / d parameters, one instance at a time under vmap.

        Frozen parameters do not count: an answer cannot move them.
        """
        return torch.stack([_per_instance_norm(module, self._scaled(features)) for module in self.member_modules])

    def _scaled(self, features: Tensor) -> Tensor:
        dtype = next((p.dtype for p in self.parameters()), torch.float32)
        return ((features.to(self.shift) - self.shift) * self.factor).to(dtype)


def _dropped(h: Tensor, share: float, generator: Generator | None) -> Tensor:
    """Drop units and scale the others up, keeping the mean.

    A unit stays if its random byte is below 256 (1 - share), rounded: eight bytes a draw are many times
    faster than a draw for each, and the scale is that of the rounded share.
    """
    levels = max(1, round(256 * (1 - share)))
    if levels == 256:
        return h
    words = torch.empty((h.numel() + 7) // 8, dtype=torch.int64, device=h.device)
    words.random_(-(2**63), None, generator=generator)
    keep = words.view(torch.uint8)[: h.numel()].reshape(h.shape) < levels
    return h * keep.to(h.dtype).mul_(256 / levels)


def _checked(logits: Tensor, rows: int) -> Tensor:
    if logits.shape == (rows, 1):
        return logits.squeeze(1)
    if logits.shape != (rows,):
        raise InvalidInput(
            f"a module must map (M, D) features to (M,) logits: for M = {rows} it returned shape {tuple(logits.shape)}"
        )
    return logits


def _per_instance_norm(module: nn.Module, features: Tensor, entries: int = _GRADIENT_ENTRIES) -> Tensor:
    parameters = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}

    def logit(values: dict[str, Tensor], row: Tensor) -> Tensor:
        return cast(Tensor, torch.func.functional_call(module, values, (row.unsqueeze(0),))).squeeze()

    def norm(row: Tensor) -> Tensor:
        gradient = cast(dict[str, Tensor], torch.func.grad(logit)(parameters, row))
        return torch.stack([g.square().sum() for g in gradient.values()]).sum().sqrt()

    if not parameters:
        return features.new_zeros(len(features))
    at_once = max(1, entries // sum(p.numel() for p in parameters.values()))
    return torch.func.vmap(norm, chunk_size=at_once)(features)
