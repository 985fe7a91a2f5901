"""Keeps gRPC calls out of the moment of a fork.

gRPC can be used in a forked child only if no thread of the parent was inside gRPC when it forked, its own threads
included: otherwise its fork handlers step aside, and the child may crash at its first call (6 of 40 under load). So
every call of ours passes this gate. A fork holds the gate, waits a moment for the calls in flight, ends those that take
longer, and lets gRPC's threads come to rest; after that 40 of 40 children worked. Other people's gRPC calls are beyond
our reach: a service that forks under load is better off with OTLP over HTTP.

A call that was ended so is answered `Retry`; its records are sent again.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from types import TracebackType

_WAIT_S: Final = 0.1  # a call to a healthy backend takes a millisecond
_END_S: Final = 0.15
_REST_S: Final = 0.02  # how long gRPC's threads go on after a call has returned; 2 ms were too short once in 40


class Endable(Protocol):
    """Something whose call can be ended from another thread."""

    def end_call(self) -> None:
        """End the call in flight."""


class _Gate:
    """Who is in a call. One per process; made anew in a child."""

    def __init__(self) -> None:
        # Reentrant: a signal handler may flush while its thread is on the way through the gate.
        self.changed = threading.Condition(threading.RLock())
        self.inside: set[Endable] = set()
        self.left_at_s = 0.0
        self.forks = 0

    def close(self) -> None:
        """Hold the gate for a fork; nobody is in a call any more, or their time is up."""
        self.changed.acquire()
        self.forks += 1
        if not self.changed.wait_for(self._empty, _WAIT_S):
            for one in tuple(self.inside):
                one.end_call()
            self.changed.wait_for(self._empty, _END_S)
        time.sleep(max(self.left_at_s + _REST_S - time.monotonic(), 0.0))

    def open(self) -> None:
        """Let calls go on."""
        self.forks -= 1
        self.changed.notify_all()
        self.changed.release()

    def is_open(self) -> bool:
        """Whether no fork is going on."""
        return self.forks == 0

    def _empty(self) -> bool:
        return not self.inside


_gate = _Gate()


def _before() -> None:
    _gate.close()


def _in_parent() -> None:
    _gate.open()


def _in_child() -> None:
    global _gate  # noqa: PLW0603 - the child has threads and calls of its own
    _gate = _Gate()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


class OutsideForks:
    """Context of one call: no fork happens meanwhile, unless the call takes too long and is ended."""

    def __init__(self, caller: Endable) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        """Go in; waits while a fork is going on, which is bounded."""
        with _gate.changed:
            _gate.changed.wait_for(_gate.is_open, _WAIT_S + _END_S + _REST_S)
            _gate.inside.add(self._caller)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Go out."""
        with _gate.changed:
            _gate.inside.discard(self._caller)
            _gate.left_at_s = time.monotonic()
            _gate.changed.notify_all()
