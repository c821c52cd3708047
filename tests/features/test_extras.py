"""Packages that may not be installed."""

from __future__ import annotations

import json

import pytest

from admil.errors import MissingExtra
from admil.features.extras import needed


def test_a_package_that_is_there_is_imported() -> None:
    assert needed("json", "text", "a test") is json


def test_one_that_is_not_says_what_to_install() -> None:
    message = r'^a test needs a package that is not installed \(.*no_such_package.*\): pip install "admil\[text\]"$'
    with pytest.raises(MissingExtra, match=message) as caught:
        needed("no_such_package", "text", "a test")
    assert caught.value.subject == "no_such_package"
    assert isinstance(caught.value, ImportError)
