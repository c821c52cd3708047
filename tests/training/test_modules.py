"""Networks of the user's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from admil.bags import Bags
from admil.errors import InvalidInput
from admil.models import ModuleEnsemble
from admil.training import TrainedModel, fit, score
from tests.training.problems import easy, generator, recipe, same_weights


def own(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 1))


def trained_with(module: nn.Module | Callable[[int], nn.Module], seed: int = 0, **changes: object) -> TrainedModel:
    return fit(recipe(**changes), easy(per_class=10)[0], None, generator(seed), module=module)


def test_a_module_is_copied_and_trained_as_one_member() -> None:
    torch.manual_seed(0)  # a module of the user's comes with its weights
    module = own(4)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    model = trained_with(module, members=5, max_steps=60)
    assert (model.recipe.members, model.scorer.members) == (1, 1)
    assert (model.history.held_out_auroc or 0) > 0.9
    assert all(torch.equal(now, then) for now, then in zip(module.parameters(), before, strict=True))
    assert not same_weights(model, trained_with(module, max_steps=1))


def test_a_maker_makes_every_member_from_the_number_of_features() -> None:
    asked: list[int] = []

    def make(width: int) -> nn.Module:
        asked.append(width)
        return own(width)

    model = trained_with(make, members=3, max_steps=60)
    assert asked == [4, 4, 4]
    assert model.scorer.members == 3
    assert (model.history.held_out_auroc or 0) > 0.9
    firsts = [parameter for name, parameter in model.module.named_parameters() if name.endswith("0.weight")]
    assert not torch.equal(firsts[0], firsts[1])


def test_the_initial_weights_and_the_dropout_of_a_maker_come_from_the_seed() -> None:
    torch.manual_seed(1)
    model = trained_with(own, seed=3)
    torch.manual_seed(2)
    torch.rand(5)
    again = trained_with(own, seed=3)
    assert same_weights(model, again)
    assert model.history == again.history
    assert not same_weights(model, trained_with(own, seed=4))


def test_an_own_module_is_scored_without_dropout() -> None:
    bags, _ = easy(per_class=10)
    model = trained_with(own)
    assert np.array_equal(score(model, bags).f, score(model, bags).f)


def test_an_own_module_sees_scaled_features() -> None:
    seen: list[Tensor] = []

    class Spy(nn.Linear):
        def forward(self, features: Tensor) -> Tensor:
            seen.append(features.detach().clone())
            return super().forward(features)

    bags, _ = easy()
    shifted = Bags(bags.index, bags.features * 100 + 7)
    fit(recipe(max_steps=1, held_out_folds=0), shifted, None, generator(), module=Spy(4, 1))
    rows = seen[0][: bags.index.n_instances]  # after them come implied positives, again
    assert rows.mean(0).numpy() == pytest.approx(np.zeros(4), abs=1e-5)
    assert rows.std(0, correction=0).numpy() == pytest.approx(np.ones(4), rel=1e-5)


def test_an_own_module_goes_on_from_a_warm_start() -> None:
    bags, _ = easy(per_class=10)
    before = trained_with(own)
    after = fit(recipe(max_steps=1, learning_rate=1e-9), bags, None, generator(1), warm_start=before)
    assert isinstance(after.module, ModuleEnsemble)
    np.testing.assert_allclose(score(after, bags).f, score(before, bags).f, atol=1e-5)


def test_an_own_module_answers_for_gradients_but_not_for_an_embedding() -> None:
    bags, _ = easy()
    model = trained_with(nn.Linear(4, 1))
    f = torch.from_numpy(score(model, bags).f)
    length = score(model, bags, needs=["expected_gradient_length"]).extras["expected_gradient_length"]
    scaled = model.scaling.apply(bags.features.double())
    expected = 2 * f * (1 - f) * (scaled.square().sum(1) + 1).sqrt()
    np.testing.assert_allclose(length, expected, rtol=1e-4)
    with pytest.raises(InvalidInput, match="an embedding is not known for a module of your own"):
        score(model, bags, needs=["embedding"])


def test_a_module_that_returns_another_shape_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"must map \(M, D\) features to \(M,\) logits.*returned shape \(\d+, 2\)"):
        trained_with(nn.Linear(4, 2))
