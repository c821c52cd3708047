"""What every scorer promises."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from admil.models import ModuleEnsemble, Scaling, ScorerEnsemble

D, E, M = 5, 3, 7
Ensemble = ScorerEnsemble | ModuleEnsemble


def _batched(*hidden: int) -> Callable[[], Ensemble]:
    return lambda: ScorerEnsemble(D, E, hidden, 0.5, _scaling(), Generator().manual_seed(1))


def _modules() -> Ensemble:
    torch.manual_seed(1)
    layers = [nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Dropout(), nn.Linear(4, 1)) for _ in range(E)]
    return ModuleEnsemble(layers, _scaling())


def _normalised() -> Ensemble:
    torch.manual_seed(1)
    layers = [
        nn.Sequential(nn.Linear(D, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Linear(4, 1)) for _ in range(E)
    ]
    return ModuleEnsemble(layers, _scaling())


every_scorer = pytest.mark.parametrize(
    "make",
    [_batched(), _batched(6), _batched(6, 4), _batched(6, 4, 3), _modules, _normalised],
    ids=["linear", "one layer", "two layers", "three layers", "modules", "batch norm"],
)


@every_scorer
def test_logits_are_one_per_member_and_instance(make: Callable[[], Ensemble]) -> None:
    scorer = make().eval()
    logits = scorer(_features())
    assert logits.shape == (scorer.members, M) == (E, M)
    assert logits.unique().numel() > E * M // 2


@every_scorer
def test_an_instance_is_scored_the_same_in_any_company(make: Callable[[], Ensemble]) -> None:
    scorer, features = make().eval(), _features()
    logits = scorer(features)
    order = torch.tensor([3, 1, 6, 0, 5, 2, 4])
    torch.testing.assert_close(scorer(features[order]), logits[:, order])
    torch.testing.assert_close(torch.cat([scorer(row) for row in features.chunk(M)], 1), logits)
    assert scorer(features[:0]).shape == (E, 0)


@every_scorer
def test_eval_mode_is_deterministic_and_draws_nothing(make: Callable[[], Ensemble]) -> None:
    scorer, features = make().eval(), _features()
    first = scorer(features, Generator().manual_seed(1))
    state = torch.get_rng_state()
    assert torch.equal(scorer(features, Generator().manual_seed(2)), first)
    assert torch.equal(scorer(features), first)
    assert torch.equal(torch.get_rng_state(), state)


@every_scorer
def test_scaling_is_part_of_the_scorer(make: Callable[[], Ensemble]) -> None:
    scorer, features = make().eval(), _features()
    unscaled = copy.deepcopy(scorer)
    unscaled.shift.zero_()
    unscaled.factor.fill_(1)
    torch.testing.assert_close(unscaled(_scaling().apply(features)), scorer(features), rtol=0, atol=1e-5)
    assert {"shift", "factor"} <= set(scorer.state_dict())


@every_scorer
def test_saved_weights_make_the_same_scorer(make: Callable[[], Ensemble]) -> None:
    scorer, other = make().eval(), make().eval()
    for parameter in other.parameters():
        nn.init.zeros_(parameter)
    other.factor.fill_(9)
    other.load_state_dict(scorer.state_dict())
    assert torch.equal(other(_features()), scorer(_features()))


@every_scorer
def test_a_member_learns_from_its_own_loss_alone(make: Callable[[], Ensemble]) -> None:
    scorer = make()
    scorer(_features(), Generator().manual_seed(0))[1].square().sum().backward()
    if isinstance(scorer, ScorerEnsemble):
        moved = [p.grad.flatten(1).abs().sum(1) for p in scorer.parameters() if p.grad is not None]
        assert len(moved) == len(list(scorer.parameters()))
    else:
        members = [sum(_size(p.grad) for p in module.parameters()) for module in scorer.member_modules]
        moved = [torch.tensor(members)]
    for size in moved:
        assert size[[0, 2]].tolist() == [0, 0]
    assert sum(size[1].item() for size in moved) > 0


@every_scorer
def test_the_gradient_norm_is_that_of_autograd_one_instance_at_a_time(make: Callable[[], Ensemble]) -> None:
    scorer, features = make().eval(), _features()
    with torch.no_grad():  # as scoring calls it
        norm = scorer.gradient_norm(features)
    assert norm.shape == (E, M)
    logits = scorer(features)
    for e in range(E):
        for m in range(M):
            gradient = torch.autograd.grad(
                logits[e, m], list(scorer.parameters()), retain_graph=True, materialize_grads=True
            )
            expected = torch.cat([g.flatten() for g in gradient]).norm().item()
            assert norm[e, m].item() == pytest.approx(expected, rel=1e-4)


def _scaling() -> Scaling:
    return Scaling.fit([_features()], "standard")


def _features() -> Tensor:
    return torch.randn(M, D, generator=Generator().manual_seed(0)) * 2 + 3


def _size(gradient: Tensor | None) -> float:
    return 0.0 if gradient is None else gradient.abs().sum().item()
