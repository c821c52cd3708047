"""HDF5 files of CLAM and TRIDENT."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.importers import H5Importer, run_import
from admil.store import BagStore

from .sources import BAGS, KINDS, read_all, save_as_clam_does

CLAM, TRIDENT = (next(kind for kind in KINDS if kind.name == name) for name in ("h5-clam", "h5-trident"))


def made(folder: Path, **arrays: Any) -> H5Importer:
    """Write one bag, 'a'."""
    folder.mkdir(exist_ok=True)
    with h5py.File(folder / "a.h5", "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return H5Importer(folder)


def test_tridents_coordinates_and_patch_sizes_become_columns(tmp_path: Path) -> None:
    run_import(TRIDENT.open(TRIDENT.write(tmp_path)), tmp_path / "store")
    rows = BagStore.open(tmp_path / "store").details("a")
    assert rows == [
        {"x": x, "y": y, "patch_size": 256.0, "patch_level": None, "patch_size_level0": 512.0}
        for x, y in BAGS[0].coords
    ]


def test_clams_features_have_coordinates_without_sizes(tmp_path: Path) -> None:
    instances = read_all(CLAM.open(CLAM.write(tmp_path)))["c-3"].instances
    assert instances is not None
    assert list(zip(instances["x"], instances["y"], strict=True)) == list(BAGS[2].coords)
    assert all(math.isnan(size) for size in instances["patch_size"])


def test_slides_with_and_without_sizes_go_into_one_store(tmp_path: Path) -> None:
    folder = CLAM.write(tmp_path) / "h5_files"
    assets: dict[str, Any] = {"features": np.ones((2, 3), np.float32), "coords": np.zeros((2, 2), np.int64)}
    about = {"coords": {"patch_size": 224, "patch_level": 1, "downsample": [1.0, 1.0], "name": "z"}}
    save_as_clam_does(folder / "z.h5", assets, about, "w")
    run_import(H5Importer(folder), tmp_path / "store")
    store = BagStore.open(tmp_path / "store")
    assert store.details("z")[1]["patch_level"] == 1
    assert store.details("a")[0]["patch_level"] is None


def test_features_without_coordinates_are_a_bag(tmp_path: Path) -> None:
    read = read_all(made(tmp_path, features=np.eye(2)))["a"]
    assert read.features.tolist() == [[1, 0], [0, 1]]
    assert read.instances is None


def encoded(folder: Path, encoders: dict[str, Any], of_file: bool = False) -> H5Importer:
    """Write a bag for each encoder, named as newer releases of TRIDENT do; None names none."""
    folder.mkdir(exist_ok=True)
    for bag, encoder in encoders.items():
        with h5py.File(folder / f"{bag}.h5", "w") as file:
            file["features"] = np.eye(2, dtype=np.float32)
            file["features"].attrs["name"] = bag
            if encoder is not None:
                (file if of_file else file["features"]).attrs["encoder"] = encoder
    return H5Importer(folder)


@pytest.mark.parametrize("of_file", [False, True])
@pytest.mark.parametrize("name", ["uni_v1", b"uni_v1", np.bytes_("uni_v1")])
def test_the_encoder_becomes_part_of_the_store(name: Any, of_file: bool, tmp_path: Path) -> None:
    run_import(encoded(tmp_path / "h5", {"a": name, "b": None}, of_file), tmp_path / "store")
    store = BagStore.open(tmp_path / "store")
    assert store.header.features == {"encoder": "uni_v1"}
    assert store.ids == ("a", "b")


@pytest.mark.parametrize("name", [None, "None", "", 7])
def test_where_no_encoder_is_named_nothing_is_said_of_it(name: Any, tmp_path: Path) -> None:
    run_import(encoded(tmp_path / "h5", {"a": name}), tmp_path / "store")
    assert BagStore.open(tmp_path / "store").header.features is None


def test_two_encoders_are_not_mixed_in_one_store(tmp_path: Path) -> None:
    both = encoded(tmp_path / "both", {"a": "uni_v1", "b": "conch_v15"})
    with pytest.raises(
        InvalidInput, match=r"b\.h5 has features of the encoder 'conch_v15', the bags before .* 'uni_v1'"
    ):
        run_import(both, tmp_path / "one")
    run_import(encoded(tmp_path / "uni", {"a": "uni_v1"}), tmp_path / "store")
    with pytest.raises(InvalidInput, match=r"made otherwise than these: encoder uni_v1, against encoder conch_v15"):
        run_import(encoded(tmp_path / "conch", {"c": "conch_v15"}), tmp_path / "store")
    late = encoded(tmp_path / "late", {"c": None, "d": "conch_v15"})
    with pytest.raises(InvalidInput, match=r"d\.h5 has features of the encoder 'conch_v15'.* of 'uni_v1'"):
        run_import(late, tmp_path / "store")


def test_a_store_that_does_not_say_its_encoder_goes_on_not_saying_it(tmp_path: Path) -> None:
    run_import(encoded(tmp_path / "old", {"a": None}), tmp_path / "store")
    run_import(encoded(tmp_path / "new", {"b": "uni_v1"}), tmp_path / "store")
    assert BagStore.open(tmp_path / "store").header.features is None


def test_a_first_file_that_is_damaged_does_not_hide_the_encoder(tmp_path: Path) -> None:
    bags = encoded(tmp_path / "h5", {"a": "x", "b": "uni_v1"})
    (tmp_path / "h5" / "a.h5").write_bytes(b"torn")
    report = run_import(bags, tmp_path / "store", skip_errors=True)
    assert (report.added, len(report.left_out)) == (1, 1)
    assert BagStore.open(tmp_path / "store").header.features == {"encoder": "uni_v1"}


def test_large_files_are_read_in_pieces(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(5000, 1000)).astype(np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("features", data=features, chunks=(100, 1000), compression="gzip", compression_opts=1)
    np.testing.assert_array_equal(read_all(H5Importer(tmp_path))["a"].features, features)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"feats": np.eye(2), "coords": np.eye(2)}, "no dataset 'features' of its own; it has: coords, feats"),
        ({}, "it has: nothing"),
        ({"features": np.ones(7)}, "got shape .*: that is one vector for a whole slide"),
        ({"features": np.ones((2, 2, 2))}, r"got shape \(2, 2, 2\)"),
        ({"features": np.ones((0, 4)), "coords": np.ones((0, 2))}, "is empty"),
        ({"features": np.ones(0), "coords": np.ones((0, 2))}, "is empty: it holds no patch"),
        ({"features": np.eye(2), "coords": np.ones((3, 2))}, r"expected coords \(2, 2\).* got \(3, 2\)"),
        ({"features": np.eye(2), "coords": np.ones((2, 3))}, r"expected coords \(2, 2\)"),
        ({"features": "words"}, "array of numbers"),
        ({"features": np.array([b"a", b"b"])}, "array of numbers"),
        ({"features": np.array([[1.0, np.nan]])}, "row 0 has nan in column 1"),
    ],
    ids=str,
)
def test_what_is_no_bag_is_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(AdmilError, match=message):
        run_import(made(tmp_path / "h5", **arrays), tmp_path / "store")


def test_a_group_is_no_dataset(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("features")["uni"] = np.eye(2)
    with pytest.raises(InvalidInput, match="no dataset 'features' of its own"):
        read_all(H5Importer(tmp_path))


def test_nothing_of_another_file_is_read(tmp_path: Path) -> None:
    secret = np.arange(8.0)
    secret.tofile(tmp_path / "secret")
    made(tmp_path / "other", features=np.eye(2))
    (tmp_path / "h5").mkdir()
    with h5py.File(tmp_path / "h5" / "link.h5", "w") as file:
        file["features"] = h5py.ExternalLink(str(tmp_path / "other" / "a.h5"), "features")
    with h5py.File(tmp_path / "h5" / "outside.h5", "w") as file:
        outside = [(str(tmp_path / "secret"), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset("features", shape=(2, 4), dtype="f8", external=outside)
    with h5py.File(tmp_path / "h5" / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout(shape=(2, 2), dtype="f8")
        layout[:] = h5py.VirtualSource(tmp_path / "other" / "a.h5", "features", shape=(2, 2))
        file.create_virtual_dataset("features", layout)
    for bag in H5Importer(tmp_path / "h5").bags():
        with pytest.raises(InvalidInput, match=r"of its own|lies in another file"):
            bag.read()


def test_promises_of_huge_arrays_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "h5").mkdir()
    with h5py.File(tmp_path / "h5" / "shape.h5", "w") as file:
        file.create_dataset("features", shape=(2**40, 1024), chunks=(1, 1024), dtype="f4")
    with h5py.File(tmp_path / "h5" / "chunk.h5", "w") as file:
        file.create_dataset(
            "features", shape=(2, 4), maxshape=(None, None), chunks=(2**14, 2**15), dtype="f4", compression="gzip"
        )
    for bag in H5Importer(tmp_path / "h5").bags():
        with pytest.raises(CorruptFile, match="looks like a decompression bomb"):
            bag.read()


def test_files_that_are_cut_off_or_no_hdf5_are_refused(tmp_path: Path) -> None:
    folder = TRIDENT.write(tmp_path)
    content = (folder / "a.h5").read_bytes()
    (folder / "a.h5").write_bytes(content[: len(content) // 2])
    (folder / "b.h5").write_text("no HDF5")
    (folder / "c-3.h5").write_bytes(b"")
    bags = {bag.id: bag for bag in H5Importer(folder).bags()}
    for name in ("a", "b", "c-3"):
        with pytest.raises(CorruptFile, match=f"{name}.h5 cannot be read: expected an HDF5 file with features"):
            bags[name].read()


def test_the_source_is_a_folder(tmp_path: Path) -> None:
    folder = TRIDENT.write(tmp_path)
    with pytest.raises(InvalidInput, match=r"is a file; expected a folder with a file BAG.h5 for every bag"):
        H5Importer(folder / "a.h5")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InvalidInput, match=r"holds no .h5 file"):
        H5Importer(tmp_path / "nothing")
