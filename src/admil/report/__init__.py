"""Figures and the self-contained page that front ends show."""

from admil.report.content import Asked, BagPicture, Curve, Report, RoundRow
from admil.report.page import write_report

__all__ = ["Asked", "BagPicture", "Curve", "Report", "RoundRow", "write_report"]
