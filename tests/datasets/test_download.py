"""Downloads: from a server in this process, whole, broken, refused and wrong."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from threading import Thread
from typing import Literal

import pytest

from admil.datasets import Download, fetch
from admil.errors import CorruptFile, DownloadFailed

CONTENT = Random(0).randbytes(700_000)


@dataclass
class Site:
    """A server of one file.

    Attributes:
        port: where it listens.
        content: what it serves.
        status: what it answers; 200 for the file.
        sends: bytes after which it drops the connection; None for all.
        ranges: whether it goes on from where it is asked to.
        length: whether it says how long the file is.
        asked: the Range of every request so far.
    """

    port: int = 0
    content: bytes = CONTENT
    status: int = 200
    sends: int | None = None
    ranges: bool = True
    length: bool = True
    asked: list[str | None] = field(default_factory=list)

    def download(self, method: Literal["md5", "sha256"] = "sha256", digest: str | None = None) -> Download:
        right = hashlib.new(method, CONTENT).hexdigest()
        return Download(f"http://127.0.0.1:{self.port}/set.bin", "set.bin", len(CONTENT), digest or right, method)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Serve a file at this machine until the test ends."""
    monkeypatch.setenv("no_proxy", "*")
    made = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, made)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def answer(request: BaseHTTPRequestHandler, site: Site) -> None:
    asked = request.headers["Range"]
    site.asked.append(asked)
    start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and site.ranges else 0
    rest = site.content[start:] if site.status == 200 else b""
    request.send_response(site.status if site.status != 200 else 206 if start and rest else 200 if rest else 416)
    if site.length:
        request.send_header("Content-Length", str(len(rest)))
    request.end_headers()
    request.wfile.write(rest[: site.sends])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("method", ["md5", "sha256"])
def test_a_file_is_fetched_into_a_folder_that_is_made(
    method: Literal["md5", "sha256"], site: Site, tmp_path: Path
) -> None:
    folder = tmp_path / "cache" / "downloads"
    path = fetch(site.download(method), folder)
    assert path == folder / "set.bin"
    assert path.read_bytes() == CONTENT
    assert names(folder) == ["set.bin"]


def test_a_file_that_is_there_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    fetch(site.download(), tmp_path)
    fetch(site.download(), tmp_path)
    assert site.asked == [None]


@pytest.mark.parametrize("length", [True, False])
def test_progress_grows_to_the_whole(length: bool, site: Site, tmp_path: Path) -> None:
    site.length = length
    seen: list[tuple[int, int]] = []
    fetch(site.download(), tmp_path, lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert {total for _, total in seen} == {len(CONTENT)}
    assert seen[-1][0] == len(CONTENT)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_transfer_that_breaks_goes_on_with_the_next_call(ranges: bool, site: Site, tmp_path: Path) -> None:
    site.sends, site.ranges = 300_000, ranges
    with pytest.raises(
        DownloadFailed,
        match=r"cannot download http://127\.0\.0\.1:\d+/set\.bin "
        r"\(the connection ended after 300000 of 700000 bytes\); "
        "download it elsewhere and name it with --from, or try again: what has come is kept$",
    ):
        fetch(site.download(), tmp_path)
    assert names(tmp_path) == ["set.bin.part"]
    site.sends = None
    seen: list[tuple[int, int]] = []
    path = fetch(site.download(), tmp_path, lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["set.bin"]
    assert site.asked == [None, "bytes=300000-"]
    assert (seen[0][0] > 300_000) == ranges  # a server that cannot go on begins anew
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_a_file_that_came_whole_before_the_stop_is_taken_as_it_is(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT)
    assert fetch(site.download(), tmp_path).read_bytes() == CONTENT
    assert site.asked == ["bytes=700000-"]


@pytest.mark.parametrize("method", ["md5", "sha256"])
def test_another_file_than_was_published_leaves_nothing(
    method: Literal["md5", "sha256"], site: Site, tmp_path: Path
) -> None:
    site.content = b"<html>moved</html>"
    found = hashlib.new(method, site.content).hexdigest()
    with pytest.raises(
        CorruptFile,
        match=rf"set\.bin is not the file that was published: its {method} is {found}, expected {'b' * 8}; "
        "it was deleted, try again",
    ):
        fetch(site.download(method, "b" * 8), tmp_path)
    assert names(tmp_path) == []


def test_the_rest_of_another_file_leaves_nothing(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(b"old" * 1000)
    with pytest.raises(CorruptFile, match="is not the file that was published"):
        fetch(site.download(), tmp_path)
    assert names(tmp_path) == []
    assert fetch(site.download(), tmp_path).read_bytes() == CONTENT


def test_more_than_was_published_leaves_nothing(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT + b"more")
    with pytest.raises(CorruptFile, match="is not the file that was published"):
        fetch(site.download(), tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize(("status", "reason"), [(404, "404: Not Found"), (503, "503: Service Unavailable")])
def test_a_server_that_refuses_is_quoted(status: int, reason: str, site: Site, tmp_path: Path) -> None:
    site.status = status
    with pytest.raises(
        DownloadFailed,
        match=rf"cannot download http://127.*/set\.bin \(HTTP Error {reason}\); "
        "download it elsewhere and name it with --from, or try again$",
    ):
        fetch(site.download(), tmp_path)
    assert names(tmp_path) == []


def test_no_connection_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # it does not listen: whoever calls is refused
        nobody = Site(port=unused.getsockname()[1])
        with pytest.raises(DownloadFailed, match=r"cannot download http://127.* \(.*refused\); download it elsewhere"):
            fetch(nobody.download(), tmp_path)
    assert names(tmp_path) == []


def test_what_is_no_web_server_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail\r\n")

        thread = Thread(target=talk)
        thread.start()
        with pytest.raises(DownloadFailed, match=r"cannot download http://127.* \(220 mail"):
            fetch(Site(port=server.getsockname()[1]).download(), tmp_path)
        thread.join()


def test_an_interrupted_download_is_kept_for_the_next(site: Site, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(site.download(), tmp_path, stop)
    assert names(tmp_path) == ["set.bin.part"]
    assert 0 < (tmp_path / "set.bin.part").stat().st_size < len(CONTENT)
    assert fetch(site.download(), tmp_path).read_bytes() == CONTENT
