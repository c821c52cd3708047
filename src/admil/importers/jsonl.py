"""Lines of JSON: a bag per line, or an instance per line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from admil.errors import InvalidInput
from admil.importers.labels import LabelReader
from admil.importers.names import BAG, BAG_OF_LINE
from admil.importers.records import ColumnTypes, LineStream, matrix, numbered_lines, parsed
from admil.importers.runs import Run, RunList
from admil.importers.source import BagReader, ReadBag, check_file, name_of, place_of, reading
from admil.store import Source

__all__ = ["JsonlImporter"]

_FEATURES = ("instances", "features")
_TRUTH = ("instance_labels", "instance_label", "truth")
_OWN = {"label", "split", *_FEATURES, *_TRUTH}


class JsonlImporter:
    """Imports a file of JSON objects, one a line, in UTF-8, perhaps gzipped.

    Its first line says which kind it is:

    * a bag per line: ``bag`` (or another name that `BAG_OF_LINE` has), ``instances`` or ``features``, a list with a
      list of numbers for each instance; where known ``label``, ``split``, and ``instance_labels`` (or ``truth``), a
      value per instance.  Any other list with a value per instance becomes a column of the instance table, and so
      does any other value, the same for all instances of the bag.
    * an instance per line: ``bag`` (or another name that `BAG` has), ``features``, a list of numbers; where known
      ``label`` and ``split``, of the bag and the same in all its lines, and ``instance_label`` (or ``truth``); all else
      becomes columns.  The lines of a bag stand together.

    The file is read twice, first for the ids and the columns.

    Args:
        path: the file.
        root: the folder that the column ``path`` is relative to; None is the file's own.
        positive: the label that says positive, where labels are words; all others say negative then.
    """

    def __init__(self, path: str | Path, root: str | Path | None = None, positive: str | None = None) -> None:
        self.path = Path(path)
        self.features: Mapping[str, Any] | None = None
        check_file(self.path, "a file of JSON lines")
        self._root, self._positive = Path(root or self.path.parent).resolve(), positive
        self._bag_a_line = self._first_line()
        self._types = ColumnTypes()
        self._runs: list[Run] | None = None

    @property
    def source(self) -> Source:
        """See `Importer`."""
        options = {} if self._positive is None else {"positive": self._positive}
        root = str(self._root)
        return Source(kind="jsonl", name=name_of(self.path), place=place_of(self.path), options=options, root=root)

    def ids(self) -> list[str]:
        """See `Importer`."""
        return [run.bag for run in self._found()]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        runs = self._found()
        read = self._read_bag if self._bag_a_line else self._read_instances
        lines, labels = LineStream(self.path), LabelReader(self._positive)
        for run in runs:
            yield BagReader(run.bag, partial(read, lines, run, labels))

    def _first_line(self) -> bool:
        """Tell whether the file has a bag per line."""
        with reading(self.path, "a file of JSON lines"):
            number, line = next(numbered_lines(self.path), (0, b""))
            if not number:
                raise ValueError("it has no lines")
            features = _given(parsed(number, line), _FEATURES)
            if not isinstance(features, list):
                raise ValueError(
                    f"line {number} needs features: a list of numbers (an instance per line) or a list of such lists, "
                    "features or instances (a bag per line)"
                )
            return not features or isinstance(features[0], list)

    def _found(self) -> list[Run]:
        """Return where each bag lies, read once."""
        if self._runs is None:
            found, runs, labels = RunList(self.path), [], LabelReader(self._positive)
            with reading(self.path, "an object with a bag id in every line"):
                for place, (number, line) in enumerate(numbered_lines(self.path)):
                    record = parsed(number, line)
                    bag = self._bag_of(number, record)
                    if self._bag_a_line:
                        runs.append(Run(bag, place, place + 1))
                    else:
                        found.add(bag)
                    self._note_types(record)
                    if self._positive is not None:
                        labels(record.get("label"), f"{self.path}, line {number}")
            labels.check(str(self.path))
            self._runs = runs or found.closed()
        return self._runs

    def _note_types(self, record: Mapping[str, Any]) -> None:
        for name, value in self._rest(record).items():
            self._types.add(name, value if self._bag_a_line and isinstance(value, list) else [value])

    @property
    def _bag_keys(self) -> tuple[str, ...]:
        return BAG_OF_LINE if self._bag_a_line else BAG

    def _bag_of(self, number: int, record: Mapping[str, Any]) -> str:
        bag = _given(record, self._bag_keys)
        if isinstance(bag, bool) or not isinstance(bag, str | int) or not str(bag).strip():
            raise ValueError(f"line {number} needs a bag id {self._bag_keys[0]!r}, a text or a whole number")
        return str(bag).strip()

    def _rest(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return what goes into the instance table."""
        own = _OWN | {next(name for name in self._bag_keys if name in record)}
        return {name: value for name, value in record.items() if name not in own}

    def _read_bag(self, lines: LineStream, run: Run, labels: LabelReader) -> ReadBag:
        with reading(self.path, f"bag {run.bag!r} in a line of JSON"):
            ((number, record),) = lines.take(run.start, run.stop)
            features = matrix(_given(record, _FEATURES))
            given = _given(record, _TRUTH)
            truth = [None] * len(features) if given is None else given
            if not isinstance(truth, list) or len(truth) != len(features):
                raise ValueError(f"line {number} needs {len(features)} instance labels, one for each instance")
            columns = {name: _repeated(value, len(features)) for name, value in self._rest(record).items()}
            return self._made(features, record, run, labels, truth, columns)

    def _read_instances(self, lines: LineStream, run: Run, labels: LabelReader) -> ReadBag:
        with reading(self.path, f"the instances of bag {run.bag!r} in lines of JSON"):
            taken = lines.take(run.start, run.stop)
            records = [record for _, record in taken]
            for number, record in taken:
                for name in ("label", "split"):
                    if record.get(name) != records[0].get(name):
                        raise InvalidInput(
                            f"{self.path}: bag {run.bag!r} has {name} {records[0].get(name)!r} in line {taken[0][0]} "
                            f"and {record.get(name)!r} in line {number}; a bag has one {name}: call the labels of "
                            "instances 'truth'",
                            run.bag,
                        )
            rest = [self._rest(record) for record in records]
            columns = {name: [each.get(name) for each in rest] for each in rest for name in each}
            features = matrix([_given(record, _FEATURES) for record in records])
            truth = [_given(record, _TRUTH) for record in records]
            return self._made(features, records[0], run, labels, truth, columns)

    def _made(
        self,
        features: Any,
        record: Mapping[str, Any],
        run: Run,
        labels: LabelReader,
        truth: list[Any],
        columns: Mapping[str, list[Any]],
    ) -> ReadBag:
        where = f"{self.path}: bag {run.bag!r}"
        label = labels(record.get("label"), where)
        read = LabelReader()
        positive = run.truth(self.path, [read(value, f"{where}, instance {i}") for i, value in enumerate(truth)])
        split = record.get("split")
        return ReadBag(
            features,
            label,
            None if split is None else str(split).strip() or None,
            self._types.columns(columns, len(features)),
            positive,
        )


def _given(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if name in record), None)


def _repeated(value: Any, count: int) -> list[Any]:
    """Return a value per instance."""
    return value if isinstance(value, list) else [value] * count
