"""docs/store.md is enough to read a store: the reader that it prints reads what we write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from admil.store import BagStore, DtypeName, Source, relabel
from admil.store.layout import BAG_SCHEMA, KNOWN_COLUMNS, LABEL_SCHEMA, SUM_SCHEMA, TRUTH_SCHEMA
from tests.store.making import Given, full, rows, written

PAGE = (Path(__file__).parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
READER, USE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def printed_reader() -> Any:
    assert "admil" not in READER.replace('"admil-store"', "").replace('["admil"]', ""), "a reader of one's own"
    names: dict[str, Any] = {}
    exec(compile(READER, "store.md", "exec"), names)
    return names["read"]


def read(folder: Path) -> Iterator[tuple[Any, ...]]:
    return cast(Iterator[tuple[Any, ...]], printed_reader()(folder))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_printed_reader_reads_all_there_is(dtype: DtypeName, tmp_path: Path) -> None:
    written(tmp_path / "s", full(), dtype=dtype, source=Source(kind="table", name="ü.csv"))
    relabel(tmp_path / "s", {"bag 2 ü": (0, "new")})
    store = BagStore.open(tmp_path / "s")
    found = list(read(tmp_path / "s"))
    truth = dict(store.truth_rows())
    assert [row[0] for row in found] == list(store.ids)
    for number, (bag, label, split, features, instances, positive) in enumerate(found):
        assert features.dtype == dtype
        np.testing.assert_array_equal(features, store[bag].numpy())
        assert (-1 if label is None else label) == store.known_labels[number]
        assert split == store.splits[number]
        assert [{name: row[name] for name in ("text", "x")} for row in instances] == store.details(bag)
        assert [(row["bag"], row["index"]) for row in instances] == [(bag, i) for i in range(len(features))]
        assert positive == truth.get(bag)


def test_the_printed_reader_reads_a_store_of_features_alone(tmp_path: Path) -> None:
    written(tmp_path / "s", [Given("a", rows(2), 1), Given("b", rows(1))])
    assert [(row[0], row[1], row[4], row[5]) for row in read(tmp_path / "s")] == [
        ("a", 1, None, None),
        ("b", None, None, None),
    ]


@pytest.mark.parametrize(
    "file", ["store.json", "bags/000000.parquet", "features/000000.safetensors", "truth/000000.parquet"]
)
def test_the_printed_reader_notices_damage(file: str, tmp_path: Path) -> None:
    written(tmp_path / "s", full())
    path = tmp_path / "s" / file
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises((AssertionError, ValueError)):
        list(read(tmp_path / "s"))


def test_the_columns_on_the_page_are_those_of_the_code() -> None:
    def section(name: str) -> str:
        return PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]

    manifest = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", section("bags"), re.MULTILINE))
    assert manifest == {field.name: str(field.type) for field in BAG_SCHEMA}
    listed = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (\w+) \|", section("instances"), re.MULTILINE)
    known = {name: kind for names, kind in listed for name in re.findall(r"`(\w+)`", names)}
    doubles = {"double": "float64"}
    assert known == {name: doubles.get(str(kind), str(kind)) for name, kind in KNOWN_COLUMNS.items()}
    assert all(f"`{name}`" in section("truth") for name in TRUTH_SCHEMA.names)
    assert all(f"`{name}`" in section("picture_sums and labels") for name in (*SUM_SCHEMA.names, *LABEL_SCHEMA.names))


def test_every_key_of_the_header_is_on_the_page(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full(), source=Source(kind="table", name="t"))
    words = set(re.findall(r"`(\w+)`", PAGE.split("\n## store.json\n")[1].split("\n## ")[0]))
    assert words >= {"format", "version", "sha256", *type(store.header).model_fields}
    assert words >= {*type(store.header.parts[0]).model_fields, *Source.model_fields}


def test_the_python_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    slides = [(f"slide-{number}", rows(4, seed=number), number % 2) for number in range(8)]
    exec(compile(USE, "store.md", "exec"), {"slides": slides})
    store = BagStore.open("slides")
    assert (len(store), store.header.dtype) == (8, "float16")
    assert store.details("slide-0")[3] == {"x": 3.0}
