"""The examples that documents point to run, offline, and show what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from command_support import LIMIT_S, compass

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_three_lines_of_library_use_run() -> None:
    """The example of library use records the recorded session's failure on the host's own provider."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "three_lines.py"], capture_output=True, timeout=LIMIT_S, check=False, text=True
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "invoke_agent pi: failed overloaded"


def test_the_demo_shows_a_failed_run() -> None:
    """The recorded session of `make demo` is one that failed, with its retries."""
    done = compass("replay", EXAMPLES / "failed-session.jsonl")
    assert done.returncode == 0
    assert done.stdout.startswith("✖ FAILED · pi · fakeanth/fake-claude")
    assert "gave up after 3 attempts" in done.stdout
