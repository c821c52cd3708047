"""What a store says of how its features were made, in a line for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["difference", "in_short"]

_DIGEST = 64
_SHOWN = 3


def in_short(features: Mapping[str, Any] | None) -> str:
    """Return a line that says how features were made; long lists by their length, checksums by their beginning.

    >>> in_short({"encoder": "tfidf", "terms": ["lamb", "dog", "hill", "rain"], "stop_words": False})
    'encoder tfidf, 4 terms (lamb, dog, hill, …), stop_words False'
    """
    parts = [_part(name, value) for name, value in (features or {}).items() if not isinstance(value, Mapping)]
    return ", ".join(parts) or "not known how"


def difference(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """Return what tells one description from another, for after "made otherwise: ".

    >>> difference({"columns": ["a", "b"]}, {"columns": ["b", "c"]})
    'the columns lack a, and have c besides'
    """
    lists = [name for name in wanted.keys() & there.keys() if isinstance(wanted[name], list)]
    if wanted.keys() == there.keys() and all(wanted[name] == there[name] for name in wanted.keys() - set(lists)):
        return ", ".join(_lists(name, wanted[name], there[name]) for name in lists if wanted[name] != there[name])
    return f"{in_short(wanted)}, against {in_short(there)}"


def _part(name: str, value: object) -> str:
    if isinstance(value, list | tuple) and (len(value) > _SHOWN or (value and isinstance(value[0], str))):
        shown = f" ({_first(value)})" if isinstance(value[0], str) else ""
        return f"{len(value):,} {name}{shown}"
    words = str(value)
    return f"{name} {words[:8] if len(words) == _DIGEST else words}"


def _lists(name: str, wanted: Sequence[Any], there: Sequence[Any]) -> str:
    lacking = [value for value in wanted if value not in set(there)]
    besides = [value for value in there if value not in set(wanted)]
    said = [f"lack {_first(lacking)}"] if lacking else []
    said += [f"have {_first(besides)} besides"] if besides else []
    return f"the {name} {', and '.join(said) or 'are in another order'}"


def _first(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values[:_SHOWN])) + (", …" if len(values) > _SHOWN else "")
