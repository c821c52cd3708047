"""Active deep multiple instance learning: bags with yes/no labels in, ranked positive instances out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from admil.api import ActiveLearner, BagClassifier, load_model, save_model, training_bags
    from admil.bags import Answer, Bags, InstanceId, LabelBook, Query, Scores
    from admil.errors import AdmilError, AdmilWarning
    from admil.functional import Robustness
    from admil.learner import Recipe
    from admil.store import BagStore
    from admil.training import TrainingRecipe, fit, score

__version__ = "0.1.0"

__all__ = [
    "ActiveLearner",
    "AdmilError",
    "AdmilWarning",
    "Answer",
    "BagClassifier",
    "BagStore",
    "Bags",
    "InstanceId",
    "LabelBook",
    "Query",
    "Recipe",
    "Robustness",
    "Scores",
    "TrainingRecipe",
    "fit",
    "load_model",
    "save_model",
    "score",
    "training_bags",
]

_HOMES = {
    "admil.api": ("ActiveLearner", "BagClassifier", "load_model", "save_model", "training_bags"),
    "admil.bags": ("Answer", "Bags", "InstanceId", "LabelBook", "Query", "Scores"),
    "admil.errors": ("AdmilError", "AdmilWarning"),
    "admil.functional": ("Robustness",),
    "admil.learner": ("Recipe",),
    "admil.store": ("BagStore",),
    "admil.training": ("TrainingRecipe", "fit", "score"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the command line starts without PyTorch and scikit-learn."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'admil' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
