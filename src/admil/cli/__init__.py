"""The command line: arguments in, one call each, words out."""

from admil.cli.app import app, main

__all__ = ["app", "main"]
