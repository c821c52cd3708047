"""`admil fit` and `admil score`, from the command line."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from admil.api import load_model
from admil.datasets import digits
from admil.oracle import Truth
from admil.store import BagStore
from tests.cli.calling import call


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of digit bags with truth and pictures, and three bags without a label."""
    folder = tmp_path_factory.mktemp("digits") / "store"
    train, test = digits(0, train_bags=40, test_bags=30, sizes=(8, 14), positives=(1, 2))
    with BagStore.create(folder) as writer:
        for part, split in ((train, "train"), (test, "test")):
            for number, bag in enumerate(part.bags.ids):
                rows = slice(*part.bags.index.offsets[number : number + 2])
                assert part.bags.labels is not None
                name = writer.picture(f"{bag}.png", _strip(part.bags[bag].numpy()))
                count = len(part.bags[bag])
                boxes: dict[str, list[Any]] = {
                    "path": [name] * count,
                    "left": [8 * i for i in range(count)],
                    "top": [0] * count,
                    "right": [8 * i + 8 for i in range(count)],
                    "bottom": [8] * count,
                }
                label = int(part.bags.labels[number]) if split == "train" or number > 2 else None
                writer.add(bag, part.bags[bag], label, split, boxes, part.truth.positive[rows])
    return folder


def _strip(rows: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> bytes:
    picture = np.concatenate([255 - (255 * row.reshape(8, 8)).astype(np.uint8) for row in rows], axis=1)
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def model(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model") / "model"
    done = call("fit", store, "--out", out, "--steps", 60, "--members", 4)
    assert done.code == 0, done.err
    assert "80 bags (40 positive)" in done.out, "the split named train is the default"
    assert "AUROC of held-out bags" in done.out
    assert f"admil score {out} {store} --out scores.parquet" in done.out
    return out


def test_scores_have_a_row_for_every_instance_in_the_order_of_the_store(
    store: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "scores.parquet"
    done = call("score", model, store, "--out", out)
    assert done.code == 0, done.err
    bags, rows = BagStore.open(store), pq.read_table(out)
    assert rows["bag"].to_pylist() == [bags.ids[number] for number in bags.index.bag_of]
    f = rows["f"].to_numpy()
    order = np.argsort(-f, kind="stable")
    shown = [line.split("│")[2].strip() for line in done.out.splitlines() if line.startswith("│")]
    assert shown == [rows["bag"][int(i)].as_py() for i in order[:10]]
    assert "trained on bags among these" in done.out


def test_an_evaluation_reads_the_truth_and_finds_positives(store: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.csv"
    done = call("score", model, store, "--out", out, "--split", "test", "--evaluate", "--top", 0)
    assert done.code == 0, done.err
    said = float(done.out.split("instance AP ")[1].split(" %")[0])
    positive = Truth.of_store(BagStore.open(store).where(split="test")).positive
    assert said > 3 * 100 * positive.mean(), "far above chance"
    assert "trained on" not in done.out
    assert len(out.read_text().splitlines()) == 1 + len(positive)


def test_the_highest_instances_pictures_are_put_on_a_sheet(store: Path, model: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheets" / "top.png"
    done = call("score", model, store, "--out", tmp_path / "s.parquet", "--top", 7, "--sheet", sheet)
    assert done.code == 0, done.err
    with Image.open(sheet) as picture:
        assert picture.width > 1000, "five columns"
        assert np.asarray(picture.convert("L")).std() > 20, "not blank"
    assert "pictures/" in done.out, "the table says where the picture is"


def test_a_recipe_comes_from_a_file_and_options_go_before_it(store: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.json"
    recipe.write_text('{"hidden": [5], "members": 3, "max_steps": 40}')
    done = call("fit", store, "--out", tmp_path / "model", "--recipe", recipe, "--steps", 3)
    assert done.code == 0, done.err
    trained = load_model(tmp_path / "model").recipe
    assert (trained.hidden, trained.members, trained.max_steps) == ((5,), 3, 3)


def test_what_is_there_is_not_replaced_unless_asked(store: Path, model: Path, tmp_path: Path) -> None:
    assert "--force" in call("fit", store, "--out", model).err
    out = tmp_path / "scores.csv"
    out.write_text("mine")
    assert "--force" in call("score", model, store, "--out", out).err
    assert out.read_text() == "mine"
    assert call("score", model, store, "--out", out, "--force").code == 0
    assert out.read_text().startswith('"bag","index"')


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "{tmp}/none", "--out", "{tmp}/m"], "there is no store.json"),
        (["fit", "{store}", "--out", "{tmp}/m", "--split", "valid"], "its splits are: 'test', 'train'"),
        (["fit", "{store}", "--out", "{tmp}/m", "--recipe", "{tmp}/r.json"], "r.json"),
        (["score", "{tmp}/none", "{store}", "--out", "{tmp}/s.csv"], "there is no model.json"),
        (["score", "{model}", "{store}", "--out", "{tmp}/s.txt"], ".parquet or .csv"),
        (["fit", "{store}", "--out", "{tmp}/m", "--device", "toaster"], "toaster"),
    ],
)
def test_a_wrong_argument_gets_one_sentence(
    arguments: list[str], words: str, store: Path, model: Path, tmp_path: Path
) -> None:
    filled = [word.format(tmp=tmp_path, store=store, model=model) for word in arguments]
    done = call(*filled)
    assert done.code == 1
    assert words in done.err
    assert "Traceback" not in done.err


def test_instances_without_pictures_have_no_sheet(model: Path, tmp_path: Path) -> None:
    with BagStore.create(tmp_path / "bare") as writer:
        writer.add("a", np.zeros((2, 64), np.float32), 1)
    done = call("score", model, tmp_path / "bare", "--out", tmp_path / "s.csv", "--sheet", tmp_path / "t.png")
    assert done.code == 1
    assert "leave --sheet out" in done.err
    assert not (tmp_path / "t.png").exists()
