"""What docs/importers.md says can be typed, and does what it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from PIL import Image

from admil.features import MAX_PIXELS, PICTURE_SUFFIXES, PictureEncoderName
from admil.importers.names import BAG, BAG_OF_LINE, LABEL, SPLIT, TRUTH
from admil.store import BagStore
from tests.cli.calling import call

from .sources import BAGS, KINDS, write_labels

PAGE = (Path(__file__).parents[2] / "docs" / "importers.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^admil import .*$", PAGE, re.MULTILINE)


def write_sources(folder: Path) -> None:
    """Write the sources that the page names."""
    names = ("arrays-folder", "arrays-flat", "table-csv", "table-parquet", "h5-trident", "pt-clam", "torchmil")
    for kind in KINDS:
        if kind.name in (*names, "jsonl-bags", "jsonl-instances"):
            kind.write(folder)
    write_labels(folder / "labels.csv")
    picture = Image.fromarray(np.full((80, 70, 3), 51, np.uint8))
    (folder / "photos").mkdir()
    listed = ["bag,path"]
    posts = []
    for bag in BAGS:
        (folder / "album" / bag.id).mkdir(parents=True)
        picture.save(folder / "album" / bag.id / "1.png")
        picture.save(folder / "photos" / f"{bag.id}.png")
        listed.append(f"{bag.id},photos/{bag.id}.png")
        word = "rocket" if bag.label else "rain"
        posts.append(json.dumps({"bag": bag.id, "label": bag.label, "split": bag.split, "text": word}))
    (folder / "pictures.csv").write_text("\n".join(listed))
    (folder / "posts.jsonl").write_text("\n".join(posts))


ENCODED = {
    "album": [[pytest.approx(0.2)] * 768],
    "photos": [[pytest.approx(0.2)] * 768] * 4,  # 70 x 80 pixels, and tiles of 60 x 75
    "pictures.csv": [[pytest.approx(0.2)] * 768],
    "posts.jsonl": [[0.0, 1.0]],  # rain, rocket
}
"""Features of bag a, by source."""


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_run_as_printed(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sources(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = call(*shlex.split(command)[1:])
    assert done.code == 0, done.err
    store = BagStore.open("store")
    assert len(store) == 5
    assert store["a"].tolist() == ENCODED.get(shlex.split(command)[3], BAGS[0].features.tolist())


def test_every_kind_is_shown() -> None:
    shown = {command.split()[2] for command in COMMANDS}
    assert shown == {kind.name.split("-")[0] for kind in KINDS} | {"images", "text"}
    assert set(re.findall(r"\[`(\w+)`\]\(#", PAGE)) == shown


@pytest.mark.parametrize("first", ['{"bag": "a", "label": 1, "split"', '{"bag": "a", "label": 1, "features": [0.1'])
def test_the_lines_of_json_can_be_imported(first: str, tmp_path: Path) -> None:
    (block,) = [text for text in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) if text.startswith(first)]
    (tmp_path / "t.jsonl").write_text(block)
    assert call("import", "jsonl", tmp_path / "t.jsonl", tmp_path / "store").code == 0
    store = BagStore.open(tmp_path / "store")
    assert [row["text"] for row in store.details("a")] == ["one", "two"]
    assert store["a"].tolist() == [pytest.approx([0.1, 2.0]), pytest.approx([0.3, 1.0])]


def test_the_python_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sources(tmp_path)
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "importers.md", "exec"), {})
    assert capsys.readouterr().out == "5 ()\n"
    assert len(BagStore.open("store-from-python")) == 5


def test_a_line_of_text_can_be_imported(tmp_path: Path) -> None:
    (line,) = re.findall(r'^\{"bag": "thread-7".*$', PAGE, re.MULTILINE)
    (tmp_path / "t.jsonl").write_text(line + '\n{"bag": "thread-8", "label": 0, "split": "train", "text": "no"}')
    assert call("import", "text", tmp_path / "t.jsonl", tmp_path / "store").code == 0
    assert BagStore.open(tmp_path / "store").details("thread-7") == [{"text": "Launch is on Friday", "id": "post-93"}]


def test_the_usual_names_of_columns_are_those_of_the_code() -> None:
    for name in (*BAG_OF_LINE, *LABEL, *SPLIT, *TRUTH):
        assert f"`{name}`" in PAGE
    assert ", ".join(f"`{name}`" for name in BAG[:-1]) + f" or `{BAG[-1]}` | `--bag-column`" in PAGE


def test_the_encoders_and_limits_are_those_of_the_code() -> None:
    for name in get_args(PictureEncoderName):
        assert f"| `{name}`" in PAGE
    assert f"{MAX_PIXELS / 1e6:.0f} million pixels" in PAGE
    for suffix in PICTURE_SUFFIXES:
        assert f"`{suffix}`" in PAGE
