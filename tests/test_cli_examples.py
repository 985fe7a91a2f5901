"""The recorded session that documents point to shows what they promise."""

from __future__ import annotations

from pathlib import Path

from command_support import compass

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_demo_shows_a_failed_run() -> None:
    """The recorded session of `make demo` is one that failed, with its retries."""
    done = compass("replay", EXAMPLES / "failed-session.jsonl")
    assert done.returncode == 0
    assert done.stdout.startswith("✖ FAILED · pi · fakeanth/fake-claude")
    assert "gave up after 3 attempts" in done.stdout
