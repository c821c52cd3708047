"""Fetching the files of a public data set, once, with their checksums."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Literal

from admil.errors import AdmilError, CorruptFile, DownloadFailed

__all__ = ["Download", "OnBytes", "fetch"]

_CHUNK = 2**18
_PATIENCE = 30.0
"""Seconds without a byte after which a connection counts as lost."""

OnBytes = Callable[[int, int], None]
"""Takes the bytes so far and in all."""


@dataclass(frozen=True)
class Download:
    """A file of a data set as its authors, or those who host it, publish it.

    Attributes:
        url: where it is.
        name: what it is called here.
        bytes: its size.
        digest: its checksum, in hexadecimal.
        method: of the checksum.
        mirrors: where else it is, to be tried in this order.
    """

    url: str
    name: str
    bytes: int
    digest: str
    method: Literal["md5", "sha256"]
    mirrors: tuple[str, ...] = ()


def fetch(download: Download, folder: Path, on_bytes: OnBytes | None = None) -> Path:
    """Download a file unless it is there already; return where it lies.

    It grows as ``NAME.part``; stopped, the next call goes on where it stopped, from whatever address.  Nothing is
    written of a file that is announced with another size, or overwritten before the checksum of all is known.  It gets
    its name only once that is right.

    Args:
        download: what.
        folder: where to; made if need be.
        on_bytes: called with the bytes so far and in all.

    Raises:
        DownloadFailed: no address could be reached and has the file, or it cannot be written.
        CorruptFile: what came is not the file that was published; it is deleted.
    """
    target, part = folder / download.name, folder / f"{download.name}.part"
    if target.is_file():
        return target
    with _writing(part, download):
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_whole(part, download):
            _receive_from_any(download, part, on_bytes)
        part.replace(target)
    return target


class _Refused(Exception):
    """An address does not have the file, or not now."""


class _Wrong(_Refused):
    """An address has another file."""


def _receive_from_any(download: Download, part: Path, on_bytes: OnBytes | None) -> None:
    failures: dict[str, _Refused] = {}
    for url in (download.url, *download.mirrors):
        try:
            return _receive(url, download, part, on_bytes)
        except _Refused as error:
            failures[url] = error
    said = ", nor from ".join(f"{url} ({error})" for url, error in failures.items())
    kept = ": what has come is kept" if part.exists() and part.stat().st_size else ""
    kind = CorruptFile if all(isinstance(error, _Wrong) for error in failures.values()) else DownloadFailed
    raise kind(
        f"cannot download {download.name} from {said}; download it by hand and name it with --from PATH, "
        f"or try again{kept}",
        download,
    ) from failures[url]


def _receive(url: str, download: Download, part: Path, on_bytes: OnBytes | None) -> None:
    """Receive what a file lacks, and check all of it."""
    have = part.stat().st_size if part.exists() else 0
    with _opened(url, have) as answer:
        done = _start_of(answer, have, download)
        with part.open("ab") as file:
            while chunk := _next_of(answer):
                done += len(chunk)
                if done > download.bytes:
                    file.truncate(have)
                    raise _Wrong(f"more than {download.bytes:,} bytes came")
                file.write(chunk[max(0, len(chunk) - (done - have)) :])  # what is there already is not written again
                if on_bytes is not None:
                    on_bytes(done, download.bytes)
    if done < download.bytes:
        raise _Refused(f"the connection ended after {done:,} of {download.bytes:,} bytes")
    if (found := _digest(part, download.method)) != download.digest:
        part.unlink()
        raise _Wrong(
            f"not the file that was published: its {download.method} is {found}, expected {download.digest}; "
            "it was deleted"
        )


def _opened(url: str, have: int) -> HTTPResponse:
    """Ask an address for a file, or for what follows the bytes of it that are there."""
    request = urllib.request.Request(url, headers={"User-Agent": "admil"})  # noqa: S310  # see below
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        # the addresses are constants of this package
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=_PATIENCE)  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
        raise _Refused(error) from error
    except (OSError, HTTPException) as error:
        raise _Refused(getattr(error, "reason", None) or error) from error
    return answer


def _start_of(answer: HTTPResponse, have: int, download: Download) -> int:
    """Return where in the file an answer begins; refuse one that can be no part of it."""
    if answer.status not in (200, 206):
        raise _Refused(f"it answers with the status {answer.status}, expected 200")
    start = have if answer.status == 206 else 0
    place = answer.headers.get("Content-Range", "")
    if answer.status == 206 and not (have and place.startswith(f"bytes {have}-")):
        raise _Refused(f"it answers with {place or 'an unknown part'} of the file, expected bytes from {have} on")
    length = answer.headers.get("Content-Length", "")
    if length.isdecimal() and start + int(length) != download.bytes:
        raise _Wrong(f"another file: it has {start + int(length):,} bytes, expected {download.bytes:,}")
    return start


def _next_of(answer: HTTPResponse) -> bytes:
    try:
        return answer.read(_CHUNK)
    except (OSError, HTTPException) as error:
        raise _Refused(error) from error


def _is_whole(part: Path, download: Download) -> bool:
    """Tell whether all of a file has come; what cannot be the beginning of it is deleted."""
    if not part.exists() or part.stat().st_size < download.bytes:
        return False
    if _digest(part, download.method) == download.digest:
        return True
    part.unlink()
    return False


@contextmanager
def _writing(part: Path, download: Download) -> Iterator[None]:
    """Turn what the disk refuses into one clear error."""
    try:
        yield
    except AdmilError:
        raise
    except OSError as error:
        raise DownloadFailed(
            f"cannot write {part} ({error.strerror or error}); make room, or set ADMIL_CACHE to a folder that can be "
            "written to",
            download,
        ) from error


def _digest(path: Path, method: str) -> str:
    digest = hashlib.new(method, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
