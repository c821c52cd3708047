"""The errors admil raises.

Every message says what was expected, what came, which object it concerns and how to fix it.  Each
error also derives from the built-in a Python user would catch, and keeps the offending object in
``subject``.
"""

from __future__ import annotations

import sys
import warnings

__all__ = [
    "AdmilError",
    "AdmilWarning",
    "AnswerConflict",
    "CorruptFile",
    "DownloadFailed",
    "InvalidInput",
    "MissingExtra",
    "NotFitted",
    "TrainingDiverged",
    "UnknownInstance",
    "warn",
]


class AdmilError(Exception):
    """Base of everything admil raises on purpose."""

    def __init__(self, message: str, subject: object = None) -> None:
        super().__init__(message)
        self.subject = subject

    def __str__(self) -> str:  # LookupError subclasses such as KeyError would print a repr
        return str(self.args[0])


class InvalidInput(AdmilError, ValueError):
    """A value that cannot be used: features, labels, a recipe field, a budget."""


class UnknownInstance(AdmilError, LookupError):
    """An id that names no instance, or no bag, of the bags at hand."""


class AnswerConflict(AdmilError, ValueError):
    """An answer that contradicts or repeats what is already known."""


class NotFitted(AdmilError, ValueError):
    """Something was asked of a model before it was fitted."""


class CorruptFile(AdmilError, ValueError):
    """A saved file that is missing, damaged or of another version."""


class DownloadFailed(AdmilError, OSError):
    """A file that could not be fetched: no network, or a server that refuses."""


class MissingExtra(AdmilError, ImportError):
    """A package of an extra that is not installed."""


class TrainingDiverged(AdmilError, ArithmeticError):
    """The loss or the weights became NaN or infinite."""


class AdmilWarning(UserWarning):
    """Something a user should know that stops nothing."""


def warn(message: str) -> None:
    """Warn with an `AdmilWarning` that points at the user's line: the first one outside this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("admil."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, AdmilWarning, stacklevel=level)
