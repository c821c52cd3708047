"""Small problems to train on, and recipes that say everything a test depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Generator

from admil.bags import Answer, AnswerValue, BagIndex, Bags, InstanceId, LabelBook
from admil.functional import Robustness
from admil.losses import Drbl
from admil.oracle import Truth
from admil.training import TrainedModel, TrainingRecipe, fit


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def recipe(**changes: Any) -> TrainingRecipe:
    """Make a recipe of which every field is said here, so that no test depends on a default."""
    fields: dict[str, Any] = {
        "loss": Drbl(robustness=Robustness.effective(2)),
        "weights": None,
        "answers": "bags",
        "beta": 1.0,
        "singleton_weight": 0.3,
        "negatives_per_bag": 20,
        "positives_per_step": 60,
        "negatives_per_step": 240,
        "remove_known_negatives": True,
        "members": 2,
        "hidden": (8, 4),
        "dropout": 0.0,
        "attention": None,
        "scaling": "standard",
        "optimizer": "adamw",
        "learning_rate": 0.02,
        "weight_decay": 0.0,
        "bags_per_side": 60,
        "instances_per_step": 50_000,
        "member_share": 1.0,
        "max_steps": 30,
        "held_out_folds": 2,
        "held_out_bags": 1000,
        "check_every": 5,
        "patience": 100,
        "precision": "float32",
    }
    assert fields.keys() == TrainingRecipe.model_fields.keys(), "a recipe has a field that this helper does not name"
    return TrainingRecipe.model_validate({**fields, **changes})


def index_of(sizes: Sequence[int], labels: Sequence[int] | None) -> BagIndex:
    offsets = np.cumsum([0, *sizes], dtype=np.int64)
    known = None if labels is None else np.array(labels, dtype=np.int64)
    return BagIndex(tuple(f"bag{number}" for number in range(len(sizes))), offsets, known)


def easy(
    seed: int = 0, per_class: int = 6, width: int = 4, distance: float = 6.0, smallest: int = 1
) -> tuple[Bags, Truth]:
    """Deal ragged bags of noise, positive and negative in turn; one instance of a positive bag stands far out.

    A ``smallest`` bag of two leaves nothing to be said of a k of two.
    """
    chance = np.random.default_rng(seed)
    sizes = chance.integers(smallest, smallest + 5, 2 * per_class)
    index = index_of(sizes.tolist(), [1, 0] * per_class)
    features = chance.normal(size=(index.n_instances, width))
    positive = np.zeros(index.n_instances, dtype=bool)
    positive[index.offsets[index.positive] + chance.integers(0, sizes[index.positive])] = True
    features[positive, 0] += distance
    return Bags(index, torch.from_numpy(features).float()), Truth(index, positive)


def bags_of(sizes: Sequence[int], labels: Sequence[int] | None, width: int = 3, seed: int = 0) -> Bags:
    """Make bags of noise."""
    index = index_of(sizes, labels)
    return Bags(index, torch.from_numpy(np.random.default_rng(seed).normal(size=(index.n_instances, width))).float())


def book_of(index: BagIndex, answers: Mapping[tuple[int, int], bool | None]) -> LabelBook:
    """Make a label book of answers by (bag number, index within the bag)."""
    given = [Answer(InstanceId(index.ids[bag], at), AnswerValue.of(value)) for (bag, at), value in answers.items()]
    return LabelBook(index, tuple(given))


def trained(bags: Bags, seed: int = 0, labels: LabelBook | None = None, **changes: Any) -> TrainedModel:
    return fit(recipe(**changes), bags, labels, generator(seed))


def weights_of(model: TrainedModel) -> list[torch.Tensor]:
    return list(model.module.state_dict().values())


def same_weights(one: TrainedModel, other: TrainedModel) -> bool:
    """Tell whether two models are the same, bit for bit."""
    return all(torch.equal(a, b) for a, b in zip(weights_of(one), weights_of(other), strict=True))
