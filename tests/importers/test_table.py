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
from admil.store import BagStore, StoreWriter

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


@pytest.mark.parametrize("name", ["id", "ID", "patient_id", "Patient Id", "patientId", "tile-id"])
def test_ids_are_no_features_and_keep_their_digits(name: str, tmp_path: Path) -> None:
    read = one(written(tmp_path, f"bag,{name},f\na,07,1\na,12345678901234567,2\n"))
    assert read.features.tolist() == [[1], [2]]
    assert as_lists(read.instances) == {name: ["07", "12345678901234567"]}


@pytest.mark.parametrize("name", ["x", "Y", "z", "left", "right", "begin", "end"])
def test_places_are_no_features(name: str, tmp_path: Path) -> None:
    read = one(written(tmp_path, f"bag,{name},f\na,7,1\na,8,2\n"))
    assert read.features.tolist() == [[1], [2]]
    assert as_lists(read.instances) == {name: [7, 8]}


@pytest.mark.parametrize("name", ["patient_id", "x"])
def test_ids_and_places_are_features_where_they_are_named(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"bag,{name},f\na,7,1\na,8,2\n")
    assert one(path, columns=ColumnNames(features=(name,))).features.tolist() == [[7], [8]]


@pytest.mark.parametrize("name", ["valid", "area", "xs", "idle", "acid"])
def test_other_numbers_are_features(name: str, tmp_path: Path) -> None:
    assert one(written(tmp_path, f"bag,{name},f\na,7,1\n")).features.tolist() == [[7, 1]]


@pytest.mark.parametrize("bag", ["bag_id", "bag_name", "slide_id", "slide"])
def test_usual_names_of_the_bag_are_known(bag: str, tmp_path: Path) -> None:
    assert TableImporter(written(tmp_path, f"{bag},f,slide_label\ns,1,1\n")).ids() == ["s"]


def test_the_only_column_of_lists_is_the_features_whatever_it_is_called(tmp_path: Path) -> None:
    lists = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32()))
    columns: dict[str, Any] = {"bag": ["a", "a"], "embedding": lists, "area": [5.0, 6.0], "tags": [["u"], ["v"]]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    read = one(tmp_path / "t.parquet")
    assert read.features.tolist() == [[1, 2], [3, 4]]
    assert as_lists(read.instances) == {"area": [5, 6], "tags": [["u"], ["v"]]}
    assert TableImporter(tmp_path / "t.parquet").features == {"columns": ["embedding"]}

    pq.write_table(pa.table({**columns, "corners": lists}), tmp_path / "two.parquet")
    with pytest.raises(InvalidInput, match=r"has 2 columns of lists: 'embedding', 'corners'; name the one with the"):
        TableImporter(tmp_path / "two.parquet")
    names = ColumnNames(features=("corners",))
    assert one(tmp_path / "two.parquet", columns=names).features.tolist() == [[1, 2], [3, 4]]
    pq.write_table(pa.table({**columns, "features": lists}), tmp_path / "named.parquet")
    assert TableImporter(tmp_path / "named.parquet").features is None, "that name says nothing"


def stored(folder: Path, text: str, name: str, store: str = "store", **options: Any) -> BagStore:
    run_import(TableImporter(written(folder, text, name), **options), folder / store)
    return BagStore.open(folder / store)


def test_the_names_of_the_features_become_part_of_the_store(tmp_path: Path) -> None:
    store = stored(tmp_path, "bag,f,x,g\na,1,5,2\n", "one.csv")
    assert store.header.features == {"columns": ["f", "g"]}


def test_a_table_with_the_same_features_in_another_order_is_put_into_the_stores(tmp_path: Path) -> None:
    stored(tmp_path, "bag,f,g,text\na,1,2,u\n", "one.csv")
    store = stored(tmp_path, "g,text,bag,f\n20,v,b,10\n", "two.csv")
    assert store["b"].tolist() == [[10, 20]]
    assert store.details("b") == [{"text": "v"}]
    assert store.header.features == {"columns": ["f", "g"]}


def test_a_new_store_may_bring_the_features_of_another_in_its_order(tmp_path: Path) -> None:
    like = stored(tmp_path, "bag,f,g\na,1,2\n", "one.csv").header.features
    path = written(tmp_path, "bag,h,g,f\nc,0,4,3\n", "two.csv")
    opened = TableImporter(path, ColumnNames(features=("f", "g"))).following(like, tmp_path / "store")
    run_import(opened, tmp_path / "new")
    store = BagStore.open(tmp_path / "new")
    assert (store["c"].tolist(), store.details("c"), store.header.features) == ([[3, 4]], [{"h": 0}], like)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bag,f\nb,1\n", "lacks 1 column that the features of .*store have: 'g'; add"),
        ("bag,f,G\nb,1,2\n", "lacks 1 column that .* have: 'g'"),
        ("bag,f,g\nb,1,word\n", "lacks 1 column that .* have: 'g'"),
        ("bag,f,g,h,i\nb,1,2,3,4\n", "has 2 columns that the features of .*store do not have: 'h', 'i'; remove"),
    ],
)
def test_a_table_with_other_features_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    before = stored(tmp_path, "bag,f,g\na,1,2\n", "one.csv").header
    with pytest.raises(InvalidInput, match=message):
        stored(tmp_path, text, "two.csv")
    assert BagStore.open(tmp_path / "store").header == before


def test_features_that_were_named_are_found_again(tmp_path: Path) -> None:
    stored(tmp_path, "bag,f,x\na,1,2\n", "one.csv", columns=ColumnNames(features=("f", "x")))
    store = stored(tmp_path, "bag,x,f\nb,20,10\n", "two.csv")
    assert store["b"].tolist() == [[10, 20]]


def test_a_store_that_does_not_name_its_features_goes_on_not_naming_them(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store") as writer:
        writer.add("a", np.ones((1, 2), np.float32))
    store = stored(tmp_path, "bag,f,g\nb,1,2\n", "one.csv")
    assert store.header.features is None
    assert store["b"].tolist() == [[1, 2]]


def test_a_table_does_not_go_into_a_store_whose_features_an_encoder_made(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store", features={"encoder": "uni"}) as writer:
        writer.add("a", np.ones((1, 2), np.float32))
    with pytest.raises(
        InvalidInput, match=r"the features of .*store were made by uni, those of .*one\.csv are columns; import"
    ):
        stored(tmp_path, "bag,f,g\nb,1,2\n", "one.csv")


def test_wide_tables_are_read_a_batch_at_a_time(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(90, 300)).astype(np.float32)
    columns: dict[str, Any] = {f"f{i}": values[:, i] for i in range(300)}
    missing = pa.array([None if i == 40 else 1 for i in range(90)], pa.int32())
    table = pa.table({"bag": [f"b{i // 7}" for i in range(90)], **columns, "note": ["n"] * 90, "last": missing})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=20)
    bags = read_all(TableImporter(tmp_path / "t.parquet"))
    rows = np.concatenate([bag.features for bag in bags.values()])
    assert (rows.shape, str(rows.dtype)) == ((90, 301), "float64")
    np.testing.assert_array_equal(rows[:, :300], values)
    assert np.flatnonzero(np.isnan(rows[:, 300])).tolist() == [40]
    assert [len(bag.features) for bag in bags.values()] == [7] * 12 + [6]
    assert as_lists(bags["b12"].instances) == {"note": ["n"] * 6}


def test_labels_may_be_words_of_which_one_is_positive(tmp_path: Path) -> None:
    path = written(tmp_path, "bag,label,f\na,tumor,1\na,tumor,2\nb, normal,3\nc,,4\n")
    opened = TableImporter(path, positive="tumor")
    assert {bag: read.label for bag, read in read_all(opened).items()} == {"a": 1, "b": 0, "c": None}
    assert opened.source.options == {"positive": "tumor"}
    with pytest.raises(
        InvalidInput, match=r"column 'label' of .*t\.csv is 'Tumor', .* are: 'tumor', 'normal'; give one"
    ):
        TableImporter(path, positive="Tumor").ids()
    pq.write_table(pa.table({"bag": ["a", "b"], "label": [3, 1], "f": [1.0, 2.0]}), tmp_path / "t.parquet")
    numbers = read_all(TableImporter(tmp_path / "t.parquet", positive="3"))
    assert [bag.label for bag in numbers.values()] == [1, 0]
    with pytest.raises(InvalidInput, match="has no column of labels in which 'tumor' could be positive; name it"):
        TableImporter(written(tmp_path, "bag,f\na,1\n"), positive="tumor")


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


@pytest.mark.parametrize("column", ["split", "text", "bag"])
def test_a_text_that_is_none_in_a_parquet_file_is_told(column: str, tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"a\xff")]
    )
    columns = {"bag": pa.array(["a"]), "split": pa.array(["train"]), "text": pa.array(["word"]), "f1": pa.array([0.5])}
    pq.write_table(pa.table({**columns, column: broken}), tmp_path / "t.parquet")
    with pytest.raises(CorruptFile, match=r"t\.parquet cannot be read: expected .*UTF"):
        run_import(TableImporter(tmp_path / "t.parquet"), tmp_path / "store")
    assert not (tmp_path / "store").exists()
