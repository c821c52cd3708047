"""The commands, together, and what a person sees when one fails."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import traceback
import warnings
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

import admil
from admil.errors import AdmilError, AdmilWarning

__all__ = ["Later", "app", "run"]

_COMMANDS = {
    "demo": ("demo:demo", "Compare samplers on digit pictures; writes a report to look at."),
    "ask": ("demo:ask", "Answer the demo's questions yourself."),
    "import": ("imports:import_app", "Put bags into a store: features, tables, pictures, texts."),
    "data": ("data:data_app", "Build the data sets of the paper, and others."),
    "info": ("stores:info", "Say what is in a store."),
    "head": ("stores:head", "Show a bag of a store."),
    "label": ("stores:label", "Set labels that came later, or were wrong."),
    "relocate": ("stores:relocate_sources", "Say where a store's sources have moved."),
    "verify": ("stores:verify", "Compare every byte of a store with its checksums."),
    "dump": ("stores:dump", "Write a store into one file for other programs."),
    "cache": ("cache:cache", "Say what the cache holds, or empty it."),
    "fit": ("models:fit", "Train a model on the bag labels of a store."),
    "score": ("models:score", "Score every instance of a store; show the highest."),
    "bench": ("bench:bench_app", "Compare learners and samplers; reproduce the paper."),
    "speed": ("demo:speed", "Time training and reading against plain ways."),
}
"""Every command in the order of the help: its module in this package and its name there, and a line about it."""


class Later(TyperCommand):
    """A command, or group of commands, whose module is imported when it is called: the help needs none of them."""

    def __init__(self, name: str, place: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self._place = place

    @property
    def command(self) -> TyperCommand | TyperGroup:
        """The command itself."""
        module, attribute = self._place.split(":")
        found = getattr(import_module(f"admil.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            made = typer.main.get_command(found)
            made.name = self.name
        else:
            alone = typer.Typer(add_completion=False)
            alone.command(self.name)(found)
            made = typer.main.get_command(alone)
        assert isinstance(made, TyperCommand | TyperGroup)
        return made

    def make_context(self, *given: Any, **named: Any) -> Any:
        """Parse the arguments by the command itself; the context is its own, and runs it."""
        return self.command.make_context(*given, **named)


class _Group(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        commands = [Later(name, place, summary) for name, (place, summary) in _COMMANDS.items()]
        super().__init__(**{**settings, "commands": commands})


app = typer.Typer(
    cls=_Group,
    help="Active deep multiple instance learning: from bag labels and a few answers to ranked instances.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Active deep multiple instance learning."""
    if show:
        Console().print(f"admil {admil.__version__}")
        raise typer.Exit


def run() -> None:
    """Run the command line; an error is one sentence, Ctrl-C a quiet exit, and no traceback is ever shown."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ± shall show the rest
    warnings.simplefilter("always", AdmilWarning)
    warnings.showwarning = _note
    try:
        app(standalone_mode=True)
    except SystemExit as stop:
        if _by_a_key(stop):
            Console(stderr=True).print("interrupted")
        raise
    except BrokenPipeError:  # whoever reads what is printed has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except AdmilError as error:
        _fail(str(error))
    except MemoryError as error:
        _fail(f"there is not enough memory for this ({error or 'no size is known'}); ask for less")
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
    except Exception as error:
        _fail(f"this is a fault of admil ({type(error).__name__}: {error}); please report it with {_written_down()}")


def _note(message: Warning | str, category: type[Warning], *_where: Any, **_line: Any) -> None:
    """Say what deserves attention; what other libraries warn of is for developers."""
    if issubclass(category, AdmilWarning):
        Console(stderr=True).print(f"[yellow]note:[/yellow] {escape(str(message))}", highlight=False, soft_wrap=True)


def _by_a_key(stop: SystemExit) -> bool:
    """Tell whether a command was ended by Ctrl-C and has said nothing of it itself."""
    return stop.__context__ is not None and isinstance(stop.__context__.__cause__, KeyboardInterrupt)


def _written_down() -> str:
    """Write the traceback of the error at hand into a file; return its path."""
    with tempfile.NamedTemporaryFile("w", prefix="admil-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(f"admil {admil.__version__}: {' '.join(sys.argv[1:])}\n{traceback.format_exc()}")
    return file.name


def _fail(message: str) -> None:
    Console(stderr=True).print(f"[red]error:[/red] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(1)
