"""Packages that only some encoders need."""

from __future__ import annotations

import importlib
from types import ModuleType

from admil.errors import MissingExtra

__all__ = ["needed"]


def needed(package: str, extra: str, what: str) -> ModuleType:
    """Import a package of an extra.

    Raises:
        MissingExtra: it is not installed; the message says what to install for ``what``.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtra(
            f'{what} needs a package that is not installed ({error}): pip install "admil[{extra}]"', package
        ) from error
