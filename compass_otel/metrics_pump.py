"""MetricsPump: sends the sums of a live command while it runs, from a thread of its own.

A live command may run for hours, and a person who is to be woken by a failure must not wait for its end. What is new is
sent within seconds, everything else as often as OpenTelemetry's readers do.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from compass_otel.metrics_sender import MetricsSender

SOON_S: Final = 5.0
"""How long something new waits for more: a command that lives shorter sends once, at its end."""
_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
_DEFAULT_INTERVAL_MS: Final = 60_000
_DEADLINE_S: Final = 10.0
_JOIN_S: Final = 1.0


class MetricsPump:
    """Starts its thread at the first `poke`. All methods are thread-safe and do not block, but for `close`.

    Args:
        sender: Sends; closed by its owner.
        services: Gives the names of the services that were counted for.
        soon_s: How long something new waits, seconds.

    """

    def __init__(
        self, sender: MetricsSender, services: Callable[[], Collection[str]], *, soon_s: float = SOON_S
    ) -> None:
        self._sender = sender
        self._services = services
        self._soon_s = soon_s
        self._interval_s = interval_s()
        self._changed = threading.Condition()
        self._due_s = float("inf")
        self._closed = False
        self._thread: threading.Thread | None = None

    def poke(self) -> None:
        """Say that there is something new."""
        with self._changed:
            self._due_s = min(self._due_s, time.monotonic() + min(self._soon_s, self._interval_s))
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="compass-otel-metrics", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """End the thread; waits a second for a sending under way, and leaves one that hangs behind."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while self._wait():
            self._sender.send(self._services(), time.monotonic() + _DEADLINE_S)

    def _wait(self) -> bool:
        """Wait until something is due; False at the end."""
        with self._changed:
            while not self._closed and (left_s := self._due_s - time.monotonic()) > 0:
                self._changed.wait(min(left_s, self._interval_s))
            self._due_s = time.monotonic() + self._interval_s
            return not self._closed


def interval_s() -> float:
    """Read how often metrics are sent, seconds, from the standard variable."""
    text = os.environ.get(_INTERVAL, "").strip()
    return (int(text) if text.isdecimal() and int(text) else _DEFAULT_INTERVAL_MS) / 1000
