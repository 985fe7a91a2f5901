"""A signal from any thread to one waiting thread, safe in signal handlers.

`threading.Event` takes a lock in Python code: a signal handler that interrupts `set` and calls `set` itself waits for
ever. Here a bare lock *is* the flag, and each operation is one uninterruptible call.
"""

from __future__ import annotations

import contextlib
import threading


class Wakeup:
    """A flag that one thread waits for and takes down, and any thread raises.

    Several raisings before it is taken count once. Thread-safe; `set` never waits.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Raise the flag."""
        if self._lock.locked():
            with contextlib.suppress(RuntimeError):  # another thread was faster between the two calls
                self._lock.release()

    def is_set(self) -> bool:
        """Whether the flag is up."""
        return not self._lock.locked()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the flag and take it down.

        Args:
            timeout_s: At most so long, by the monotonic clock; 0 or less = only look.

        Returns:
            Whether it was up.

        """
        if timeout_s <= 0:
            return self._lock.acquire(blocking=False)
        return self._lock.acquire(timeout=min(timeout_s, threading.TIMEOUT_MAX))

    def pause(self, timeout_s: float) -> None:
        """Wait until the flag is up, leaving it up."""
        if self.wait(timeout_s):
            self.set()
