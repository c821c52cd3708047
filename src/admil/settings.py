"""Settings: frozen values that are checked when they are made."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from admil.errors import InvalidInput

__all__ = ["Settings", "first_fault"]


class Settings(BaseModel):
    """Base of recipes, losses and samplers: frozen, no unknown fields, no infinite or missing numbers.

    What does not fit is an `InvalidInput` that names the field; NumPy's numbers are as good as Python's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InvalidInput(first_fault(type(self), error), fields) from None

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Make settings of a mapping.

        Raises:
            InvalidInput: naming the field that does not fit.
        """
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise InvalidInput(first_fault(cls, error), obj) from None

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Make settings of JSON; see `model_validate`."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            raise InvalidInput(first_fault(cls, error), json_data) from None

    @model_validator(mode="before")
    @classmethod
    def _plain_numbers(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in fields.items()}


def first_fault(kind: type[BaseModel] | None, error: ValidationError) -> str:
    """Say in a sentence what is wrong with the first field that does not fit; ``kind`` None leaves its name out."""
    fault = error.errors(include_url=False)[0]
    said = fault["msg"].removeprefix("Value error, ")
    name = "" if kind is None else kind.__name__
    if fault["type"] == "value_error" and name and said.startswith((f"{name}:", f"{name} has no field")):
        return said  # it went through twice
    place = ".".join(str(word) for word in fault["loc"] if "[" not in str(word))  # not the names of types
    if fault["type"] == "extra_forbidden" and kind is not None:
        return f"{name} has no field {place!r}; its fields are: {', '.join(kind.model_fields)}"
    if fault["type"] == "union_tag_invalid":
        said = f"kind {fault['ctx']['tag']!r} is none of {fault['ctx']['expected_tags']}"
    elif said.startswith("Input should"):
        said = f"{said.removeprefix('Input ')}, got {_short(fault['input'])}"
        return f"{_led(name)}{place} {said}" if place else f"{_led(name)}{said}"
    return f"{_led(name)}{_led(place)}{said}"


def _led(word: str) -> str:
    return f"{word}: " if word else ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
