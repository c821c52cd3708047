"""`admil import`, from the command line."""

from __future__ import annotations

import json
import os
import shlex
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from admil.store import BagStore
from tests.cli.calling import call
from tests.importers.sources import BAGS, KINDS, Kind, write_labels


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_has_a_command(kind: Kind, tmp_path: Path) -> None:
    source, store = kind.write(tmp_path), tmp_path / "store"
    labels = [] if kind.labelled else ["--labels", write_labels(tmp_path / "labels-of-bags.csv")]
    done = call("import", kind.name.split("-")[0], source, store, *labels)
    assert done.code == 0, done.err
    assert "Imported 5 bags with 12 instances." in done.out
    assert f"Store: {store}  5 bags (3 positive), 12 instances of 3 features, float32" in done.out
    assert f"Next: admil fit {store} --out model" in done.out
    assert BagStore.open(store)["c-3"].tolist() == BAGS[2].features.tolist()


def test_a_label_file_beside_the_bags_is_found(tmp_path: Path) -> None:
    folder = KINDS[0].write(tmp_path)
    write_labels(folder / "labels.csv")
    done = call("import", "arrays", folder, tmp_path / "store")
    assert f"Labels: {folder / 'labels.csv'}, 5 bags" in done.out
    assert BagStore.open(tmp_path / "store").known_labels.tolist() == [1, 0, 1, 0, 1]


def test_bags_without_a_label_are_counted_and_given_a_split(tmp_path: Path) -> None:
    done = call(
        "import", "arrays", KINDS[0].write(tmp_path), tmp_path / "store", "--split", "new", "--dtype", "float16"
    )
    assert "5 bags (0 positive, 5 without a label), 12 instances of 3 features, float16" in done.out
    assert set(BagStore.open(tmp_path / "store").splits) == {"new"}


def test_labels_may_be_words_and_ids_have_endings(tmp_path: Path) -> None:
    lines = [f"{bag.id}.svs,{'tumor' if bag.label else 'normal'}" for bag in BAGS]
    (tmp_path / "clam.csv").write_text("\n".join(["slide_id,label", *lines]))
    source = KINDS[0].write(tmp_path)
    options = ("--labels", tmp_path / "clam.csv", "--strip", ".svs", "--positive", "tumor")
    assert call("import", "arrays", source, tmp_path / "store", *options).code == 0
    assert BagStore.open(tmp_path / "store").known_labels.tolist() == [1, 0, 1, 0, 1]


def test_the_columns_of_a_table_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("scan;y;cell;fold;f1;f2;age;path\nA;1;0;u;1;2;70;a.png\nA;1;1;u;3;4;71;b.png\n")
    names = ("--bag-column", "scan", "--label-column", "y", "--truth-column", "cell", "--split-column", "fold")
    options = (*names, "--features", "f1", "--features", "f2", "--delimiter", ";", "--root", tmp_path / "pictures")
    done = call("import", "table", tmp_path / "t.csv", tmp_path / "store", *options)
    assert done.code == 0, done.err
    store = BagStore.open(tmp_path / "store")
    assert store["A"].tolist() == [[1, 2], [3, 4]]
    assert store.splits.tolist() == ["u"]
    assert store.details("A")[1] == {"age": 71.0, "path": "b.png"}
    assert store.root_of("A") == tmp_path / "pictures"


def test_what_is_left_out_is_counted_with_its_reasons(tmp_path: Path) -> None:
    folder = KINDS[0].write(tmp_path)
    for i in range(7):
        (folder / f"torn-{i}.npy").write_bytes(b"torn")
    write_labels(tmp_path / "some.csv", BAGS[:4])
    refused = call("import", "arrays", folder, tmp_path / "store")
    assert refused.code == 1
    assert "torn-0.npy cannot be read: expected an (n, D) array of numbers" in refused.err
    assert "Traceback" not in refused.err
    done = call("import", "arrays", folder, tmp_path / "store", "--skip-errors")
    assert done.code == 0, done.err
    assert done.out.count("left out: ") == 6
    assert "left out: 2 more" in done.out
    done = call("import", "arrays", folder, tmp_path / "other", "--labels", tmp_path / "some.csv", "--missing", "skip")
    assert "Imported 4 bags with 10 instances, 8 left out that lack a label line, or features." in done.out


def test_the_same_command_again_adds_what_is_new(tmp_path: Path) -> None:
    folder = KINDS[0].write(tmp_path)
    call("import", "arrays", folder, tmp_path / "store")
    np.save(folder / "new.npy", np.ones((2, 3), np.float32))
    done = call("import", "arrays", folder, tmp_path / "store")
    assert "Imported 1 bag with 2 instances, 5 were there already." in done.out


@pytest.mark.parametrize("kept", [0, 5])
def test_stopped_by_a_key_the_same_command_goes_on(kept: int, tmp_path: Path) -> None:
    rows, store = 15_000, tmp_path / "store"
    np.savez(tmp_path / "many.npz", features=np.ones((rows, 3), np.float32), offsets=np.arange(rows + 1))
    if kept:
        assert call("import", "arrays", KINDS[0].write(tmp_path), store).code == 0
    part = store / "features" / f"{int(kept > 0):06d}.safetensors"

    def stop() -> None:
        while not any(path.stat().st_size for path in part.parent.glob(f"{part.stem}*")):  # rows have been written
            done.wait(0.002)
        os.kill(os.getpid(), signal.SIGINT)

    done = threading.Event()
    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    stopped = call("import", "arrays", tmp_path / "many.npz", store)
    thread.join()
    assert stopped.code == 130
    said = "5 bags are kept, the same command goes on from here" if kept else "nothing was kept yet"
    assert stopped.err.strip() == f"interrupted; {said}"
    assert call("import", "arrays", tmp_path / "many.npz", store).code == 0
    assert len(BagStore.open(store)) == rows + kept


def test_commands_to_paste_are_quoted(tmp_path: Path) -> None:
    store = tmp_path / "my store [1]"
    done = call("import", "table", KINDS[3].write(tmp_path), store)
    assert f"Next: admil fit '{store}' --out model" in done.out
    assert f"Store: {store}  5 bags" in done.out


def test_the_columns_that_became_features_are_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("bag,label,patient_id,f1,f2,x\na,1,7,1,2,0\nb,0,8,3,4,0\n")
    done = call("import", "table", tmp_path / "t.csv", tmp_path / "store")
    assert "Features: f1, f2; kept beside them: patient_id, x\n" in done.out
    (tmp_path / "t.csv").write_text("bag," + ",".join(f"f{i}" for i in range(1200)) + "\na" + ",1" * 1200 + "\n")
    done = call("import", "table", tmp_path / "t.csv", tmp_path / "wide")
    assert "Features: f0, f1, f2, f3, f4, … (1,200 columns)\n" in done.out


def test_new_bags_get_the_features_of_another_store_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("bag,label,f,g\na,1,1,2\nb,0,3,4\n")
    (tmp_path / "new.csv").write_text("g,bag,f\n20,n,10\n")
    call("import", "table", tmp_path / "old.csv", tmp_path / "old")
    done = call("import", "table", tmp_path / "new.csv", tmp_path / "new", "--like", tmp_path / "old")
    assert done.code == 0, done.err
    assert BagStore.open(tmp_path / "new")["n"].tolist() == [[10, 20]]
    call("import", "arrays", KINDS[0].write(tmp_path), tmp_path / "unnamed")
    done = call("import", "table", tmp_path / "new.csv", tmp_path / "other", "--like", tmp_path / "unnamed")
    assert (done.code, "does not name the columns that are its features" in done.err) == (1, True)


@pytest.mark.parametrize("kind", ["table", "jsonl", "text"])
def test_labels_that_are_words_may_be_in_the_source(kind: str, tmp_path: Path) -> None:
    words = {"a": "tumor", "b": "normal", "c": ""}
    source = tmp_path / f"source.{'csv' if kind == 'table' else 'jsonl'}"
    lines = [
        {"bag": bag, "label": word, "f": 1, "features": [1], "text": f"word {bag}x"} for bag, word in words.items()
    ]
    table = "\n".join(["bag,label,f", *(f"{bag},{word},1" for bag, word in words.items())])
    source.write_text(table if kind == "table" else "\n".join(map(json.dumps, lines)))
    done = call("import", kind, source, tmp_path / "store", "--positive", "tumor")
    assert done.code == 0, done.err
    assert BagStore.open(tmp_path / "store").known_labels.tolist() == [1, 0, -1]
    done = call("import", kind, source, tmp_path / "other", "--positive", "Tumor")
    assert (done.code, "is 'Tumor', the word for positive; the labels are: 'tumor', 'normal'" in done.err) == (1, True)

    (tmp_path / "labels.csv").write_text("bag,split\na,train\nb,train\nc,train\n")
    options = ("--positive", "tumor", "--labels", tmp_path / "labels.csv")
    assert call("import", kind, source, tmp_path / "splits", *options).code == 0
    store = BagStore.open(tmp_path / "splits")
    assert (store.known_labels.tolist(), set(store.splits)) == ([1, 0, -1], {"train"})


def test_bags_and_texts_may_be_called_otherwise(tmp_path: Path) -> None:
    lines = [{"thread": i, "body": f"word number{i}", "label": i % 2, "author": "ann"} for i in range(4)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    options = ("--bag-key", "thread", "--text-key", "body")
    assert call("import", "text", tmp_path / "t.jsonl", tmp_path / "store", *options).code == 0
    assert BagStore.open(tmp_path / "store").details("2") == [{"text": "word number2", "author": "ann"}]
    done = call("import", "text", tmp_path / "t.jsonl", tmp_path / "other")
    assert (
        "line 1 needs a bag id 'bag', a text or a whole number (bag_key=…, --bag-key say what else it is called)"
        in done.err
    )


@pytest.mark.parametrize("option", ["--strip", "--missing", "--positive", "--label-columns"])
def test_options_of_the_label_file_need_one(option: str, tmp_path: Path) -> None:
    value = "skip" if option == "--missing" else "a,b"
    done = call("import", "arrays", KINDS[0].write(tmp_path), tmp_path / "store", option, value)
    assert done.code == 1
    assert f"{option} is about a label file: name it with --labels, or leave {option} out" in done.err
    assert not (tmp_path / "store").exists()


def test_a_word_for_positive_needs_labels(tmp_path: Path) -> None:
    (tmp_path / "splits.csv").write_text("bag,split\n" + "".join(f"{bag.id},train\n" for bag in BAGS))
    options = ("--labels", tmp_path / "splits.csv", "--positive", "tumor")
    done = call("import", "arrays", KINDS[0].write(tmp_path), tmp_path / "store", *options)
    assert (done.code, "has no column of labels: leave --positive out" in done.err) == (1, True)


def test_the_columns_of_the_label_file_can_be_named(tmp_path: Path) -> None:
    rows = "".join(f"{bag.id},{bag.label},x\n" for bag in BAGS)
    (tmp_path / "l.csv").write_text("scan,outcome,label\n" + rows)
    source, options = KINDS[0].write(tmp_path), ("--labels", tmp_path / "l.csv", "--label-columns")
    done = call("import", "arrays", source, tmp_path / "store", *options, "scan, outcome")
    assert done.code == 0, done.err
    assert BagStore.open(tmp_path / "store").known_labels.tolist() == [1, 0, 1, 0, 1]
    done = call("import", "arrays", source, tmp_path / "store", *options, "scan")
    assert "--label-columns is two names such as slide,diagnosis, got 'scan'" in done.err


def test_ids_that_do_not_match_get_a_hint_and_bags_may_do_without_a_line(tmp_path: Path) -> None:
    lines = "".join(f"{bag.id}.svs,{bag.label}\n" for bag in BAGS[:3])
    (tmp_path / "l.csv").write_text("slide_id,label\n" + lines)
    command = ("import", "arrays", KINDS[0].write(tmp_path), tmp_path / "store", "--labels", tmp_path / "l.csv")
    done = call(*command)
    assert (
        "3 of the ids left over would match: the lines end in '.svs', which the bags do not: take it off with"
        in done.err
    )
    done = call(*command, "--strip", ".svs", "--missing", "unlabelled")
    assert done.code == 0, done.err
    assert BagStore.open(tmp_path / "store").known_labels.tolist() == [1, 0, 1, -1, -1]
    with (tmp_path / "l.csv").open("a") as file:
        file.write(f"{BAGS[3].id}.SVS,0\n{BAGS[4].id.upper()}.svs,1\n")
    done = call(*command, "--strip", ".svs", "--missing", "unlabelled")
    assert "note: 1 of the ids left over would match" in done.out


def test_labels_that_changed_since_are_not_taken_but_the_command_is_named(tmp_path: Path) -> None:
    path, store = tmp_path / "my labels.csv", tmp_path / "store"
    command = ("import", "arrays", KINDS[0].write(tmp_path), store, "--labels", path, "--positive", "yes")
    path.write_text("bag,label\n" + "".join(f"{bag.id},{'yes' if bag.label else 'no'}\n" for bag in BAGS))
    assert "note" not in call(*command).out + call(*command).out
    path.write_text(path.read_text().replace("a,yes", "a,no").replace("b,no", "b,yes"))
    done = call(*command)
    assert "note: 2 bags that were there already have another label or split in the label file, and keep" in done.out
    named = done.out[done.out.index("to change them: ") :].splitlines()[0]
    assert named == f"to change them: admil label {store} '{path}' --positive yes"
    assert "2 bags changed" in call(*shlex.split(named)[4:]).out
    assert "note" not in call(*command).out


@pytest.mark.parametrize("command", ["arrays", "table", "h5", "pt", "torchmil", "jsonl"])
def test_a_source_that_is_not_there_is_named(command: str, tmp_path: Path) -> None:
    done = call("import", command, tmp_path / "none", tmp_path / "store")
    assert done.code == 1
    assert f"there is no {'folder' if command in ('h5', 'pt', 'torchmil') else 'file'} {tmp_path / 'none'}" in done.err
    assert not (tmp_path / "store").exists()
