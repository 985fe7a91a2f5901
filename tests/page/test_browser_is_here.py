"""Says in one line that the page was not opened, where there is nothing to open it in."""

from __future__ import annotations

import os

import pytest

from page.chromium import find_chromium

pytestmark = pytest.mark.browser
# Read before a test's environment hides it.
REQUIRED = bool(os.environ.get("COMPASS_BROWSER_REQUIRED"))


def test_there_is_a_browser_to_open_the_page_in() -> None:
    """The tests of the page run where Chromium is, and must run where COMPASS_BROWSER_REQUIRED says so."""
    if find_chromium() is None and not REQUIRED:
        pytest.skip("the HTML page was not opened: no Chromium here")
    assert find_chromium() is not None
