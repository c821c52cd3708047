"""What trials came to: a line of JSON each, appended, never changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from admil.errors import CorruptFile

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: run with one job there
    fcntl = None

__all__ = ["ResultFile"]


class ResultFile:
    """A file of results that several processes append to; a line that a crash cut off is as if it never was.

    Args:
        path: the file; made with the first result.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, result: Mapping[str, Any]) -> None:
        """Append a result and see it to the disk."""
        line = json.dumps(result, allow_nan=False) + "\n"
        with self._locked() as file:
            data = file.seek(0, os.SEEK_END) and _cut_off(file)
            file.seek(data)
            file.truncate()
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> dict[str, dict[str, Any]]:
        """Return the results by their trial's key; of several the last, but a success before a failure."""
        found: dict[str, dict[str, Any]] = {}
        for result in self._lines():
            before = found.get(result["key"])
            if before is None or before["status"] != "done" or result["status"] == "done":
                found[result["key"]] = result
        return found

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        lines = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(lines[:-1], start=1):  # what follows the last end of a line was cut off
            try:
                result = json.loads(line)
                if not isinstance(result, dict) or not {"key", "status"} <= result.keys():
                    raise ValueError("expected a result with a key and a status")
            except ValueError as error:
                raise CorruptFile(
                    f"{self.path}, line {number} is damaged: {error}; delete that line", number
                ) from error
            yield result

    @contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        """Open the file for writing, alone."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file


def _cut_off(file: IO[bytes]) -> int:
    """Return where the last whole line of a file ends."""
    end = file.seek(0, os.SEEK_END)
    back = min(end, 2**16)
    while True:
        file.seek(end - back)
        place = file.read(back).rfind(b"\n")
        if place >= 0:
            return end - back + place + 1
        if back == end:
            return 0
        back = min(end, 2 * back)
