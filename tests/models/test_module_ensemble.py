"""Modules of the user's own as members."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from admil.errors import InvalidInput
from admil.models import ModuleEnsemble, Scaling
from admil.models.scorers import _per_instance_norm

D = 3


class Shaped(nn.Module):
    """Gives logits in a shape of one's choice."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.linear = nn.Linear(D, 1)
        self.shape = shape

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear(features)
        return logits.reshape(self.shape) if self.shape else logits.sum()


class Twin(nn.Module):
    """Uses one layer twice, a buffer, and no part of another layer."""

    def __init__(self) -> None:
        super().__init__()
        self.square = nn.Linear(D, D)
        self.unused = nn.Linear(D, D)
        self.head = nn.Linear(D, 1)
        self.register_buffer("offset", torch.tensor(0.25))

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.head(self.square(torch.tanh(self.square(features))) + self.offset)
        return logits.squeeze(-1)


def test_modules_may_return_a_vector_or_a_column() -> None:
    vector = Shaped(-1)
    column = Shaped(-1, 1)
    column.load_state_dict(vector.state_dict())
    for rows in (1, 4):
        features = torch.randn(rows, D)
        logits = ModuleEnsemble([vector, column], Scaling.none(D))(features)
        assert logits.shape == (2, rows)
        expected = vector.linear(features).squeeze(1)
        torch.testing.assert_close(logits, torch.stack([expected, expected]))


@pytest.mark.parametrize(
    ("module", "shape"),
    [(Shaped(), "()"), (Shaped(1, -1), "(1, 4)"), (Shaped(2, 2), "(2, 2)"), (nn.Linear(D, 2), "(4, 2)")],
)
def test_other_shapes_are_refused_by_naming_both(module: nn.Module, shape: str) -> None:
    ensemble = ModuleEnsemble([Shaped(-1), module], Scaling.none(D))
    with pytest.raises(InvalidInput, match=r"must map \(M, D\) features to \(M,\) logits: for M = 4") as caught:
        ensemble(torch.randn(4, D))
    assert f"returned shape {shape}" in str(caught.value)


def test_a_module_that_works_in_place_does_not_disturb_its_neighbours() -> None:
    hasty, calm = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(D, 1)), nn.Linear(D, 1)
    features = torch.randn(6, D)
    both = ModuleEnsemble([hasty, calm], Scaling.none(D))
    alone = ModuleEnsemble([calm], Scaling.none(D))
    before = features.clone()
    assert torch.equal(both(features)[1:], alone(features))
    assert torch.equal(both.gradient_norm(features)[1:], alone.gradient_norm(features))
    assert torch.equal(features, before)


def test_no_modules_make_no_ensemble() -> None:
    with pytest.raises(InvalidInput, match="at least one module, got none"):
        ModuleEnsemble([], Scaling.none(D))


def test_an_embedding_is_refused_with_a_way_out() -> None:
    with pytest.raises(InvalidInput, match="choose a sampler that needs none"):
        ModuleEnsemble([Shaped(-1)], Scaling.none(D)).embed(torch.randn(4, D))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_features_of_any_precision_reach_a_module_scaled_and_in_its_own(dtype: torch.dtype) -> None:
    seen: list[Tensor] = []
    module = Shaped(-1)
    module.linear.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    features = (torch.randn(50, D) * 2 + 10).to(dtype)
    scaling = Scaling.fit([features], "standard")
    ModuleEnsemble([module], scaling)(features)
    assert seen[0].dtype == torch.float32
    torch.testing.assert_close(seen[0].double().mean(0), torch.zeros(D).double(), rtol=0, atol=1e-5)
    torch.testing.assert_close(seen[0].double().std(0, correction=0), torch.ones(D).double(), rtol=0, atol=1e-5)


def test_shared_unused_and_buffered_parts_are_no_trouble_for_the_gradient_norm() -> None:
    module, features = Twin(), torch.randn(5, D)
    norm = ModuleEnsemble([module], Scaling.none(D)).gradient_norm(features)
    assert norm.shape == (1, 5)
    for row, value in zip(features, norm[0].tolist(), strict=True):
        used = [*module.square.parameters(), *module.head.parameters()]
        gradient = torch.autograd.grad(module(row.unsqueeze(0)).squeeze(), used)
        assert value == pytest.approx(torch.cat([g.flatten() for g in gradient]).norm().item(), rel=1e-4)


def test_frozen_parameters_do_not_count_in_the_gradient_norm() -> None:
    body, head = nn.Linear(D, 4), nn.Linear(4, 1)
    body.requires_grad_(False)
    features = torch.randn(5, D)
    ensemble = ModuleEnsemble([nn.Sequential(body, nn.ReLU(), head)], Scaling.none(D))
    expected = (torch.relu(body(features)).square().sum(1) + 1).sqrt()
    torch.testing.assert_close(ensemble.gradient_norm(features), expected.unsqueeze(0))
    head.requires_grad_(False)
    assert ensemble.gradient_norm(features).tolist() == [[0.0] * 5]


@pytest.mark.parametrize("entries", [1, 40, 100])
def test_gradient_norms_come_out_the_same_few_at_a_time(entries: int) -> None:
    module, features = Twin(), torch.randn(7, D)
    assert sum(p.numel() for p in module.parameters()) == 28
    torch.testing.assert_close(_per_instance_norm(module, features, entries), _per_instance_norm(module, features))
