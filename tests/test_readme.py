"""The README and the documents beside it say what is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tools.docs import README, RESULTS, readme_with_table

ROOT = Path(__file__).parent.parent


def test_the_quick_starts_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "my-learner" / "learner.json").exists()
    ranking = names["best"]
    assert isinstance(ranking, list)
    odd_ones = [instance for instance in ranking if instance.index == 0]
    assert len(odd_ones) >= 9, "the ten best of a problem this easy are the odd instances"
    scores = names["scores"]
    assert isinstance(scores, list)
    assert [len(of_bag) for of_bag in scores] == [10] * 40


def test_the_table_of_results_is_made_from_the_committed_results() -> None:
    readme = README.read_text(encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert readme == readme_with_table(readme, results), "run make docs"


DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("document", [*DOCUMENTS, *PAGES])
def test_links_lead_to_files_that_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT / document).parent / target).exists(), f"{document} links to {target}"


def test_the_paths_that_the_architecture_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.split("## Where does it go?")[1].split("## ")[0]
    package = ROOT / "src" / "admil"
    named = re.findall(r"`([\w/]+(?:\.(?:py|md)|/))`", table)
    assert len(named) > 15
    for name in named:
        assert (package / name).exists() or (ROOT / name).exists(), f"ARCHITECTURE.md names {name}"


def test_the_architecture_names_every_top_level_module() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    modules = {path.stem for path in (ROOT / "src" / "admil").iterdir() if not path.name.startswith(("_", "py"))}
    assert {module for module in modules if not re.search(rf"\b{module}\b", text)} == set()
