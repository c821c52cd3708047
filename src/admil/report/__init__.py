"""Figures and the self-contained page that front ends show."""

from admil.report.content import Asked, BagPicture, Curve, Report, RoundRow
from admil.report.page import write_report
from admil.report.sheet import Pictured, contact_sheet

__all__ = ["Asked", "BagPicture", "Curve", "Pictured", "Report", "RoundRow", "contact_sheet", "write_report"]
