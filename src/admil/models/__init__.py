"""Networks and the scaling of their inputs."""

from admil.models.scaling import Scaling, ScalingRule
from admil.models.scorers import ModuleEnsemble, Scorer, ScorerEnsemble

__all__ = ["ModuleEnsemble", "Scaling", "ScalingRule", "Scorer", "ScorerEnsemble"]
