"""The benchmark's page says what the suites say."""

from __future__ import annotations

from pathlib import Path

from admil.bench import read_suite, suite_names
from tests.cli.calling import call

PAGE = (Path(__file__).parents[2] / "docs" / "benchmarks" / "README.md").read_text(encoding="utf-8")


def test_the_table_of_data_is_that_of_the_suites() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| `")]
    table = {row[0].strip("`"): row[3:] for row in rows}
    for name in ("table2", "fig2", "fig3"):
        suite = read_suite(name)
        assert suite.data.keys() == table.keys()
        for data, plan in suite.data.items():
            replicates = "20 topics" if plan.parts == "all" else f"{len(plan.seeds)} seeds"
            assert table[data] == [f"{plan.budget}, {plan.rounds}", replicates]


def test_the_suites_that_the_page_names_are_there() -> None:
    named = {"fig3", "fig4", "fig7", "ablations", "all"}
    assert named <= set(suite_names())
    assert all(name in PAGE for name in named)


def test_the_commands_that_the_page_shows_exist() -> None:
    for command in ("suites", "run", "status", "report", "classic"):
        assert f"admil bench {command}" in PAGE
        assert call("bench", command, "--help").code == 0
