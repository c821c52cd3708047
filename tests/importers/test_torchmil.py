"""Folders of torchmil."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.importers import TorchmilImporter, run_import
from admil.store import BagStore

from .sources import BAGS, KINDS, read_all

KIND = next(kind for kind in KINDS if kind.name == "torchmil")


def test_coordinates_become_columns(tmp_path: Path) -> None:
    run_import(TorchmilImporter(KIND.write(tmp_path)), tmp_path / "store")
    details = BagStore.open(tmp_path / "store").details("c-3")
    assert [(row["x"], row["y"]) for row in details] == [tuple(map(float, place)) for place in BAGS[2].coords]


def test_features_may_lie_deeper_and_instance_labels_be_called_patch_labels(tmp_path: Path) -> None:
    mil = KIND.write(tmp_path)
    (mil / "features").rename(mil / "UNI")
    (mil / "features").mkdir()
    (mil / "UNI").rename(mil / "features" / "features_UNI")
    (mil / "inst_labels").rename(mil / "patch_labels")
    importer = TorchmilImporter(mil, features="features/features_UNI")
    bags = read_all(importer)
    assert [tuple(map(int, read.truth)) for read in bags.values() if read.truth is not None] == [
        bag.truth for bag in BAGS
    ]
    assert importer.source.options == {"features": "features/features_UNI"}


@pytest.mark.parametrize("label", [np.array(1), np.array([1]), np.array([[1.0]]), np.array(True)])
def test_a_label_may_have_any_shape_of_one_number(label: NDArray[Any], tmp_path: Path) -> None:
    mil = KIND.write(tmp_path)
    np.save(mil / "labels" / "a.npy", label)
    assert read_all(TorchmilImporter(mil))["a"].label == 1


def test_features_alone_are_enough(tmp_path: Path) -> None:
    (tmp_path / "features").mkdir()
    np.save(tmp_path / "features" / "a.npy", np.eye(2))
    read = read_all(TorchmilImporter(tmp_path))["a"]
    assert (read.label, read.instances, read.truth) == (None, None, None)


@pytest.mark.parametrize(("columns", "names"), [(1, ["x"]), (2, ["x", "y"]), (3, ["x", "y", "z"])])
def test_coordinates_have_one_to_three_columns(columns: int, names: list[str], tmp_path: Path) -> None:
    for name in ("features", "coords"):
        (tmp_path / name).mkdir()
    np.save(tmp_path / "features" / "a.npy", np.eye(2))
    np.save(tmp_path / "coords" / "a.npy", np.arange(2 * columns).reshape(2, columns))
    instances = read_all(TorchmilImporter(tmp_path))["a"].instances
    assert instances is not None
    assert list(instances) == names
    assert [value[1] for value in instances.values()] == [float(columns + i) for i in range(columns)]


def test_instance_labels_may_be_missing_for_some_bags(tmp_path: Path) -> None:
    mil = KIND.write(tmp_path)
    (mil / "inst_labels" / "b.npy").unlink()
    run_import(TorchmilImporter(mil), tmp_path / "store")
    assert "b" not in dict(BagStore.open(tmp_path / "store").truth_rows())


@pytest.mark.parametrize(
    ("file", "array", "message"),
    [
        ("labels/a.npy", [0, 1], r"expected one label, got shape \(2,\)"),
        ("labels/a.npy", [3], "a.npy: expected a label 0 or 1"),
        ("labels/a.npy", [0], "labelled negative but an instance"),
        ("inst_labels/a.npy", [1, 0], r"expected 3 instance labels, got shape \(2,\)"),
        ("inst_labels/a.npy", [2, 0, 0], "truth values 0 or 1"),
        ("coords/a.npy", [[1, 2]], r"expected coordinates \(3, 2\), got shape \(1, 2\)"),
        ("coords/a.npy", [["x", "y"]] * 3, "expected coordinates to be numbers"),
        ("features/a.npy", [1.0, 2.0, 3.0], r"expected \(n, D\)|coordinates"),
        ("features/a.npy", 1.0, "expected"),
    ],
)
def test_what_does_not_fit_is_refused(file: str, array: object, message: str, tmp_path: Path) -> None:
    mil = KIND.write(tmp_path)
    np.save(mil / file, np.array(array))
    with pytest.raises(AdmilError, match=message):
        run_import(TorchmilImporter(mil), tmp_path / "store")


def test_a_label_file_that_is_missing_is_named(tmp_path: Path) -> None:
    mil = KIND.write(tmp_path)
    (mil / "labels" / "b.npy").unlink()
    with pytest.raises(CorruptFile, match=r"there is no file .*labels.b\.npy"):
        run_import(TorchmilImporter(mil), tmp_path / "store")


def test_a_folder_of_another_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no folder 'features'; expected the folder that holds features, labels"):
        TorchmilImporter(tmp_path)
