"""Networks and the scaling of their inputs."""

from admil.models.attention import Attention, AttentionHead
from admil.models.scaling import Scaling, ScalingRule
from admil.models.scorers import ModuleEnsemble, Scorer, ScorerEnsemble

__all__ = ["Attention", "AttentionHead", "ModuleEnsemble", "Scaling", "ScalingRule", "Scorer", "ScorerEnsemble"]
