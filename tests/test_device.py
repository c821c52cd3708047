"""The same numbers on a GPU as on the CPU; skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from admil import ActiveLearner, Recipe, Robustness, TrainingRecipe, fit, score
from admil.datasets import digits
from admil.functional import bag_posterior, robust_score, robust_weights
from admil.losses import AttentionPooled, SoftmaxPooled
from admil.models import Attention
from admil.oracle import SimulatedAnnotator
from admil.sampling import EGL

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

QUICK = TrainingRecipe(members=4, max_steps=60, held_out_folds=4)


@pytest.mark.parametrize(
    "robustness",
    [
        Robustness.effective(2),
        Robustness.effective(3, "kl"),
        Robustness.chi_square(0.5),
        Robustness.kl(4.0),
        Robustness.temperature(0.1),
        Robustness.temperature(0.1, through=False),
    ],
    ids=repr,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_robust_scores_agree(robustness: Robustness, dtype: torch.dtype) -> None:
    scores = torch.rand((50, 32), generator=torch.Generator().manual_seed(0), dtype=dtype)
    mask = torch.arange(32) < torch.arange(1, 51).clamp_max(32).unsqueeze(-1)
    here = scores.clone().requires_grad_()
    there = scores.cuda().requires_grad_()
    robust_score(here, mask, robustness).sum().backward()  # type: ignore[no-untyped-call]
    robust_score(there, mask.cuda(), robustness).sum().backward()  # type: ignore[no-untyped-call]
    assert here.grad is not None
    assert there.grad is not None
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    weights = robust_weights(scores, mask, robustness)
    assert torch.allclose(weights, robust_weights(scores.cuda(), mask.cuda(), robustness).cpu(), atol=tolerance)
    assert torch.allclose(here.grad, there.grad.cpu(), atol=tolerance)


def test_the_bag_posterior_agrees() -> None:
    f = torch.rand((5, 8), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    open_, confirmed = torch.ones(5, 8, dtype=torch.bool), torch.tensor([True, False, False, True, False])
    there = bag_posterior(f.cuda(), open_.cuda(), confirmed.cuda()).cpu()
    assert torch.allclose(bag_posterior(f, open_, confirmed), there, atol=1e-12)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_on_the_gpu_learns_what_training_on_the_cpu_learns(precision: str) -> None:
    train, _ = digits(0)
    recipe = TrainingRecipe.model_validate({**dict(QUICK), "dropout": 0.0, "precision": precision})
    here = fit(recipe, train.bags, None, torch.Generator().manual_seed(0))
    there = fit(recipe, train.bags, None, torch.Generator().manual_seed(0), device="cuda")
    first = np.array(here.history.losses[:20]) - np.array(there.history.losses[:20])
    assert np.abs(first).max() < (1e-4 if precision == "float32" else 2e-2)
    assert np.corrcoef(score(here, train.bags).f, score(there, train.bags).f)[0, 1] > 0.95


@pytest.mark.parametrize("form", ["plain", "gated", "query", None])
def test_pooled_losses_learn_the_same_on_the_gpu(form: str | None) -> None:
    train, _ = digits(0)
    attention = None if form is None else Attention.model_validate({"form": form})
    loss = SoftmaxPooled() if form is None else AttentionPooled()
    recipe = TrainingRecipe.model_validate({**dict(QUICK), "dropout": 0.0, "loss": loss, "attention": attention})
    here = fit(recipe, train.bags, None, torch.Generator().manual_seed(0))
    there = fit(recipe, train.bags, None, torch.Generator().manual_seed(0), device="cuda")
    first = np.array(here.history.losses[:20]) - np.array(there.history.losses[:20])
    assert np.abs(first).max() < 1e-4
    assert np.corrcoef(score(here, train.bags).f, score(there, train.bags).f)[0, 1] > 0.95


def test_a_round_runs_on_the_gpu_and_is_the_same_twice() -> None:
    train, _ = digits(0)
    annotator = SimulatedAnnotator(train.truth)
    asked = []
    for _ in range(2):
        learner = ActiveLearner(train.bags, Recipe(training=QUICK, sampler=EGL(), budget=5), seed=1, device="cuda")
        learner.answer(annotator.answer(learner.query()))
        asked.append(learner.query().ids)
    assert asked[0] == asked[1]
    assert len(asked[0]) == 5
