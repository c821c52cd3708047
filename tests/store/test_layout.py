"""The header of a store: what it takes, and what it calls damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from admil.errors import CorruptFile
from admil.store import BagStore, Source
from admil.store.documents import write_document
from admil.store.layout import Header, Part
from tests.store.making import full, written


def part(number: int = 0, **changes: Any) -> dict[str, Any]:
    fields = {"name": f"{number:06d}", "bags": 1, "instances": 2, "shard_bytes": 1048, "manifest": "ab"}
    return {**fields, **changes}


def edited(folder: Path, **changes: Any) -> None:
    """Write a header with other fields and the right checksum, as somebody else's program might."""
    header = json.loads((folder / "store.json").read_text())
    fields = {name: value for name, value in header.items() if name not in ("format", "version", "sha256")}
    write_document(folder / "store.json", "admil-store", 1, {**fields, **changes})


def test_a_header_comes_back_as_it_was_written(tmp_path: Path) -> None:
    header = Header(
        dtype="bfloat16",
        width=3,
        parts=(Part(**part()), Part(**part(1, details="cd", truth="ef", source=0))),
        sources=(Source(kind="h5", name="feats", options={"key": ["a", 1, None]}, complete=True, root="/data"),),
        features={"backbone": "vgg16", "size": [224, 224]},
    )
    header.write(tmp_path)
    assert Header.read(tmp_path) == header
    assert header.torch_dtype == torch.bfloat16


def test_options_are_what_json_makes_of_them() -> None:
    one = Source(kind="images", name="photos", options={"size": (60, 75), "grid": {"x": 1.0}})
    assert one.options == {"size": [60, 75], "grid": {"x": 1.0}}
    assert one.same(Source(kind="images", name="photos", options={"grid": {"x": 1.0}, "size": [60, 75]}))
    with pytest.raises(ValidationError):
        Source(kind="images", name="photos", options={"size": float("nan")})


@pytest.mark.parametrize("change", [{"kind": "pt"}, {"name": "other"}, {"options": {"grid": 2}}, {"options": {}}])
def test_another_kind_name_or_option_is_another_source(change: dict[str, Any]) -> None:
    one = Source(kind="images", name="photos", options={"grid": 1})
    assert not one.same(one.model_copy(update=change))
    assert one.same(one.model_copy(update={"root": "/elsewhere", "complete": True}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "float64"}, "Input should be 'float16', 'bfloat16' or 'float32'"),
        ({"width": "3"}, "Input should be a valid integer"),
        ({"width": 0}, "it has parts, but features of width 0"),
        ({"parts": 3}, "Input should be a valid tuple"),
        ({"parts": [part(name="../../x")]}, "String should match pattern"),
        ({"parts": [part(1)]}, "not numbered from 000000 on"),
        ({"parts": [part(), part()]}, "not numbered from 000000 on"),
        ({"parts": [part(source=0)], "sources": []}, "from a source that is not in its list"),
        ({"parts": [part(source=-1)]}, "greater than or equal to 0"),
        ({"parts": [part(bags=0)]}, "greater than or equal to 1"),
        ({"surprise": 1}, "Extra inputs are not permitted"),
        ({"features": [1]}, "Input should be a valid dictionary"),
    ],
)
def test_a_header_that_cannot_be_is_called_damaged(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    written(tmp_path, full())
    edited(tmp_path, **changes)
    with pytest.raises(CorruptFile, match=rf"store\.json does not say what a store must: .*{message}"):
        BagStore.open(tmp_path)


def test_another_version_or_format_is_named(tmp_path: Path) -> None:
    written(tmp_path, full())
    fields = {"dtype": "float32", "width": 3, "parts": [], "sources": []}
    write_document(tmp_path / "store.json", "admil-store", 2, fields)
    with pytest.raises(CorruptFile, match=r"store\.json has version 2, this admil reads version 1"):
        BagStore.open(tmp_path)
    write_document(tmp_path / "store.json", "admil-model", 1, fields)
    with pytest.raises(CorruptFile, match=r"store\.json is no admil-store file but 'admil-model'"):
        BagStore.open(tmp_path)


def test_a_header_edited_by_hand_is_found_out(tmp_path: Path) -> None:
    written(tmp_path, full())
    path = tmp_path / "store.json"
    path.write_text(path.read_text().replace('"width": 3', '"width": 4'))
    with pytest.raises(CorruptFile, match=r"store\.json is damaged or was edited: its checksum is not the one written"):
        BagStore.open(tmp_path)
