"""One Chromium for the tests of a process; without one they are left out, in one line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from page.chromium import Browser, find_chromium
from page.pages import every_kind, page_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start the browser; NEED_CHROMIUM says that it must be there."""
    command = find_chromium()
    if command is None:
        if os.environ.get("NEED_CHROMIUM"):
            pytest.fail("no Chromium here, and NEED_CHROMIUM is set")
        pytest.skip("the page is not opened: no Chromium here")
    started = Browser(command, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def every_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the address of a page with a run of each kind."""
    file: Path = tmp_path_factory.mktemp("page") / "runs.html"
    file.write_bytes(page_of(every_kind()))
    return file.as_uri()
