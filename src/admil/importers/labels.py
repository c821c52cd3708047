"""Labels: how files spell them, and the label file: a CSV of bag ids, labels and, if wanted, splits."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from admil.errors import InvalidInput
from admil.importers.source import check_file, reading

__all__ = ["LabelFile", "LabelReader", "as_label"]

_BAG = ("bag", "bag_id", "bag_name", "slide_id", "id", "name")
_LABEL = ("label", "y", "target")
_SPLIT = ("split",)
_WORDS = {"": None, "0": 0, "1": 1, "-1": 0, "+1": 1, "negative": 0, "positive": 1, "false": 0, "true": 1}


class LabelReader:
    """Reads the labels of one source.

    A source may say negative as 0 or as -1.  One that does both is refused: there -1 may well mean not known.

    Args:
        positive: the word that says positive, where labels are words of the user's own; all others say
            negative then, but an empty one, which says not known.
    """

    def __init__(self, positive: str | None = None) -> None:
        self.positive = positive
        self._spellings: set[bool] = set()

    def __call__(self, value: object, where: str) -> int | None:
        """Read a label; see `as_label`."""
        if self.positive is not None:
            word = "" if value is None else str(value).strip()
            return None if not word else int(word == self.positive)
        label = as_label(value, where)
        if label == 0:
            self._spellings.add("-1" in str(value))
        if len(self._spellings) > 1:
            raise InvalidInput(
                f"{where}: labels mix 0 and -1; use 0/1 or -1/+1 throughout, and nothing where it is not known", value
            )
        return label


class LabelFile(Mapping[str, tuple[int | None, str | None]]):
    """Label and split by bag id, read from a CSV in UTF-8.

    The header names the columns: the bag's is ``bag``, ``bag_id``, ``bag_name``, ``slide_id``, ``id`` or ``name``,
    the label's ``label``, ``y`` or ``target``, and ``split`` may follow, or be there instead of labels; other
    columns are not read.  A label is 0 or 1, -1 or 1, negative or positive, false or true, or empty where it
    is not known.

    Args:
        path: the file.
        strip: an ending that is taken off its bag ids, such as ".h5".
        positive: the label that says positive, where labels are other words; all others say negative then.
    """

    def __init__(self, path: str | Path, strip: str = "", positive: str | None = None) -> None:
        self.path = Path(path)
        self._rows: dict[str, tuple[int | None, str | None]] = {}
        expected = "a CSV of bag ids and labels in UTF-8"
        check_file(self.path, expected)
        with reading(self.path, expected), self.path.open(newline="", encoding="utf-8-sig") as file:
            self._read(csv.DictReader(file, strict=True), strip, LabelReader(positive))

    def __getitem__(self, bag: str) -> tuple[int | None, str | None]:
        return self._rows[bag]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _read(self, rows: csv.DictReader[str], strip: str, as_label: LabelReader) -> None:
        columns = {name.strip().lower(): name for name in rows.fieldnames or ()}
        bag, label, split = (_first(columns, names) for names in (_BAG, _LABEL, _SPLIT))
        if bag is None or (label is None and split is None):
            raise InvalidInput(
                f"{self.path} needs a header with a column 'bag' and a column 'label', separated by a comma; "
                f"its columns are: {', '.join(columns) or 'none'}",
                self.path,
            )
        for row in rows:
            where = f"{self.path}, line {rows.line_num}"
            name = (row[bag] or "").strip().removesuffix(strip)
            if not name:
                raise InvalidInput(f"{where}: the bag id is empty", self.path)
            if name in self._rows:
                raise InvalidInput(f"{where}: bag {name!r} has a line already; keep one", name)
            value = None if label is None else as_label(row[label], f"{where}: bag {name!r}")
            self._rows[name] = (value, None if split is None else (row[split] or "").strip() or None)


def as_label(value: object, where: str) -> int | None:
    """Read a label however a file spells it; None where it is empty, NaN or missing.

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
    except (OverflowError, TypeError, ValueError):
        number = 2.0
    if number != number:
        return None
    if number not in (0.0, 1.0, -1.0):
        raise InvalidInput(
            f"{where}: expected a label 0 or 1 (or -1/+1, negative/positive, empty for not known), got {value!r}", value
        )
    return int(number == 1)


def _first(columns: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((columns[name] for name in names if name in columns), None)
