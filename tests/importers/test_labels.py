"""How labels are spelled, and the label file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.importers import LabelFile, LabelReader, as_label


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("0", 0),
        ("1", 1),
        (" +1 ", 1),
        ("-1", 0),
        ("1.0", 1),
        ("Positive", 1),
        ("negative", 0),
        ("TRUE", 1),
        ("false", 0),
        (True, 1),
        (False, 0),
        (1.0, 1),
        (-1, 0),
        (np.int8(1), 1),
        ("", None),
        ("  ", None),
        (None, None),
        (float("nan"), None),
        ("nan", None),
    ],
)
def test_labels_are_read_however_they_are_spelled(value: object, label: int | None) -> None:
    assert as_label(value, "bag 'a'") == label


@pytest.mark.parametrize("value", ["2", "yes", "tumor", 0.5, 10**400, [1], {}, "inf"])
def test_what_is_no_label_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"^bag 'a': expected a label 0 or 1 \(or -1/\+1, .* got"):
        as_label(value, "bag 'a'")


def test_words_that_are_no_labels_get_the_option_for_them() -> None:
    with pytest.raises(InvalidInput, match="got 'tumor'; where labels are words, name the one for positive"):
        as_label("tumor", "bag 'a'")


@pytest.mark.parametrize(("one", "other"), [("0", "-1"), (-1, 0), ("-1.0", False), ("negative", -1)])
def test_a_source_that_says_negative_in_two_ways_is_refused(one: object, other: object) -> None:
    read = LabelReader()
    assert read(one, "first") == 0
    assert read(1, "second") == 1
    with pytest.raises(InvalidInput, match="third: labels mix 0 and -1"):
        read(other, "third")


def test_words_of_the_users_own_are_positive_or_not() -> None:
    read = LabelReader(positive="tumor_tissue")
    assert [read(word, "") for word in ("tumor_tissue", "normal_tissue", " tumor_tissue", "", None)] == [
        1,
        0,
        1,
        None,
        None,
    ]


def _file(folder: Path, text: str | bytes) -> Path:
    path = folder / "labels.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_label_file_gives_label_and_split_by_bag(tmp_path: Path) -> None:
    text = "case,Slide_ID, label ,split\n7,a.svs,1,train\n7,b.svs,-1,\n8,c.svs,,test\n"
    labels = LabelFile(_file(tmp_path, text), strip=".svs")
    assert dict(labels) == {"a": (1, "train"), "b": (0, None), "c": (None, "test")}


def test_a_label_file_may_begin_with_a_byte_order_mark_and_end_lines_as_windows_does(tmp_path: Path) -> None:
    labels = LabelFile(_file(tmp_path, b"\xef\xbb\xbfbag,label\r\n\xc3\xbc,1\r\n"))
    assert dict(labels) == {"ü": (1, None)}


@pytest.mark.parametrize("bag", ["bag", "Bag_ID", "slide_id", "slide", "image", "image_id", "id", "name"])
@pytest.mark.parametrize("label", ["label", "bag_label", "slide_label", "Target", "y"])
def test_usual_names_of_columns_are_known(bag: str, label: str, tmp_path: Path) -> None:
    assert dict(LabelFile(_file(tmp_path, f"{bag},{label}\na,1\n"))) == {"a": (1, None)}


def test_a_name_that_says_more_goes_before(tmp_path: Path) -> None:
    text = "case_id,slide_id,image,label\n7,a,x.png,1\n"
    assert list(LabelFile(_file(tmp_path, text))) == ["a"]


def test_columns_may_have_any_name_that_is_given(tmp_path: Path) -> None:
    path = _file(tmp_path, "bag,label,Case No,diagnosis,split\nx,,a,tumor,train\ny,,b,none,\n")
    labels = LabelFile(path, positive="tumor", columns=("case no", "diagnosis"))
    assert dict(labels) == {"a": (1, "train"), "b": (0, None)}
    with pytest.raises(
        InvalidInput, match=r"a column 'case' and a column 'label'.*; its columns are: bag, label, case no"
    ):
        LabelFile(path, columns=("case", "label"))
    with pytest.raises(InvalidInput, match="a column 'bag' and a column 'grade'"):
        LabelFile(path, columns=("bag", "grade"))


def test_a_word_for_positive_that_never_comes_is_an_error_naming_those_that_do(tmp_path: Path) -> None:
    path = _file(tmp_path, "bag,label\na,Tumor\nb,normal\nc,normal\nd,\n")
    assert dict(LabelFile(path, positive=" Tumor "))["a"] == (1, None)
    with pytest.raises(
        InvalidInput, match=r"labels\.csv is 'tumor', .*; the labels are: 'normal', 'Tumor'; give one of"
    ):
        LabelFile(path, positive="tumor")
    many = "".join(f"{i},grade {i}\n" for i in range(7))
    with pytest.raises(InvalidInput, match=r"the labels are: 'grade 0', .*'grade 4', …; give"):
        LabelFile(_file(tmp_path, "bag,label\n" + many), positive="tumor")
    with pytest.raises(InvalidInput, match="the labels are: none at all"):
        LabelFile(_file(tmp_path, "bag,label\na,\n"), positive="tumor")
    splits = LabelFile(_file(tmp_path, "bag,split\na,train\n"), positive="tumor")
    assert not splits.has_labels


def test_a_label_file_may_bring_splits_alone(tmp_path: Path) -> None:
    assert dict(LabelFile(_file(tmp_path, "bag_name,split\na,train\n"))) == {"a": (None, "train")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bag;label\na;1\n", "needs a header with a column 'bag' and a column 'label'.* its columns are: bag;label"),
        ("a,1\nb,0\n", "needs a header"),
        ("bag,label\na,1\na,0\n", "line 3: bag 'a' has a line already"),
        ("bag,label\n,1\n", "line 2: the bag id is empty"),
        ("bag,label\na,maybe\n", "line 2: bag 'a': expected a label 0 or 1"),
        ("bag,label\na,0\nb,-1\n", "line 3: bag 'b': labels mix 0 and -1"),
        ('bag,label\n"a,1\n', "cannot be read: expected a CSV"),
        ("bag,label\nü,1\n".encode("latin-1"), "expected a CSV of bag ids and labels in UTF-8.*can't decode"),
        ("bag,label\na,1\n".encode("utf-16"), "expected a CSV of bag ids and labels in UTF-8.*can't decode"),
        ("", "is empty; expected a CSV"),
        ("\n\n", "its columns are: none"),
    ],
)
def test_a_label_file_that_is_wrong_says_where(text: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(AdmilError, match=f"(?s){message}"):
        LabelFile(_file(tmp_path, text))


def test_a_label_file_is_a_file_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a folder; expected a CSV"):
        LabelFile(tmp_path)
    with pytest.raises(CorruptFile, match="there is no file"):
        LabelFile(tmp_path / "none.csv")
