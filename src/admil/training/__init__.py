"""Training and scoring: one loop, one way to read a model's mind."""

from admil.training.judge import held_out_check
from admil.training.loop import ModuleMaker, TrainingInterrupted, build_scorer, fit
from admil.training.model import Check, Progress, TrainedModel, TrainingHistory
from admil.training.recipe import TrainingRecipe
from admil.training.scoring import bag_probability, score
from admil.training.step import training_step

__all__ = [
    "Check",
    "ModuleMaker",
    "Progress",
    "TrainedModel",
    "TrainingHistory",
    "TrainingInterrupted",
    "TrainingRecipe",
    "bag_probability",
    "build_scorer",
    "fit",
    "held_out_check",
    "score",
    "training_step",
]
