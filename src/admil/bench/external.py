"""External checks: accuracy on bags of the classic sets, beside what has been published for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.model_selection import StratifiedKFold

from admil.api import BagClassifier
from admil.bags import Bags
from admil.bench.intervals import Mean
from admil.datasets import Classic
from admil.importers import run_import
from admil.store import BagStore
from admil.training import TrainingRecipe

__all__ = ["PUBLISHED", "Accuracy", "classic_bags", "cross_validated"]

PUBLISHED = {"musk1": 0.892, "musk2": 0.858, "elephant": 0.868, "fox": 0.615, "tiger": 0.839}
"""Attention MIL of Ilse, Tomczak and Welling 2018, table 1: 10-fold cross-validation, five times."""


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on held-out bags: the mean over the folds of each repetition, and over repetitions."""

    repeats: tuple[float, ...]

    @property
    def over_repeats(self) -> Mean:
        """The mean over repetitions, with their standard deviation."""
        mean = Mean.of(self.repeats)
        assert mean is not None, "there is a repetition"
        return mean


def classic_bags(name: str, path: Path) -> Bags:
    """Read a classic set into memory; see `Classic`."""
    with TemporaryDirectory(prefix="admil-") as folder:
        run_import(Classic(name, path), Path(folder) / "store")
        return BagStore.open(Path(folder) / "store").load()


def cross_validated(
    bags: Bags,
    recipe: TrainingRecipe,
    folds: int = 10,
    repeats: int = 5,
    seed: int = 0,
    on_fold: Callable[[], None] | None = None,
) -> Accuracy:
    """Cross-validate bag labels: each repetition has folds and networks of its own."""
    assert bags.labels is not None
    means = []
    for repeat in range(repeats):
        split = StratifiedKFold(folds, shuffle=True, random_state=seed + repeat).split(bags.labels, bags.labels)
        right = []
        for number, (kept, left) in enumerate(split):
            classifier = BagClassifier(recipe=recipe, random_state=seed + repeat * folds + number)
            classifier.fit(bags.subset(kept))
            right.append(float((classifier.predict(bags.subset(left)) == bags.labels[left]).mean()))
            if on_fold is not None:
                on_fold()
        means.append(float(np.mean(right)))
    return Accuracy(tuple(means))
