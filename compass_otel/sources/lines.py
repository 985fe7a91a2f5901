"""From bytes to lines: never more than one in memory, however long the input, and bounded however long the line."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

MAX_LINE_BYTES = 128 * 1024 * 1024
"""Twice the largest frame an agent sends (omp: 64 MiB); a longer line is given up, not held."""

QUIET_WAIT_S = 0.5
"""How long a live input may be silent before the reader says so."""

_DRAIN_BYTES = 1024 * 1024
_READ_BYTES = 256 * 1024

TimedLine = tuple[bytes | None, int | None]
"""A line and when it came, if known; `(None, now)` says that nothing came for a while."""


def stored_lines(file: BinaryIO) -> Iterator[TimedLine]:
    """Give a stored input's lines, each with its end; an overlong one as its first `MAX_LINE_BYTES` + 1 bytes."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        yield line, None
        if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            _drain(file)


def _drain(file: BinaryIO) -> None:
    while piece := file.readline(_DRAIN_BYTES):
        if piece.endswith(b"\n"):
            return


def live_lines(
    file: BinaryIO,
    clock: Callable[[], int],
    *,
    tap: Callable[[bytes], object] | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[TimedLine]:
    """Give a live input's lines with the time each came, and `(None, now)` while nothing comes.

    Blocks at most `QUIET_WAIT_S` at a time where the system can wait for a pipe (not on Windows, not for a file in
    memory: there it blocks until the next line and never says that nothing came).

    Args:
        file: the input.
        clock: gives the present, nanoseconds since the epoch.
        tap: gets the bytes as they come, before they are lines.
        stopped: asked before each wait; True ends the input there.

    """
    fd = _pipe_of(file)
    if fd is None:
        for line, _ in stored_lines(file):
            if tap is not None and line is not None:
                tap(line)
            yield line, clock()
        return
    joiner = _Joiner()
    while not stopped():
        ready, _, _ = select.select([fd], [], [], QUIET_WAIT_S)
        now = clock()
        if not ready:
            yield None, now
            continue
        chunk = os.read(fd, _READ_BYTES)
        if not chunk:
            break
        if tap is not None:
            tap(chunk)
        for whole in joiner.add(chunk):
            yield whole, now
    if rest := joiner.rest():
        yield rest, clock()


def _pipe_of(file: BinaryIO) -> int | None:
    """Give the descriptor to wait on; reading goes around Python's own buffer, which nobody has filled yet."""
    if sys.platform == "win32":
        return None
    try:
        fd = file.fileno()
        select.select([fd], [], [], 0)
    except (OSError, ValueError):
        return None
    return fd


class _Joiner:
    """Puts lines together from chunks, without copying a long one again for each chunk."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._bytes = 0

    def add(self, chunk: bytes) -> Iterator[bytes]:
        """Take a chunk and give the lines that it completes."""
        first, newline, rest = chunk.partition(b"\n")
        self._keep(first + newline)
        if not newline:
            return
        yield self.rest()
        *whole, last = rest.split(b"\n")
        for line in whole:
            yield line + b"\n"
        self._keep(last)

    def rest(self) -> bytes:
        """Give and forget what is there, at most `MAX_LINE_BYTES` + 1 bytes."""
        line = b"".join(self._pieces)
        self._pieces, self._bytes = [], 0
        return line

    def _keep(self, piece: bytes) -> None:
        room = MAX_LINE_BYTES + 1 - self._bytes
        if piece and room > 0:
            self._pieces.append(piece[:room])
            self._bytes += min(len(piece), room)
