"""The batched network against plain ones built member by member."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor, nn

from admil.models import Scaling, ScorerEnsemble

D = 6

every_depth = pytest.mark.parametrize("hidden", [(), (5,), (5, 4), (5, 4, 3)], ids=["none", "one", "two", "three"])
both_precisions = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)], ids=["float64", "float32"]
)


@every_depth
@both_precisions
def test_logits_and_gradients_are_those_of_separate_networks(
    hidden: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    scorer, scaling, features = _scorer(hidden, dtype), _scaling(), _features().to(dtype)
    members = _plain_members(scorer)
    logits = scorer(features)
    assert logits.shape == (3, 8)
    by_hand = scaling.apply(features)
    expected = torch.stack([member(by_hand).squeeze(1) for member in members])
    torch.testing.assert_close(logits, expected, rtol=0, atol=tolerance)

    _uneven_loss(logits).backward()  # type: ignore[no-untyped-call]
    _uneven_loss(expected).backward()  # type: ignore[no-untyped-call]
    for layer, linears in enumerate(zip(*map(_linears, members), strict=True)):
        for parameter, plain in (
            (scorer.weights[layer], [linear.weight for linear in linears]),
            (scorer.biases[layer], [linear.bias for linear in linears]),
        ):
            assert parameter.grad is not None
            gradients = torch.stack([p.grad for p in plain if p.grad is not None])
            torch.testing.assert_close(parameter.grad, gradients, rtol=0, atol=10 * tolerance)


@pytest.mark.parametrize("rule", ["standard", "common", "none"])
def test_folded_scaling_equals_scaling_by_hand(rule: str) -> None:
    features = _features() * 3 + 40
    scaling = Scaling.fit([features], rule)  # type: ignore[arg-type]
    folded = _scorer((5, 4), torch.float32, scaling)
    plain = _scorer((5, 4), torch.float32, Scaling.none(D))
    torch.testing.assert_close(folded(features), plain(scaling.apply(features)), rtol=0, atol=2e-5)


def test_a_constant_feature_plays_no_part_whatever_it_is_later() -> None:
    features = _features()
    features[:, 2] = 7.0
    scorer = _scorer((5, 4), torch.float32, Scaling.fit([features], "standard"))
    later = features.clone()
    later[:, 2] = -100.0
    torch.testing.assert_close(scorer(later), scorer(features), rtol=0, atol=1e-4)


@pytest.mark.parametrize("mean", [1e2, 1e4])
def test_folding_stands_a_mean_far_from_0(mean: float) -> None:
    features = (_features().double() + mean).float()
    scaling = Scaling.fit([features], "standard")
    exact = _scorer((5, 4), torch.float64, Scaling.none(D))((features.double() - scaling.shift) * scaling.factor)
    folded = _scorer((5, 4), torch.float32, scaling)(features)
    torch.testing.assert_close(folded.double(), exact, rtol=0, atol=1e-6 * mean)


def test_bfloat16_features_give_nearly_the_logits_of_float32() -> None:
    scorer, features = _scorer((5, 4)), _features()
    logits = scorer(features.bfloat16())
    assert logits.dtype == torch.float32
    assert 0 < (logits - scorer(features)).abs().max().item() < 0.02
    assert _relative_spread(logits) == pytest.approx(_relative_spread(scorer(features)), rel=0.05)


def test_features_are_neither_changed_nor_asked_for_gradients() -> None:
    scorer, features = _scorer((5, 4)), _features()
    before = features.clone()
    _uneven_loss(scorer(features)).backward()  # type: ignore[no-untyped-call]
    assert torch.equal(features, before)
    assert features.grad is None


def test_the_paper_network_has_32_and_16_hidden_units() -> None:
    scorer = ScorerEnsemble(D, members=2)
    assert [tuple(w.shape) for w in scorer.weights] == [(2, 32, D), (2, 16, 32), (2, 1, 16)]
    assert [tuple(b.shape) for b in scorer.biases] == [(2, 32), (2, 16), (2, 1)]
    assert scorer.dropout == 0.6


def test_initial_weights_are_those_of_nn_linear_in_range_and_come_from_the_generator() -> None:
    weights = [ScorerEnsemble(D, 2, generator=_generator(seed)).state_dict() for seed in (1, 1, 2)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not torch.equal(weights[0]["weights.0"], weights[2]["weights.0"])
    wide = ScorerEnsemble(400, 1, generator=_generator(0)).weights[0]
    assert wide.abs().max().item() <= 1 / 20
    assert wide.std().item() == pytest.approx(1 / 20 / 3**0.5, rel=0.02)
    first, second = ScorerEnsemble(D, 2, generator=_generator(1)).weights[0]
    assert not torch.equal(first, second)


def test_dropout_draws_from_the_generator_alone() -> None:
    scorer, features = _scorer((5, 4)).train(), _features()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    one = scorer(features, _generator(3))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(scorer(features, _generator(3)), one)
    assert not torch.equal(scorer(features, _generator(4)), one)


def test_dropout_differs_from_instance_to_instance_and_member_to_member() -> None:
    scorer = _scorer((30, 20), scaling=Scaling.none(D))
    with torch.no_grad():
        for parameter in scorer.parameters():
            parameter.copy_(parameter[:1].expand_as(parameter))  # members are alike
    same = _features()[:1].expand(40, -1)
    assert scorer(same).unique().numel() == 1
    assert scorer.train()(same, _generator(0)).unique().numel() > 100


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_dropout_keeps_the_expected_logit(share: float) -> None:
    scorer = _scorer((5, 4), torch.float64)
    scorer.dropout = share
    row = _features().double()[:1]
    expected = scorer(row)
    drawn = scorer.train()(row.expand(40_000, -1), _generator(0))
    error = (drawn.std(1) / 200).tolist()
    assert min(error) > 0
    for member in range(3):
        assert abs(drawn[member].mean().item() - expected[member].item()) < 4 * error[member]


def test_dropout_leaves_the_given_share_out() -> None:
    scorer = ScorerEnsemble(1, members=1, hidden=(1,), dropout=0.3)
    with torch.no_grad():
        scorer.weights[0].fill_(1.0)
        scorer.weights[1].fill_(1.0)
        scorer.biases[0].fill_(0.0)
        scorer.biases[1].fill_(0.0)
    logits = scorer.train()(torch.ones(10_000, 1), _generator(0))
    assert sorted(logits.unique().tolist()) == pytest.approx([0.0, 256 / 179]), "0.3 to the nearest 256th"
    assert (logits == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)


def test_without_dropout_training_and_scoring_agree() -> None:
    scorer, features = _scorer((5, 4)), _features()
    scorer.dropout = 0.0
    expected = scorer(features)
    assert torch.equal(scorer.train()(features), expected)


def test_the_inputs_themselves_are_never_dropped() -> None:
    scorer, features = _scorer(()), _features()
    expected = scorer(features)
    assert torch.equal(scorer.train()(features, _generator(0)), expected)


def test_an_embedding_is_the_last_hidden_layer_of_every_member() -> None:
    scorer, features = _scorer((5, 4)), _features()
    embedding = scorer.embed(features)
    assert embedding.shape == (8, 3 * 4)
    scaled = _scaling().apply(features)
    layers = [list(member) for member in _plain_members(scorer)]
    expected = torch.cat([layer[3](layer[1](layer[0](scaled))) for layer in layers], 1)
    torch.testing.assert_close(embedding, expected, rtol=0, atol=1e-5)


def test_the_embedding_of_a_single_hidden_layer_is_after_its_relu() -> None:
    scorer, features = _scorer((5,)), _features()
    embedding = scorer.embed(features)
    assert embedding.shape == (8, 3 * 5)
    assert embedding.min().item() == 0
    heads = torch.stack([head.squeeze(0) for head in scorer.weights[1]])  # (E, H)
    logits = (embedding.reshape(8, 3, 5) * heads).sum(-1).T + scorer.biases[1]
    torch.testing.assert_close(logits, scorer(features), rtol=0, atol=1e-5)


def test_the_embedding_without_hidden_layers_is_the_scaled_input() -> None:
    embedding = _scorer(()).embed(_features())
    torch.testing.assert_close(embedding, _scaling().apply(_features()), rtol=0, atol=1e-6)


def test_embeddings_and_gradient_norms_know_no_dropout() -> None:
    scorer, features = _scorer((5, 4)), _features()
    embedding, norm = scorer.embed(features), scorer.gradient_norm(features)
    scorer.train()
    assert torch.equal(scorer.embed(features), embedding)
    assert torch.equal(scorer.gradient_norm(features), norm)


def test_the_gradient_norm_of_one_unit_by_hand() -> None:
    scorer = ScorerEnsemble(2, members=1, hidden=(1,))
    with torch.no_grad():
        scorer.weights[0].copy_(torch.tensor([[[1.0, 1.0]]]))
        scorer.weights[1].fill_(2.0)
        scorer.biases[0].fill_(0.5)
    norm = scorer.gradient_norm(torch.tensor([[3.0, 4.0], [-3.0, -4.0]]))
    # active: (w, b) of the first layer 2 * (3, 4, 1), of the second (7.5, 1); inactive: (0, 1)
    assert norm.tolist() == [pytest.approx([(4 * 26 + 7.5**2 + 1) ** 0.5, 1.0])]


def _scaling() -> Scaling:
    return Scaling.fit([_features() * 2 + 3], "standard")


def _features(rows: int = 8) -> Tensor:
    return torch.randn(rows, D, generator=_generator(99))


def _generator(seed: int) -> Generator:
    return Generator().manual_seed(seed)


def _scorer(
    hidden: tuple[int, ...], dtype: torch.dtype = torch.float32, scaling: Scaling | None = None
) -> ScorerEnsemble:
    scorer = ScorerEnsemble(D, 3, hidden, scaling=scaling or _scaling(), generator=_generator(5))
    return scorer.to(dtype).eval() if dtype == torch.float64 else scorer.eval()


def _plain_members(scorer: ScorerEnsemble) -> list[nn.Sequential]:
    """Build the members of a scorer as networks of their own, ReLU after the first layer only."""
    members = []
    for e in range(scorer.members):
        layers: list[nn.Module] = []
        for depth, (weight, bias) in enumerate(zip(scorer.weights, scorer.biases, strict=True)):
            linear = nn.Linear(weight.shape[2], weight.shape[1], dtype=weight.dtype)
            linear.weight.data, linear.bias.data = weight[e].detach().clone(), bias[e].detach().clone()
            layers += [linear] if depth == len(scorer.weights) - 1 else [linear, nn.Dropout(scorer.dropout)]
            if depth == 0 and len(scorer.weights) > 1:
                layers.insert(1, nn.ReLU())
        members.append(nn.Sequential(*layers).eval())
    return members


def _linears(member: nn.Sequential) -> list[nn.Linear]:
    return [layer for layer in member if isinstance(layer, nn.Linear)]


def _uneven_loss(logits: Tensor) -> Tensor:
    return (torch.sigmoid(logits) * torch.arange(1, logits.numel() + 1).reshape(logits.shape)).sum()


def _relative_spread(logits: Tensor) -> float:
    return (logits.std() / logits.abs().mean()).item()
