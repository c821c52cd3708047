"""The classic bag-only sets, from files as they are published."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import savemat
from scipy.sparse import csc_matrix

from admil.datasets import CLASSIC_SETS, BagCount, Classic, bag_counts, broken_rules
from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.importers import run_import
from admil.store import BagStore
from tests.store.making import files_of

PUBLISHED = {  # Dietterich et al. 1997 and Andrews et al. 2003: positive and negative bags, instances, features
    "musk1": (47, 45, 476, 166),
    "musk2": (39, 63, 6598, 166),
    "elephant": (100, 100, 1391, 230),
    "fox": (100, 100, 1320, 230),
    "tiger": (100, 100, 1220, 230),
}
SVM = {
    "musk1": "MilData/Musk/musk1norm.svm",
    "elephant": "MilData/Elephant/data_100x100.svm",
    "fox": "MilData/Fox/data_100x100.svm",
    "tiger": "MilData/Tiger/data_100x100.svm",
}
MAT = {"musk1": "musk1norm_matlab.mat", "elephant": "elephant_100x100_matlab.mat", "fox": "fox_100x100_matlab.mat"}


def bag_of_row(name: str) -> NDArray[np.int64]:
    """Return the bag of each row, as many as are published; positive bags first."""
    positive, negative, instances, _ = PUBLISHED[name]
    return np.sort(np.arange(instances) % (positive + negative))


def value(row: int, column: int) -> int:
    """Return a feature, columns from 0; most are 0, and the last column is 0 throughout."""
    return (row * 7 + column * 3) % 50 - 25 if (row + column) % 5 == 0 and column % 10 != 9 else 0


def features_of(name: str) -> NDArray[np.float32]:
    rows, width = PUBLISHED[name][2:]
    return np.array([[value(row, column) for column in range(width)] for row in range(rows)], np.float32)


def uci(name: str) -> str:
    """Return clean1.data: 'MUSK-188,188_1+1,42,…,30,1.' a line."""
    lines = []
    for row, bag in enumerate(bag_of_row(name).tolist()):
        kind, label = ("MUSK", "1.") if bag < PUBLISHED[name][0] else ("NON-MUSK", "0.")
        numbers = ",".join(str(value(row, column)) for column in range(166))
        lines.append(f"{kind}-{bag},{bag}_1+{row % 4},{numbers},{label}\n")
    return "".join(lines)


def svm(name: str) -> str:
    """Return Andrews' text: '0:0:1 1:-25 6:-10 …' a line, zeros left out."""
    lines = ["# a comment\n"]
    for row, bag in enumerate(bag_of_row(name).tolist()):
        label = 1 if bag < PUBLISHED[name][0] else -1
        pairs = [f"{column + 1}:{value(row, column)}" for column in range(PUBLISHED[name][3]) if value(row, column)]
        lines.append(f"{row}:{bag}:{label} {' '.join(pairs)}\n")
    return "".join(lines)


def mat(name: str, dense: bool = False, **changed: Any) -> bytes:
    """Return Andrews' MATLAB file: sparse features and labels, bags from 1."""
    bags = bag_of_row(name)
    labels = np.where(bags < PUBLISHED[name][0], 1.0, -1.0)[None]
    sparse: Callable[[Any], Any] = np.asarray if dense else csc_matrix
    held = {"bag_ids": (bags + 1.0)[None], "features": sparse(features_of(name)), "labels": sparse(labels)}
    file = io.BytesIO()
    savemat(file, held | changed, do_compression=dense)
    return file.getvalue()


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def built(dataset: Classic, folder: Path) -> BagStore:
    run_import(dataset, folder)
    store = BagStore.open(folder)
    assert store.verify() == ()
    return store


def test_the_published_counts_are_known() -> None:
    assert {
        name: (known.positive, known.negative, known.instances, known.width) for name, known in CLASSIC_SETS.items()
    } == PUBLISHED


@pytest.mark.parametrize("name", ["musk1", "musk2"])
def test_musk_of_uci_is_read(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"clean{name[-1]}.data", uci(name))
    store = built(Classic(name, path), tmp_path / "s")
    positive, negative, _, width = PUBLISHED[name]
    assert store.width == width
    assert [(count.split, count.label, count.bags, count.positives) for count in bag_counts(store)] == [
        (None, 1, positive, None),
        (None, 0, negative, None),
    ]
    assert store.ids[0] == "MUSK-0"
    assert store.ids[-1] == f"NON-MUSK-{positive + negative - 1}"
    np.testing.assert_array_equal(store.load().features, features_of(name))
    assert store.details("MUSK-1")[0] == {
        "origin": f"row {len(store['MUSK-0']) + 1}",
        "name": f"1_1+{len(store['MUSK-0']) % 4}",
    }
    assert broken_rules(store) == ()


@pytest.mark.parametrize("name", SVM)
def test_andrews_text_is_read_from_the_archive_it_comes_in(name: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "MIL-Data-2002-Musk-Corel-Trec9.tgz", "w:gz", compresslevel=1) as tar:
        for each, place in SVM.items():
            content = svm(each).encode()
            entry = tarfile.TarInfo(place)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    store = built(Classic(name, tmp_path / "MIL-Data-2002-Musk-Corel-Trec9.tgz"), tmp_path / "s")
    positive, negative, instances, width = PUBLISHED[name]
    counts = bag_counts(store)
    assert [(count.label, count.bags) for count in counts] == [(1, positive), (0, negative)]
    assert sum(count.instances for count in counts) == instances
    assert store.width == width  # although no line names the last feature: it is 0 throughout
    np.testing.assert_array_equal(store.load().features, features_of(name))
    assert store.details("0")[0] == {"origin": "row 1", "name": "0"}


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("name", MAT)
def test_andrews_matlab_is_read(name: str, dense: bool, tmp_path: Path) -> None:
    store = built(Classic(name, write(tmp_path / MAT[name], mat(name, dense))), tmp_path / "s")
    assert store.ids[0] == "1"
    assert [(count.label, count.bags) for count in bag_counts(store)] == [
        (1, PUBLISHED[name][0]),
        (0, PUBLISHED[name][1]),
    ]
    np.testing.assert_array_equal(store.load().features, features_of(name))
    assert store.details("2")[0] == {"origin": f"row {len(store['1']) + 1}"}


def test_there_is_no_truth_and_no_split(tmp_path: Path) -> None:
    store = built(Classic("musk1", write(tmp_path / "clean1.data", uci("musk1"))), tmp_path / "s")
    assert set(store.splits) == {None}
    assert bag_counts(store)[0] == BagCount(None, 1, 47, bag_counts(store)[0].instances, None)
    assert all(part.truth is None for part in store.header.parts)


def test_a_file_of_any_name_a_packed_one_and_a_folder_give_the_same_bags(tmp_path: Path) -> None:
    text = uci("musk1")
    places = [
        write(tmp_path / "one" / "clean1.data", text),
        write(tmp_path / "two" / "clean1.data.gz", gzip.compress(text.encode())),
        write(tmp_path / "three" / "deep" / "clean1.data", text).parents[1],
    ]
    for number, place in enumerate(places):
        run_import(Classic("musk1", place), tmp_path / f"s{number}")
    assert files_of(tmp_path / "s0") == files_of(tmp_path / "s1") == files_of(tmp_path / "s2")
    other = Classic("musk1", write(tmp_path / "mine.data", text))
    assert other.source.name == "mine.data"
    assert len(other.ids()) == 92


def test_of_several_files_the_first_of_the_list_is_taken(tmp_path: Path) -> None:
    for name, content in (("musk1norm_matlab.mat", mat("musk1")), ("musk1norm.svm", svm("musk1"))):
        write(tmp_path / "raw" / name, content)
    assert Classic("musk1", tmp_path / "raw").source.name == "musk1norm.svm"
    write(tmp_path / "raw" / "zzz" / "clean1.data", uci("musk1"))
    assert Classic("musk1", tmp_path / "raw").source.name == "clean1.data"


def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "clean1.data", uci("musk1"))
    for name in ("a", "b"):
        run_import(Classic("musk1", path), tmp_path / name)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "rest", "message"),
    [
        (
            [],
            slice(1, None),
            "has 47 positive and 45 negative bags with 475 instances; musk1 as it is published has 47",
        ),
        ([], slice(100), r"with 100 instances; .* bags with 476 instances: it is cut off, or another set"),
        ([], slice(0), "has 0 positive and 0 negative bags with 0 instances"),
        (["molecule_name,conformation_name,f1,class"], slice(None), "row 1 has 4 fields, not 169"),
        (["MUSK-0,0_1+0" + ",1" * 165], slice(1, None), "row 1 has 167 fields, not 169"),
        (["MUSK-0,0_1+0" + ",x" * 166 + ",1."], slice(1, None), "could not convert string to float: 'x'"),
        (
            ["MUSK-0,0_1+0" + ",5" * 166 + ",0."],
            slice(1, None),
            r"rows of bag 'MUSK-0' need one label, .* \['0', '1'\]",
        ),
        (["MUSK-0,0_1+0" + ",5" * 166 + ",7."], slice(1, None), "row 1: expected a label 0 or 1"),
        (["MUSK-0,0_1+0" + ",5" * 166 + ","], slice(1, None), r"'MUSK-0' need one label, they have \['1', 'None'\]"),
        (["ü"], slice(None), "can't decode byte"),
    ],
)
def test_uci_files_with_other_content_are_refused(first: list[str], rest: slice, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "clean1.data", "\n".join([*first, *uci("musk1").splitlines()[rest]]))
    with pytest.raises(AdmilError, match=message):
        Classic("musk1", path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("476:91:-1 2:4", "has 47 positive and 45 negative bags with 477 instances"),
        ("476:91:-1 231:4", "row 477 has feature 231, not 1 to 166"),
        ("476:91:-1 0:4", "row 477 has feature 0, not 1 to 166"),
        ("476:91:-1 1000000000000:4", "has feature 1000000000000, not 1 to 166"),
        ("476:91 1:4", r"musk1norm\.svm cannot be read: expected 166 features of every instance"),
        ("476:91:-1 1:two", "could not convert string to float"),
        ("476:91:-1 1", "not enough values to unpack"),
        ("476:91:5 1:1", "instance 476: expected a label"),
        ("476:91:1 1:1", r"the rows of bag '91' need one label, they have \['0', '1'\]"),
    ],
)
def test_svm_files_with_other_content_are_refused(line: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "musk1norm.svm", f"{svm('musk1')}{line}\n")
    with pytest.raises(AdmilError, match=message):
        Classic("musk1", path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"labels": np.ones((1, 475))}, r"have shapes \[\(476, 166\), \(1, 475\), \(1, 476\)\]"),
        ({"features": csc_matrix((476, 230))}, r"have shapes \[\(476, 230\)"),
        ({"features": csc_matrix((2**31 - 2, 3))}, "features has 2147483646 x 3 numbers"),
        ({"bag_ids": np.ones((1, 476))}, r"bag '1' need one label, they have \['0', '1'\]"),
        ({"bag_ids": np.full((1, 476), np.nan)}, "cannot convert float NaN to integer"),
        ({"labels": np.full((1, 476), 3.0)}, "instance 1: expected a label 0 or 1"),
        ({"labels": "words"}, "labels is no matrix of real numbers"),
    ],
)
def test_matlab_files_with_other_content_are_refused(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / MAT["musk1"], mat("musk1", **changed))
    with pytest.raises(AdmilError, match=message):
        Classic("musk1", path)


def test_matlab_files_that_are_cut_off_or_lack_a_variable_are_refused(tmp_path: Path) -> None:
    content = mat("musk1")
    for size in (0, 100, 128, 1000, len(content) // 2, len(content) - 1):
        with pytest.raises(CorruptFile, match=r"musk1norm_matlab\.mat cannot be read: expected 166 features"):
            Classic("musk1", write(tmp_path / MAT["musk1"], content[:size]))
    file = io.BytesIO()
    savemat(file, {"features": np.ones((3, 3))})
    with pytest.raises(CorruptFile, match="it has no matrix labels"):
        Classic("musk1", write(tmp_path / MAT["musk1"], file.getvalue()))
    hdf5 = b"MATLAB 7.3 MAT-file".ljust(124) + struct.pack("<H", 0x0200) + b"IM" + bytes(384) + b"\x89HDF\r\n\x1a\n"
    with pytest.raises(CorruptFile, match=r"does not begin as a MATLAB file of version 5 to 7 does"):
        Classic("musk1", write(tmp_path / MAT["musk1"], hdf5))


def test_one_set_is_not_taken_for_another(tmp_path: Path) -> None:
    path = write(tmp_path / "fox.svm", svm("fox"))
    with pytest.raises(
        CorruptFile, match=r"fox\.svm has 100 positive and 100 negative bags with 1320 instances; tiger as"
    ):
        Classic("tiger", path)
    with pytest.raises(CorruptFile, match="not 1 to 166"):
        Classic("musk1", path)


@pytest.mark.parametrize(("value", "found"), [("nan", "nan"), ("1e99", "inf"), ("-inf", "-inf")])
def test_features_that_are_no_numbers_are_named_when_they_are_built(value: str, found: str, tmp_path: Path) -> None:
    features = features_of("musk1").astype(float)
    features[0, 0] = float(value)
    for path in (
        write(tmp_path / "musk1norm.svm", svm("musk1").replace("1:-25 ", f"1:{value} ", 1)),
        write(tmp_path / "clean1.data", uci("musk1").replace(",-25,", f",{value},", 1)),
        write(tmp_path / MAT["musk1"], mat("musk1", features=features)),
    ):
        with pytest.raises(InvalidInput, match=f"row 0 has {found} in column 0"):
            run_import(Classic("musk1", path), tmp_path / path.suffix)


def test_other_names_endings_and_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no set 'musk3'; choose among musk1, musk2, elephant, fox, tiger"):
        Classic("musk3", tmp_path)
    with pytest.raises(InvalidInput, match=r"an unpacked file that ends in \.data, \.svm, \.mat, got clean1\.data\.Z"):
        Classic("musk1", write(tmp_path / "clean1.data.Z", b"\x1f\x9d\x90"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        CorruptFile, match=r"there is none of Elephant/data_100x100\.svm, elephant_100x100_matlab\.mat in"
    ):
        Classic("elephant", tmp_path / "empty")
    with pytest.raises(CorruptFile, match="there is no file"):
        Classic("elephant", tmp_path / "nowhere")


def test_a_packed_bomb_is_refused(tmp_path: Path) -> None:
    content = b"".join(gzip.compress(bytes(2**24), 1) for _ in range(17))
    with pytest.raises(InvalidInput, match="decompression bomb"):
        Classic("musk1", write(tmp_path / "clean1.data.gz", content))
