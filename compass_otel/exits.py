"""Exit statuses of the commands, and the one line that says why."""

import logging
import sys
from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    """What a command's exit status means."""

    OK = 0
    """Everything was read, and sent where that was asked."""
    TROUBLE = 1
    """Something could not be read or sent; a line on standard error says what."""
    WRONG_USE = 2
    """The command line cannot be meant like that, or a part that it needs is not installed."""
    RUN_FAILED = 3
    """With `--fail-on`: a run failed or is incomplete."""
    RUN_CANCELLED = 4
    """With `--fail-on cancelled`: no run failed, but one was cancelled."""


EXIT_HELP: Final = """\
exit status:
  0  everything was read, and sent where that was asked
  1  something could not be read or sent; a line on standard error says what
  2  wrong use
  3  with --fail-on: a run failed or is incomplete
  4  with --fail-on cancelled: no run failed, but one was cancelled
"""

PROGRAM: Final = "compass-otel"
MISSING_EXTRA: Final = "the commands need one more package; do: pip install 'compass-otel[cli]'"


class WrongUseError(Exception):
    """The command line cannot be meant like that; the message says what to do instead."""


def log_to_stderr() -> None:
    """Let warnings of the parts (a refused connection, a full disk) reach the person, one line each."""
    logging.basicConfig(format=f"{PROGRAM}: %(message)s", level=logging.WARNING)


def clean(text: str) -> str:
    """Return a complaint as one line without secrets: it may repeat what a person typed, an address with a password."""
    from compass_otel.scrubbing import scrub  # noqa: PLC0415  # patterns are loaded only when there is trouble

    return " ".join(scrub(text).splitlines())


def complain(text: str) -> None:
    """Write one line to standard error, with the program's name; a closed standard error is no reason to fail."""
    try:
        sys.stderr.write(f"{PROGRAM}: {clean(text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        # Whoever closed standard error does not want to be told.
        return
