"""One Chromium for the tests of a process; without one they are left out, in one line (`test_browser_is_here.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from page.chromium import Browser, find_chromium
from page.pages import every_kind, page_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = find_chromium()
collect_ignore_glob = [] if COMMAND else ["test_page_*.py"]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start the browser."""
    assert COMMAND is not None
    started = Browser(COMMAND, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def every_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the address of a page with a run of each kind."""
    file: Path = tmp_path_factory.mktemp("page") / "runs.html"
    file.write_bytes(page_of(every_kind()))
    return file.as_uri()
