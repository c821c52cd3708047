"""What columns are usually called: one list for tables, lines of JSON and label files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from admil.store.layout import KNOWN_COLUMNS

__all__ = ["BAG", "BAG_OF_LINE", "LABEL", "SPLIT", "TRUTH", "is_id", "is_place", "usual"]

BAG = ("bag", "bag_id", "bag_name", "slide_id", "slide")
BAG_OF_LINE = (*BAG, "image_id", "image", "id", "name")
"""Where a line is a bag, more names can only be the bag's: among instances they may be theirs."""

LABEL = ("label", "bag_label", "slide_label", "target")
SPLIT = ("split",)
TRUTH = ("truth", "instance_label", "inst_label")

_PLACES = {*KNOWN_COLUMNS, "z"}
_ID = re.compile(r"(^|[\W_])id$", re.IGNORECASE)
_CAMEL_ID = re.compile(r"[a-z]I[dD]$")


def usual(columns: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the first column with one of the names.

    Args:
        columns: the columns, by their names in small letters without blanks around them.
        names: in the order in which they are looked for.
    """
    return next((columns[name] for name in names if name in columns), None)


def is_id(name: str) -> bool:
    """Tell whether a column says which instance, patient or slide a row belongs to, so that it is no feature.

    >>> [is_id(name) for name in ("id", "Patient_ID", "patientId", "valid", "area")]
    [True, True, True, False, False]
    """
    return bool(_ID.search(name.strip()) or _CAMEL_ID.search(name.strip()))


def is_place(name: str) -> bool:
    """Tell whether a column says where an instance lies or what it shows, so that it is no feature."""
    return name.strip().lower() in _PLACES
