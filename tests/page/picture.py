"""Takes the README's picture of the page: `PYTHONPATH=tests python -m page.picture`; needs Chromium.

Shows recorded runs of one agent; opened is the one that gave up after three attempts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from page.chromium import Browser, find_chromium

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "examples" / "page" / "failed-runs.png"
OPENED = "an_f_http_529_exhausted"
LINES = "[...document.querySelectorAll('#runs li > button')]"


def main() -> int:
    """Make the page of the captures, open it, take the picture."""
    command = find_chromium()
    if command is None:
        sys.stderr.write("picture: no Chromium here\n")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "runs.html"
        inputs = sorted((ROOT / "tests" / "captures" / "pi-1.6").glob("*.events.jsonl"))
        names = [str(path.relative_to(ROOT)) for path in inputs]
        subprocess.run(
            [sys.executable, "-m", "compass_otel", "replay", "--html", str(page), *names], cwd=ROOT, check=True
        )
        browser = Browser(command, Path(folder) / "profile")
        try:
            tab = browser.tab(width=1200, height=780).open(page.as_uri())
            tab.evaluate(f"{LINES}.find((line) => line.run.text.includes('{OPENED}')).click()")
            PICTURE.parent.mkdir(exist_ok=True)
            tab.picture(PICTURE)
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
