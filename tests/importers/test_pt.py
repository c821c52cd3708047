"""Torch files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.importers import PtImporter, run_import
from admil.store import BagStore

from .sources import read_all


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_type_of_the_tensors_is_kept(dtype: torch.dtype, tmp_path: Path) -> None:
    torch.save(torch.tensor([[1.5, -2.0]], dtype=dtype), tmp_path / "slide.1.pt")
    run_import(PtImporter(tmp_path), tmp_path / "store")
    store = BagStore.open(tmp_path / "store")
    assert store.header.torch_dtype == dtype
    assert store["slide.1"].tolist() == [[1.5, -2.0]]


def test_whole_numbers_views_and_parameters_are_tensors_too(tmp_path: Path) -> None:
    torch.save(torch.arange(6).reshape(2, 3).T, tmp_path / "a.pt")
    torch.save(torch.nn.Parameter(torch.eye(2)), tmp_path / "b.pt")
    bags = read_all(PtImporter(tmp_path))
    assert bags["a"].features.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert bags["b"].features.tolist() == [[1, 0], [0, 1]]


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("evil"),)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("thing", [Evil(), np.eye(2), torch.nn.Linear(2, 2)], ids=["code", "array", "module"])
def test_pickled_objects_are_refused_and_nothing_is_run(
    thing: object, zipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pt").mkdir()
    torch.save(thing, tmp_path / "pt" / "a.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(CorruptFile, match="only a tensor is loaded, and nothing is ever unpickled"):
        run_import(PtImporter(tmp_path / "pt"), tmp_path / "store")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        ({"features": torch.eye(2)}, r"expected an \(n, D\) tensor, got dict"),
        ([1, 2], "got list"),
        (torch.eye(3).to_sparse(), "expected a dense tensor"),
        (torch.ones(2, 2, device="meta"), "on meta"),
        (torch.ones(2, 2, dtype=torch.complex64), "of real numbers, got torch.complex64"),
        (torch.ones(4), r"expected \(n, D\) features"),
        (torch.ones(0, 4), "is empty"),
        (torch.ones(1).expand(10**7, 10**3), "looks like a decompression bomb"),
    ],
    ids=["dict", "list", "sparse", "meta", "complex", "flat", "no-rows", "bomb"],
)
def test_what_is_no_bag_of_features_is_refused(thing: object, message: str, tmp_path: Path) -> None:
    (tmp_path / "pt").mkdir()
    torch.save(thing, tmp_path / "pt" / "a.pt")
    with pytest.raises(AdmilError, match=message):
        run_import(PtImporter(tmp_path / "pt"), tmp_path / "store")


def test_files_that_torch_did_not_write_are_refused(tmp_path: Path) -> None:
    torch.save(torch.eye(20), tmp_path / "whole.pt")
    broken = {
        "cut": (tmp_path / "whole.pt").read_bytes()[:-200],
        "text": b"0.1 0.2\n",
        "pickle": pickle.dumps([1.0]),
        "empty": b"",
    }
    for name, content in broken.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.pt").write_bytes(content)
        with pytest.raises(AdmilError, match=r"a\.pt .*(expected|save) "):
            run_import(PtImporter(tmp_path / name), tmp_path / "store")


def test_the_source_is_a_folder(tmp_path: Path) -> None:
    torch.save(torch.eye(2), tmp_path / "a.pt")
    with pytest.raises(InvalidInput, match=r"is a file; expected a folder with a file BAG.pt"):
        PtImporter(tmp_path / "a.pt")
    with pytest.raises(CorruptFile, match="there is no folder"):
        PtImporter(tmp_path / "none")
