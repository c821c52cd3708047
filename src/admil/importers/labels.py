"""The label file: a CSV of bag ids, labels and, if wanted, splits."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from admil.errors import InvalidInput
from admil.importers.source import reading

__all__ = ["LabelFile", "as_label"]

_BAG = ("bag", "bag_id", "slide_id", "id", "name")
_LABEL = ("label", "y", "target")
_WORDS = {"": None, "0": 0, "1": 1, "-1": 0, "+1": 1, "negative": 0, "positive": 1, "false": 0, "true": 1}


class LabelFile(Mapping[str, tuple[int | None, str | None]]):
    """Label and split by bag id, read from a CSV.

    The header names the columns: the bag's is ``bag``, ``bag_id``, ``slide_id``, ``id`` or ``name``, the
    label's ``label``, ``y`` or ``target``, and ``split`` may follow; other columns are not read.  A label is
    0 or 1, -1 or 1, negative or positive, false or true, or empty where it is not known.

    Args:
        path: the file.
        strip: an ending that is taken off its bag ids, such as ".h5".
    """

    def __init__(self, path: str | Path, strip: str = "") -> None:
        self.path = Path(path)
        self._rows: dict[str, tuple[int | None, str | None]] = {}
        with (
            reading(self.path, "a CSV of bag ids and labels"),
            self.path.open(newline="", encoding="utf-8-sig") as file,
        ):
            self._read(csv.DictReader(file, strict=True), strip)

    def __getitem__(self, bag: str) -> tuple[int | None, str | None]:
        return self._rows[bag]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _read(self, rows: csv.DictReader[str], strip: str) -> None:
        columns = {name.strip().lower(): name for name in rows.fieldnames or ()}
        bag = next((columns[name] for name in _BAG if name in columns), None)
        label = next((columns[name] for name in _LABEL if name in columns), None)
        split = columns.get("split")
        if bag is None or label is None:
            raise InvalidInput(
                f"{self.path} needs a header with a column 'bag' and a column 'label', "
                f"its columns are: {', '.join(columns) or 'none'}",
                self.path,
            )
        spellings: set[str] = set()
        for row in rows:
            where = f"{self.path}, line {rows.line_num}"
            name = (row[bag] or "").strip().removesuffix(strip)
            if not name:
                raise InvalidInput(f"{where}: the bag id is empty", self.path)
            if name in self._rows:
                raise InvalidInput(f"{where}: bag {name!r} has a line already; keep one", name)
            value = as_label(row[label], f"{where}: bag {name!r}")
            spellings.add((row[label] or "").strip())
            if {"0", "-1"} <= spellings:
                raise InvalidInput(f"{where}: labels mix 0 and -1; use 0/1 or -1/+1 throughout", self.path)
            self._rows[name] = (value, ((row[split] or "").strip() or None) if split is not None else None)


def as_label(value: object, where: str) -> int | None:
    """Read a label however a file spells it; None where it is empty or missing.

    Raises:
        InvalidInput: it is something else; the message begins with ``where``.
    """
    if value is None or value != value:
        return None
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _WORDS:
            return _WORDS[word]
    try:
        number = float(value)  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError):
        number = 2.0
    if number not in (0.0, 1.0, -1.0):
        raise InvalidInput(
            f"{where}: expected a label 0 or 1 (or -1/+1, negative/positive, empty for not known), got {value!r}", value
        )
    return int(number == 1)
