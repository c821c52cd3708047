"""What a Python user meets: the learner, the estimator, and their files."""

from admil.api.active import ActiveLearner
from admil.api.estimator import BagClassifier
from admil.api.files import features_of_model, load_model, save_model
from admil.api.stores import StoreScores, fit_store, score_store, training_bags

__all__ = [
    "ActiveLearner",
    "BagClassifier",
    "StoreScores",
    "features_of_model",
    "fit_store",
    "load_model",
    "save_model",
    "score_store",
    "training_bags",
]
