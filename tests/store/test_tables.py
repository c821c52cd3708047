"""The Parquet tables of a part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from admil.errors import CorruptFile, InvalidInput
from admil.store.layout import TRUTH_SCHEMA
from admil.store.tables import check_file, details_table, read_rows, read_table, truth_row, write_table


def truth_table() -> pa.Table:
    return pa.table([["a", "b"], [[True, False], [False]]], schema=TRUTH_SCHEMA)


def test_a_table_comes_back_and_its_digest_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "t.parquet"
    digest = write_table(truth_table(), path)
    assert read_table(path, digest, TRUTH_SCHEMA).equals(truth_table())
    check_file(path, digest)
    assert write_table(truth_table(), tmp_path / "again.parquet") == digest


def test_a_table_that_is_missing_damaged_foreign_or_no_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    digest = write_table(truth_table(), path)
    with pytest.raises(CorruptFile, match=r"t\.parquet has columns \['bag', 'positive'\], expected \['x'\]"):
        read_table(path, digest, pa.schema([pa.field("x", pa.int8())]))
    path.write_bytes(path.read_bytes()[:-1])
    for read in (lambda: read_table(path, digest, TRUTH_SCHEMA), lambda: check_file(path, digest)):
        with pytest.raises(CorruptFile, match=r"t\.parquet is damaged: its checksum is not the one written"):
            read()
    path.write_bytes(b"no table")
    check = "f1ab21c5fbd5b4fd74c1d8c4a5f8b7a0"
    with pytest.raises(CorruptFile, match=r"t\.parquet is damaged"):
        read_table(path, check, TRUTH_SCHEMA)
    with pytest.raises(CorruptFile, match=r"t\.parquet is no Parquet file"):
        read_rows(path, 0, 1)
    path.unlink()
    for read in (
        lambda: read_table(path, digest, TRUTH_SCHEMA),
        lambda: check_file(path, digest),
        lambda: read_rows(path, 0, 1),
    ):
        with pytest.raises(CorruptFile, match=r"t\.parquet is missing; the store was not copied whole"):
            read()


@pytest.mark.parametrize(("start", "count"), [(0, 1), (2, 1), (0, 3), (2, 3), (3, 3), (3, 4), (9, 1), (0, 10), (5, 4)])
def test_some_rows_are_read_across_row_groups(start: int, count: int, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": list(range(10))}), tmp_path / "t.parquet", row_group_size=3)
    assert read_rows(tmp_path / "t.parquet", start, count)["n"].to_pylist() == list(range(start, start + count))


def test_rows_beyond_the_end_mean_that_the_table_is_another(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": list(range(10))}), tmp_path / "t.parquet", row_group_size=3)
    with pytest.raises(CorruptFile, match=r"t\.parquet is no Parquet file with 11 rows"):
        read_rows(tmp_path / "t.parquet", 8, 3)


def test_known_columns_have_their_type_and_others_keep_theirs() -> None:
    columns = {
        "left": np.array([1, 2], dtype=np.int64),
        "x": [1, None],
        "text": np.array(["a", "b"]),
        "own": [1.5, 2],
        "flag": [True, None],
        "empty": [None, None],
    }
    table = details_table("a", 2, columns, None)
    assert table.to_pylist() == [
        {"bag": "a", "index": 0, "left": 1, "x": 1.0, "text": "a", "own": 1.5, "flag": True, "empty": None},
        {"bag": "a", "index": 1, "left": 2, "x": None, "text": "b", "own": 2.0, "flag": None, "empty": None},
    ]
    assert [str(field.type) for field in table.schema] == [
        "string", "int32", "int32", "double", "string", "double", "bool", "null"
    ]  # fmt: skip


def test_columns_come_in_the_order_of_the_store_and_missing_ones_are_empty() -> None:
    schema = details_table("a", 1, {"text": ["t"], "x": [0.5]}, None).schema
    assert details_table("b", 1, {"x": [1.5]}, schema).to_pylist() == [{"bag": "b", "index": 0, "text": None, "x": 1.5}]
    with pytest.raises(
        InvalidInput, match=r"bag 'c' brings instance column 'y', .* \(text, x\); give every bag the same"
    ):
        details_table("c", 1, {"y": [1]}, schema)
    with pytest.raises(InvalidInput, match="bag 'c': the values of instance column 'x' do not fit double"):
        details_table("c", 1, {"x": ["one"]}, schema)
    with pytest.raises(InvalidInput, match="bag 'c': the values of instance column 'own' do not fit one type"):
        details_table("c", 2, {"own": [1, "one"]}, None)


def test_truth_is_kept_as_true_and_false() -> None:
    assert truth_row("a", 1, np.array([0.0, 1.0]), 2) == ("a", [False, True])
    assert truth_row("a", None, np.array([True]), 1) == ("a", [True])
