"""Tables with a row per instance."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.importers import ColumnNames, ReadBag, TableImporter, run_import
from admil.store import BagStore

from .sources import BAGS, KINDS, read_all, rows, write_csv


def written(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


def one(path: Path, **options: Any) -> ReadBag:
    """Read the only bag of a table."""
    (bag,) = read_all(TableImporter(path, **options)).values()
    return bag


def as_lists(columns: Any) -> dict[str, list[Any]]:
    return {name: values.to_pylist() for name, values in (columns or {}).items()}


def test_columns_become_what_their_names_say(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "Bag,label,split,truth,size,shape,path,left,top,x,text,comment\n"
        "007,1,train,0,0.5,3,tiles/1.png,0,60,1.5,hello,\n"
        "007,1,train,1,-2e3,4,tiles/2.png,60,60,,7,good\n",
    )
    run_import(TableImporter(path), tmp_path / "store")
    store = BagStore.open(tmp_path / "store")
    assert store.ids == ("007",), "ids are texts, and keep their zeros"
    assert store["007"].tolist() == [[0.5, 3], [-2000, 4]]
    assert store.splits.tolist() == ["train"]
    assert list(store.truth_rows()) == [("007", [False, True])]
    first = {"path": "tiles/1.png", "left": 0, "top": 60, "x": 1.5, "text": "hello", "comment": None}
    second = {"path": "tiles/2.png", "left": 60, "top": 60, "x": None, "text": "7", "comment": "good"}
    assert [{name: value or None if name == "comment" else value for name, value in row.items()} for row in
            store.details("007")] == [first, second]  # fmt: skip
    assert store.header.sources[0].root == str(tmp_path)


def test_columns_can_be_named(tmp_path: Path) -> None:
    path = written(tmp_path, "scan,y,label,f1,f2,age,fold\nA,1,0,1,2,70,3\nA,1,1,3,4,70,3\n")
    names = ColumnNames(bag="scan", label="y", split="fold", truth="label", features=("f*",))
    read = one(path, columns=names)
    assert (read.label, read.split) == (1, "3")
    assert read.features.tolist() == [[1, 2], [3, 4]]
    assert read.truth is not None
    assert read.truth.tolist() == [False, True]
    assert as_lists(read.instances) == {"age": [70, 70]}, "other numbers are not lost"


def test_a_label_column_given_to_the_instances_is_not_the_bags(tmp_path: Path) -> None:
    path = written(tmp_path, "bag,label,f\na,0,1\na,1,2\n")
    read = one(path, columns=ColumnNames(truth="label"))
    assert read.label is None
    assert read.truth is not None
    assert read.truth.tolist() == [False, True]


def test_features_keep_the_order_of_the_table(tmp_path: Path) -> None:
    path = written(tmp_path, "f10,bag,f2,f1\n1,a,2,3\n")
    assert one(path, columns=ColumnNames(features=("f1*", "f2"))).features.tolist() == [[1, 2, 3]]


def test_an_index_that_pandas_wrote_is_no_feature(tmp_path: Path) -> None:
    assert one(written(tmp_path, ",bag,f\n0,a,5\n1,a,6\n")).features.tolist() == [[5], [6]]
    table = pa.table({"bag": ["a"], "f": [1.0], "__index_level_0__": [17], "index": [3]})
    pq.write_table(table, tmp_path / "t.parquet")
    assert one(tmp_path / "t.parquet").features.tolist() == [[1]]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_can_be_named(delimiter: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.txt", rows(), delimiter)
    bags = read_all(TableImporter(path, delimiter=delimiter))
    assert bags["a"].features.tolist() == BAGS[0].features.tolist()


def test_tsv_files_are_separated_by_tabs(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.tsv.gz", rows(), "\t")
    assert len(read_all(TableImporter(path))) == 5


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    assert one(written(tmp_path, b"\xef\xbb\xbfbag,f\r\na,1\r\na,2\r\n")).features.tolist() == [[1], [2]]


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int16"])
def test_parquet_features_keep_their_type(kind: str, tmp_path: Path) -> None:
    values = np.array([[1, -2], [3, 4]], dtype=kind)
    arrays = {f"f{i}": values[:, i] for i in range(2)}
    pq.write_table(pa.table({"bag": ["a", "a"], **arrays}), tmp_path / "columns.parquet")
    expected = "float64" if kind == "int16" else kind
    found = one(tmp_path / "columns.parquet").features
    assert (found.dtype, found.tolist()) == (expected, values.tolist())
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 2)
    pq.write_table(pa.table({"bag": ["a", "a"], "n": [1, 2], "features": fixed}), tmp_path / "lists.parquet")
    read = one(tmp_path / "lists.parquet")
    assert (read.features.dtype, read.features.tolist()) == (kind, values.tolist())
    assert as_lists(read.instances) == {"n": [1, 2]}


def test_bag_ids_of_parquet_may_be_numbers_or_categories(tmp_path: Path) -> None:
    table = pa.table({"bag": [7, 7, 12], "f": [1.0, 2.0, 3.0], "kind": pa.array(["u", "v", "u"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "t.parquet")
    bags = read_all(TableImporter(tmp_path / "t.parquet"))
    assert list(bags) == ["7", "12"]
    assert as_lists(bags["12"].instances) == {"kind": ["u"]}


def test_columns_that_begin_with_nothing_keep_their_type(tmp_path: Path) -> None:
    table = pa.table({"bag": ["a", "b"], "f": [1.0, 2.0], "when": pa.array([None, 5], pa.timestamp("s"))})
    pq.write_table(table, tmp_path / "t.parquet")
    run_import(TableImporter(tmp_path / "t.parquet"), tmp_path / "store", part_bytes=1)
    assert BagStore.open(tmp_path / "store").details("b")[0]["when"].second == 5


def test_a_bag_may_go_over_many_batches(tmp_path: Path) -> None:
    table = pa.table({"bag": ["a"] * 700 + ["b"] * 300, "f": np.arange(1000.0)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=90)
    bags = read_all(TableImporter(tmp_path / "t.parquet"))
    assert bags["a"].features[:, 0].tolist() == list(range(700))
    assert bags["b"].features[:, 0].tolist() == list(range(700, 1000))


def test_groups_of_rows_before_the_first_bag_that_is_read_are_passed_over(tmp_path: Path) -> None:
    kind = next(kind for kind in KINDS if kind.name == "table-parquet")
    last = list(kind.open(kind.write(tmp_path)).bags())[-1]
    assert last.read().features.tolist() == BAGS[-1].features.tolist()


BAD_ROWS: dict[str, tuple[str | bytes, str]] = {
    "not-together": (
        "bag,f\na,1\nb,1\na,1\n",
        "rows of bag 'a' do not stand together: they begin again in row 3",
    ),
    "labels": (
        "bag,label,f\nb,1,0\na,1,1\na,0,1\n",
        "bag 'a' has label '1' in row 2 and '0' in row 3, counted",
    ),
    "splits": ("bag,split,f\na,x,1\na,y,1\n", "bag 'a' has split 'x' in row 1 and 'y' in row 2"),
    "label": ("bag,label,f\na,2,1\n", "bag 'a': expected a label 0 or 1"),
    "mixed": ("bag,label,f\na,0,1\nb,-1,1\n", "bag 'b': labels mix 0 and -1"),
    "truth": ("bag,truth,f\na,0,1\na,,1\n", "bag 'a' has instance labels, but row 2 has none"),
    "no-bag": ("bag,f\na,1\n ,1\n", "row 2 has no bag id"),
    "missing": ("bag,f,g\na,1,2\na,,2\n", "bag 'a', row 1 has nan in column 0"),
    "word": ("bag,f\na,1\nb,one\n", "features|column"),
    "short-row": ("bag,f,g\na,1,2\nb,1\n", "Row #3: Expected 3 columns, got 2"),
    "no-rows": ("bag,f\n", "has no rows|no column of numbers"),
    "two-columns": ("bag,f,f\na,1,2\n", "two columns are named 'f'"),
    "no-bag-column": ("patient,f\na,1\n", "needs a column 'bag' .* its columns are: patient, f"),
    "semicolons": ("bag;f\na;1\n", "its columns are: bag;f"),
    "no-features": ("bag,label,text\na,1,hello\n", "no column of numbers left for the features; its columns are: text"),
    "no-utf8": ("bag,text,f\na,ü,1\n".encode("latin-1"), "UTF8|UTF-8"),
    "utf16": ("bag,f\na,1\n".encode("utf-16"), "it is UTF-16; save it as UTF-8"),
    "excel": (b"PK\x03\x04 and so on", "as Excel writes; save the sheet as CSV"),
    "empty": ("", "is empty; expected a CSV or a Parquet file"),
    "no-end": ('bag,text,f\na,"b,1\n', "cannot be read"),
    "half-parquet": (b"PAR1 and nothing more", "expected a Parquet file"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_tables_that_are_wrong_say_where(name: str, tmp_path: Path) -> None:
    text, message = BAD_ROWS[name]
    path = written(tmp_path, text)
    with pytest.raises(AdmilError, match=message):
        run_import(TableImporter(path), tmp_path / "store")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (ColumnNames(bag="scan"), "no column 'scan' for the bag; its columns are: bag, label, f, text"),
        (ColumnNames(label="y"), "no column 'y' for the label"),
        (ColumnNames(features=("f", "g*")), r"no column 'g\*' for the features; it has: f, text"),
        (
            ColumnNames(features=("f", "text")),
            "features are numbers, or one column of lists; column 'text' holds",
        ),
    ],
)
def test_columns_that_are_not_there_are_named(names: ColumnNames, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        TableImporter(written(tmp_path, "bag,label,f,text\na,1,2,b\n"), names)


def test_lists_of_different_lengths_are_refused(tmp_path: Path) -> None:
    for number, lists in enumerate(([[1.0], [1.0, 2.0]], [[1.0], None])):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"bag": ["a", "a"], "features": pa.array(lists, pa.list_(pa.float32()))}), path)
        with pytest.raises(CorruptFile, match=r"the lists have lengths 1, (2|none); all need the same"):
            one(path)


def test_numbers_may_turn_up_late_but_not_words(tmp_path: Path) -> None:
    many = "a,1\n" * 10
    assert one(written(tmp_path, "bag,f\n" + many + "a,2.5\n")).features[-1].tolist() == [2.5]
    late = "bag,f\n" + "a,1\n" * 2_500_000 + "a,x\n"
    with pytest.raises(CorruptFile, match=r"In CSV column #1: Row #2500002: CSV conversion error to double"):
        one(written(tmp_path, gzip.compress(late.encode(), 1), "late.csv.gz"))


def test_compressed_tables_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    whole = write_csv(tmp_path / "whole.csv.gz", rows()).read_bytes()
    path = written(tmp_path, whole[:-20], "cut.csv.gz")
    with pytest.raises(CorruptFile, match=r"cut\.csv\.gz cannot be read"):
        run_import(TableImporter(path), tmp_path / "store")


def test_the_source_is_a_file_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a folder; expected a CSV or a Parquet file"):
        TableImporter(tmp_path)
    with pytest.raises(CorruptFile, match="there is no file"):
        TableImporter(tmp_path / "none.csv")
    with pytest.raises(InvalidInput, match="a delimiter is one character"):
        TableImporter(written(tmp_path, "bag,f\na,1\n"), delimiter="||")


def test_options_are_part_of_the_source(tmp_path: Path) -> None:
    path = written(tmp_path, "bag;f;path\na;1;p.png\n")
    source = TableImporter(path, ColumnNames(features=("f",)), ";", root=tmp_path / "pictures").source
    assert source.options == {"features": ["f"], "delimiter": ";"}
    assert source.root == str(tmp_path / "pictures")
