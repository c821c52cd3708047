"""Labels: how files spell them, and the label file: a CSV of bag ids, labels and, if wanted, splits."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from admil.errors import InvalidInput
from admil.importers.names import BAG_OF_LINE, LABEL, SPLIT, usual
from admil.importers.source import check_file, reading

__all__ = ["LabelFile", "LabelReader", "as_label"]

_LABEL = (*LABEL, "y")
_WORDS = {"": None, "0": 0, "1": 1, "-1": 0, "+1": 1, "negative": 0, "positive": 1, "false": 0, "true": 1}
_SHOWN = 5


class LabelReader:
    """Reads the labels of one source.

    A source may say negative as 0 or as -1.  One that does both is refused: there -1 may well mean not known.

    Args:
        positive: the word that says positive, where labels are words of the user's own; all others say
            negative then, but an empty one, which says not known.
    """

    def __init__(self, positive: str | None = None) -> None:
        self.positive = None if positive is None else positive.strip()
        self._spellings: set[bool] = set()
        self._words: Counter[str] = Counter()

    def __call__(self, value: object, where: str) -> int | None:
        """Read a label; see `as_label`."""
        if self.positive is not None:
            word = "" if value is None or value != value else str(value).strip()
            if not word:
                return None
            self._words[word] += 1
            return int(word == self.positive)
        label = as_label(value, where)
        if label == 0:
            self._spellings.add("-1" in str(value))
        if len(self._spellings) > 1:
            raise InvalidInput(
                f"{where}: labels mix 0 and -1; use 0/1 or -1/+1 throughout, and nothing where it is not known", value
            )
        return label

    def check(self, where: str) -> None:
        """Raise unless the word for positive is one of those that were read; ``where`` follows "in"."""
        if self.positive is None or self.positive in self._words:
            return
        words = [repr(word) for word, _ in self._words.most_common(_SHOWN)]
        found = ", ".join(words) + (", …" if len(self._words) > _SHOWN else "") or "none at all"
        raise InvalidInput(
            f"no label in {where} is {self.positive!r}, the word for positive; the labels are: {found}; give one of "
            "them as --positive, or leave it out where labels are 0 and 1",
            self.positive,
        )


class LabelFile(Mapping[str, tuple[int | None, str | None]]):
    """Label and split by bag id, read from a CSV in UTF-8.

    The header names the columns: the bag's is ``bag``, ``bag_id``, ``slide_id``, ``image``, ``id``, ``name`` and the
    like, the label's ``label``, ``bag_label``, ``slide_label``, ``target`` or ``y``, and ``split`` may follow, or be
    there instead of labels; other columns are not read.  A label is 0 or 1, -1 or 1, negative or positive, false or
    true, or empty where it is not known.

    Args:
        path: the file.
        strip: an ending that is taken off its bag ids, such as ".h5".
        positive: the label that says positive, where labels are other words; all others say negative then.
        columns: the columns of the bag and of the label, where they are called otherwise.

    Attributes:
        has_labels: whether it has a column of labels.
    """

    def __init__(
        self, path: str | Path, strip: str = "", positive: str | None = None, columns: tuple[str, str] | None = None
    ) -> None:
        self.path = Path(path)
        self.has_labels = False
        self._rows: dict[str, tuple[int | None, str | None]] = {}
        expected = "a CSV of bag ids and labels in UTF-8"
        check_file(self.path, expected)
        with reading(self.path, expected), self.path.open(newline="", encoding="utf-8-sig") as file:
            self._read(csv.DictReader(file, strict=True), strip, LabelReader(positive), columns)

    def __getitem__(self, bag: str) -> tuple[int | None, str | None]:
        return self._rows[bag]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _read(
        self, rows: csv.DictReader[str], strip: str, as_label: LabelReader, given: tuple[str, str] | None
    ) -> None:
        bag, label, split = self._columns({name.strip().lower(): name for name in rows.fieldnames or ()}, given)
        self.has_labels = label is not None
        for row in rows:
            where = f"{self.path}, line {rows.line_num}"
            name = (row[bag] or "").strip().removesuffix(strip)
            if not name:
                raise InvalidInput(f"{where}: the bag id is empty", self.path)
            if name in self._rows:
                raise InvalidInput(f"{where}: bag {name!r} has a line already; keep one", name)
            value = None if label is None else as_label(row[label], f"{where}: bag {name!r}")
            self._rows[name] = (value, None if split is None else (row[split] or "").strip() or None)
        if self.has_labels:
            as_label.check(str(self.path))

    def _columns(self, columns: Mapping[str, str], given: tuple[str, str] | None) -> tuple[str, str | None, str | None]:
        """Return the columns of the bag, the label and the split, by their names in small letters."""
        split = usual(columns, SPLIT)
        if given is not None:
            bag, label = (columns.get(name.strip().lower()) for name in given)
        else:
            bag, label = usual(columns, BAG_OF_LINE), usual(columns, _LABEL)
        if bag is None or (label is None and (split is None or given is not None)):
            wanted = ("bag", "label") if given is None else given
            raise InvalidInput(
                f"{self.path} needs a header with a column {wanted[0]!r} and a column {wanted[1]!r}, separated by a "
                f"comma, or the names of those columns (columns=…, --label-columns BAG,LABEL); its columns are: "
                f"{', '.join(columns) or 'none'}",
                self.path,
            )
        return bag, label, split


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
        words = "; where labels are words, name the one for positive (positive=…, --positive)"
        raise InvalidInput(
            f"{where}: expected a label 0 or 1 (or -1/+1, negative/positive, empty for not known), got {value!r}"
            f"{words if isinstance(value, str) else ''}",
            value,
        )
    return int(number == 1)
