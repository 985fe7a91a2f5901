"""Exit statuses of the commands, and the one line that says why."""

import errno
import logging
import os
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


def end_stdout(error: OSError) -> str | None:
    """Let the rest of standard output go nowhere, after *error* there.

    Returns:
        What to complain of; None if nobody reads it any more, as behind `head`: that is no trouble.

    """
    # Python flushes standard output once more at exit, and would complain there.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno in (errno.EPIPE, errno.ESHUTDOWN):
        return None
    return f"standard output: cannot be written: {error.strerror}"
