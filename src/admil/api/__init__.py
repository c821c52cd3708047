"""What a Python user meets: the learner, the estimator, and their files."""

from admil.api.active import ActiveLearner
from admil.api.estimator import BagClassifier
from admil.api.files import load_model, save_model

__all__ = ["ActiveLearner", "BagClassifier", "load_model", "save_model"]
