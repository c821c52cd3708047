"""Training that cannot start, goes wrong, or is interrupted says so, and says what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from admil.bags import Bags, InstanceId, LabelBook
from admil.errors import AdmilWarning, InvalidInput, TrainingDiverged
from admil.functional import Robustness
from admil.losses import Drbl, TopK
from admil.models import ModuleEnsemble
from admil.training import Progress, TrainingInterrupted, fit, score
from tests.training.problems import bags_of, book_of, easy, generator, recipe, same_weights, trained


def interrupt_at(step: int) -> Any:
    """Return an observer that presses Ctrl-C after a step."""

    def press(progress: Progress) -> None:
        if progress.step == step:
            raise KeyboardInterrupt

    return press


def test_a_learning_rate_that_is_far_too_high_is_named_with_the_step() -> None:
    bags, _ = easy()
    with pytest.raises(TrainingDiverged, match=r"diverged at step \d+ .*learning rate 1e\+30 is too high: try a tenth"):
        trained(bags, learning_rate=1e30, answers="bce", max_steps=100)


def test_inputs_that_are_far_too_large_are_named() -> None:
    bags, _ = easy()
    huge = Bags(bags.index, bags.features * 1e38)
    with pytest.raises(
        TrainingDiverged, match=r"diverged at step 1 .*inputs reach \S+ after scaling 'none'.*'standard'"
    ):
        trained(huge, scaling="none")


def test_the_bag_with_the_large_inputs_is_named_wherever_it_is() -> None:
    bags, _ = easy()
    features = bags.features.clone()
    features[bags.index.positions(np.array([5]))] = torch.tensor([3e38, -3e38, 3e38, -3e38])
    with pytest.raises(TrainingDiverged, match=rf"in bag '{bags.ids[5]}': use scaling='standard'"):
        trained(Bags(bags.index, features), scaling="none")


def test_divergence_is_found_although_nobody_watches() -> None:
    bags, _ = easy()
    with pytest.raises(TrainingDiverged, match="diverged at step"):
        trained(bags, learning_rate=1e30, max_steps=10_000, check_every=10_000, held_out_folds=0)


def test_large_inputs_train_once_they_are_scaled() -> None:
    bags, _ = easy(per_class=12)
    model = trained(Bags(bags.index, bags.features * 1e30), max_steps=60)
    assert (model.history.held_out_auroc or 0) > 0.95


@pytest.mark.parametrize(("step", "kept"), [(1, 1), (4, 4), (5, 5), (12, 10)])
def test_an_interruption_carries_the_best_weights_so_far(step: int, kept: int) -> None:
    """Looks are at 5, 10, …; before the first the newest weights are kept."""
    bags, _ = easy()
    with pytest.raises(TrainingInterrupted, match=f"step {step}; the weights of step {kept} are kept") as caught:
        fit(recipe(), bags, None, generator(), on_step=interrupt_at(step))
    model = caught.value.model
    assert same_weights(model, trained(bags, max_steps=kept))
    assert len(model.history.losses) == step
    assert not model.module.training
    assert len(score(model, bags).f) == bags.index.n_instances
    assert set(model.history.held_out_scores) == set(bags.ids)
    assert isinstance(caught.value, KeyboardInterrupt)


def test_an_interruption_between_two_reports_counts_every_step() -> None:
    """Ctrl-C can come inside a step: here from the user's own network in its seventh."""
    bags, _ = easy()

    class Pressing(torch.nn.Linear):
        calls = 0

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            if self.training:
                self.calls += 1
            if self.calls == 7:
                raise KeyboardInterrupt
            return super().forward(features)

    with pytest.raises(TrainingInterrupted, match="interrupted at step 6; the weights of step 6") as caught:
        fit(recipe(held_out_folds=0), bags, None, generator(), module=Pressing(4, 1))
    assert isinstance(caught.value.model.module, ModuleEnsemble)
    assert len(caught.value.model.history.losses) == 6


def test_without_held_out_bags_an_interruption_keeps_the_newest_weights() -> None:
    bags, _ = easy()
    with pytest.raises(TrainingInterrupted, match="the weights of step 12 are kept") as caught:
        fit(recipe(held_out_folds=0), bags, None, generator(), on_step=interrupt_at(12))
    assert same_weights(caught.value.model, trained(bags, max_steps=12, held_out_folds=0))


@pytest.mark.parametrize(("label", "word"), [(1, "positive"), (0, "negative")])
def test_bags_of_one_kind_cannot_be_trained_on(label: int, word: str) -> None:
    with pytest.raises(InvalidInput, match=f"needs positive and negative bags; all 3 bags are {word}"):
        trained(bags_of([1, 2, 3], [label] * 3))


def test_unlabelled_bags_cannot_be_trained_on() -> None:
    with pytest.raises(InvalidInput, match="every bag needs a label here"):
        trained(bags_of([1, 2], None))


def test_the_label_book_of_other_bags_is_refused() -> None:
    bags = bags_of([2, 2], [1, 0])
    with pytest.raises(InvalidInput, match="label book belongs to other bags"):
        trained(bags, labels=LabelBook(bags_of([2, 3], [1, 0]).index))
    assert trained(bags, labels=LabelBook(bags_of([2, 2], [1, 0]).index), max_steps=2), "equal bags are the same bags"


def test_groups_for_other_bags_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one group per bag: 12 bags, 3 groups"):
        fit(recipe(), easy()[0], None, generator(), groups=["a", "b", "c"])


def test_a_positive_bag_answered_negative_throughout_is_named_and_left_out() -> None:
    bags, _ = easy(per_class=6)
    all_of_it = {(0, at): False for at in range(bags.index.sizes[0])}
    with pytest.warns(AdmilWarning, match="every instance of positive bag 'bag0' was answered negative") as caught:
        model = trained(bags, labels=book_of(bags.index, all_of_it))
    assert caught[0].filename.endswith("problems.py"), "the warning points at whoever called fit"
    assert any("'bag0'" in warning for warning in model.history.warnings)
    assert "bag0" not in model.history.held_out_scores
    assert len(model.history.losses) == 30


def test_contradicted_bags_leave_the_others_something_to_be_judged_by() -> None:
    """The one positive bag a member would hold out is contradicted: another takes its place."""
    for seed in range(6):
        bags = bags_of([1, 1, 1, 2, 2, 2, 2], [1, 1, 1, 1, 0, 0, 0])
        with pytest.warns(AdmilWarning, match="'bag0', 'bag1'"):
            model = trained(bags, seed, book_of(bags.index, {(0, 0): False, (1, 0): False}), members=1)
        assert model.history.held_out_auroc in {0.0, 0.5, 1.0}
        judged = set(model.history.held_out_scores)
        assert judged & {"bag2", "bag3"}
        assert judged & {"bag4", "bag5", "bag6"}


def test_bags_that_are_all_contradicted_are_an_error() -> None:
    bags = bags_of([1, 2, 2], [1, 1, 0])
    answers = {(0, 0): False, (1, 0): False, (1, 1): False}
    with (
        pytest.warns(AdmilWarning, match="'bag0', 'bag1'"),
        pytest.raises(InvalidInput, match="every positive bag was answered negative throughout"),
    ):
        trained(bags, labels=book_of(bags.index, answers))


def test_one_bag_of_each_kind_trains_and_says_that_nothing_was_held_out() -> None:
    bags = Bags.from_arrays([[[0.0, 0.0], [5.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]], [1, 0])
    history = trained(bags).history
    assert len(history.losses) == 30
    assert (history.best_step, history.checks, history.held_out_auroc) == (30, (), None)
    assert dict(history.held_out_scores) == {}
    assert len(history.warnings) == 1
    assert history.warnings[0].startswith("too few bags (or groups) to hold any out")


def test_holding_out_nothing_on_purpose_needs_no_warning() -> None:
    assert trained(easy(smallest=2)[0], held_out_folds=0).history.warnings == ()


def test_an_implied_positive_is_trained_on() -> None:
    bags = bags_of([2, 2, 1, 1], [1, 1, 0, 0])
    implied = trained(bags, labels=book_of(bags.index, {(0, 0): False}), held_out_folds=0)
    said = trained(bags, labels=book_of(bags.index, {(0, 0): False, (0, 1): True}), held_out_folds=0)
    assert same_weights(implied, said)
    assert LabelBook(bags.index).of(InstanceId("bag0", 1)) is None


def test_a_k_above_a_bags_size_is_clamped_and_said() -> None:
    bags = bags_of([2, 5, 3], [1, 1, 0])
    loss = Drbl(robustness=Robustness.effective(4))
    (note,) = trained(bags, loss=loss, held_out_folds=0).history.warnings
    assert note == (
        "k = 4 is above the size of 1 positive bags (the smallest, 'bag0', has 2); "
        "in each of them it counts as the bag's size"
    )
    (note,) = trained(bags, loss=TopK(k=6), held_out_folds=0).history.warnings
    assert note.startswith("k = 6 is above the size of 2 positive bags")
    assert trained(bags, loss=Drbl(robustness=Robustness.chi_square(9)), held_out_folds=0).history.warnings == ()
