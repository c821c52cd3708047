"""The commands, together, and what a person sees when one fails."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

import admil
from admil.errors import AdmilError

__all__ = ["app", "run"]

_COMMANDS = {
    "demo": "demo:demo",
    "ask": "demo:ask",
    "import": "imports:import_app",
    "data": "data:data_app",
    "info": "stores:info",
    "head": "stores:head",
    "label": "stores:label",
    "relocate": "stores:relocate_sources",
    "verify": "stores:verify",
    "dump": "stores:dump",
    "fit": "models:fit",
    "score": "models:score",
    "speed": "demo:speed",
}
"""Every command in the order of the help, with its module in this package and its name there."""


class _Commands(Mapping[str, Any]):
    """The commands by name; the module of one is imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        module, attribute = _COMMANDS[name].split(":")
        return _made(name, getattr(import_module(f"admil.cli.{module}"), attribute))

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Group(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast(MutableMapping[str, Any], _Commands())


def _made(name: str, found: Any) -> Any:
    """Return typer's command for a function, or for the commands of a group."""
    if isinstance(found, typer.Typer):
        group = typer.main.get_command(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False)
    alone.command(name)(found)
    return typer.main.get_command(alone)


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
