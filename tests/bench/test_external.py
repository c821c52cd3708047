"""Accuracy on bags by cross-validation: every bag judged once, by a network that has not seen it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from admil.bags import Bags
from admil.bench import PUBLISHED, Accuracy, classic_bags, cross_validated, learner
from admil.datasets import CLASSIC_SETS
from tests.cli.calling import call
from tests.datasets.test_classic import uci, write
from tests.training.problems import easy

QUICK = {"members": 2, "max_steps": 60, "held_out_folds": 2}


def test_every_classic_set_has_a_published_accuracy() -> None:
    assert PUBLISHED.keys() == CLASSIC_SETS.keys()


def test_labels_that_can_be_learned_are_and_labels_of_chance_are_not() -> None:
    bags, _ = easy(per_class=20, smallest=2)
    assert bags.labels is not None
    folds: list[None] = []
    learned = cross_validated(bags, learner("ms-mil", **QUICK), 4, 2, on_fold=lambda: folds.append(None))
    assert len(folds) == 8
    assert len(learned.repeats) == 2
    assert learned.over_repeats.mean > 0.9
    shuffled = np.random.default_rng(0).permutation(bags.labels)
    arrays = [bags[bag].numpy() for bag in bags.ids]
    chance = cross_validated(Bags.from_arrays(arrays, shuffled), learner("ms-mil", **QUICK), 4, 2)
    assert 0.2 < chance.over_repeats.mean < 0.75


def test_the_same_seed_gives_the_same_accuracy() -> None:
    bags, _ = easy(per_class=6, smallest=2)
    recipe = learner("attention", members=1, max_steps=5, held_out_folds=0)
    first, again = (cross_validated(bags, recipe, 3, 1, seed=5) for _ in range(2))
    assert first == again


def test_repetitions_have_a_mean_and_a_deviation() -> None:
    mean = Accuracy((0.8, 0.9)).over_repeats
    assert mean.n == 2
    assert mean.mean == pytest.approx(0.85)
    assert mean.deviation == pytest.approx(0.0707, abs=1e-4)


def test_a_classic_set_is_read_into_memory(tmp_path: Path) -> None:
    bags = classic_bags("musk1", write(tmp_path / "clean1.data", uci("musk1")))
    assert (len(bags), bags.width) == (92, 166)


def test_the_command_shows_ours_beside_the_published(tmp_path: Path) -> None:
    file = write(tmp_path / "clean1.data", uci("musk1"))
    arguments = ["--learner", "mi-logistic", "--folds", 2, "--repeats", 1]
    done = call("bench", "classic", f"musk1={file}", *arguments)
    assert done.code == 0, done.err
    (line,) = (line for line in done.out.splitlines() if "musk1" in line)
    cells = [cell.strip() for cell in line.split("│")[1:-1]]
    assert cells[:2] == ["musk1", "92"]
    assert 0 <= float(cells[2]) <= 1
    assert cells[3] == "0.892"


@pytest.mark.parametrize("given", ["musk1", "iris=x"])
def test_a_set_that_is_not_known_is_named(given: str) -> None:
    done = call("bench", "classic", given)
    assert done.code == 1
    assert f"expected NAME=PATH, NAME one of musk1, musk2, elephant, fox, tiger; got '{given}'" in done.err
