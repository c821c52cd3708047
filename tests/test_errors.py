"""Errors are what a user would catch, and warnings point at the user's line."""

from __future__ import annotations

from pathlib import Path

import pytest

from admil import errors
from admil.errors import AdmilError, AdmilWarning, UnknownInstance, warn


@pytest.mark.parametrize(
    "name", [name for name in errors.__all__ if name not in ("AdmilError", "AdmilWarning", "warn")]
)
def test_every_error_is_ours_and_a_built_in_one(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, AdmilError)
    assert any(
        base.__module__ == "builtins" and base not in (Exception, BaseException, object) for base in kind.__mro__
    )


def test_an_error_prints_its_sentence_and_keeps_what_it_is_about() -> None:
    error = UnknownInstance("there is no bag 'x'", "x")
    assert (str(error), error.subject) == ("there is no bag 'x'", "x")


def test_a_warning_points_at_the_line_that_called() -> None:
    with pytest.warns(AdmilWarning, match="look here") as caught:
        warn("look here")
    assert Path(caught[0].filename) == Path(__file__)
