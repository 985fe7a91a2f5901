"""Progress of long reading: one line on standard error that is rewritten, on a terminal only."""

import time
from collections.abc import Callable
from typing import Final, Protocol

_EVERY_S: Final = 0.2
_PATIENCE_S: Final = 0.5
"""What is done sooner needs no progress."""
_MB: Final = 1e6


class StatusLine(Protocol):
    """Something that shows a line which the next one replaces."""

    def status(self, line: list[tuple[str, str]]) -> None:
        """Show it; an empty line takes it away."""


class Progress:
    """How far reading has come, told now and then. Not thread-safe; costs one clock read per call."""

    def __init__(
        self, screen: StatusLine | None, total_bytes: int, inputs: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin. *screen* None tells nothing; *total_bytes* 0 means that nobody knows."""
        self._screen = screen
        self._total_bytes = total_bytes
        self._inputs = inputs
        self._clock = clock
        self._begun_s = clock()
        self._next_s = self._begun_s + _PATIENCE_S
        self._shown = False
        self._input = 0
        self._done_bytes = 0

    def next_input(self) -> None:
        """Say that the next input is begun."""
        self._input += 1

    def advance(self, size_bytes: int) -> None:
        """Say that so many more bytes were read."""
        self._done_bytes += size_bytes
        if self._screen is None:
            return
        now_s = self._clock()
        if now_s >= self._next_s:
            self._next_s = now_s + _EVERY_S
            self._shown = True
            self._screen.status([(self._words(now_s), "dim")])

    def _words(self, now_s: float) -> str:
        parts = [f"reading {self._input} of {self._inputs}" if self._inputs > 1 else "reading"]
        if self._total_bytes:
            parts.append(f"{min(self._done_bytes / self._total_bytes, 1):.0%}")
        parts.append(f"{self._done_bytes / _MB:,.0f} MB")
        rate = self._done_bytes / max(now_s - self._begun_s, _EVERY_S)
        parts.append(f"{rate / _MB:,.0f} MB/s")
        return ", ".join(parts)

    def close(self) -> None:
        """Take the line away."""
        if self._screen is not None and self._shown:
            self._screen.status([])
            self._shown = False
