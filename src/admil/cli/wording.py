"""Words that several commands say."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, what: str) -> str:
    """Return a number with what it counts.

    >>> counted(1, "bag"), counted(1200, "bag")
    ('1 bag', '1,200 bags')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")
