"""A background thread that takes step after step: started when needed, never in the way of an exit or a fork."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from opentelemetry import context as context_api

from compass_otel.notices import Notice, Notices
from compass_otel.sdk_private import suppressed_context
from compass_otel.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE_AFTER_FAULT_S: Final = 1.0


class Worker:
    """Calls `step` again and again on a daemon thread.

    Args:
        name: The thread's.
        step: Does what is due; returns after how many seconds it wants to be called again, None = never.
        notices: Told when `step` raises, which ends nothing.

    """

    def __init__(self, name: str, step: Callable[[], float | None], notices: Notices) -> None:
        self._name = name
        self._step = step
        self._notices = notices
        self.on_start: Callable[[], None] | None = None
        """Called on the thread that starts the worker, each time one is started."""
        self.reset()

    def reset(self) -> None:
        """Forget the thread, in a forked child, where it does not exist."""
        self._wakeup = Wakeup()
        self._thread: threading.Thread | None = None
        # Whoever takes the token starts the thread: taking is one uninterruptible step, so it is never started twice.
        self._token: deque[None] = deque([None])

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def wake(self) -> None:
        """Have the next step done now, on the thread, which is started if it is not there yet. Never waits."""
        if self._token:
            self.start()
        self._wakeup.set()

    def start(self) -> bool:
        """Start the thread if it does not run yet.

        Returns:
            Whether it runs; False when the interpreter is ending and takes no new threads.

        """
        try:
            self._token.popleft()
        except IndexError:
            return True
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:
            self._thread = None
            self._token.append(None)
            return False
        if self.on_start is not None:
            self.on_start()
        return True

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; returns whether there is none any more."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return thread is None
        with contextlib.suppress(RuntimeError):  # it was made and not started yet
            thread.join(max(timeout_s, 0.0))
        return not thread.is_alive()

    def _run(self) -> None:
        context_api.attach(suppressed_context())
        delay: float | None = 0.0
        while delay is not None:
            self._wakeup.wait(delay)
            try:
                delay = self._step()
            except BaseException as error:  # noqa: BLE001 - boundary: a fault must not end the lane, it is counted
                self._notices.add(Notice.WORKER_RAISED, f"{self._name}: {type(error).__name__}: {error}")
                delay = _PAUSE_AFTER_FAULT_S
