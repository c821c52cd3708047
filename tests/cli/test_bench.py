"""The benchmark from the command line: the smoke suite, run, watched and reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from admil.bench import ResultFile, read_suite
from tests.cli.calling import call


def test_the_smoke_suite_runs_everything_and_is_reported(tmp_path: Path) -> None:
    done = call("bench", "run", "smoke", "--out", tmp_path / "b", "--jobs", 2)
    assert done.code == 0, done.err
    trials = {trial.key("") for _, trial in read_suite("smoke").trials()}
    assert f"{len(trials)} trials, 0 of them there already." in done.out
    results = ResultFile(tmp_path / "b" / "results.jsonl").read()
    assert len(results) == len(trials)
    assert {result["status"] for result in results.values()} == {"done"}, "nothing failed"
    again = call("bench", "run", "smoke", "--out", tmp_path / "b")
    assert f"{len(trials)} of them there already." in again.out
    status = call("bench", "status", "smoke", "--out", tmp_path / "b").out
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in status.splitlines() if "│" in line]
    assert cells == [["smoke", "digits", str(len(trials)), "0", "0", "0"]]
    reported = call("bench", "report", "smoke", "--out", tmp_path / "b")
    assert reported.code == 0, reported.err
    page = (tmp_path / "b" / "report" / "report.html").read_text()
    for method in (each.name for entry in read_suite("smoke").methods for each in entry.each()):
        assert method in page
    assert f"{len(trials)} of {len(trials)} trials are done" in (tmp_path / "b" / "report" / "report.md").read_text()


def test_the_suites_are_listed() -> None:
    out = call("bench", "suites").out
    assert "smoke" in out
    assert "Samplers, everything else equal" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nothing"), "there is no suite 'nothing'; there are "),
        (("status", "nothing.toml"), "there is no file nothing.toml"),
        (("report", "smoke"), "there are no results in {tmp}; run the suite first: admil bench run smoke"),
        (("run", "smoke", "--from", "iris=x"), "expected --from NAME=PATH, NAME one of 20newsgroups, cifar10, "),
        (("run", "smoke", "--from", "voc"), "expected --from NAME=PATH"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = call("bench", *arguments, "--out", tmp_path)
    assert done.code == 1
    assert message.format(tmp=tmp_path) in done.err
    assert "Traceback" not in done.err


def test_a_suite_that_is_not_begun_says_what_is_missing(tmp_path: Path) -> None:
    out = call("bench", "status", "fig3", "--out", tmp_path, "--only", "voc").out
    assert "not known yet" in out
