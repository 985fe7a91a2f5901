"""One sender for two lanes: an exporter must never be called by two threads at once."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from compass_otel.delivery import Delivery, Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk.trace import ReadableSpan  # noqa: TID251 - the type alone

    from compass_otel.sender_exporter import ExporterSender


class SharedSender:
    """Lets several threads use an exporter in turn. Thread-safe; waits for its turn until the deadline.

    Args:
        sender: The exporter's.

    """

    def __init__(self, sender: ExporterSender) -> None:
        self._sender = sender
        self._turn = threading.Lock()

    @property
    def target(self) -> str:
        """Class of the exporter."""
        return self._sender.target

    def describe(self) -> str:
        """One line for a person."""
        return self._sender.describe()

    def send(self, batch: Sequence[bytes], deadline: float) -> Delivery:
        """Send records when it is our turn; see `delivery.Sender`."""
        return self._in_turn(lambda: self._sender.send(batch, deadline), deadline)

    def send_spans(self, spans: Sequence[ReadableSpan], deadline: float) -> Delivery:
        """Send spans when it is our turn."""
        return self._in_turn(lambda: self._sender.send_spans(spans, deadline), deadline)

    def reset_after_fork(self) -> None:
        """Forget the parent's calls."""
        self._turn = threading.Lock()
        self._sender.reset_after_fork()

    def close(self) -> None:
        """Shut the exporter down."""
        self._sender.close()

    def _in_turn(self, call: Callable[[], Delivery], deadline: float) -> Delivery:
        if not self._turn.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            return Retry(None, f"{self._sender.target}: the other lane's call has not returned yet")
        try:
            return call()
        finally:
            self._turn.release()
