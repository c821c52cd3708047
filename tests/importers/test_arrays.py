"""NumPy files."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.importers import ArrayImporter, run_import

from .sources import read_all


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", "int64", "uint8", "bool"])
def test_arrays_of_any_numbers_and_order_are_read(dtype: str, order: Any, tmp_path: Path) -> None:
    given = np.array([[0, 1, 1], [1, 0, 1]], dtype=dtype, order=order)
    np.save(tmp_path / "a.npy", given)
    np.savez(tmp_path / "a.npz", a=given)
    for path in (tmp_path, tmp_path / "a.npz"):
        found = read_all(ArrayImporter(path))["a"].features
        assert found.dtype == np.dtype(dtype)
        assert found.tolist() == given.tolist()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_all_versions_of_the_format_are_read(version: tuple[int, int], tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, np.eye(2), version=version)
    assert read_all(ArrayImporter(tmp_path))["a"].features.tolist() == [[1, 0], [0, 1]]


def test_other_and_hidden_files_of_the_folder_are_not_bags(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(2))
    for name in ("labels.csv", "._a.npy", "notes.txt"):
        (tmp_path / name).write_text("no bag")
    (tmp_path / "folder.npy").mkdir()
    assert ArrayImporter(tmp_path).ids() == ["a"]


def test_members_of_an_npz_may_lie_in_folders(tmp_path: Path) -> None:
    np.savez(tmp_path / "bags.npz", **{"train/a": np.eye(2)})  # type: ignore[arg-type]
    assert ArrayImporter(tmp_path / "bags.npz").ids() == ["train/a"]


def flat(folder: Path, **changed: Any) -> Path:
    arrays: dict[str, Any] = {"features": np.arange(8.0).reshape(4, 2), "offsets": [0, 1, 4]} | changed
    np.savez(folder / "flat.npz", **{name: array for name, array in arrays.items() if array is not None})
    return folder / "flat.npz"


def test_a_flat_npz_may_leave_out_all_but_features_and_offsets(tmp_path: Path) -> None:
    bags = read_all(ArrayImporter(flat(tmp_path)))
    assert {bag: read.features.tolist() for bag, read in bags.items()} == {
        "0": [[0, 1]],
        "1": [[2, 3], [4, 5], [6, 7]],
    }
    assert all((read.label, read.split, read.truth) == (None, None, None) for read in bags.values())


def test_labels_and_splits_that_are_not_known_stay_so(tmp_path: Path) -> None:
    bags = read_all(ArrayImporter(flat(tmp_path, labels=[np.nan, 1.0], splits=["", "test"])))
    assert [(read.label, read.split) for read in bags.values()] == [(None, None), (1, "test")]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"offsets": [0, 5]}, r"expected 5 rows of features in C order, got shape \(4, 2\)"),
        ({"offsets": [0, 3, 2, 4]}, "offsets must not decrease"),
        ({"offsets": [1, 4]}, "offsets are the start of each bag and the end, from 0 up"),
        ({"offsets": [0.0, 4.0]}, "offsets are the start"),
        ({"offsets": np.array([0, 2**64 - 1], dtype=np.uint64)}, "offsets must not decrease"),
        ({"ids": ["a"]}, r"ids must have shape \(2,\), has \(1,\)"),
        ({"truth": [True]}, r"truth must have shape \(4,\), has \(1,\)"),
        ({"labels": [1, 2]}, "bag '1': expected a label 0 or 1"),
        ({"labels": [0, -1]}, "bag '1': labels mix 0 and -1"),
        ({"ids": ["a", "a"]}, "bag 'a' comes more than once"),
        ({"ids": np.array(["a", None], dtype=object)}, "pickled objects, which are never loaded"),
        ({"features": np.arange(4.0)}, r"expected 4 rows of features in C order, got shape \(4,\)"),
        ({"features": np.asfortranarray(np.ones((4, 2)))}, "in Fortran order"),
    ],
)
def test_a_flat_npz_that_does_not_fit_is_refused(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(AdmilError, match=message):
        run_import(ArrayImporter(flat(tmp_path, **changed)), tmp_path / "store")


def header(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


BROKEN = {
    "pickle": (pickle.dumps([1]), "expected an .* array of numbers"),
    "objects": (header("(1, 1)", "'|O'") + pickle.dumps([1]), "pickled objects, which are never loaded"),
    "huge": (header(f"({2**40}, {2**20})") + b"\0" * 64, "promises shape .* too short for it"),
    "negative": (header("(-1, 2)") + b"\0" * 64, "promises shape"),
    "truncated": (header("(3, 2)") + b"\0" * 47, "promises shape|cut off"),
    "no-header": (b"\x93NUMPY", "expected an"),
    "text": (b"1,2\n3,4\n" * 9, "expected an"),
    "words": (header("(1, 1)", "'<U2'") + b"\0" * 8, r"expected an \(n, D\) array of numbers"),
    "code": (header("(__import__('os'), 1)"), "expected an"),
    "empty": (b"", "is empty; expected"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_no_arrays_are_refused(name: str, tmp_path: Path) -> None:
    content, message = BROKEN[name]
    (tmp_path / "arrays").mkdir()
    (tmp_path / "arrays" / "bad.npy").write_bytes(content)
    with pytest.raises(AdmilError, match=message):
        run_import(ArrayImporter(tmp_path / "arrays"), tmp_path / "store")


@pytest.mark.parametrize("name", ["../a.npy", "/a.npy", "b/../../a.npy"])
def test_members_that_leave_the_archive_are_refused(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bags.npz", "w") as archive:
        archive.writestr(name, header("(1, 1)") + b"\0" * 8)
    with pytest.raises(InvalidInput, match="leads out of the archive"):
        ArrayImporter(tmp_path / "bags.npz")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bags.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", header(f"({2**24}, {2**7})") + b"\0" * 64)
    content = (tmp_path / "bags.npz").read_bytes()
    real = next(iter(zipfile.ZipFile(tmp_path / "bags.npz").infolist())).file_size
    forged = content.replace(real.to_bytes(4, "little"), (2**31).to_bytes(4, "little"))
    (tmp_path / "bags.npz").write_bytes(forged)
    with pytest.raises(CorruptFile, match="looks like a decompression bomb"):
        run_import(ArrayImporter(tmp_path / "bags.npz"), tmp_path / "store")


def test_an_npz_that_is_cut_off_or_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bags.npz"
    np.savez(path, a=np.zeros((50, 2)), b=np.ones((50, 2)))
    content = path.read_bytes()
    path.write_bytes(content[:-30])
    with pytest.raises(CorruptFile, match=r"expected an .npz file, or a folder of .npy files"):
        ArrayImporter(path)
    damaged = bytearray(content)
    damaged[600] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptFile, match=r"numbers in a.npy \(Bad CRC-32"):
        run_import(ArrayImporter(path), tmp_path / "store")


def test_the_source_is_a_file_or_folder_with_arrays(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"there is no file .*none.npz; expected an .npz file"):
        ArrayImporter(tmp_path / "none.npz")
    with pytest.raises(InvalidInput, match=r"holds no .npy file; expected a folder with a file BAG.npy"):
        ArrayImporter(tmp_path)
    with zipfile.ZipFile(tmp_path / "empty.npz", "w") as archive:
        archive.writestr("readme", "nothing")
    with pytest.raises(InvalidInput, match=r"holds no .npy array"):
        ArrayImporter(tmp_path / "empty.npz")
    np.save(tmp_path / "one.npy", np.eye(2))
    with pytest.raises(CorruptFile, match=r"expected an .npz file, or a folder of .npy files"):
        ArrayImporter(tmp_path / "one.npy")
