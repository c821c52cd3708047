"""Tables with a row per instance: CSV and Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from admil.errors import InvalidInput
from admil.importers.columns import FEATURES, ColumnNames, find_columns, in_order_of, is_list
from admil.importers.labels import LabelReader
from admil.importers.rows import Rows, RowStream, open_rows
from admil.importers.runs import Run, RunList
from admil.importers.source import BagReader, ReadBag, name_of, place_of, reading
from admil.store import Source

__all__ = ["TableImporter"]


class TableImporter:
    """Imports a CSV or Parquet table with a row per instance.

    The rows of a bag stand together.  A column holds the bag id; others may hold the label and the split of
    the bag, the same in all its rows, and the label of the instance.  The features are numbers in columns of
    their own, or, in Parquet, one column of lists.  All other columns go to the instance table.  The file is
    read twice, first the bag ids alone.

    The store keeps the names of the features.  A table with the same names in another order is put into the
    store's; one with other names is refused.

    Args:
        path: a .csv, .tsv or .parquet file; a text may be compressed (.gz, .bz2, .zst).
        columns: which column holds what, where their names do not say it.
        delimiter: what separates the values of a text; None is a tab for .tsv and a comma for others.
        root: the folder that the column ``path`` is relative to; None is the table's own.
        positive: the label that says positive, where labels are words; all others say negative then.
    """

    def __init__(
        self,
        path: str | Path,
        columns: ColumnNames | None = None,
        delimiter: str | None = None,
        root: str | Path | None = None,
        positive: str | None = None,
    ) -> None:
        self.path = Path(path)
        self._names = columns or ColumnNames()
        self._delimiter = delimiter
        if delimiter is not None and len(delimiter.encode()) != 1:
            raise InvalidInput(f"a delimiter is one character such as ';', got {delimiter!r}", delimiter)
        self._file = open_rows(self.path, delimiter)
        self._columns = find_columns(self.path, self._file.types, self._names)
        self._positive, self._describes = positive, True
        if positive is not None and self._columns.label is None:
            raise InvalidInput(
                f"{self.path} has no column of labels in which {positive!r} could be positive; name it (label=…, "
                "--label-column), or leave --positive out",
                positive,
            )
        self._root = Path(root or self.path.parent).resolve()
        self._runs: list[Run] | None = None

    @property
    def source(self) -> Source:
        """See `Importer`."""
        options = {name: value for name, value in vars(self._names).items() if value}
        if self._delimiter is not None:
            options["delimiter"] = self._delimiter
        if self._positive is not None:
            options["positive"] = self._positive
        root = str(self._root) if "path" in self._columns.details else None
        return Source(kind="table", name=name_of(self.path), place=place_of(self.path), options=options, root=root)

    @property
    def features(self) -> Mapping[str, Any] | None:
        """See `Importer`: the names of the columns; None for a column of lists that is called just features."""
        names = self._columns.features
        return {"columns": list(names)} if self._describes and names != (FEATURES,) else None

    def following(self, features: Mapping[str, Any] | None, store: Path) -> Self:
        """See `FollowingImporter`: the features in the order that the store has them in."""
        follower = copy(self)
        follower._describes = features is not None
        if features is None or self.features is None:
            return follower
        if "columns" not in features:
            raise InvalidInput(
                f"the features of {store} were made by {features.get('encoder', 'an encoder')}, those of {self.path} "
                "are columns; import the table into another store",
                store,
            )
        kinds = dict(self._file.types)
        follower._columns = in_order_of(self.path, self._columns, kinds, features["columns"], store)
        return follower

    def ids(self) -> list[str]:
        """See `Importer`."""
        return [run.bag for run in self._found()]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        columns = self._columns
        numbers = () if self._lists else columns.features
        rows, labels = RowStream(self._file, columns.all, columns.texts, numbers), LabelReader(self._positive)
        for run in self._found():
            yield BagReader(run.bag, partial(self._read, rows, run, labels))

    @property
    def _lists(self) -> bool:
        """Whether the features are one column of lists."""
        return is_list(dict(self._file.types)[self._columns.features[0]])

    def _found(self) -> list[Run]:
        """Return the runs of rows with one bag id, read once; with words for labels, those are checked too."""
        if self._runs is None:
            bag, label = self._columns.bag, None if self._positive is None else self._columns.label
            names = [name for name in (bag, label) if name is not None]
            runs, labels = RunList(self.path), LabelReader(self._positive)
            with reading(self.path, f"bag ids in column {bag!r}"):
                for batch in self._file.batches(names, names)[1]:
                    _add_runs(runs, batch.column(bag))
                    for value in batch.column(label).unique().to_pylist() if label is not None else ():
                        labels(value, str(self.path))
            self._runs = runs.closed()
            labels.check(f"column {label!r} of {self.path}")
        return self._runs

    def _read(self, rows: RowStream, run: Run, labels: LabelReader) -> ReadBag:
        columns = self._columns
        with reading(self.path, f"numbers in the columns of features of bag {run.bag!r}"):
            taken = _taken(rows, run)
            table = taken.table
            table.validate(full=True)  # Parquet may hold texts that are none
            if _texts(table[columns.bag]).unique().to_pylist() != [run.bag]:
                raise InvalidInput(f"{self.path} was changed while it was read; import it again", self.path)
            features = _lists(table[columns.features[0]].combine_chunks()) if taken.numbers is None else taken.numbers
        label = self._single(table, columns.label, run)
        split = self._single(table, columns.split, run)
        return ReadBag(
            features,
            labels(label, f"{self.path}: bag {run.bag!r}"),
            None if split is None else str(split).strip() or None,
            {name: _plain(table[name].combine_chunks()) for name in columns.details} or None,
            self._truth(table, run),
        )

    def _single(self, table: pa.Table, name: str | None, run: Run) -> Any:
        """Return the value that a column has in all rows of a bag."""
        if name is None:
            return None
        values = table[name].to_pylist()
        for row, (one, other) in enumerate(pairwise(values), start=run.start + 1):
            if one != other and not (one != one and other != other):
                raise InvalidInput(
                    f"{self.path}: bag {run.bag!r} has {name} {one!r} in row {row} and {other!r} in row {row + 1}, "
                    f"counted without the header; a bag has one {name}: name the column of instance labels 'truth'",
                    run.bag,
                )
        return values[0]

    def _truth(self, table: pa.Table, run: Run) -> NDArray[np.bool_] | None:
        if self._columns.truth is None:
            return None
        read = LabelReader()
        labels = [
            read(value, f"{self.path}, row {row}: bag {run.bag!r}")
            for row, value in enumerate(table[self._columns.truth].to_pylist(), start=run.start + 1)
        ]
        return run.truth(self.path, labels)


def _taken(rows: RowStream, run: Run) -> Rows:
    try:
        return rows.take(run.start, run.stop)
    except StopIteration:
        raise ValueError("it ends before the rows of this bag") from None


def _add_runs(runs: RunList, column: pa.Array) -> None:
    """Enter the bag ids of some rows."""
    encoded = pc.run_end_encode(_texts(column))
    start = 0
    for bag, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        runs.add(bag, end - start)
        start = end


def _texts(column: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(column.cast(pa.string()))


def _plain(column: pa.Array) -> pa.Array:
    """Return a column without its dictionary: those of two bags need not be the same."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _lists(column: pa.Array) -> NDArray[Any]:
    lengths = pc.list_value_length(column)
    if column.null_count or len(lengths.unique()) != 1:
        raise ValueError(f"the lists have lengths {_short(lengths.unique().to_pylist())}; all need the same")
    flat: NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), -1)


def _short(values: list[Any]) -> str:
    return ", ".join("none" if value is None else str(value) for value in values[:5])
