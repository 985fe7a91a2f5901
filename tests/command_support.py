"""Runs the installed command in a process of its own, with bounded time, for the tests of the commands."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CAPTURES = Path(__file__).parent / "captures"
COMMAND = [sys.executable, "-m", "compass_otel"]
LIMIT_S = 30


def compass(
    *arguments: object, stdin: bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, **(env or {})},
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def objects(*arguments: object, stdin: bytes = b"") -> list[dict[str, Any]]:
    """Give the objects that the command prints with `--json`."""
    done = compass(*arguments, "--json", stdin=stdin)
    return [json.loads(line) for line in done.stdout.splitlines()]


def on_a_terminal(
    *arguments: object,
    columns: int = 80,
    env: dict[str, str] | None = None,
    command: list[str] = COMMAND,
    watch: Callable[[str], object] = lambda _: None,
) -> tuple[int, str]:
    """Run the command on a terminal of so many columns; give its exit status and everything that it wrote.

    *watch* sees what was written so far, whenever there is more.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        # Not `execv`: readline, which pytest loads, writes its own COLUMNS into the environment below Python.
        variables = {**os.environ, "TERM": "xterm-256color", **(env or {})}
        os.execve(command[0], [*command, *map(str, arguments)], variables)  # noqa: S606  # a terminal's child
    written = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # how Linux says that nobody has the other end open any more
            break
        if not chunk:
            break
        written += chunk
        watch(written.decode(errors="replace"))
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), written.decode()
