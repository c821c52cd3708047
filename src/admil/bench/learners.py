"""The ways to learn from bags that are compared, by name: each is a recipe for the one `fit`."""

from __future__ import annotations

from typing import Any

from admil.errors import InvalidInput
from admil.functional import Robustness
from admil.losses import AttentionPooled, Drbl, MaxScore, MeanScore, SoftmaxPooled, TopK, Variance
from admil.models import Attention
from admil.training import TrainingRecipe

__all__ = ["LEARNERS", "learner"]


def _attention(form: str, instance_score: str) -> dict[str, Any]:
    attention = Attention.model_validate({"form": form, "instance_score": instance_score})
    return {"loss": AttentionPooled(), "attention": attention}


LEARNERS: dict[str, dict[str, Any]] = {
    "drbl": {},
    "drbl-kl": {"loss": Drbl(robustness=Robustness.effective(2, "kl"))},
    "drbl-softmax": {"loss": Drbl(robustness=Robustness.temperature(0.03))},
    "drbl-softmax-danskin": {"loss": Drbl(robustness=Robustness.temperature(0.03, through=False))},
    "drbl-printed": {"loss": Drbl(robustness=Robustness.chi_square(0.01))},
    "ms-mil": {"loss": MaxScore()},
    "top-k": {"loss": TopK(k=3)},
    "mean": {"loss": MeanScore()},
    "variance": {"loss": Variance()},
    "mi-logistic": {"loss": SoftmaxPooled(), "hidden": ()},
    "mi-network": {"loss": SoftmaxPooled()},
    "attention": _attention("plain", "attention"),
    "attention-classifier": _attention("plain", "classifier"),
    "gated-attention": _attention("gated", "attention"),
    "gated-attention-classifier": _attention("gated", "classifier"),
    "query-attention": _attention("query", "attention"),
    "query-attention-classifier": _attention("query", "classifier"),
}
"""By name what differs from the default recipe.  ``mi-network`` is MI-logistic's loss on the network that all others
have, as the paper's MIAL baselines have it; ``drbl-printed`` has the strength that the paper states."""


def learner(name: str, **changes: Any) -> TrainingRecipe:
    """Return the recipe of a learner, with changes.

    >>> learner("attention").attention.form
    'plain'
    """
    if name not in LEARNERS:
        raise InvalidInput(f"there is no learner {name!r}; there are {', '.join(LEARNERS)}", name)
    return TrainingRecipe.model_validate({**LEARNERS[name], **changes})
