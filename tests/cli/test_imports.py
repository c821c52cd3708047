"""`admil import`, from the command line."""

from __future__ import annotations

import os
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


def test_stopped_by_a_key_the_same_command_goes_on(tmp_path: Path) -> None:
    rows, store = 15_000, tmp_path / "store"
    np.savez(tmp_path / "many.npz", features=np.ones((rows, 2), np.float32), offsets=np.arange(rows + 1))

    def stop() -> None:
        while not any(path.stat().st_size for path in (store / "features").glob("*")):  # rows have been written
            done.wait(0.002)
        os.kill(os.getpid(), signal.SIGINT)

    done = threading.Event()
    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    stopped = call("import", "arrays", tmp_path / "many.npz", store)
    thread.join()
    assert stopped.code == 130
    assert stopped.err.strip() == "interrupted; the same command goes on from here"
    assert call("import", "arrays", tmp_path / "many.npz", store).code == 0
    assert len(BagStore.open(store)) == rows


@pytest.mark.parametrize("command", ["arrays", "table", "h5", "pt", "torchmil", "jsonl"])
def test_a_source_that_is_not_there_is_named(command: str, tmp_path: Path) -> None:
    done = call("import", command, tmp_path / "none", tmp_path / "store")
    assert done.code == 1
    assert f"there is no {'folder' if command in ('h5', 'pt', 'torchmil') else 'file'} {tmp_path / 'none'}" in done.err
    assert not (tmp_path / "store").exists()
