"""Texts: what becomes of lines of JSON, and what their TF-IDF may know."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.features import FeatureCache, TfIdf
from admil.importers import LabelFile, TextImporter, run_import, source
from admil.store import BagStore
from tests.features.making import Counting
from tests.mangling import mangle
from tests.store.making import files_of

from .sources import read_all, write_csv


@dataclass(frozen=True)
class Made:
    """A bag of texts."""

    id: str
    label: int
    split: str
    texts: tuple[str, ...]
    truth: tuple[int, ...]

    def lines(self, **more: Any) -> list[dict[str, Any]]:
        own = {"bag": self.id, "label": self.label, "split": self.split}
        return [
            own | {"text": text, "instance_label": truth, "id": f"{self.id}/{number}"} | more
            for number, (text, truth) in enumerate(zip(self.texts, self.truth, strict=True))
        ]


BAGS = (
    Made("a", 1, "train", ("sun and sand", "rain today", "sun, SUN everywhere"), (1, 0, 1)),
    Made("b", 0, "train", ("rain again and rain",), (0,)),
    Made("c-3", 1, "test", ("sun over hills", "fog", "wind", "fog and wind"), (1, 0, 0, 0)),
    Made("d d", 0, "test", ("Straße — «мир»", ""), (0, 0)),
    Made("é", 1, "train", ('sunny "quoted"\nsand', "sand"), (1, 0)),
)
TRAIN = [bag for bag in BAGS if bag.split == "train"]


def written(folder: Path, *lines: Any, name: str = "posts.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    return folder / name


def all_lines(bags: Sequence[Made] = BAGS, **more: Any) -> list[dict[str, Any]]:
    return [line for bag in bags for line in bag.lines(**more)]


def labels_of(folder: Path, rows: Mapping[str, tuple[Any, Any]]) -> LabelFile:
    table = [{"bag": bag, "label": label, "split": split} for bag, (label, split) in rows.items()]
    return LabelFile(write_csv(folder / "labels.csv", table))


# --- the same bags from every kind of file -------------------------------------------------------


def _together(folder: Path) -> Path:
    return written(folder, *all_lines())


def _scattered(folder: Path) -> Path:
    """Write the first texts of all bags, then the second ones, and so on."""
    by_place = sorted(all_lines(), key=lambda line: int(line["id"].rpartition("/")[2]))
    return written(folder, *by_place)


def _gzipped(folder: Path) -> Path:
    lines = [json.dumps(line, ensure_ascii=False) for line in all_lines()]
    path = folder / "posts.jsonl.gz"
    path.write_bytes(gzip.compress(("\ufeff" + "\r\n\r\n".join(lines)).encode()))
    return path


@dataclass(frozen=True)
class Kind:
    name: str
    write: Callable[[Path], Path]
    encoder: Callable[[], Counting | None] = lambda: None

    def open(self, path: Path) -> TextImporter:
        return TextImporter(path, self.encoder(), width=4)


KINDS = (
    Kind("together", _together),
    Kind("scattered", _scattered),
    Kind("gzipped", _gzipped),
    Kind("encoder", _scattered, Counting),
)

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@each_kind
def test_all_bags_arrive_with_their_labels_splits_and_truth(kind: Kind, tmp_path: Path) -> None:
    report = run_import(kind.open(kind.write(tmp_path)), tmp_path / "store")

    assert (report.added, report.instances, report.present, report.skipped, report.left_out) == (5, 12, 0, 0, ())
    store = BagStore.open(tmp_path / "store")
    assert store.verify() == ()
    assert store.header.sources[0].complete
    assert store.header.sources[0].kind == "text"
    encoder = kind.encoder() or TfIdf.from_json(store.header.features or {})
    seen = {} if kind.name == "encoder" else {"labels_seen": True}
    assert store.header.features == {**encoder.identity, **seen}
    for bag in BAGS:
        number = store.index.number(bag.id)
        assert store[bag.id].tolist() == encoder.encode(bag.texts).tolist()
        assert (store.known_labels[number], store.splits[number]) == (bag.label, bag.split)
        expected = [{"text": text, "id": f"{bag.id}/{place}"} for place, text in enumerate(bag.texts)]
        assert store.details(bag.id) == expected
    assert {bag: tuple(map(int, values)) for bag, values in store.truth_rows()} == {bag.id: bag.truth for bag in BAGS}


@each_kind
def test_ids_name_the_bags_in_the_order_of_their_first_lines(kind: Kind, tmp_path: Path) -> None:
    opened = kind.open(kind.write(tmp_path))
    assert opened.ids() == [bag.id for bag in BAGS]
    for _ in range(2):
        assert [bag.id for bag in opened.bags()] == opened.ids(), "bags can be asked for twice"


@each_kind
def test_the_same_import_again_changes_no_file(kind: Kind, tmp_path: Path) -> None:
    path = kind.write(tmp_path)
    run_import(kind.open(path), tmp_path / "store")
    before = files_of(tmp_path / "store")

    report = run_import(kind.open(path), tmp_path / "store")

    assert (report.added, report.present) == (0, 5)
    assert files_of(tmp_path / "store") == before


@each_kind
def test_a_stopped_import_goes_on_to_the_store_of_one_that_was_not(kind: Kind, tmp_path: Path) -> None:
    path = kind.write(tmp_path)
    run_import(kind.open(path), tmp_path / "whole", part_bytes=200)

    for bag in (4, 3, 1):
        with pytest.raises(KeyboardInterrupt):
            run_import(kind.open(path), tmp_path / "store", part_bytes=200, on_bag=stop_at(bag))
    report = run_import(kind.open(path), tmp_path / "store", part_bytes=200)

    assert 0 < report.present < 5, "some parts were finished"
    assert files_of(tmp_path / "store") == files_of(tmp_path / "whole")


@each_kind
def test_bags_that_are_passed_over_do_not_shift_the_others(kind: Kind, tmp_path: Path) -> None:
    some = [BAGS[1], BAGS[3], BAGS[4]]
    labels = labels_of(tmp_path, {bag.id: (bag.label, bag.split) for bag in some})

    report = run_import(kind.open(kind.write(tmp_path)), tmp_path / "store", labels=labels, missing="skip")

    assert (report.added, report.skipped) == (3, 2)
    store = BagStore.open(tmp_path / "store")
    encoder = kind.encoder() or TfIdf.from_json(store.header.features or {})
    for bag in some:
        assert store[bag.id].tolist() == encoder.encode(bag.texts).tolist()


@each_kind
def test_files_of_one_name_in_two_places_are_two_sources(kind: Kind, tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here, there = (kind.open(kind.write(tmp_path / name)).source for name in ("here", "there"))
    assert not here.same(there)
    assert here.same(kind.open(Path(here.place or "")).source)
    assert here.root is None


def stop_at(bag: int) -> Callable[[int, int], None]:
    def on_bag(seen: int, of: int) -> None:
        assert of == len(BAGS)
        if seen == bag:
            raise KeyboardInterrupt

    return on_bag


# --- lines ---------------------------------------------------------------------------------------


def test_other_values_become_columns_and_ids_may_be_numbers(tmp_path: Path) -> None:
    lines = [
        {"bag": 17, "text": "sun", "id": 5, "author": {"x": [1]}, "likes": 3, "index": 9, "path": "a.txt"},
        {"bag": " 17 ", "text": "rain", "topic": "weather", "id": ["a"], "likes": None},
        {"text": "wind", "bag": "18", "likes": 2, "topic": None},
    ]
    run_import(TextImporter(written(tmp_path, *lines), Counting()), tmp_path / "store")
    store = BagStore.open(tmp_path / "store")
    assert store.ids == ("17", "18")
    none = dict.fromkeys(("id", "author", "likes", "path", "topic"))
    assert store.details("17") == [
        none | {"text": "sun", "id": "5", "author": '{"x": [1]}', "likes": 3, "path": "a.txt"},
        none | {"text": "rain", "id": "['a']", "topic": "weather"},
    ]
    assert store.details("18") == [none | {"text": "wind", "likes": 2}]
    assert store.root_of("17") == tmp_path
    assert (store.known_labels.tolist(), store.splits.tolist()) == ([-1, -1], [None, None])
    assert list(store.truth_rows()) == []


def test_the_bag_and_the_text_may_be_called_otherwise(tmp_path: Path) -> None:
    lines = [
        {"thread": "a", "body": "sun", "text": "not read", "bag": "nor this", "label": 1},
        {"thread": "a", "body": "rain", "label": 1},
        {"thread": "b", "body": "wind", "label": 0},
    ]
    opened = TextImporter(written(tmp_path, *lines), width=3, bag_key="thread", text_key="body")
    assert opened.source.options == {"bag_key": "thread", "text_key": "body"}
    run_import(opened, tmp_path / "store")
    store = BagStore.open(tmp_path / "store")
    assert store.details("a") == [{"text": "sun"}, {"text": "rain"}]
    assert store.header.features is not None
    assert store.header.features["fitted"]["terms"] == ["rain", "sun", "wind"]
    with pytest.raises(CorruptFile, match="line 1 needs a bag id 'topic', a text"):
        TextImporter(opened.path, bag_key="topic").ids()
    with pytest.raises(CorruptFile, match="line 2, bag 'a', has no proper 'text': got NoneType"):
        TextImporter(opened.path, bag_key="thread").ids()


def test_labels_may_be_words_of_which_one_is_positive(tmp_path: Path) -> None:
    lines = [{"bag": bag, "text": "x", "label": word} for bag, word in zip("abc", ("spam", "ham", None), strict=True)]
    path = written(tmp_path, *lines)
    opened = TextImporter(path, Counting(), positive="spam")
    assert {bag: read.label for bag, read in read_all(opened).items()} == {"a": 1, "b": 0, "c": None}
    assert opened.source.options == {"positive": "spam"}
    with pytest.raises(InvalidInput, match=r"no label in .* is 'Spam', the word for positive; the labels are: 'spam'"):
        TextImporter(path, Counting(), positive="Spam").ids()


def test_without_ids_there_is_no_column_of_them(tmp_path: Path) -> None:
    (bag,) = read_all(TextImporter(written(tmp_path, {"bag": "a", "text": "x", "id": None}), Counting())).values()
    assert bag.instances == {"text": ["x"]}


@pytest.mark.parametrize(
    ("label", "expected"), [(True, 1), ("positive", 1), (-1, 0), ("", None), (None, None), (1.0, 1)]
)
def test_labels_are_spelled_in_many_ways(label: object, expected: int | None, tmp_path: Path) -> None:
    line = {"bag": "a", "text": "x", "label": label, "split": " train ", "instance_label": label}
    (bag,) = read_all(TextImporter(written(tmp_path, line), Counting())).values()
    assert (bag.label, bag.split) == (expected, "train")
    assert (None if bag.truth is None else bag.truth.tolist()) == (None if expected is None else [bool(expected)])


GOOD = {"bag": "g", "text": "sun"}
BAD_LINES: dict[str, tuple[list[Any], str]] = {
    "no-json": ([GOOD, "{"], r"posts\.jsonl cannot be read: expected lines of JSON .*line 2 is no JSON in UTF-8"),
    "list": ([[1, 2]], r"line 1 holds list; each line is an object"),
    "deep": ([GOOD, "[" * 100_000], "line 2 is no JSON"),
    "no-bag": ([GOOD, {"text": "x"}], "line 2 needs a bag id 'bag', a text or a whole number"),
    "list-bag": ([GOOD, {"bag": [1], "text": "x"}], "line 2 needs a bag id"),
    "true-bag": ([GOOD, {"bag": True, "text": "x"}], "line 2 needs a bag id"),
    "float-bag": ([GOOD, {"bag": 1.5, "text": "x"}], "line 2 needs a bag id"),
    "blank-bag": ([GOOD, {"bag": " ", "text": "x"}], "line 2 needs a bag id"),
    "half-bag": ([GOOD, {"bag": "\ud83d", "text": "x"}], "line 2 needs a bag id"),
    "no-text": ([GOOD, {"bag": "a"}], "line 2, bag 'a', has no proper 'text': got NoneType"),
    "number": ([GOOD, {"bag": "a", "text": 5}], "line 2, bag 'a', has no proper 'text': got int"),
    "half-text": (
        [GOOD, {"bag": "a", "text": "half \ud83d"}],
        r"line 2, bag 'a', has no proper 'text': it holds half a character \(a lone surrogate\)",
    ),
    "half-id": ([GOOD | {"id": "\ud83d"}], r"in bag 'g' \('id' holds half a character"),
    "half-split": ([GOOD | {"split": "\ud83d"}], "bag 'g': its id or split is no valid Unicode text"),
    "label": ([GOOD, GOOD | {"label": "maybe"}], r"posts\.jsonl, line 2: expected a label 0 or 1 .*, got 'maybe'"),
    "label-list": ([GOOD | {"label": [1]}], r"line 1: expected a label 0 or 1 .*, got \[1\]"),
    "zero-and-minus": ([GOOD | {"label": 0}, GOOD | {"bag": 2, "label": -1}], "line 2: labels mix 0 and -1"),
    "labels": (
        [GOOD | {"label": 1}, GOOD | {"bag": "h"}, GOOD | {"label": 0}],
        "bag 'g' has label 1 and split None in line 1, 0 and None in line 3; all lines of a bag say the same: call",
    ),
    "splits": (
        [GOOD | {"split": "a"}, GOOD | {"split": "b"}],
        "label None and split a in line 1, None and b in line 2",
    ),
    "some-labels": ([GOOD | {"label": 1}, GOOD], "label 1 and split None in line 1, None and None in line 2"),
    "truth": ([GOOD, GOOD | {"instance_label": 3}], "bag 'g', instance 1: expected a label 0 or 1"),
    "some-truth": (
        [GOOD | {"instance_label": 0}, GOOD, GOOD],
        "2 of the 3 texts of bag 'g' have no instance label; label all of a bag or none",
    ),
    "lying": (
        [GOOD | {"label": 0, "instance_label": 1}],
        "bag 'g' is labelled negative but an instance of it is positive",
    ),
    "not-utf8": ([GOOD, "\udcff"], "line 2 is no JSON in UTF-8"),
    "blank": (["", "  "], r"posts\.jsonl has no lines; expected lines of JSON with a bag and a text each"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_files_that_are_wrong_say_where(name: str, tmp_path: Path) -> None:
    lines, message = BAD_LINES[name]
    with pytest.raises(AdmilError, match=message):
        run_import(TextImporter(written(tmp_path, *lines), Counting()), tmp_path / "store")
    assert not (tmp_path / "store" / "store.json").exists()


def test_texts_that_are_none_are_left_out_with_their_reasons_and_counted(tmp_path: Path) -> None:
    lines = [
        *BAGS[0].lines(),
        {"bag": "a", "label": 1, "split": "train", "instance_label": 1},
        {"bag": "b", "text": "half \ud83d"},
        *BAGS[2].lines(),
        {"bag": "c-3", "label": 1, "split": "test", "text": [1], "id": "lost"},
    ]
    path = written(tmp_path, *lines)
    report = run_import(TextImporter(path, Counting(), skip_errors=True), tmp_path / "store", skip_errors=True)
    assert (report.added, report.instances) == (2, 7)
    assert report.left_out == (
        f"{path}: line 4, bag 'a', has no proper 'text': got NoneType",
        f"bag 'b' has no instance left; the first: {path}: line 5, bag 'b', has no proper 'text': "
        "it holds half a character (a lone surrogate)",
        f"{path}: line 10, bag 'c-3', has no proper 'text': got list",
    )
    store = BagStore.open(tmp_path / "store")
    assert dict(store.truth_rows()) == {"a": [True, False, True], "c-3": [True, False, False, False]}
    with pytest.raises(InvalidInput, match="bag 'b' has no instance left"):
        run_import(TextImporter(path, Counting(), skip_errors=True), tmp_path / "other")


@pytest.mark.parametrize("name", ["no-json", "no-bag", "not-utf8", "labels"])
def test_a_damaged_file_ends_the_import_whatever_is_skipped(name: str, tmp_path: Path) -> None:
    lines, message = BAD_LINES[name]
    with pytest.raises(AdmilError, match=message):
        TextImporter(written(tmp_path, *lines), Counting(), skip_errors=True).ids()


def test_files_that_are_cut_off_or_no_gzip_are_refused(tmp_path: Path) -> None:
    data = _gzipped(tmp_path).read_bytes()
    for content in (data[:-20], data[:12], b"\x1f\x8b" + b"junk" * 9):
        (tmp_path / "torn.jsonl.gz").write_bytes(content)
        with pytest.raises(CorruptFile, match=r"torn\.jsonl\.gz cannot be read: expected lines of JSON"):
            TextImporter(tmp_path / "torn.jsonl.gz", Counting()).ids()
    text = _together(tmp_path).read_bytes()
    (tmp_path / "torn.jsonl").write_bytes(text[:-9])
    with pytest.raises(CorruptFile, match="line 12 is no JSON"):
        TextImporter(tmp_path / "torn.jsonl", Counting()).ids()


def test_a_gzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_BOMB_BYTES", 2**20)  # a gigabyte would take seconds
    for name, letter in (("one-line", b" "), ("lines", b"\n")):
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(letter * 2**23))
        with pytest.raises(CorruptFile, match=rf"{name}\.jsonl\.gz cannot be read: .*looks like a decompression bomb"):
            TextImporter(tmp_path / f"{name}.jsonl.gz", Counting()).ids()


def test_a_file_that_changed_under_the_import_is_refused(tmp_path: Path) -> None:
    path = _together(tmp_path)
    opened = TextImporter(path, Counting())
    opened.ids()
    written(tmp_path, *(["{}"] * 500))
    with pytest.raises(CorruptFile, match=r"posts\.jsonl cannot be read: expected lines of JSON"):
        read_all(opened)


def test_the_source_is_a_file_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a folder; expected lines of JSON with a bag and a text each"):
        TextImporter(tmp_path)
    with pytest.raises(CorruptFile, match=r"there is no file .*gone\.jsonl"):
        TextImporter(tmp_path / "gone.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(CorruptFile, match=r"empty\.jsonl is empty"):
        TextImporter(tmp_path / "empty.jsonl")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocabulary": "some"}, "vocabulary is bags or all, got 'some'"),
        ({"encoder": Counting(), "fitted": {}}, "give an encoder or a fitted TF-IDF, not both"),
        ({"fitted": {"encoder": "minilm"}}, "expected a fitted TF-IDF, got features of 'minilm'"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(AdmilError, match=message):
        TextImporter(_together(tmp_path), **options)


# --- TF-IDF --------------------------------------------------------------------------------------


def fitted(path: Path, **options: Any) -> TfIdf:
    return TfIdf.from_json(TextImporter(path, **options).features)


def test_a_tfidf_is_fitted_to_the_texts_of_training_bags_by_contrast(tmp_path: Path) -> None:
    texts = [text for bag in TRAIN for text in bag.texts]
    inside = [bool(bag.label) for bag in TRAIN for _ in bag.texts]
    expected = TfIdf.fit(texts, 3, inside, without=ENGLISH_STOP_WORDS)
    assert fitted(_together(tmp_path), width=3).to_json() == expected.to_json()
    assert expected.terms == ("sand", "sun", "today")


def test_the_features_are_those_of_scikit_learn(tmp_path: Path) -> None:
    run_import(TextImporter(_scattered(tmp_path), width=99, vocabulary="all"), tmp_path / "store")
    store = BagStore.open(tmp_path / "store")
    reference = TfidfVectorizer(stop_words="english").fit([text for bag in TRAIN for text in bag.texts])
    assert store.header.features is not None
    assert store.header.features["fitted"]["terms"] == reference.get_feature_names_out().tolist()
    for bag in BAGS:
        np.testing.assert_allclose(store[bag.id].numpy(), reference.transform(bag.texts).toarray(), atol=1e-6)


def test_the_store_says_whether_labels_chose_the_terms(tmp_path: Path) -> None:
    path = _together(tmp_path)
    features = TextImporter(path, width=3).features
    assert features["labels_seen"] is True
    assert TextImporter(path, fitted=features).features == features, "for new bags too, as they fit one store"
    assert "labels_seen" not in TextImporter(path, width=3, vocabulary="all").features
    assert "labels_seen" not in TextImporter(path, Counting()).features


def test_importers_are_there_before_scikit_learn_is(tmp_path: Path) -> None:
    code = "import sys, admil.importers; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_stop_words_can_be_terms(tmp_path: Path) -> None:
    path = _together(tmp_path)
    assert "and" not in fitted(path, width=99).terms
    assert "and" in fitted(path, width=99, stop_words=True).terms
    assert fitted(path, width=3, vocabulary="all", stop_words=True).terms == ("rain", "sand", "sun")


@pytest.mark.parametrize("vocabulary", ["bags", "all"])
def test_nothing_of_test_bags_is_known(vocabulary: Any, tmp_path: Path) -> None:
    before = TextImporter(_together(tmp_path / "one"), vocabulary=vocabulary, width=5)
    changed = [line | ({"text": "sun sand zebra"} if line["split"] == "test" else {}) for line in all_lines()]
    changed += [{"bag": "new", "split": "validation", "label": 1, "text": "sun sun zebra"}]
    after = TextImporter(written(tmp_path / "two", *changed), vocabulary=vocabulary, width=5)
    assert after.features == before.features, "no term and no idf"
    run_import(before, tmp_path / "before")
    run_import(after, tmp_path / "after")
    one, two = BagStore.open(tmp_path / "before"), BagStore.open(tmp_path / "after")
    for bag in TRAIN:
        assert one[bag.id].tolist() == two[bag.id].tolist()
    trained = [line | ({"text": "zebra zebra"} if line["bag"] == "a" else {}) for line in all_lines()]
    other = TextImporter(written(tmp_path / "three", *trained), vocabulary=vocabulary, width=5)
    assert other.features != before.features


def test_bags_without_a_split_are_training_bags_where_none_has_one(tmp_path: Path) -> None:
    lines = [{key: value for key, value in line.items() if key != "split"} for line in all_lines(TRAIN)]
    unlabelled = {"bag": "new", "text": "zebra"}
    path = written(tmp_path, *lines, unlabelled)
    assert fitted(path, width=3).to_json() == fitted(_together(tmp_path / "all"), width=3).to_json()
    assert "zebra" not in fitted(path, width=99, vocabulary="all").terms, "it is not known to be for training"


def test_training_bags_without_a_label_count_where_labels_do_not(tmp_path: Path) -> None:
    lines = [{key: value for key, value in line.items() if key != "label"} for line in all_lines()]
    path = written(tmp_path, *lines)
    assert (
        fitted(path, width=99, vocabulary="all").to_json()
        == fitted(_together(tmp_path / "labelled"), width=99, vocabulary="all").to_json()
    )


def test_the_label_file_goes_before_the_file_and_what_it_does_not_name_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, *all_lines(instance_label=None))
    labels = labels_of(tmp_path, {"a": ("", "test"), "b": (1, ""), "c-3": (0, "train"), "é": ("", "")})
    opened = TextImporter(path, labels=labels, width=99)
    chosen = [BAGS[1], BAGS[2], BAGS[4]]
    inside = [bag.id != "c-3" for bag in chosen for _ in bag.texts]
    terms = TfIdf.fit([text for bag in chosen for text in bag.texts], 99, inside).terms
    assert set(opened.features["fitted"]["terms"]) == set(terms) - {"and", "again", "over"}
    report = run_import(opened, tmp_path / "store", labels=labels, missing="skip")
    assert (report.added, report.skipped) == (4, 1)
    assert BagStore.open(tmp_path / "store").known_labels.tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize("vocabulary", ["bags", "all"])
def test_new_bags_get_the_columns_of_the_store_that_was_trained_on(vocabulary: Any, tmp_path: Path) -> None:
    run_import(TextImporter(_together(tmp_path), width=3, vocabulary=vocabulary), tmp_path / "store")
    features = BagStore.open(tmp_path / "store").header.features
    assert features is not None
    new = written(
        tmp_path, {"bag": "new", "text": "zebra sun"}, {"bag": "new", "text": "Sun sun rain"}, name="new.jsonl"
    )

    for folder in ("store", "another"):
        run_import(TextImporter(new, fitted=features), tmp_path / folder)
        store = BagStore.open(tmp_path / folder)
        assert store.header.features == features
        assert store["new"].tolist() == TfIdf.from_json(features).encode(["zebra sun", "Sun sun rain"]).tolist()
    assert len(BagStore.open(tmp_path / "store")) == 6
    message = "positive and negative training bags" if vocabulary == "bags" else "training bags"
    with pytest.raises(InvalidInput, match=f"a TF-IDF is fitted to {message}; there are 0, 0 of them positive; give"):
        run_import(TextImporter(new, vocabulary=vocabulary), tmp_path / "third")


def test_a_store_of_other_terms_takes_no_more(tmp_path: Path) -> None:
    run_import(TextImporter(_together(tmp_path), width=3), tmp_path / "store")
    with pytest.raises(
        InvalidInput,
        match=r"made otherwise than these: encoder tfidf, width 3, labels_seen True, against encoder tfidf, width 2",
    ):
        run_import(TextImporter(_together(tmp_path), width=2), tmp_path / "store")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 1, "instance_label": None}, "positive and negative training bags; there are 3, 3 of them positive"),
        ({"label": 0, "instance_label": None}, "positive and negative training bags; there are 3, 0 of them positive"),
        (
            {"label": None, "instance_label": None},
            "positive and negative training bags; there are 0, 0 of them positive",
        ),
        ({"split": "test"}, "there are 0, 0 of them positive; give labels, an encoder, or the features of the store"),
        ({"text": "a b c"}, "the 6 texts hold no term to fit"),
    ],
)
def test_a_tfidf_needs_training_bags_of_both_kinds(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        run_import(TextImporter(written(tmp_path, *all_lines(**change))), tmp_path / "store")


# --- encoders, caches, memory --------------------------------------------------------------------


def test_an_encoder_is_used_with_its_cache(tmp_path: Path) -> None:
    path, encoder = _together(tmp_path), Counting()
    for name in ("one", "two"):
        run_import(TextImporter(path, encoder, FeatureCache(tmp_path / "cache")), tmp_path / name)
        assert sum(encoder.given) == 12
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


class Undefined(Counting):
    def vector(self, content: Any) -> Any:
        return super().vector(content) * (np.nan if content == "fog" else 1)


def test_features_that_are_no_numbers_are_refused_by_row_and_column(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="features must be finite: bag 'c-3', row 1 has nan in column 0"):
        run_import(TextImporter(_together(tmp_path), Undefined()), tmp_path / "store")


def test_places_are_kept_and_not_texts(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    vocabulary = np.array([f"word{number}" for number in range(500)])
    words = [" ".join(generator.choice(vocabulary, 700)) for _ in range(10)]
    lines = (json.dumps({"bag": bag, "label": bag % 2, "text": f"{text} {bag}"}) for text in words for bag in range(60))
    path = written(tmp_path, *lines)
    assert path.stat().st_size > 3_000_000

    tracemalloc.start()
    opened = TextImporter(path, width=10)
    assert len(opened.ids()) == 60
    _, indexing = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    assert len(opened.features["fitted"]["terms"]) == 10
    _, fitting = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    for bag in opened.bags():
        assert bag.read().features.shape == (10, 10)
    _, reading = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert max(indexing, fitting, reading) < 500_000, (indexing, fitting, reading)


# --- mangled files -------------------------------------------------------------------------------


VALUES: tuple[Any, ...] = (
    None,
    "",
    " ",
    "a",
    0,
    -1,
    1.5,
    True,
    10**30,
    [],
    {"a": 1},
    "\ud83d",
    "train",
    "é",
    "1",
    "\0",
    "x" * 5_000,
)


def mangled_bytes(lines: Sequence[dict[str, Any]], generator: np.random.Generator) -> bytes:
    plain = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode()
    others = [plain, gzip.compress(plain), b'"text": null', b"\\ud83d", b'"label": -1', b"\n\n", b"1e999"]
    return mangle(others[generator.integers(0, 2)], others, generator)


def mangled_values(lines: Sequence[dict[str, Any]], generator: np.random.Generator) -> bytes:
    changed = [dict(line) for line in lines]
    for _ in range(generator.integers(1, 4)):
        line = changed[generator.integers(0, len(changed))]
        line[str(generator.choice(list(line)))] = VALUES[generator.integers(0, len(VALUES))]
    return "\n".join(map(json.dumps, changed)).encode()


@pytest.mark.parametrize("mangled", [mangled_bytes, mangled_values])
def test_mangled_files_end_in_an_error_of_ours_or_a_sound_store(mangled: Callable[..., bytes], tmp_path: Path) -> None:
    lines = [*all_lines(BAGS[:2]), *all_lines(BAGS[3:4])]
    ends = []
    for case in range(250):
        path = tmp_path / "posts.jsonl"
        path.write_bytes(mangled(lines, np.random.default_rng([32, case])))
        store, skip_errors = tmp_path / f"store {case}", bool(case % 2)
        encoder = Counting() if case % 3 else None
        try:
            opened = TextImporter(path, encoder, width=3, skip_errors=skip_errors)
            run_import(opened, store, skip_errors=skip_errors)
        except AdmilError:
            ends.append(False)
        else:
            ends.append(True)
        assert (store / "store.json").exists() or not ends[-1]
        assert not (store / "store.json").exists() or BagStore.open(store).verify() == ()
    assert 0 < sum(ends) < 250
    assert mangled is mangled_bytes or sum(ends) > 50


# --- real posts ----------------------------------------------------------------------------------


@pytest.mark.skipif("ADMIL_SHARED" not in os.environ, reason="ADMIL_SHARED is not set: no development data")
def test_real_posts_get_the_weights_of_scikit_learn(tmp_path: Path) -> None:
    lines = []
    with gzip.open(Path(os.environ["ADMIL_SHARED"]) / "data" / "20news.jsonl.gz", "rt", encoding="utf-8") as file:
        for number, line in zip(range(1_000), file, strict=False):
            post = json.loads(line)
            split = "train" if number < 800 else "test"
            lines.append({"bag": number // 10, "label": number // 10 % 2, "split": split, "text": post["text"]})
    run_import(TextImporter(written(tmp_path, *lines), vocabulary="all"), tmp_path / "store")
    store = BagStore.open(tmp_path / "store")
    assert (len(store), store.width, store.index.n_instances) == (100, 200, 1_000)
    assert store.header.features is not None
    reference = TfidfVectorizer(vocabulary=store.header.features["fitted"]["terms"])
    reference.fit([line["text"] for line in lines[:800]])
    for bag in (0, 57, 99):
        texts = [line["text"] for line in lines[10 * bag : 10 * bag + 10]]
        np.testing.assert_allclose(store[str(bag)].numpy(), reference.transform(texts).toarray(), atol=1e-6)
