"""The command line as a person meets it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.docs import REFERENCE, cli_reference


def run(*arguments: str, folder: Path, keys: str = "") -> subprocess.CompletedProcess[str]:
    code = "import torch; torch.set_num_threads(1); from admil.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "ADMIL_SMOKE": "1"},
        input=keys,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_small_demo_prints_its_table_and_writes_a_report(tmp_path: Path) -> None:
    done = run("demo", "--seeds", "1", "--rounds", "1", "--budget", "4", "--out", "here", folder=tmp_path)

    assert done.returncode == 0, done.stderr
    for words in ("bag posterior", "P-F", "F-entropy", "random", "passive", "Ceiling", "Next"):
        assert words in done.stdout
    results = json.loads((tmp_path / "here" / "results.json").read_text())
    assert [method["rounds"][1]["answers"] for method in results["methods"]] == [4.0] * 4
    passive = {method["rounds"][0]["ap_mean"] for method in results["methods"]}
    assert len(passive) == 1, "all methods start from the same passive model"
    assert 0 < passive.pop() < 1
    assert 0 < results["ceiling"]["mean"] <= 1
    page = (tmp_path / "here" / "report.html").read_text()
    assert page.count("<li") == 4, "the gallery shows every question"
    for figure in ("curves.png", "p-f.png"):
        assert (tmp_path / "here" / figure).read_bytes().startswith(b"\x89PNG")


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert run("--version", folder=tmp_path).stdout == "admil 0.1.0\n"


def test_without_a_command_the_help_is_shown(tmp_path: Path) -> None:
    shown = run(folder=tmp_path)
    assert "demo" in shown.stdout + shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("demo", "--rounds", "0"), "rounds"),
        (("demo", "--seeds", "many"), "seeds"),
        (("dmeo",), "dmeo"),
        (("demo", "--out", "a-file"), "a-file"),
    ],
)
def test_a_wrong_argument_gets_a_sentence_and_no_traceback(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    (tmp_path / "a-file").write_text("in the way")
    done = run(*arguments, folder=tmp_path)
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_line_reference_is_current() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == cli_reference(), "run make docs"


def ask(keys: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run("ask", "--budget", "3", "--rounds", "1", folder=folder, keys=keys)


def test_a_person_answers_a_round_in_the_terminal(tmp_path: Path) -> None:
    done = ask("y\nmaybe\nu\nn\ns\nn\n", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "█" in done.stdout, "the picture is drawn"
    assert "y, n, s, u or q" in done.stdout, "an unknown key is explained"
    questions = [line for line in done.stdout.splitlines() if "an 8?" in line]
    places = [question.split(" · ")[0].split()[-3:] for question in questions]
    assert [place[0] for place in places] == ["1", "2", "2", "1", "2", "3"]
    assert "→" in done.stdout.splitlines()[-1], "the quality before and after"


@pytest.mark.parametrize("keys", ["q\n", "n\nq\n", ""])
def test_stopping_early_is_no_error(keys: str, tmp_path: Path) -> None:
    done = ask(keys, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "→" not in done.stdout
    assert "Traceback" not in done.stderr
