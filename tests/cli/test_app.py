"""What a person sees when a command fails, whatever it fails of."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from admil.cli.app import Later, app
from admil.errors import InvalidInput, warn
from tests.cli.calling import call


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let `admil info` fail of an error."""

    def opened(path: Path) -> None:
        raise error

    monkeypatch.setattr("admil.cli.stores.BagStore.open", opened)


def test_an_error_that_nobody_thought_of_is_a_sentence_with_a_file_to_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    failing(monkeypatch, ZeroDivisionError("no such number"))
    done = call("info", "store")
    assert done.code == 1
    assert "Traceback" not in done.err
    (report,) = tmp_path.glob("admil-*.txt")
    said = f"error: this is a fault of admil (ZeroDivisionError: no such number); please report it with {report}"
    assert done.err.strip() == said
    text = report.read_text()
    assert text.splitlines()[0].endswith(": info store")
    assert "Traceback" in text


def test_too_little_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, MemoryError("Unable to allocate 8 EiB"))
    assert "not enough memory for this (Unable to allocate 8 EiB); ask for less" in call("info", "store").err


def test_a_key_ends_a_command_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    done = call("info", "store")
    assert (done.code, done.err.strip()) == (130, "interrupted")


def test_a_system_error_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, PermissionError(13, "Permission denied", "/a/file"))
    assert call("info", "store").err.strip() == "error: Permission denied: /a/file"


RUN = [sys.executable, "-W", "error", "-c", "from admil.cli import main; main()"]


def test_a_terminal_without_the_letters_shows_the_rest(tmp_path: Path) -> None:
    environment = {**os.environ, "ADMIL_SMOKE": "1", "PYTHONIOENCODING": "ascii", "OMP_NUM_THREADS": "1"}
    arguments = ["demo", "--seeds", "2", "--rounds", "1", "--budget", "2", "--out", "here"]
    done = subprocess.run([*RUN, *arguments], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"bag posterior" in done.stdout
    assert b"+ sd" in done.stdout.replace(b"?", b"+"), "the sign that this terminal lacks"
    assert (tmp_path / "here" / "results.json").exists()


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGINT to send on Windows")
def test_ctrl_c_while_training_says_interrupted_and_nothing_else(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*RUN, "demo", "--out", "here"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        while not (tmp_path / "here").exists():  # made before the first network is trained
            time.sleep(0.05)
            assert process.poll() is None
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err.decode().strip()) == (130, "interrupted")


def test_output_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    listing = subprocess.run(
        f"{sys.executable} -c 'from admil.cli import main; main()' data list | true",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert listing.stderr == b""


def test_ctrl_c_while_libraries_are_imported_is_quiet_too(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from admil.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "info", "x"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (130, "interrupted")


def test_a_command_imports_what_it_needs_and_no_more() -> None:
    code = "import sys; sys.argv = ['admil', 'data', '--help']\nfrom admil.cli import main\ntry: main()\n"
    code += "except SystemExit: pass\nassert 'admil.cli.demo' not in sys.modules, 'the demo draws with matplotlib'"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_command_that_is_mistyped_is_suggested() -> None:
    assert "Did you mean 'info'?" in call("inof").err


def test_the_help_imports_no_command() -> None:
    code = "import sys; sys.argv = ['admil', '--help']\nfrom admil.cli import main\ntry: main()\n"
    code += "except SystemExit: sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Score every instance of a store; show the highest." in done.stdout


def test_every_command_that_the_help_names_is_there() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    for name, later in group.commands.items():
        assert isinstance(later, Later)
        assert later.command.name == name
        assert len(later.help or "") < 66, "a line of a terminal of 80 columns"


def test_a_warning_of_ours_is_a_note_and_others_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: Path) -> None:
        warnings.warn("for developers", DeprecationWarning, stacklevel=1)
        warn("two files were passed over")
        raise InvalidInput("enough")

    monkeypatch.setattr("admil.cli.stores.BagStore.open", opened)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = call("info", "store")
    assert done.err.splitlines() == ["note: two files were passed over", "error: enough"]
