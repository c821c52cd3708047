"""How features were made, in a line."""

from __future__ import annotations

from typing import Any

import pytest

from admil.store import difference, in_short


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (None, "not known how"),
        ({"columns": ["a", "b", "c", "d"]}, "4 columns (a, b, c, …)"),
        ({"encoder": "x", "weights": "0123456789abcdef" * 4}, "encoder x, weights 01234567"),
        ({"size": [224, 224], "idf": [0.1] * 200}, "size [224, 224], 200 idf"),
        ({"encoder": "x", "vocabulary": {"a": 1}}, "encoder x"),
        ({"columns": []}, "columns []"),
    ],
)
def test_a_description_is_a_short_line(features: dict[str, Any] | None, said: str) -> None:
    assert in_short(features) == said


@pytest.mark.parametrize(
    ("wanted", "there", "said"),
    [
        ({"columns": ["a", "b"]}, {"columns": ["b", "a"]}, "the columns are in another order"),
        ({"columns": ["a"]}, {"columns": ["a", "b"]}, "the columns have b besides"),
        ({"columns": [*"abcde"]}, {"columns": ["a"]}, "the columns lack b, c, d, …"),
        ({"encoder": "x", "terms": ["a"]}, {"encoder": "x", "terms": ["b"]}, "the terms lack a, and have b besides"),
        ({"encoder": "x"}, {"encoder": "y"}, "encoder x, against encoder y"),
        ({"encoder": "x", "terms": ["a"]}, {"encoder": "y", "terms": ["b"]}, "encoder x, 1 terms (a), against"),
    ],
)
def test_what_differs_is_named(wanted: dict[str, Any], there: dict[str, Any], said: str) -> None:
    assert difference(wanted, there).startswith(said)
