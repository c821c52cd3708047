"""Recipes refuse what cannot be trained."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from admil.errors import InvalidInput
from admil.functional import Robustness
from admil.losses import Drbl, MaxScore
from admil.training import TrainingRecipe
from tests.training.problems import recipe


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": 0}, "members"),
        ({"max_steps": 0}, "max_steps"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": float("inf")}, "learning_rate"),
        ({"dropout": 1.0}, "dropout"),
        ({"dropout": -0.1}, "dropout"),
        ({"member_share": 0.0}, "member_share"),
        ({"member_share": 1.1}, "member_share"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"singleton_weight": -1.0}, "singleton_weight"),
        ({"negatives_per_bag": 0}, "negatives_per_bag"),
        ({"positives_per_step": 0}, "positives_per_step"),
        ({"held_out_folds": -1}, "held_out_folds"),
        ({"held_out_bags": 1}, "held_out_bags"),
        ({"check_every": 0}, "check_every"),
        ({"patience": 0}, "patience"),
        ({"optimizer": "adam"}, "'adamw' or 'sgd'"),
        ({"precision": "float16"}, "precision"),
        ({"answers": "both"}, "'bags' or 'bce'"),
        ({"scaling": "minmax"}, "scaling"),
        ({"loss": "drbl"}, "loss"),
        ({"hidden": (8, 0)}, "hidden layers need at least one unit"),
        ({"members": 3, "beta": (1.0, 2.0)}, "beta must be one value or one per member: 3 members, 2 values"),
        ({"members": 1, "loss": (MaxScore(), Drbl())}, "loss must be one value or one per member: 1 members, 2 values"),
        ({"beta": -1.0}, "beta must be >= 0, got -1.0"),
        ({"members": 2, "beta": (1.0, -1.0)}, "beta must be >= 0"),
        ({"gamma": 3}, "TrainingRecipe has no field 'gamma'; its fields are: loss, "),
    ],
    ids=str,
)
def test_a_recipe_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        recipe(**changes)


def test_fewer_than_one_effective_instance_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidInput, match="number of instances >= 1"):
        recipe(loss=Drbl(robustness=Robustness.effective(0.5)))


def test_a_recipe_cannot_be_changed_after_it_was_checked() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        recipe().members = 0  # type: ignore[misc]


def test_one_loss_and_one_beta_serve_all_members() -> None:
    made = recipe(members=3, loss=MaxScore(), beta=0.5)
    assert made.member_losses == (MaxScore(),) * 3
    assert made.member_betas == (0.5,) * 3


def test_scores_are_weighted_by_the_named_robustness_else_the_first_members() -> None:
    three, five = Robustness.effective(3), Robustness.effective(5)
    assert recipe(weights=five, loss=Drbl(robustness=three)).robustness == five
    assert recipe(members=2, loss=(Drbl(robustness=three), MaxScore())).robustness == three
    assert recipe(members=2, loss=(MaxScore(), Drbl(robustness=three))).robustness == Robustness.effective(2)


def test_a_recipe_survives_json() -> None:
    made = recipe(members=2, loss=(MaxScore(), Drbl(robustness=Robustness.temperature(0.1))), beta=(0.0, 1.5))
    assert TrainingRecipe.model_validate_json(made.model_dump_json()) == made


def test_the_papers_recipe_is_one_network_with_sgd_and_the_hybrid_loss() -> None:
    made = TrainingRecipe.paper(max_steps=10)
    assert (made.members, made.optimizer, made.answers, made.max_steps) == (1, "sgd", "bce", 10)
