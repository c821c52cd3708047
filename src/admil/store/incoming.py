"""Features as they are handed over: what is taken, and what is refused by the name of its bag."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from admil.bags import as_tensor
from admil.errors import InvalidInput
from admil.store.layout import DTYPES, DtypeName

__all__ = ["as_rows", "check_finite", "in_pieces", "natural_dtype"]

_ENTRIES = 2**22
"""Features converted or looked at together, so that a huge bag is in memory once and not four times."""


def as_rows(bag: str, features: Any) -> Tensor:
    """Return features as an (n, D) tensor of real numbers, without a copy where that is possible."""
    rows = _as_tensor(bag, features)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InvalidInput(
            f"bag {bag!r}: expected (n, D) features, one row per instance, got shape {tuple(rows.shape)}", bag
        )
    if len(rows) == 0:
        raise InvalidInput(f"bag {bag!r} is empty; a bag needs at least one instance: leave it out", bag)
    return rows


def natural_dtype(dtype: torch.dtype) -> DtypeName:
    """Return the type that features are kept in where nobody names one."""
    return next((name for name, known in DTYPES.items() if dtype == known), "float32")


def in_pieces(rows: Tensor) -> Iterator[Tensor]:
    """Yield rows in pieces of a few million features."""
    at_once = max(1, _ENTRIES // rows.shape[1])
    for first in range(0, len(rows), at_once):
        yield rows[first : first + at_once]


def check_finite(bag: str, rows: Tensor, dtype: torch.dtype) -> None:
    """Raise `InvalidInput` that names the first row with a value that is not finite, or not once it is converted."""
    first = 0
    for piece in in_pieces(rows):
        bad = ~torch.isfinite(piece.to(dtype))
        if bool(bad.any()):
            row, column = (int(i) for i in bad.nonzero()[0])
            raise InvalidInput(_why(bag, first + row, column, piece[row, column].item(), dtype), bag)
        first += len(piece)


def _as_tensor(bag: str, features: Any) -> Tensor:
    try:
        return as_tensor(features)
    except TypeError as error:
        raise InvalidInput(f"bag {bag!r}: expected an (n, D) array of numbers, got {error}", bag) from None


def _why(bag: str, row: int, column: int, value: float, dtype: torch.dtype) -> str:
    if not math.isfinite(value):
        return f"features must be finite: bag {bag!r}, row {row} has {value} in column {column}; replace or drop it"
    wider = "; keep float32 or bfloat16" if dtype == torch.float16 else ""
    return f"bag {bag!r}: row {row} has {value:g} in column {column}, too large for {str(dtype)[6:]}{wider}"
