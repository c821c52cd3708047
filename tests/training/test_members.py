"""Some members of a model are a model, judged and looked at like any other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from admil.bags import LabelBook
from admil.losses import AttentionPooled, Drbl, MaxScore
from admil.models import Attention, Scorer
from admil.training import fit, held_out_check, score
from tests.training.problems import easy, generator, recipe, trained

KINDS: dict[str, dict[str, Any]] = {
    "hinge": {"loss": (Drbl(), MaxScore(), MaxScore(), Drbl()), "beta": (1.0, 2.0, 2.0, 3.0)},
    "attention": {"loss": AttentionPooled(), "attention": Attention(form="gated")},
}


@pytest.mark.parametrize("kind", KINDS)
def test_members_score_as_they_did_in_the_ensemble(kind: str) -> None:
    bags, _ = easy(smallest=2)
    model = trained(bags, members=4, max_steps=5, **KINDS[kind])
    part = model.only([1, 2])
    with torch.no_grad():
        whole = model.scorer.outputs(bags.features)
        torch.testing.assert_close(part.scorer.outputs(bags.features), whole[:, [1, 2]])
    assert part.recipe.members == part.scorer.members == 2
    assert part.recipe.member_losses == model.recipe.member_losses[1:3]
    assert part.recipe.member_betas == model.recipe.member_betas[1:3]
    assert part.history.held_out == model.history.held_out[1:3]
    assert part.history.held_out_auroc is None, "that of all members is not theirs"
    assert len(score(part, bags).f) == bags.index.n_instances


def test_what_is_done_to_some_members_does_not_reach_the_ensemble() -> None:
    bags, _ = easy()
    model = trained(bags, members=3, max_steps=3)
    before = [value.clone() for value in model.module.state_dict().values()]
    for parameter in model.only([0]).module.parameters():
        parameter.data.zero_()
    assert all(torch.equal(a, b) for a, b in zip(before, model.module.state_dict().values(), strict=True))


def test_a_check_is_that_of_the_step_whose_weights_were_kept() -> None:
    bags, _ = easy()
    model = trained(bags, members=2, max_steps=30)
    kept = next(check for check in model.history.checks if check.step == model.history.best_step)
    found = held_out_check(model, bags, LabelBook(bags.index))
    assert found is not None
    assert found.step == kept.step
    assert found.auroc == pytest.approx(kept.auroc)
    none = trained(bags, members=2, max_steps=3, held_out_folds=0)
    assert held_out_check(none, bags, LabelBook(bags.index)) is None


def test_every_look_shows_the_network_as_it_is_and_changes_nothing() -> None:
    bags, _ = easy()
    made = recipe(dropout=0.5, max_steps=20)
    seen: list[tuple[int, torch.Tensor]] = []

    def on_look(step: int, scorer: Scorer) -> None:
        with torch.no_grad():
            first, again = (scorer.forward(bags.features) for _ in range(2))
        assert torch.equal(first, again), "in eval mode nothing is dropped"
        seen.append((step, first))

    watched = fit(made, bags, None, generator(), on_look=on_look)
    plain = fit(made, bags, None, generator())
    assert [step for step, _ in seen] == [check.step for check in watched.history.checks] == [5, 10, 15, 20]
    assert watched.history.losses == plain.history.losses
    assert np.array_equal(score(watched, bags).f, score(plain, bags).f)
    best = dict(seen)[watched.history.best_step]
    torch.testing.assert_close(torch.sigmoid(best.double().mean(0)).numpy(), score(watched, bags).f)
