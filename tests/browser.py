"""The system's Chromium for tests; a skip with a reason where there is none, unless one is required."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, sync_playwright

__all__ = ["Page", "open_page"]

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def open_page() -> Iterator[Page]:
    """Open an empty page in headless Chromium."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("ADMIL_REQUIRE_BROWSER"):
            pytest.fail("ADMIL_REQUIRE_BROWSER is set but there is no Chromium on the search path")
        pytest.skip("no Chromium on the search path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        try:
            yield browser.new_page()
        finally:
            browser.close()
