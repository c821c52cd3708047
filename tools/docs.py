"""Write the parts of the documentation that are made from code and results: `make docs`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from admil.cli.app import Later, app

__all__ = ["README", "REFERENCE", "RESULTS", "cli_reference", "demo_table", "readme_with_table"]

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "cli.md"
README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "demo" / "results.json"

_START, _END = "<!-- demo table: written by `make docs` -->\n", "<!-- end of demo table -->"


def cli_reference() -> str:
    """Return docs/cli.md as it should be."""
    parts = ["# Command line\n\nMade by `make docs` from the commands themselves.\n"]
    for name, command in _commands(_root(), "admil"):
        parts.append(f"## {name}\n\n{inspect.cleandoc(command.help or '')}\n")
        if command.params:
            parts.append("| option | default | meaning |\n|---|---|---|\n" + "".join(map(_option_row, command.params)))
    return "\n".join(parts)


def demo_table(results: dict[str, Any]) -> str:
    """Return the README's table of a demo's results.json."""
    rounds = range(len(results["methods"][0]["rounds"]))
    answers = [results["methods"][0]["rounds"][number]["answers"] for number in rounds]
    ceiling = results["ceiling"]
    head = ["sampler", "passive", *(f"{count:.0f} answers" for count in answers[1:]), "area", "positives found"]
    lines = [
        f"Instance AP on test bags in %, mean ± sd over seeds {', '.join(map(str, results['seeds']))}; "
        f"{results['budget']} questions a round. Ceiling (every training instance labelled): "
        f"**{100 * ceiling['mean']:.1f} ± {100 * ceiling['sd']:.1f}**. "
        "Area: mean height of the curve. Reproduce with `make demo`.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for method in results["methods"]:
        cells = [f"{100 * r['ap_mean']:.1f} ± {100 * r['ap_sd']:.1f}" for r in method["rounds"]]
        area = f"{100 * method['area_mean']:.1f} ± {100 * method['area_sd']:.1f}"
        lines.append(
            "| " + " | ".join([method["name"], *cells, area, f"{method['rounds'][-1]['positives']:.0f}"]) + " |"
        )
    lines += ["", _comparison(results), ""]
    return "\n".join(lines)


def readme_with_table(readme: str, results: dict[str, Any]) -> str:
    """Return the README with its table made anew."""
    before, rest = readme.split(_START)
    after = rest.split(_END)[1]
    return before + _START + demo_table(results) + _END + after


def _comparison(results: dict[str, Any]) -> str:
    """Say in words what the paired differences support."""
    parts = []
    for d in results["differences"]:
        mean, low, high = (100 * d[name] for name in ("mean", "low", "high"))
        parts.append(f"{d['method']} against {d['against']} {mean:+.1f} ({low:+.1f} to {high:+.1f})")
    return "Paired differences in area over seeds, with 95 % intervals: " + "; ".join(parts) + "."


def _root() -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def _commands(command: TyperCommand | TyperGroup, name: str) -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command with its full name, groups opened up."""
    if isinstance(command, TyperGroup):
        for word, entry in command.commands.items():
            inner = entry.command if isinstance(entry, Later) else entry
            assert isinstance(inner, TyperCommand | TyperGroup)
            yield from _commands(inner, f"{name} {word}")
    else:
        yield name, command


def _option_row(parameter: object) -> str:
    if isinstance(parameter, TyperArgument):
        return f"| `{str(parameter.name).upper()}` | | {parameter.help} |\n"
    assert isinstance(parameter, TyperOption)
    default = "" if parameter.default is None or parameter.required else f"`{parameter.default}`"
    return f"| `{' / '.join(parameter.opts)}` | {default} | {parameter.help} |\n"


if __name__ == "__main__":
    REFERENCE.write_text(cli_reference(), encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    README.write_text(readme_with_table(README.read_text(encoding="utf-8"), results), encoding="utf-8")
