"""The tutorial runs as it is printed, from top to bottom, and its figures are true."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from admil.report import contact_sheet
from tests.cli.calling import call

PAGE = (Path(__file__).parent.parent / "docs" / "tutorial.md").read_text(encoding="utf-8")


def test_the_tutorial_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADMIL_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    names: dict[str, object] = {"contact_sheet": contact_sheet}
    said = ""
    try:
        for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
            if kind == "python":
                exec(compile(block, "tutorial.md", "exec"), names)
                said += capsys.readouterr().out
                continue
            for command in block.splitlines():
                if "new-sheets" in command:  # sheets that come later
                    shutil.copytree("sheets", "new-sheets")
                done = call(*shlex.split(command)[1:])
                assert done.code == 0, f"{command}: {done.err}"
    finally:
        torch.set_num_threads(threads)
    found = [int(number) for number in re.findall(r"\d+", said.split(":")[1])]
    table = re.findall(r"^\| eights among the first 32 \| (.*) \|$", PAGE, re.MULTILINE)[0]
    assert all(abs(one - other) <= 3 for one, other in zip(found, map(int, table.split("|")), strict=True)), found
    assert found[-1] > found[0] + 6, "answers help"
    assert pq.read_table("scores.parquet").num_rows == pq.read_table("new-scores.parquet").num_rows == 1280
    for picture in ("highest.png", "questions.png"):
        assert Path(picture).read_bytes().startswith(b"\x89PNG")
