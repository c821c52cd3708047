"""Mangling the files of a store, and what must come of it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from admil.errors import AdmilError
from admil.store import BagStore, verify_store
from admil.store.documents import write_document
from tests.store.making import content_of


def mangle(folder: Path, chance: random.Random) -> str:
    """Damage one file of a store, or two; say how."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "store.lock")
    path, other = chance.choice(files), chance.choice(files)
    how = chance.choice(_WAYS)
    how(path, other, chance)
    return f"{how.__name__} {path.name} {other.name}"


def check(folder: Path, sound: BagStore, how: str) -> str:
    """See that a mangled store is refused, reported, or says what the sound one says; tell which."""
    problems = verify_store(folder)
    try:
        found = content_of(BagStore.open(folder))
    except AdmilError:
        assert problems, "what cannot be read has a problem"
        return "refused"
    if problems:
        return "reported"
    if "_edit_header" in how:  # a header may say less in good order: fewer parts, or none of their tables
        assert [row[:4] for row in found] == [row[:4] for row in content_of(sound)[: len(found)]]
        return "intact as far as it says"
    assert found == content_of(sound)
    assert _pictures(folder) == _pictures(sound.path)
    return "intact"


def _pictures(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in (folder / "pictures").rglob("*")}


def _flip(path: Path, other: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 1, 8])):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _truncate(path: Path, other: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data) + 1)])


def _lengthen(path: Path, other: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes() + chance.randbytes(chance.randrange(1, 40)))


def _noise(path: Path, other: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(len(path.read_bytes())))


def _remove(path: Path, other: Path, chance: random.Random) -> None:
    path.unlink()


def _replace(path: Path, other: Path, chance: random.Random) -> None:
    if path != other:
        shutil.copy(other, path)


def _swap(path: Path, other: Path, chance: random.Random) -> None:
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


def _edit_header(path: Path, other: Path, chance: random.Random) -> None:
    """Change a value in the header and put the right checksum beside it, as only a wrong program would."""
    header = path if path.name == "store.json" else path.parent.parent / "store.json"
    content = json.loads(header.read_text())
    places = list(_leaves(content))
    holder, key = chance.choice(places)
    values: list[Any] = [None, 0, -1, 1, 2, 10**30, 1.5, "", "x", "000000", "float16", [], {}, [{}], True]
    holder[key] = chance.choice(values)
    version = content.pop("version", 1)
    write_document(header, str(content.pop("format", "")), version, content)


def _leaves(value: Any) -> list[tuple[Any, Any]]:
    """Return (holder, key) of every value below, the holders themselves included."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [leaf for key in keys for leaf in _leaves(value[key])]


_WAYS: list[Callable[[Path, Path, random.Random], None]] = [
    _flip,
    _flip,
    _truncate,
    _lengthen,
    _noise,
    _remove,
    _replace,
    _swap,
    _edit_header,
]
