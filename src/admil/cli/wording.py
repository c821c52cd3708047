"""Words that several commands say."""

from __future__ import annotations

__all__ = ["counted", "plainly"]


def counted(number: int, what: str) -> str:
    """Return a number with what it counts.

    >>> counted(1, "bag"), counted(1200, "bag")
    ('1 bag', '1,200 bags')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def plainly(value: object) -> str:
    """Return a value as a person writes it: whole numbers without a point.

    >>> plainly(48548.0), plainly(0.25)
    ('48548', '0.25')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
