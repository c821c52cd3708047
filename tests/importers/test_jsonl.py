"""Lines of JSON."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.importers import JsonlImporter, ReadBag, run_import
from admil.store import BagStore

from .sources import read_all


def written(folder: Path, *lines: Any, name: str = "t.jsonl") -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    return folder / name


def one(path: Path) -> ReadBag:
    (bag,) = read_all(JsonlImporter(path)).values()
    return bag


def test_a_bag_per_line_brings_columns_per_instance_and_per_bag(tmp_path: Path) -> None:
    line = {"bag": 17, "label": True, "split": "train", "features": [[1, 2.5], [3, 4]], "truth": [0, 1]}
    extra = {"text": ["one", "two"], "n": [1, None], "author": "ann", "tags": [["x"], "y"], "id": "kept"}
    run_import(JsonlImporter(written(tmp_path, line | extra)), tmp_path / "store")
    store = BagStore.open(tmp_path / "store")
    assert store.ids == ("17",)
    assert store["17"].tolist() == [[1, 2.5], [3, 4]]
    assert (store.known_labels.tolist(), store.splits.tolist()) == ([1], ["train"])
    assert list(store.truth_rows()) == [("17", [False, True])]
    assert store.details("17") == [
        {"text": "one", "n": 1, "author": "ann", "tags": '["x"]', "id": "kept"},
        {"text": "two", "n": None, "author": "ann", "tags": "y", "id": "kept"},
    ]


def test_an_instance_per_line_brings_all_its_other_values(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"bag": "a", "label": 1, "features": [1, 2], "id": 5, "text": "one"},
        {"bag": "a", "label": 1, "features": [3, 4], "id": 6, "instance_label": 1, "score": 1},
        "",
        {"bag": "b", "label": 0, "features": [5, 6], "score": 0.5, "truth": 0},
    )
    with pytest.raises(InvalidInput, match="bag 'a' has instance labels, but row 1 has none"):
        run_import(JsonlImporter(path), tmp_path / "store")
    path.write_text(path.read_text().replace('"id": 5', '"truth": 0, "id": 5'))
    run_import(JsonlImporter(path), tmp_path / "store")
    store = BagStore.open(tmp_path / "store")
    assert store["b"].tolist() == [[5, 6]]
    assert dict(store.truth_rows()) == {"a": [False, True], "b": [False]}
    assert store.details("a") == [{"id": 5, "text": "one", "score": None}, {"id": 6, "text": None, "score": 1.0}]
    assert store.details("b") == [{"id": None, "text": None, "score": 0.5}]


def test_columns_have_one_type_whichever_bag_comes_first(tmp_path: Path) -> None:
    lines = [
        {"bag": "a", "features": [[1]], "n": [None], "mixed": [1], "flag": [True], "known": None, "big": [2**70]},
        {"bag": "b", "features": [[1]], "n": [3], "mixed": ["x"], "flag": None},
    ]
    run_import(JsonlImporter(written(tmp_path, *lines)), tmp_path / "store", part_bytes=1)
    store = BagStore.open(tmp_path / "store")
    assert store.details("a") == [{"n": None, "mixed": "1", "flag": True, "known": None, "big": str(2**70)}]
    assert store.details("b") == [{"n": 3, "mixed": "x", "flag": None, "known": None, "big": None}]


def test_the_file_may_be_gzipped_and_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    text = "\ufeff" + json.dumps({"bag": "ü", "features": [[1]]}, ensure_ascii=False)
    (tmp_path / "t.jsonl").write_bytes(gzip.compress(text.encode()))
    assert JsonlImporter(tmp_path / "t.jsonl").ids() == ["ü"]
    assert one(tmp_path / "t.jsonl").features.tolist() == [[1]]


def test_labels_may_be_words_of_which_one_is_positive(tmp_path: Path) -> None:
    words = zip("abc", ("tumor", " normal ", None), strict=True)
    path = written(tmp_path, *({"bag": bag, "features": [[1]], "label": word} for bag, word in words))
    opened = JsonlImporter(path, positive="tumor")
    assert {bag: read.label for bag, read in read_all(opened).items()} == {"a": 1, "b": 0, "c": None}
    assert opened.source.options == {"positive": "tumor"}
    assert not opened.source.same(JsonlImporter(path).source)
    with pytest.raises(
        InvalidInput, match=r"no label in .* is 'cancer', .*; the labels are: 'tumor', 'normal'; give one"
    ):
        JsonlImporter(path, positive="cancer").ids()


def test_the_bag_may_have_any_of_its_usual_names(tmp_path: Path) -> None:
    assert JsonlImporter(written(tmp_path, {"slide_id": "s", "features": [1], "id": 3})).ids() == ["s"]
    assert JsonlImporter(written(tmp_path, {"image": "i", "features": [[1]], "id": 3})).ids() == ["i"]


GOOD = {"bag": "g", "features": [[1, 2]]}
ROW = {"bag": "g", "features": [1, 2]}
BAD_LINES: dict[str, tuple[list[Any], str]] = {
    "no-json": ([GOOD, "{"], "line 2 is no JSON in UTF-8"),
    "list": ([[1, 2]], "line 1 holds list; each line is an object"),
    "number": ([GOOD, "5"], "line 2 holds int"),
    "deep": ([GOOD, "[" * 100_000], "line 2 is no JSON"),
    "no-features": ([{"bag": "a", "label": 1}], "line 1 needs features"),
    "no-bag": ([GOOD, {"features": [[1, 2]]}], "line 2 needs a bag id 'bag'"),
    "strange-bag": ([GOOD, {"bag": [1], "features": [[1, 2]]}], "line 2 needs a bag id"),
    "true-bag": ([GOOD, {"bag": True, "features": [[1, 2]]}], "line 2 needs a bag id"),
    "twice": ([GOOD, GOOD], "bag 'g' comes more than once"),
    "not-together": ([ROW, ROW | {"bag": "h"}, ROW], "rows of bag 'g' do not stand together.*row 3; sort"),
    "other-kind": ([ROW, GOOD | {"features": [[1], [2]]}], "features of instance 1 are not all numbers"),
    "other-kind-too": ([GOOD, ROW | {"bag": "h"}], "a list of numbers for each instance"),
    "ragged": ([{"bag": "a", "features": [[1, 2], [1]]}], "instance 1 has 1 features, the first has 2"),
    "words": ([{"bag": "a", "features": [[1, "2"]]}], "features of instance 0 are not all numbers"),
    "nothing": ([{"bag": "a", "features": [[1, None]]}], "features of instance 0 are not all numbers"),
    "nan": ([{"bag": "a", "features": [[1, 2], [1, float("nan")]]}], "row 1 has nan in column 1"),
    "huge": ([{"bag": "a", "features": [[10**400]]}], "expected bag 'a' in a line of JSON"),
    "large": ([{"bag": "a", "features": [[1e300]]}], "too large for float32"),
    "empty": ([{"bag": "a", "features": []}], "bag 'a' is empty"),
    "labels": ([ROW | {"label": 1}, ROW | {"label": 0}], "label 1 in line 1 and 0 in line 2; a bag has one label"),
    "label": ([GOOD | {"label": "maybe"}], "bag 'g': expected a label 0 or 1"),
    "truth": ([GOOD | {"truth": [1, 0]}], "line 1 needs 1 instance labels"),
    "column": ([GOOD | {"text": ["a", "b"]}], "'text' has 2 values for 1 instances"),
    "surrogate-id": ([GOOD | {"bag": "\ud800"}], "no valid|surrogates"),
    "surrogate": ([GOOD | {"text": ["\ud800"]}], "surrogates not allowed"),
    "known": ([GOOD | {"x": ["left"]}], "'x' do not fit double"),
    "not-utf8": ([GOOD, "\udcff"], "line 2 is no JSON in UTF-8"),
    "blank": (["", "  "], "it has no lines"),
    "columns": ([GOOD | {f"c{i}": 1 for i in range(1001)}], "more than 1000 names of columns"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_files_that_are_wrong_say_where(name: str, tmp_path: Path) -> None:
    lines, message = BAD_LINES[name]
    path = written(tmp_path, *lines)
    with pytest.raises(AdmilError, match=message):
        run_import(JsonlImporter(path), tmp_path / "store")


def test_files_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    text = "".join(json.dumps(GOOD | {"bag": i}) + "\n" for i in range(500))
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(text.encode())[:-40])
    (tmp_path / "t.jsonl").write_text(text[:-8])
    with pytest.raises(CorruptFile, match=r"t\.jsonl\.gz cannot be read.*(ended before|incomplete)"):
        JsonlImporter(tmp_path / "t.jsonl.gz").ids()
    with pytest.raises(CorruptFile, match=r"line 500 is no JSON"):
        JsonlImporter(tmp_path / "t.jsonl").ids()


def test_the_source_is_a_file_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a folder; expected a file of JSON lines"):
        JsonlImporter(tmp_path)
    with pytest.raises(CorruptFile, match="there is no file"):
        JsonlImporter(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(CorruptFile, match="is empty"):
        JsonlImporter(tmp_path / "empty.jsonl")
