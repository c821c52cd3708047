"""Which column of a table holds what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import pyarrow as pa

from admil.errors import InvalidInput
from admil.importers.names import BAG, LABEL, SPLIT, TRUTH, is_id, is_place, usual

__all__ = ["FEATURES", "ColumnNames", "Columns", "find_columns", "in_order_of", "is_list"]

FEATURES = "features"
"""The usual name of a column of lists."""

_NO_COLUMNS = ("", "index", "unnamed: 0", "__index_level_0__")
"""What pandas writes beside the columns; these are not read: a store numbers the instances of a bag itself."""


@dataclass(frozen=True)
class ColumnNames:
    """What the user says of a table's columns; None, or nothing, leaves a column to be found by its usual name.

    The usual names are those of `admil.importers.names`.

    Attributes:
        bag: the bag id; else ``bag``, ``bag_id``, ``bag_name``, ``slide_id`` or ``slide``.
        label: the label of the bag; else ``label``, ``bag_label``, ``slide_label`` or ``target``, if there.
        split: the split of the bag; else ``split``, if there.
        truth: the label of the instance; else ``truth``, ``instance_label`` or ``inst_label``, if there.
        features: names, or patterns such as "f*"; else the column of lists of numbers, or all other columns of
            numbers but ids (``id``, ``patient_id``) and places (``x``, ``left``, ``begin``).
    """

    bag: str | None = None
    label: str | None = None
    split: str | None = None
    truth: str | None = None
    features: tuple[str, ...] = ()


@dataclass(frozen=True)
class Columns:
    """The columns of a table, by what they hold.

    Attributes:
        bag: the bag id.
        label: the label of the bag, if the table has it.
        split: the split of the bag, if the table has it.
        truth: the label of the instance, if the table has it.
        features: a column of lists, or columns of numbers in the table's order.
        details: what goes into the instance table.
    """

    bag: str
    label: str | None
    split: str | None
    truth: str | None
    features: tuple[str, ...]
    details: tuple[str, ...]

    @property
    def all(self) -> list[str]:
        """All columns that are read."""
        return [*self._single, *self.features, *self.details]

    @property
    def texts(self) -> list[str]:
        """Those that are words, even where they look like numbers: ids may be long, or begin with zeros."""
        return [*self._single, *(name for name in self.details if is_id(name))]

    @property
    def _single(self) -> list[str]:
        return [name for name in (self.bag, self.label, self.split, self.truth) if name is not None]


def find_columns(path: Path, types: Iterable[tuple[str, pa.DataType]], names: ColumnNames) -> Columns:
    """Say what each column of a table holds.

    Args:
        path: the table, for messages.
        types: name and type of each column, in order.
        names: what the user says.
    """
    given = list(types)
    known = dict(given)
    if len(known) < len(given):
        twice = next(name for place, (name, _) in enumerate(given) if name in [each for each, _ in given[:place]])
        raise InvalidInput(f"{path}: two columns are named {twice!r}; rename one", path)
    taken = {names.bag, names.label, names.split, names.truth}
    free = {name.strip().lower(): name for name in known if name not in taken}
    bag = _named(path, known, "bag", names.bag) or usual(free, BAG)
    if bag is None:
        raise InvalidInput(
            f"{path} needs a column 'bag' with the bag id of each row, or the name of that column "
            f"(bag=…, --bag-column); its columns are: {_listed(known)}",
            path,
        )
    label = _named(path, known, "label", names.label) or usual(free, LABEL)
    split = _named(path, known, "split", names.split) or usual(free, SPLIT)
    truth = _named(path, known, "truth", names.truth) or usual(free, TRUTH)
    rest = {name: kind for name, kind in known.items() if name not in (bag, label, split, truth)}
    rest = {name: kind for name, kind in rest.items() if name.strip().lower() not in _NO_COLUMNS}
    features = _chosen(path, rest, names.features) if names.features else _features(path, rest)
    return Columns(bag, label, split, truth, features, _others(rest, features))


def in_order_of(
    path: Path, columns: Columns, kinds: Mapping[str, pa.DataType], wanted: Sequence[str], store: Path
) -> Columns:
    """Return the columns of a table with its features in the order of those of a store, whatever order they lie in.

    Args:
        path: the table, for messages.
        columns: what each column holds.
        kinds: the type of each column.
        wanted: the names of the store's features.
        store: the store, for messages.

    Raises:
        InvalidInput: the table lacks one of them, or has others.
    """
    there = {name for name in (*columns.features, *columns.details) if _is_number(kinds[name]) or is_list(kinds[name])}
    if missing := [name for name in wanted if name not in there]:
        raise InvalidInput(
            f"{path} lacks {_counted(missing)} that the features of {store} have: {_first(missing)}; add them, or "
            "import the table into another store",
            path,
        )
    if extra := _others(columns.features, wanted):
        raise InvalidInput(
            f"{path} has {_counted(extra)} that the features of {store} do not have: {_first(extra)}; remove "
            "them, name the features without them (features=…, --features), or import the table into another store",
            path,
        )
    return replace(columns, features=tuple(wanted), details=_others((*columns.features, *columns.details), wanted))


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a column holds a list of numbers in each row."""
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return lists and _is_number(kind.value_type)


def _named(path: Path, known: Mapping[str, pa.DataType], what: str, name: str | None) -> str | None:
    if name is not None and name not in known:
        raise InvalidInput(f"{path} has no column {name!r} for the {what}; its columns are: {_listed(known)}", path)
    return name


def _chosen(path: Path, rest: Mapping[str, pa.DataType], patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that the user named."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in rest):
            raise InvalidInput(f"{path} has no column {pattern!r} for the features; it has: {_listed(rest)}", path)
    found = tuple(name for name in rest if any(fnmatchcase(name, pattern) for pattern in patterns))
    if len(found) == 1 and is_list(rest[found[0]]):
        return found
    for name in found:
        if not _is_number(rest[name]):
            raise InvalidInput(
                f"{path}: features are numbers, or one column of lists; column {name!r} holds {rest[name]}", path
            )
    return found


def _features(path: Path, rest: Mapping[str, pa.DataType]) -> tuple[str, ...]:
    """Return the columns that can only be features."""
    lists = [name for name, kind in rest.items() if is_list(kind) and _is_measure(kind.value_type)]
    if FEATURES in lists or len(lists) == 1:
        return (FEATURES,) if FEATURES in lists else (lists[0],)
    if lists:
        raise InvalidInput(
            f"{path} has {_counted(lists)} of lists: {_first(lists)}; name the one with the features "
            "(features=…, --features)",
            path,
        )
    found = tuple(name for name, kind in rest.items() if _is_measure(kind) and not is_id(name) and not is_place(name))
    if not found:
        raise InvalidInput(
            f"{path} has no column of numbers left for the features; its columns are: {_listed(rest)}; "
            "name them (features=…, --features)",
            path,
        )
    return found


def _is_number(kind: pa.DataType) -> bool:
    return _is_measure(kind) or bool(pa.types.is_boolean(kind))


def _is_measure(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _others(names: Iterable[str], without: Iterable[str]) -> tuple[str, ...]:
    passed = frozenset(without)
    return tuple(name for name in names if name not in passed)


def _counted(names: Sequence[str]) -> str:
    return f"{len(names):,} column" + ("" if len(names) == 1 else "s")


def _first(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")


def _listed(known: Mapping[str, pa.DataType]) -> str:
    names = list(known)
    return (", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")) or "none"
