"""Active deep multiple instance learning: bags with yes/no labels in, ranked positive instances out."""

from admil.api import ActiveLearner, BagClassifier, load_model, save_model
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
]
