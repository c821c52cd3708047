"""The report of a benchmark says what its results say, marks what is optimistic, and names what is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from admil.bench.plans import Suite, Trial
from admil.bench.reporting import comparison_of, write_bench_report
from admil.report.comparison import Drawing, Lines, Planes, Section, Sweeps, Table
from tests.bench.made_up import failed_result, results_of

ALL = {
    "title": "All that a suite may show",
    "shows": ["table", "curves", "sweep", "bags"],
    "baseline": "pf",
    "data": {
        "20newsgroups": {"parts": ["sci.space", "rec.autos"], "seeds": [0], "budget": 15, "rounds": 2},
        "voc": {"parts": ["sheep"], "seeds": [0, 1, 2], "budget": 30, "rounds": 2},
    },
    "methods": [
        {"name": "pf", "sampler": "pf", "pictured": 2},
        {"name": "pf, k = 5", "sampler": {"kind": "pf", "per_bag": 5}},
        {"name": "leaky", "sampler": "pf", "protocol": "paper"},
        {"name": "attention", "learner": "attention"},
    ],
}
STARTS = {"ceiling": 0.9, "pf": 0.5, "pf, k = 5": 0.6, "leaky": 0.8, "attention": 0.4}


def qualities(name: str, trial: Trial) -> Sequence[float]:
    start = STARTS[name] + 0.01 * trial.data.seed
    return [start, start + 0.05, start + 0.1]


def everything() -> tuple[Suite, list[dict[str, Any]]]:
    suite = Suite.model_validate(ALL)
    return suite, results_of(suite, qualities)


def sections(suites: Mapping[str, Suite], results: Sequence[Mapping[str, Any]]) -> dict[str, Section]:
    return {each.anchor: each for chapter in comparison_of(suites, results).chapters for each in chapter.sections}


def cells(section: Section, table: int = 0) -> dict[str, dict[str, str]]:
    shown = [each for each in section.exhibits if isinstance(each, Table)][table]
    return {row[0]: dict(zip(shown.columns, row, strict=True)) for row in shown.rows}


def test_every_kind_of_exhibit_is_drawn_and_written(tmp_path: Path) -> None:
    suite, results = everything()
    page = write_bench_report({"table2": suite}, results, tmp_path)
    found = sections({"table2": suite}, results)["table2-voc-sheep"].exhibits
    drawings = [each for each in found if isinstance(each, Drawing)]
    assert [type(each.content) for each in drawings] == [Lines, Sweeps, Lines, Planes]
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    for drawing in drawings:
        for ending in ("svg", "png"):
            assert (tmp_path / "figures" / f"{drawing.name}.{ending}").stat().st_size > 1000
        assert f"(figures/{drawing.name}.svg)" in markdown
    assert page == tmp_path / "report.html"


def test_numbers_are_percent_with_their_deviation_and_winners_are_supported() -> None:
    suite, results = everything()
    row = cells(sections({"a": suite}, results)["a-voc-sheep"])
    assert row["pf"]["AP after"] == "61.0 ± 1.0"
    assert row["pf"]["verdict"] == "baseline"
    assert row["pf"]["answers to reach"] == "60"
    assert row["pf, k = 5"]["verdict"] == "higher (area)"
    assert row["pf, k = 5"]["less pf"] == "+10.00 [+10.00, +10.00]"
    assert row["pf, k = 5"]["gap closed"] == "33 %"
    assert row["pf, k = 5"]["answers to reach"] == "0"
    assert row["attention"]["verdict"] == "lower (before)"
    assert row["attention"]["AP after"] == row["attention"]["gap closed"] == row["attention"]["answers to reach"] == ""
    assert row["ceiling"]["AP before any answer"] == "91.0 ± 1.0"


def test_the_paper_protocol_is_marked_wherever_it_is_named() -> None:
    suite, results = everything()
    for section in sections({"table2": suite}, results).values():
        for shown in section.exhibits:
            if isinstance(shown, Table):
                assert not any(row[0] == "leaky" for row in shown.rows)
            elif isinstance(shown.content, Lines):
                assert "leaky (optimistic)" in [curve.method for curve in shown.content.curves]
    assert cells(sections({"a": suite}, results)["a-voc-sheep"])["leaky (optimistic)"]["verdict"] == "another protocol"


def test_the_papers_own_numbers_stand_beside_those_of_table_2_only() -> None:
    suite, results = everything()
    found = sections({"table2": suite, "fig3": suite}, results)
    ours = cells(found["table2-overview"])
    assert ours["pf"]["voc sheep"] == "51.0 ± 1.0 → 61.0 ± 1.0"
    assert ours["paper: ADMIL"] == {
        "method": "paper: ADMIL",
        "20newsgroups": "73.47 → 75.42",
        "voc sheep": "45.15 → 60.79",
        "cifar10": "64.41 → 74.50",
        "cifar100": "40.41 → 51.26",
    }
    assert ours["paper: Ilse et al. 2018"]["20newsgroups"] == "60.85"
    assert "VGG16" in found["table2-overview"].sentences[0]
    assert not any(row.startswith("paper:") for row in cells(found["fig3-overview"]))


def test_failed_and_missing_trials_are_named_with_their_reason() -> None:
    suite, results = everything()
    trials = dict.fromkeys(trial for name, trial in suite.trials() if name == "attention")
    first, *_, last = trials
    keys = {first.key("a store"), last.key("a store")}
    results = [each for each in results if each["key"] not in keys]
    results.append(failed_result(first, "RuntimeError: <b>too big</b>"))
    comparison = comparison_of({"a": suite}, results)
    assert "23 of 25 trials are done, 1 failed, 1 has not been run; they are named below." in " ".join(
        comparison.chapters[0].sentences
    )
    found = sections({"a": suite}, results)
    assert found["a-absent"].listed == (
        "failed: attention on 20newsgroups/sci.space/seed-0 — RuntimeError: <b>too big</b>",
        "not run: attention on voc/sheep/seed-2",
    )
    assert cells(found["a-voc-sheep"])["attention"]["n"] == "2 of 3"
    assert cells(found["a-20newsgroups"])["attention"]["AP before any answer"] == "40.0", "one topic: no deviation"
    assert cells(found["a-20newsgroups"])["attention"]["verdict"] == "one replicate (before)"


@pytest.mark.parametrize("name", ["table2", "fig4"])
def test_a_suite_without_any_result_says_so(name: str, tmp_path: Path) -> None:
    suite, _ = everything()
    write_bench_report({name: suite}, [], tmp_path)
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "0 of 25 trials are done, 25 have not been run" in markdown
    assert "| pf | 0 of 3 |" in markdown
    assert "no result" in markdown


def test_suites_that_only_include_others_have_no_chapter() -> None:
    suite, results = everything()
    include = Suite(title="All", include=("a",))
    assert [each.anchor for each in comparison_of({"all": include, "a": suite}, results).chapters] == ["a"]


def test_the_hardest_bags_are_counted_and_judged_within() -> None:
    suite, results = everything()
    row = cells(sections({"a": suite}, results)["a-voc-sheep"], table=3)["pf"]
    assert row == {
        "method": "pf",
        "trials": "3",
        "bags": "6",
        "AP within, before": "50.0 ± 0.0",
        "AP within, after": "100.0 ± 0.0",
        "instances asked": "6",
    }


def test_the_facts_tell_where_the_numbers_come_from() -> None:
    suite, results = everything()
    facts = dict(comparison_of({"a": suite, "b": suite}, results).facts)
    assert facts["trials"] == "25 results shown, of 25 in the file", "trials of two suites are counted once"
    assert facts["machines"] == "a machine"
    assert facts["versions"] == "admil 0.1.0"
