"""Pure tensor maths on padded scores (..., N) with a mask: the part that reads like the paper."""

from admil.functional.margins import pair_margins, pairwise_hinge
from admil.functional.ragged import BagFunction, Padding, SizeClasses
from admil.functional.robust import robust_score, robust_weights
from admil.functional.robustness import Robustness
from admil.functional.scores import (
    attention_weights,
    maximum_score,
    mean_score,
    softmax_mean_log_odds,
    softmax_mean_score,
    theorem1_holds,
    top_k_score,
    variance_score,
)
from admil.functional.uncertainty import bag_posterior, disagreement, entropy, gini, miu

__all__ = [
    "BagFunction",
    "Padding",
    "Robustness",
    "SizeClasses",
    "attention_weights",
    "bag_posterior",
    "disagreement",
    "entropy",
    "gini",
    "maximum_score",
    "mean_score",
    "miu",
    "pair_margins",
    "pairwise_hinge",
    "robust_score",
    "robust_weights",
    "softmax_mean_log_odds",
    "softmax_mean_score",
    "theorem1_holds",
    "top_k_score",
    "variance_score",
]
