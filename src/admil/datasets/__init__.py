"""Data sets as bags: raw data in, bags and truth out.  One file each."""

from admil.datasets.digits import DigitBags, digits

__all__ = ["DigitBags", "digits"]
