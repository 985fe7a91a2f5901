"""Interrupts: what signals ask of a command that reads a live agent, without ending it at once.

Ctrl-C goes to every process of a pipeline: the agent gets it too and has last words to say, so a reader goes on to the
end of the input for a bounded time. SIGTERM is for the reader alone and ends it now, in order.
"""

import signal
import time
from types import FrameType, TracebackType
from typing import Any, Final, Self

LAST_WORDS_S: Final = 5.0
"""How long an agent may take to end after Ctrl-C; Pi and oh-my-pi need well under a second."""


class Interrupts:
    """Notes SIGINT and SIGTERM while it is entered; give it back afterwards. For the main thread alone."""

    def __init__(self) -> None:
        self.interrupted = False
        """Ctrl-C was pressed: what ends now was ended by a person."""
        self._stop_at_s = float("inf")
        self._before: dict[int, Any] = {}

    @property
    def over(self) -> bool:
        """Whether reading must end now."""
        return time.monotonic() >= self._stop_at_s

    def __enter__(self) -> Self:
        self._before = {
            signal.SIGINT: signal.signal(signal.SIGINT, self._on_interrupt),
            signal.SIGTERM: signal.signal(signal.SIGTERM, self._on_terminate),
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        # The second Ctrl-C means now.
        self._stop_at_s = time.monotonic() + (0.0 if self.interrupted else LAST_WORDS_S)
        self.interrupted = True

    def _on_terminate(self, _number: int, _frame: FrameType | None) -> None:
        self._stop_at_s = 0.0
