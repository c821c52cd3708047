"""Training: what it learns, what it is determined by, what it holds out, and how it starts and stops."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from admil.bags import Bags, LabelBook
from admil.errors import InvalidInput
from admil.functional import Padding, Robustness, maximum_score
from admil.losses import Drbl, MaxScore, MeanScore, TopK
from admil.metrics import auroc, average_precision
from admil.models import Scaling, ScorerEnsemble
from admil.training import (
    Progress,
    TrainedModel,
    TrainingHistory,
    TrainingRecipe,
    build_scorer,
    fit,
    score,
    training_step,
)
from admil.training.step import Stepper
from tests.training.problems import bags_of, book_of, easy, generator, recipe, same_weights, trained, weights_of


def bag_auroc(model: TrainedModel, bags: Bags) -> float:
    assert bags.labels is not None
    return auroc(bags.labels, np.array([f.max() for f in score(model, bags).split()]))


@pytest.mark.parametrize("answers", ["bags", "bce"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_training_learns_a_problem_that_is_easy(answers: str, optimizer: str) -> None:
    bags, truth = easy(per_class=12)
    new, new_truth = easy(seed=1, per_class=12)
    first = np.flatnonzero(truth.positive)[0]
    bag = int(bags.index.bag_of[first])
    labels = book_of(bags.index, {(bag, int(first - bags.index.offsets[bag])): True})
    rate = 0.02 if optimizer == "adamw" else 0.5
    model = trained(bags, labels=labels, answers=answers, optimizer=optimizer, learning_rate=rate, max_steps=80)
    assert bag_auroc(model, new) == 1.0
    assert average_precision(new_truth.positive, score(model, new).f) > 0.95
    assert (model.history.held_out_auroc or 0) > 0.95
    (note,) = model.history.warnings
    assert note.startswith("k = 2 is above the size of")  # nothing else is to be said


@pytest.mark.parametrize("loss", [MaxScore(), TopK(k=2), Drbl(robustness=Robustness.temperature(0.1))], ids=str)
def test_every_kind_of_loss_trains(loss: Any) -> None:
    bags, _ = easy(per_class=12)
    assert bag_auroc(trained(bags, loss=loss, max_steps=60), bags) > 0.95


def test_the_papers_training_runs() -> None:
    bags, _ = easy(per_class=12)
    made = TrainingRecipe.paper(max_steps=150, learning_rate=0.5, dropout=0.0, check_every=50, held_out_folds=0)
    model = fit(made, bags, book_of(bags.index, {(0, 0): None}), generator())
    assert model.scorer.members == 1
    assert bag_auroc(model, bags) > 0.95


def test_training_in_bfloat16_learns_too() -> None:
    bags, _ = easy(per_class=12)
    model = trained(bags, precision="bfloat16", max_steps=60)
    assert {w.dtype for w in model.module.parameters()} == {torch.float32}
    assert bag_auroc(model, bags) == 1.0
    assert not same_weights(model, trained(bags, max_steps=60))


def test_answers_teach_what_bag_labels_cannot() -> None:
    """Two features mark positive bags; only the answers say which of the two marks positive instances."""
    bags = _two_marks()
    answers = {(bag, 0): True for bag in range(0, 12, 2)} | {(bag, 1): False for bag in range(0, 12, 2)}
    for kind in ("bags", "bce"):
        made = recipe(answers=kind, loss=MaxScore(), max_steps=60, held_out_folds=0)
        model = fit(made, bags, book_of(bags.index, answers), generator())
        f = score(model, bags).f.reshape(-1, 3)
        unanswered = f[12:24:2]
        assert (unanswered[:, 0] > unanswered[:, 1]).all()
        assert (unanswered[:, 0] - unanswered[:, 1]).mean() > 0.2


def test_the_same_seed_gives_the_same_weights_whatever_is_drawn_elsewhere() -> None:
    bags, _ = easy()
    model = trained(bags, dropout=0.5, member_share=0.5)
    torch.rand(7)
    np.random.default_rng().random(3)
    random.random()
    torch.manual_seed(12345)
    again = trained(bags, dropout=0.5, member_share=0.5)
    assert same_weights(model, again)
    assert model.history == again.history


def test_training_leaves_the_global_generators_as_they_were() -> None:
    bags, _ = easy()
    torch.manual_seed(7)
    before, numpys, pythons = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    fit(recipe(dropout=0.5), bags, None, generator(), module=lambda width: torch.nn.Linear(width, 1))
    with pytest.raises(ZeroDivisionError):
        fit(recipe(), bags, None, generator(), on_step=lambda progress: 1 / 0)  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), before)
    assert np.random.get_state()[1].tolist() == numpys  # type: ignore[index]
    assert random.getstate() == pythons


@pytest.mark.parametrize("changes", [{}, {"dropout": 0.5}, {"member_share": 0.5}, {"held_out_folds": 0}], ids=str)
def test_other_seeds_give_other_weights(changes: dict[str, Any]) -> None:
    bags, _ = easy()
    assert not same_weights(trained(bags, seed=0, **changes), trained(bags, seed=1, **changes))


def test_the_history_tells_every_step_and_every_look() -> None:
    bags, _ = easy()
    history = trained(bags, max_steps=23, check_every=5).history
    assert len(history.losses) == 23
    assert np.isfinite(history.losses).all()
    assert np.mean(history.losses[-5:]) < np.mean(history.losses[:5])
    assert [check.step for check in history.checks] == [5, 10, 15, 20, 23]
    assert all(0 <= check.auroc <= 1 and 0 <= check.hinge <= 2 for check in history.checks)


def test_looking_at_training_changes_nothing() -> None:
    bags, _ = easy()
    seen: list[Progress] = []
    watched = fit(recipe(dropout=0.5), bags, None, generator(), on_step=seen.append)
    unwatched = fit(recipe(dropout=0.5), bags, None, generator())
    assert same_weights(watched, unwatched)
    assert watched.history == unwatched.history
    assert [progress.step for progress in seen] == list(range(1, 31))
    assert [progress.loss for progress in seen] == list(watched.history.losses)
    assert tuple(progress.check for progress in seen if progress.check) == watched.history.checks
    assert {progress.max_steps for progress in seen} == {30}


def test_the_weights_kept_are_those_of_the_best_look() -> None:
    bags = _noisy()
    model = trained(bags, max_steps=60, learning_rate=0.1)
    history = model.history
    best = max(history.checks, key=lambda check: (check.auroc, -check.hinge, -check.step))
    assert history.best_step == best.step
    assert history.held_out_auroc is not None
    assert history.held_out_auroc <= best.auroc
    assert history.best_step < 60, "or this test shows nothing"
    until = trained(bags, max_steps=history.best_step, learning_rate=0.1)
    assert same_weights(model, until)
    assert until.history.best_step == history.best_step


def test_training_stops_when_patience_is_at_its_end() -> None:
    bags = _noisy()
    history = trained(bags, max_steps=500, learning_rate=0.1, check_every=5, patience=3).history
    assert len(history.losses) == history.best_step + 15 < 500
    assert len(history.checks) == len(history.losses) // 5


def test_the_held_out_auroc_and_scores_come_from_members_that_did_not_see_the_bag() -> None:
    bags = _noisy()
    model = trained(bags, members=2, held_out_folds=2, max_steps=5, check_every=5)  # one look: nothing to choose
    with torch.no_grad():
        logits = model.scorer.forward(bags.features)
    padding = Padding.of(torch.from_numpy(bags.index.sizes))
    best = maximum_score(padding.pad(logits), padding.mask).numpy()  # (E, B)
    lowered = maximum_score(padding.pad(logits.mean(0)), padding.mask).numpy() - best.mean(0)
    held_out = np.array([[bag in ids for bag in bags.ids] for ids in model.history.held_out])
    assert held_out.sum(0).tolist() == [1] * len(bags)
    judged = np.array([model.history.held_out_scores[bag] for bag in bags.ids])
    np.testing.assert_allclose(judged, np.where(held_out[0], best[0], best[1]) + lowered, rtol=1e-4)
    assert bags.labels is not None
    pairs = [
        float(own[a] > own[b])
        for own, row in zip(best, held_out, strict=True)
        for a in np.flatnonzero(row & (bags.labels == 1))
        for b in np.flatnonzero(row & (bags.labels == 0))
    ]
    assert len(pairs) > 50
    assert model.history.held_out_auroc == pytest.approx(np.mean(pairs))


def test_the_held_out_auroc_of_pure_noise_is_about_one_half() -> None:
    found = []
    for seed in range(12):
        noise = np.random.default_rng(seed).normal(size=(40, 5, 6))
        model = fit(
            recipe(members=4, held_out_folds=4, max_steps=60, check_every=2, learning_rate=0.05, patience=100),
            Bags.from_arrays(noise, [1, 0] * 20),
            None,
            generator(seed),
        )
        assert model.history.held_out_auroc is not None
        found.append((model.history.held_out_auroc, max(check.auroc for check in model.history.checks)))
    honest, best = np.mean(found, axis=0)
    assert abs(honest - 0.5) < 0.08
    assert best > honest + 0.04, "the best look says there is something where there is nothing"


def test_a_held_out_bag_does_not_reach_the_member_that_holds_it_out() -> None:
    bags = _noisy()
    once: dict[str, Any] = {"scaling": "none", "max_steps": 8, "check_every": 8}
    before = trained(bags, **once)
    for bag in (0, 1):
        changed = bags.features.clone()
        changed[bags.index.positions(np.array([bag]))] += 5
        after = trained(Bags(bags.index, changed), **once)
        assert sorted(_member_is_same(before, after, member) for member in range(2)) == [False, True]


def test_the_label_of_a_held_out_bag_does_not_reach_the_member_that_holds_it_out() -> None:
    bags = _noisy()
    held_out = np.zeros((2, len(bags)), dtype=bool)
    held_out[0, :4] = held_out[1, 4:8] = True
    for bag in (0, 1):
        one, other = (_stepped(labelled, held_out) for labelled in (bags, _flipped(bags, bag)))
        torch.testing.assert_close(one[0], other[0], rtol=0, atol=1e-5)
        assert not torch.allclose(one[1], other[1], rtol=0, atol=1e-3)


def test_answers_in_a_held_out_bag_do_not_reach_the_member_that_holds_it_out() -> None:
    bags = _noisy()
    bag = int(bags.index.positive[bags.index.sizes[bags.index.positive] > 2][0])
    for kind in ("bags", "bce"):
        one, other = (
            trained(bags, labels=book_of(bags.index, answers), answers=kind, max_steps=8, check_every=8)
            for answers in ({(bag, 0): True, (bag, 1): False}, {(bag, 0): False, (bag, 1): True})
        )
        assert sorted(_member_is_same(one, other, member) for member in range(2)) == [False, True]


def test_held_out_scores_do_not_leak_labels() -> None:
    """On labels that mean nothing, bags are ordered no better than by chance where they were held out."""
    aurocs = [trained(bags_of([3] * 40, [1, 0] * 20, 8, seed), seed, max_steps=40).history for seed in range(6)]
    kept = np.mean([history.checks[-1].auroc for history in aurocs])
    assert 0.35 < kept < 0.65
    bags = bags_of([3] * 40, [1, 0] * 20, 8)
    assert bag_auroc(trained(bags, max_steps=40, held_out_folds=0), bags) > 0.9, "though seen labels are learned"


def test_groups_stay_together() -> None:
    bags = _noisy()
    groups = [f"site {number % 5}" for number in range(len(bags))]
    model = fit(recipe(held_out_folds=5, members=1), bags, None, generator(), groups=groups)
    assert {groups[bags.ids.index(bag)] for bag in model.history.held_out_scores} < set(groups)
    held = {bags.ids.index(bag) for bag in model.history.held_out_scores}
    for group in set(groups):
        members = {number for number, name in enumerate(groups) if name == group}
        assert members <= held or not members & held
    ungrouped = fit(recipe(held_out_folds=5, members=1), bags, None, generator())
    assert not same_weights(model, ungrouped)


def test_members_train_as_they_would_alone() -> None:
    bags, _ = easy(per_class=8)
    losses = (MaxScore(), MaxScore(), Drbl(robustness=Robustness.effective(3)), MeanScore())
    betas = (1.0, 0.0, 2.0, 1.0)
    large = bags.index.positive[bags.index.sizes[bags.index.positive] > 1]
    labels = book_of(bags.index, {(int(bag), 0): bool(at % 2) for at, bag in enumerate(large)})
    made = recipe(members=4, loss=losses, beta=betas, answers="bce", held_out_folds=0, bags_per_side=3)
    start = _untrained(made, bags)
    together = fit(made, bags, labels, generator(5), warm_start=start)
    for e in range(4):
        alone = recipe(members=1, loss=losses[e], beta=betas[e], answers="bce", held_out_folds=0, bags_per_side=3)
        model = fit(alone, bags, labels, generator(5), warm_start=_member_of(start, alone, e))
        for one, all_ in zip(_parameters(model), _parameters(together), strict=True):
            torch.testing.assert_close(one[0], all_[e], rtol=1e-3, atol=1e-4)
        assert not torch.allclose(_parameters(together)[0][e], _parameters(start)[0][e], atol=0.01)


def test_a_member_cannot_be_told_apart_by_what_the_others_do() -> None:
    bags, _ = easy(per_class=8)
    one, two = (
        recipe(members=2, loss=(MaxScore(), other), held_out_folds=0, dropout=0.0)
        for other in (MaxScore(), MeanScore())
    )
    start = _untrained(one, bags)
    first, second = (fit(made, bags, None, generator(5), warm_start=start) for made in (one, two))
    assert _member_is_same(first, second, member=0)
    assert not _member_is_same(first, second, member=1)


def test_a_warm_start_goes_on_from_the_weights_and_the_scaling_given() -> None:
    bags, _ = easy()
    before = trained(bags)
    moved = Bags(bags.index, bags.features * 10 + 3)
    held = [w.clone() for w in weights_of(before)]
    after = fit(recipe(learning_rate=1e-9, max_steps=1), moved, None, generator(9), warm_start=before)
    for new, old in zip(weights_of(after), weights_of(before), strict=True):
        torch.testing.assert_close(new, old, rtol=0, atol=1e-8)
    assert torch.equal(after.scaling.shift, before.scaling.shift)
    assert not torch.equal(after.scaling.shift, trained(moved).scaling.shift)
    fit(recipe(), bags, None, generator(9), warm_start=before)
    assert all(torch.equal(w, v) for w, v in zip(weights_of(before), held, strict=True)), "what was given stays"


def test_a_warm_start_is_judged_by_bags_that_none_of_its_trainings_saw() -> None:
    """The labels mean nothing; members judged by bags that they had seen before would order them well."""
    aurocs: list[tuple[float, float]] = []
    for seed in range(4):
        bags = bags_of([3] * 40, [1, 0] * 20, 8, seed)
        model = trained(bags, seed, max_steps=40, members=4, held_out_folds=4)
        for round_ in range(3):
            made = recipe(max_steps=40, members=4, held_out_folds=4)
            after = fit(made, bags, None, generator(100 * seed + round_), warm_start=model)
            assert after.history.held_out == model.history.held_out
            model = after
        aurocs.append((model.history.held_out_auroc or 0, bag_auroc(model, bags)))
    unseen, seen = np.mean(aurocs, axis=0)
    assert unseen < 0.65
    assert seen > 0.8


def test_a_warm_start_that_has_seen_every_bag_is_judged_by_none() -> None:
    bags, _ = easy()
    after = fit(recipe(), bags, None, generator(), warm_start=trained(bags, held_out_folds=0))
    assert (after.history.held_out_auroc, after.history.best_step) == (None, 30)
    assert any("or a warm start that has seen them all" in warning for warning in after.history.warnings)


def test_a_warm_start_from_other_bags_draws_folds_anew() -> None:
    bags, _ = easy()
    others = Bags.from_arrays(
        bags.features, bags.labels, [f"other {bag}" for bag in bags.ids], offsets=bags.index.offsets
    )
    after = fit(recipe(), bags, None, generator(), warm_start=trained(others))
    assert after.history.held_out_auroc is not None
    assert set(after.history.held_out_scores) == set(bags.ids)


def test_the_history_names_the_bags_that_each_member_held_out() -> None:
    bags, _ = easy()
    history = trained(bags, members=3).history
    assert history.held_out[0] == history.held_out[2]
    assert sorted(history.held_out[0] + history.held_out[1]) == sorted(bags.ids)
    assert trained(bags, held_out_folds=0).history.held_out == ((), ())


def test_a_warm_start_takes_dropout_from_the_recipe_and_members_from_the_network() -> None:
    bags, _ = easy()
    after = fit(recipe(members=5, dropout=0.25), bags, None, generator(), warm_start=trained(bags, members=3))
    assert after.recipe.members == after.scorer.members == 3
    assert isinstance(after.scorer, ScorerEnsemble)
    assert after.scorer.dropout == 0.25


def test_a_warm_start_that_does_not_fit_is_refused() -> None:
    bags, _ = easy()
    model = trained(bags)
    with pytest.raises(InvalidInput, match="the warm start has 4 features, the bags have 5"):
        fit(recipe(), easy(width=5)[0], None, generator(), warm_start=model)
    with pytest.raises(InvalidInput, match=r"hidden layers of \(8, 4\), the recipe wants \(3,\)"):
        fit(recipe(hidden=(3,)), bags, None, generator(), warm_start=model)
    with pytest.raises(InvalidInput, match="the network has 2 members, the recipe names 3 losses"):
        fit(recipe(members=3, loss=(MaxScore(),) * 3), bags, None, generator(), warm_start=model)


def test_the_model_holds_no_gradients_and_is_ready_to_score() -> None:
    model = trained(easy()[0], dropout=0.5)
    assert all(parameter.grad is None for parameter in model.module.parameters())
    assert not model.module.training
    assert model.width == 4


def test_one_step_can_be_taken_by_itself() -> None:
    bags, _ = easy()
    step = training_step(recipe(), bags, generator())
    losses = [float(step()) for _ in range(25)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


def test_bags_of_one_instance_train_and_score() -> None:
    features = torch.cat([torch.full((8, 2), 2.0), torch.full((8, 2), -2.0)]) + torch.randn(
        16, 2, generator=generator()
    )
    bags = Bags.from_arrays(features, [1] * 8 + [0] * 8, offsets=range(17))
    model = trained(bags)
    scores = score(model, bags)
    assert scores.p.tolist() == [1.0] * 16
    assert scores.bag_score == pytest.approx(scores.f)
    assert bag_auroc(model, bags) == 1.0


def test_an_unused_label_book_changes_nothing() -> None:
    bags, _ = easy()
    assert same_weights(trained(bags), trained(bags, labels=LabelBook(bags.index)))


def _two_marks() -> Bags:
    chance = np.random.default_rng(0)
    rows = chance.normal(size=(24, 3, 4)) * 0.3
    rows[::2, 0, 0] += 3
    rows[::2, 1, 1] += 3
    return Bags.from_arrays(list(rows), [1, 0] * 12)


def _noisy() -> Bags:
    """Make bags whose held-out order gets better, then worse."""
    bags, _ = easy(seed=3, per_class=15, width=12, distance=2.0)
    return bags


def _flipped(bags: Bags, number: int) -> Bags:
    assert bags.labels is not None
    labels = bags.labels.copy()
    labels[number] = 1 - labels[number]
    return Bags.from_arrays(bags.features, labels, bags.ids, offsets=bags.index.offsets)


def _stepped(bags: Bags, held_out: NDArray[np.bool_]) -> torch.Tensor:
    """Return the first layer after eight steps on all bags, from the same weights."""
    made = recipe(optimizer="sgd", learning_rate=0.3)
    scorer = ScorerEnsemble(bags.width, 2, made.hidden, 0.0, None, generator())
    book, cpu = LabelBook(bags.index), torch.device("cpu")
    step = Stepper(made, bags, book, scorer, held_out, bags.index.positive, cpu, generator())
    for _ in range(8):
        step()
    return next(scorer.parameters()).detach()


def _member_is_same(one: TrainedModel, other: TrainedModel, member: int) -> bool:
    return all(torch.equal(a[member], b[member]) for a, b in zip(_parameters(one), _parameters(other), strict=True))


def _parameters(model: TrainedModel) -> list[torch.Tensor]:
    return [parameter.detach() for parameter in model.module.parameters()]


def _untrained(made: TrainingRecipe, bags: Bags) -> TrainedModel:
    scaling = Scaling.fit([bags.features], made.scaling)
    return TrainedModel(build_scorer(made, bags.width, scaling, generator(3)), made, scaling, TrainingHistory())


def _member_of(model: TrainedModel, made: TrainingRecipe, member: int) -> TrainedModel:
    """Return one member of an ensemble as a model of its own."""
    scorer = build_scorer(made, model.width, model.scaling, generator())
    for own, all_ in zip(scorer.parameters(), model.module.parameters(), strict=True):
        own.data.copy_(all_[member : member + 1])
    return replace(model, scorer=scorer, recipe=made)
