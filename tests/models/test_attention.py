"""Attention: each form against its formula, instance by instance, and what a bag's logit is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from admil.errors import InvalidInput
from admil.losses import AttentionPooled
from admil.models import Attention, AttentionHead, ScorerEnsemble

E, M, D, H, L = 3, 5, 4, 6, 2

every_form = pytest.mark.parametrize("form", ["plain", "gated", "query"])


def head(form: str) -> AttentionHead:
    settings = Attention.model_validate({"form": form, "units": L})
    return AttentionHead(settings, E, H, Generator().manual_seed(2)).double()


def hidden() -> Tensor:
    return torch.randn(E, M, H, generator=Generator().manual_seed(3), dtype=torch.float64)


def _energy(form: str, weights: dict[str, np.ndarray], h: np.ndarray) -> float:
    """Return the energy of one instance as the papers write it, unit by unit."""
    total = 0.0
    for unit in range(L):
        value = sum(weights["value"][unit][j] * h[j] for j in range(H)) + weights["value_bias"][unit]
        if form == "query":
            value *= weights["query"][0][unit]
        value = math.tanh(value)
        if form == "gated":
            gate = sum(weights["gate"][unit][j] * h[j] for j in range(H)) + weights["gate_bias"][unit]
            value *= 1 / (1 + math.exp(-gate))
        total += weights["energy"][0][unit] * value
    return total


@every_form
def test_the_energy_is_the_papers(form: str) -> None:
    made, given = head(form), hidden()
    energies = made(given)
    assert energies.shape == (E, M)
    for member in range(E):
        weights = {name: value[member].detach().numpy() for name, value in made.named_parameters()}
        for place in range(M):
            expected = _energy(form, weights, given[member, place].numpy())
            assert energies[member, place].item() == pytest.approx(expected, abs=1e-12)


def test_an_energy_by_hand() -> None:
    one = AttentionHead(Attention(units=1), 1, 1)
    with torch.no_grad():
        for parameter, value in zip((one.value, one.value_bias, one.energy), (2.0, 0.0, 3.0), strict=True):
            parameter.fill_(value)
    assert one(torch.tensor([[[0.5]]])).item() == pytest.approx(3 * math.tanh(1.0))


@every_form
def test_a_bags_logit_is_that_of_the_attention_weighted_sum_of_activations(form: str) -> None:
    """Ilse et al. classify z = sum a_i h_i; weighting the instances' logits says the same."""
    attention = Attention.model_validate({"form": form, "units": L})
    network = ScorerEnsemble(D, E, (8, H), 0.5, None, Generator().manual_seed(4), attention).double().eval()
    features = torch.randn(M, D, generator=Generator().manual_seed(5), dtype=torch.float64)
    outputs = network.outputs(features)
    assert outputs.shape == (2, E, M)
    assert torch.equal(outputs[0], network(features))
    bag = AttentionPooled().bag_log_odds(outputs.unsqueeze(2), torch.ones(1, M, dtype=torch.bool)).squeeze(1)
    embedded = network.embed(features).reshape(M, E, H)
    for member in range(E):
        energies = outputs[1, member]
        attended = torch.exp(energies) / torch.exp(energies).sum()
        z = sum(attended[i] * embedded[i, member] for i in range(M))
        expected = network.weights[-1][member, 0] @ z + network.biases[-1][member, 0]
        assert bag[member].item() == pytest.approx(expected.item(), abs=1e-12)


@every_form
def test_members_share_nothing(form: str) -> None:
    made = head(form)
    (made(hidden())[1].sum()).backward()
    for parameter in made.parameters():
        assert parameter.grad is not None
        assert parameter.grad[[0, 2]].abs().sum() == 0
        assert parameter.grad[1].abs().sum() > 0


@every_form
def test_the_same_generator_draws_the_same_weights(form: str) -> None:
    assert all(torch.equal(a, b) for a, b in zip(head(form).parameters(), head(form).parameters(), strict=True))


def test_a_network_without_attention_gives_logits_only() -> None:
    network = ScorerEnsemble(D, E, (8,), 0.0, None, Generator().manual_seed(4))
    features = torch.randn(M, D, generator=Generator().manual_seed(5))
    assert torch.equal(network.outputs(features), network(features)[None])


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"form": "soft"}, "form"), ({"units": 0}, "units"), ({"instance_score": "both"}, "instance_score")],
)
def test_fields_that_make_no_attention_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Attention.model_validate(fields)
