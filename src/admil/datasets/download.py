"""Fetching the files of a public data set, once, with their checksums."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Literal

from admil.errors import CorruptFile, DownloadFailed

__all__ = ["Download", "fetch"]

_CHUNK = 2**18
_PATIENCE = 30.0
"""Seconds without a byte after which a connection counts as lost."""


@dataclass(frozen=True)
class Download:
    """A file of a data set as its authors, or those who host it, publish it.

    Attributes:
        url: where it is.
        name: what it is called here.
        bytes: its size, about; for the progress where the server does not say.
        digest: its checksum, in hexadecimal.
        method: of the checksum.
    """

    url: str
    name: str
    bytes: int
    digest: str
    method: Literal["md5", "sha256"]


def fetch(download: Download, folder: Path, on_bytes: Callable[[int, int], None] | None = None) -> Path:
    """Download a file unless it is there already; return where it lies.

    It grows as ``NAME.part``; stopped, the next call goes on where it stopped, if the server can.  It gets
    its name only once its checksum is right.

    Args:
        download: what.
        folder: where to; made if need be.
        on_bytes: called with the bytes so far and in all.

    Raises:
        DownloadFailed: no connection, or the server refuses.
        CorruptFile: what came is not the file that was published; it is deleted.
    """
    target = folder / download.name
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{download.name}.part"
    try:
        _receive(download, part, on_bytes)
    except (OSError, HTTPException) as error:
        kept = ": what has come is kept" if part.exists() else ""
        raise DownloadFailed(
            f"cannot download {download.url} ({_reason(error)}); download it elsewhere and name it with --from, "
            f"or try again{kept}",
            download,
        ) from error
    found = _digest(part, download.method)
    if found != download.digest:
        part.unlink()
        raise CorruptFile(
            f"{download.url} is not the file that was published: its {download.method} is {found}, "
            f"expected {download.digest}; it was deleted, try again",
            download,
        )
    part.replace(target)
    return target


def _receive(download: Download, part: Path, on_bytes: Callable[[int, int], None] | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(download.url, headers={"User-Agent": "admil"})  # noqa: S310  # see _opened
    if have:
        request.add_header("Range", f"bytes={have}-")
    answer = _opened(request)
    if answer is None:
        return
    with answer:
        resumed = answer.status == 206
        done = have if resumed else 0
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length else download.bytes
        with part.open("ab" if resumed else "wb") as file:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if on_bytes is not None:
                    on_bytes(done, max(total, done))
    if length and done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")


def _opened(request: urllib.request.Request) -> HTTPResponse | None:
    """Open an address; None where all of it has come already."""
    try:
        # the addresses are constants of this package
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=_PATIENCE)  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and request.has_header("Range"):
            return None
        raise
    return answer


def _reason(error: Exception) -> object:
    """Return what an error says: a server's refusal with its number, else what lies below it."""
    return error if isinstance(error, urllib.error.HTTPError) else getattr(error, "reason", None) or error


def _digest(path: Path, method: str) -> str:
    digest = hashlib.new(method, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
