"""JSON documents that carry their own checksum, and files that appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from admil.errors import CorruptFile

__all__ = [
    "document_digest",
    "file_digest",
    "make_folder",
    "moved_in",
    "read_document",
    "sync_folder",
    "write_bytes",
    "write_document",
]

_CHUNK = 2**20


def write_document(path: Path, format_: str, version: int, content: Mapping[str, Any]) -> None:
    """Write a document with its format, version and checksum; it replaces the old one in one move."""
    document = {"format": format_, "version": version, **content}
    document["sha256"] = document_digest(document)
    write_bytes(path, json.dumps(document, indent=1, allow_nan=False).encode())


def read_document(path: Path, format_: str, version: int, maker: str) -> dict[str, Any]:
    """Read what `write_document` wrote.

    Args:
        path: the file.
        format_: what it must say it is.
        version: the version that it must have.
        maker: what writes such files, for the message where there is none.

    Raises:
        CorruptFile: missing, damaged, edited, or another format or version.
    """
    content = _read_json(path, maker)
    if content.get("format") != format_:
        raise CorruptFile(f"{path} is no {format_} file but {content.get('format')!r}", path)
    if content.get("version") != version:
        raise CorruptFile(
            f"{path} has version {content.get('version')!r}, this admil reads version {version}; "
            "load it with the admil that wrote it",
            path,
        )
    if content.get("sha256") != document_digest(content):
        raise CorruptFile(
            f"{path} is damaged or was edited: its checksum is not the one written; restore it from a copy", path
        )
    return content


def document_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all of a document but its own checksum."""
    rest = {name: value for name, value in document.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all."""
    with moved_in(path) as beside:
        beside.write_bytes(data)


@contextmanager
def moved_in(path: Path) -> Iterator[Path]:
    """Give a name beside a file's place; if all goes well, what was written there is synced and moved in."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(path.parent)
    except OSError as error:  # some say no file, Arrow says much, and the name beside means nothing to a user
        said = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno or errno.EIO, f"cannot write it: {said}", str(path)) from error
    finally:
        beside.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it where need be, durably."""
    if not folder.exists():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "nt":  # Windows cannot open a folder
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # one may write into a folder that one may not list
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that sync no folders
            raise
    finally:
        os.close(descriptor)


def _read_json(path: Path, maker: str) -> dict[str, Any]:
    if not path.is_file():
        raise CorruptFile(f"there is no {path.name} in {path.parent}; give the folder that {maker} wrote", path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{path} is no JSON: {error}", path) from error
    if not isinstance(content, dict):
        raise CorruptFile(f"{path} holds {type(content).__name__}, expected an object", path)
    return content
