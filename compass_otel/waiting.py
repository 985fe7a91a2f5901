"""How long a thread that ended a failure may wait for its export, and when it must not wait at all.

A failure that is delivered before `span.end()` returns is worth a quarter of a second, once. It is worth nothing to a
host that ends a thousand failures at once: so waiting is bounded by how many wait, by how much a thread has waited
lately, and is refused on a thread that runs an event loop, where one waiting stops everything.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from compass_otel.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_WAITERS: Final = 8
BUDGET_S: Final = 1.0
WINDOW_S: Final = 10.0
_LEAST_WAIT_S: Final = 0.001


class _History(threading.local):
    """The waits of one thread within the window.

    A handler that interrupts the thread may wait itself: each step here is whole when it strikes.
    """

    def __init__(self) -> None:
        self._waits: deque[tuple[float, float]] = deque()
        self._total_s = 0.0

    def add(self, start: float, length_s: float) -> None:
        """Note a wait."""
        self._waits.append((start, length_s))
        self._total_s += length_s

    def total_s(self, since: float) -> float:
        """Tell how long the thread waited, without the waits that ended by `since`."""
        waits = self._waits
        try:
            while sum(waits[0]) <= since:
                self._total_s -= waits.popleft()[1]
        except IndexError:
            self._total_s = 0.0  # none left; what rounding left goes too
        return self._total_s


class WaitGate:
    """Decides who waits. Thread-safe, takes no lock, safe in signal handlers.

    Args:
        wait_s: Longest single wait.
        on_event_loop: Wait on threads that run an event loop too.
        clock: Monotonic seconds.

    """

    def __init__(self, wait_s: float, *, on_event_loop: bool, clock: Callable[[], float]) -> None:
        self.wait_s = wait_s
        self._on_event_loop = on_event_loop
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Begin anew, in a forked child."""
        # Taking a seat is one uninterruptible step, so there are never more than these at once.
        self._seats: deque[None] = deque([None] * MAX_WAITERS)
        self._history = _History()

    def may_wait(self) -> bool:
        """Whether this thread may wait at all: waiting is switched on and it runs no event loop."""
        return self.wait_s > 0 and (self._on_event_loop or not runs_event_loop())

    def take_seat(self) -> bool:
        """Ask to wait now; a seat that was given must be given back with `leave`."""
        if self._left(self._clock()) < _LEAST_WAIT_S:
            return False
        try:
            self._seats.popleft()
        except IndexError:
            return False
        return True

    def leave(self) -> None:
        """Give the seat back."""
        self._seats.append(None)

    def wait(self, done: Wakeup, deadline: float) -> bool:
        """Wait in a seat.

        Args:
            done: Raised when there is nothing more to wait for.
            deadline: Monotonic seconds; this thread's budget may end sooner.

        Returns:
            Whether it was raised in time.

        """
        start = self._clock()
        allowed = min(deadline - start, self._left(start))
        try:
            return done.wait(allowed)
        finally:
            self._history.add(start, self._clock() - start)

    def _left(self, now: float) -> float:
        """Tell what this thread may still wait: so much that no 10 s hold more than 1 s of waiting."""
        return BUDGET_S - self._history.total_s(now - WINDOW_S)


def runs_event_loop() -> bool:
    """Whether the calling thread runs an asyncio event loop right now."""
    events = sys.modules.get("asyncio.events")  # not imported: then nobody runs one
    return events is not None and events._get_running_loop() is not None  # noqa: SLF001 - meant for libraries like this
