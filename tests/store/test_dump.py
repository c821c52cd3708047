"""A store as one file: what other programs find in it, and that an import makes the same store of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from admil.errors import InvalidInput
from admil.importers import ArrayImporter, TableImporter, run_import
from admil.oracle import Truth
from admil.store import BagStore, DtypeName, Source, dump_store
from tests.store.making import Given, content_of, files_of, full, rows, written


def labelled() -> list[Given]:
    return [each for each in full() if each.label is not None]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_parquet_file_becomes_the_same_store_again(dtype: DtypeName, tmp_path: Path) -> None:
    store = written(tmp_path / "s", labelled(), dtype=dtype)
    dump_store(store, tmp_path / "out" / "bags.parquet", Truth.of_store(store).positive)
    run_import(TableImporter(tmp_path / "out" / "bags.parquet"), tmp_path / "again")
    again = BagStore.open(tmp_path / "again")
    assert content_of(again) == content_of(store)
    assert again.header.dtype == dtype


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_an_npz_becomes_the_same_bags_again(dtype: DtypeName, tmp_path: Path) -> None:
    store = written(tmp_path / "s", labelled(), dtype=dtype)
    dump_store(store, tmp_path / "bags.npz", Truth.of_store(store).positive)
    run_import(ArrayImporter(tmp_path / "bags.npz"), tmp_path / "again")
    again = BagStore.open(tmp_path / "again")
    assert again.digest == store.digest
    assert again.splits.tolist() == store.splits.tolist()
    assert dict(again.truth_rows()) == dict(store.truth_rows())


def test_what_numpy_finds_in_an_npz(tmp_path: Path) -> None:
    given = full()
    assert dump_store(written(tmp_path / "s", given), tmp_path / "bags.npz") is None
    with np.load(tmp_path / "bags.npz", allow_pickle=False) as found:
        assert sorted(found) == ["features", "ids", "labels", "offsets", "splits"]
        np.testing.assert_array_equal(found["features"], np.concatenate([each.features for each in given]))
        assert found["offsets"].tolist() == [0, 1, 3, 6, 10, 11, 13, 16]
        assert found["ids"].tolist() == [each.bag for each in given]
        np.testing.assert_array_equal(found["labels"], [1, 0, np.nan, 1, 0, np.nan, 1])
        assert found["splits"].tolist() == ["train", "test", "", "train", "test", "", "train"]


def test_what_arrow_finds_in_a_parquet_file(tmp_path: Path) -> None:
    given = full()
    dump_store(written(tmp_path / "s", given), tmp_path / "bags.parquet")
    table = pq.read_table(tmp_path / "bags.parquet")
    assert table.column_names == ["bag", "label", "split", "text", "x", "features"], "truth is not told unasked"
    first = table.slice(3, 2).to_pylist()
    assert first[0] == {
        "bag": "bag 2 ü",
        "label": None,
        "split": None,
        "text": "post 2.0",
        "x": 0.0,
        "features": given[2].features[0].tolist(),
    }
    assert first[1]["text"] == "post 2.1"


def test_some_bags_are_written_in_their_order(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full()).subset([6, 1])
    dump_store(store, tmp_path / "bags.parquet")
    table = pq.read_table(tmp_path / "bags.parquet")
    assert table["text"].to_pylist() == ["post 6.0", "post 6.1", "post 6.2", "post 1.0", "post 1.1"]
    assert table["features"].to_pylist() == store.load().features.tolist()


def test_bfloat16_becomes_the_float32_of_the_same_value(tmp_path: Path) -> None:
    store = written(tmp_path / "s", [Given("a", rows(2), 1)], dtype="bfloat16")
    for name in ("bags.npz", "bags.parquet"):
        dump_store(store, tmp_path / name)
    with np.load(tmp_path / "bags.npz") as found:
        assert found["features"].dtype == np.float32
        assert found["features"].tolist() == store["a"].tolist()
    assert pq.read_table(tmp_path / "bags.parquet")["features"].to_pylist() == store["a"].tolist()


@pytest.mark.parametrize("name", ["bags.npz", "bags.parquet"])
def test_the_same_store_makes_the_same_bytes_and_replaces_the_file(name: str, tmp_path: Path) -> None:
    store = written(tmp_path / "s", full())
    (tmp_path / name).write_text("before")
    dump_store(store, tmp_path / name)
    once = (tmp_path / name).read_bytes()
    dump_store(BagStore.open(tmp_path / "s"), tmp_path / name)
    assert (tmp_path / name).read_bytes() == once


def test_parts_with_and_without_columns_go_together(tmp_path: Path) -> None:
    given = [
        Given("plain", rows(2), 0),
        Given("some", rows(2), 1, instances={"text": [None, None], "age": [1, None]}),
        Given("all", rows(1), 1, instances={"text": ["t"], "age": [3]}),
    ]
    store = written(tmp_path / "s", given, part_bytes=1)
    assert store.columns == pa.schema([("text", pa.string()), ("age", pa.int64())])
    dump_store(store, tmp_path / "bags.parquet")
    table = pq.read_table(tmp_path / "bags.parquet")
    assert table["text"].to_pylist() == [None, None, None, None, "t"]
    assert table["age"].to_pylist() == [None, None, 1, None, 3]


def test_a_column_without_any_value_is_a_column_of_empty_texts(tmp_path: Path) -> None:
    store = written(tmp_path / "s", [Given("a", rows(2), 1, instances={"note": [None, None]})])
    dump_store(store, tmp_path / "bags.parquet")
    assert pq.read_table(tmp_path / "bags.parquet")["note"].to_pylist() == [None, None]


def test_paths_are_relative_to_the_folder_that_holds_all_pictures(tmp_path: Path) -> None:
    for name in ("one", "two"):
        source = Source(kind="images", name=name, root=str(tmp_path / "photos" / name))
        bag = Given(name, rows(2), 1, instances={"path": ["a.png", None]})
        if name == "one":
            store = written(tmp_path / "s", [bag], source=source)
            assert dump_store(store, tmp_path / "one.parquet") == tmp_path / "photos" / "one"
            assert pq.read_table(tmp_path / "one.parquet")["path"].to_pylist() == ["a.png", None]
        else:
            with BagStore.append(tmp_path / "s", source=source) as writer:
                bag.add(writer)
    assert dump_store(BagStore.open(tmp_path / "s"), tmp_path / "two.parquet") == tmp_path / "photos"
    assert pq.read_table(tmp_path / "two.parquet")["path"].to_pylist() == ["one/a.png", None, "two/a.png", None]


def test_bags_are_counted_as_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admil.store.dump._ENTRIES", 3 * 3)  # three rows at a time
    store = written(tmp_path / "s", full())
    for name in ("bags.npz", "bags.parquet"):
        seen: list[int] = []
        dump_store(store, tmp_path / name, on_bag=seen.append)
        assert seen[-1] == 7
        assert len(seen) > 3
    run_import(ArrayImporter(tmp_path / "bags.npz"), tmp_path / "again")
    assert BagStore.open(tmp_path / "again").digest == store.digest
    assert pq.read_table(tmp_path / "bags.parquet")["features"].to_pylist() == store.load().features.tolist()


def test_a_name_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"dumped as \.npz or \.parquet, bags\.csv is neither; rename it"):
        dump_store(written(tmp_path / "s", full()), tmp_path / "bags.csv")


def test_a_column_that_is_named_as_one_of_the_dump_is_refused(tmp_path: Path) -> None:
    store = written(tmp_path / "s", [Given("a", rows(1), 1, instances={"truth": ["said"]})])
    with pytest.raises(InvalidInput, match=r"is named 'truth', as one of the dump is; dump it as \.npz"):
        dump_store(store, tmp_path / "bags.parquet")
    assert list(tmp_path.glob("*bags*")) == []


def test_a_dump_that_is_stopped_leaves_what_was_there(tmp_path: Path) -> None:
    def stop(done: int) -> None:
        raise KeyboardInterrupt

    store = written(tmp_path / "s", full())
    (tmp_path / "bags.npz").write_text("before")
    before = files_of(tmp_path)
    for name in ("bags.npz", "bags.parquet"):
        with pytest.raises(KeyboardInterrupt):
            dump_store(store, tmp_path / name, on_bag=stop)
    assert files_of(tmp_path) == before
