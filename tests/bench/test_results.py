"""Results are kept as they come, whatever dies."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from admil.bench import ResultFile
from admil.errors import CorruptFile


def done(key: str, value: int = 0) -> dict[str, object]:
    return {"key": key, "status": "done", "value": value}


def test_what_was_added_is_read(tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "new" / "r.jsonl")
    assert file.read() == {}
    file.add(done("a"))
    file.add(done("b", 1))
    assert file.read() == {"a": done("a"), "b": done("b", 1)}
    assert (tmp_path / "new" / "r.jsonl").read_text().count("\n") == 2


def test_a_success_goes_before_failures_and_the_last_before_the_first(tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "r.jsonl")
    failed = {"key": "a", "status": "failed", "reason": "no"}
    for result in (failed, done("a", 1), failed, done("b", 1), done("b", 2)):
        file.add(result)
    assert file.read() == {"a": done("a", 1), "b": done("b", 2)}


@pytest.mark.parametrize("cut", [1, 7, 200_000])
def test_a_line_that_was_cut_off_is_as_if_it_never_was(cut: int, tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "r.jsonl")
    file.add(done("a"))
    file.path.write_bytes(file.path.read_bytes() + (b'{"key": "b", ' + b"x" * 300_000)[:cut])
    assert file.read() == {"a": done("a")}
    file.add(done("c"))
    assert file.read() == {"a": done("a"), "c": done("c")}


def test_a_first_line_that_was_cut_off_goes_too(tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "r.jsonl")
    file.path.write_bytes(b'{"key"')
    file.add(done("a"))
    assert file.read() == {"a": done("a")}


@pytest.mark.parametrize("line", [b"no JSON", b"[]", b'{"key": "a"}', b"\xff"])
def test_a_damaged_line_is_named(line: bytes, tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "r.jsonl")
    file.add(done("a"))
    file.path.write_bytes(file.path.read_bytes() + line + b"\n")
    with pytest.raises(CorruptFile, match=r"r\.jsonl, line 2 is damaged: .*; delete that line"):
        file.read()


def add_many(file: ResultFile, name: str) -> None:
    for number in range(50):
        file.add({**done(f"{name}-{number}"), "filling": "x" * 5_000})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of multiprocessing, about threads beside forks
def test_processes_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "r.jsonl")
    context = multiprocessing.get_context("forkserver")
    processes = [context.Process(target=add_many, args=(file, name)) for name in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(file.read()) == 150
