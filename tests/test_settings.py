"""Settings say in one sentence which field does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import Field, ValidationError

from admil.errors import AdmilError, InvalidInput
from admil.learner import Recipe
from admil.losses import Drbl, TopK
from admil.settings import Settings
from admil.training import TrainingRecipe


class Tea(Settings):
    cups: int = Field(default=2, ge=1)
    degrees: float = 90.0


class Table(Settings):
    tea: Tea = Tea()


CUPS = "Tea: cups should be greater than or equal to 1, got 0"
NO_TEA: dict[str, Any] = {"cups": 0}
TOP_0, BEST = ({"loss": loss} for loss in ({"kind": "top_k", "k": 0}, {"kind": "best"}))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Tea(cups=0), CUPS),
        (lambda: Tea.model_validate(NO_TEA), CUPS),
        (lambda: Tea.model_validate_json('{"cups": 0}'), CUPS),
        (lambda: Tea.model_validate(3), "Tea: should be a valid dictionary or instance of Tea, got 3"),
        (lambda: Tea.model_validate_json("{"), "Tea: Invalid JSON"),
        (lambda: Tea.model_validate({"sugar": 1}), "Tea has no field 'sugar'; its fields are: cups, degrees"),
        (lambda: Tea(degrees=float("nan")), "Tea: degrees should be a finite number, got nan"),
        (lambda: Table.model_validate({"tea": NO_TEA}), f"Table: tea: {CUPS}"),
        (lambda: TrainingRecipe.model_validate(TOP_0), "TrainingRecipe: loss.top_k: TopK: k should be greater"),
        (lambda: TrainingRecipe.model_validate(BEST), "TrainingRecipe: loss: kind 'best' is none of 'drbl', "),
        (lambda: Recipe.model_validate({"sampler": {"kind": "pf", "per_bag": 0}}), "pf: PF: per_bag should be greater"),
        (lambda: Drbl.model_validate({"robustness": 3}), "Drbl: robustness should be a dictionary or an instance of"),
    ],
)
def test_what_does_not_fit_is_named(make: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "pydantic" not in str(caught.value)
    assert isinstance(caught.value, AdmilError)


def test_numbers_of_numpy_are_numbers() -> None:
    tea = Tea(cups=np.int64(3), degrees=np.float32(80))
    assert (tea.cups, tea.degrees) == (3, 80.0)
    assert type(tea.cups) is int
    assert Recipe(budget=np.int32(5)).budget == 5


def test_settings_stay_as_they_are() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TopK().k = 2  # type: ignore[misc]
