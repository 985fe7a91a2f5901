"""Both lanes as one thing: flushed together, ended together, forked together. Knows nothing of the processor.

Whoever is asked to flush never sends itself: it asks the workers and waits, with nothing locked, until the deadline. So
a signal handler may flush or shut down in the middle of anything, the same flush included.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from compass_otel.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from compass_otel.delivery import Sender
    from compass_otel.flushing import FlushRequest
    from compass_otel.lanes import TraceLane
    from compass_otel.notices import Notices
    from compass_otel.open_runs import OpenRuns
    from compass_otel.priority_lane import PriorityLane

_JOIN_S: Final = 0.25
_UTIL: Final = "multiprocessing.util"
_EXIT_PRIORITY: Final = 10  # before the child joins its own children


@dataclass(slots=True, weakref_slot=True, eq=False)
class LanePair:
    """The two lanes and what they share. All methods are thread-safe."""

    trace: TraceLane
    priority: PriorityLane
    runs: OpenRuns
    notices: Notices
    senders: tuple[Sender, ...]
    exit_timeout_s: float
    _ends_with_child: bool = field(default=False, init=False)
    _delivered: bool | None = field(default=None, init=False)
    """What `shutdown` answered; None before."""

    def stats(self) -> Stats:
        """Tell what became of every record."""
        return Stats(priority=self.priority.stats(), trace=self.trace.stats())

    def flush(self, deadline: float) -> bool:
        """Deliver everything accepted before; returns whether that is so at the deadline (monotonic seconds)."""
        if self._delivered is not None:
            stats = self.stats()
            return not stats.priority.undelivered and not stats.trace.undelivered
        requests = [(lane, lane.request_flush(deadline)) for lane in (self.priority, self.trace)]
        answers = [_wait(lane, request) for lane, request in requests]
        return all(answers)

    def shutdown(self, deadline: float) -> bool:
        """Take nothing more, deliver what can be delivered until the deadline, end. Twice is as good as once.

        Returns:
            Whether everything accepted was delivered.

        """
        if self._delivered is not None:
            return self._delivered
        self.priority.close_intake(deadline)
        self.trace.close_intake(deadline)
        requests = [(lane, lane.request_flush(deadline)) for lane in (self.priority, self.trace)]
        answers = [_wait(lane, request) for lane, request in requests]
        self.trace.abandon()
        self.priority.end()
        # A worker that is on its way out gets a moment; one that hangs in a request is left behind, it is a daemon.
        for lane in (self.priority, self.trace):
            lane.worker.join(min(max(deadline - time.monotonic(), 0.01), _JOIN_S))
        for sender in self.senders:
            sender.close()
        self.priority.close_store()
        self.notices.write()
        self._delivered = all(answers)
        return self._delivered

    def __post_init__(self) -> None:
        """Have the exits of `multiprocessing` children in view, where the interpreter's exit hooks never run."""
        self.trace.worker.on_start = self.priority.worker.on_start = _WeakEnd(self)

    def before_fork(self) -> None:
        """Put the spool's file down, so that the child inherits nothing half-done."""
        if self.priority.store is not None:
            self.priority.store.spool.before_fork()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self.priority.store is not None:
            self.priority.store.spool.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Begin anew: own workers, own connections, own owner of the spool; what was accepted is the parent's."""
        if self.priority.store is not None:
            self.priority.store.spool.after_fork_in_child()
        self._ends_with_child = False
        self.notices.reset()
        self.runs.after_fork_in_child()
        self.priority.after_fork_in_child()
        self.trace.after_fork_in_child()


class _WeakEnd:
    """Ends a pair with a `multiprocessing` child, without keeping it alive; called when a worker starts."""

    def __init__(self, pair: LanePair) -> None:
        self._pair = weakref.ref(pair)

    def __call__(self) -> None:
        """Register, once per child."""
        pair, process, util = self._pair(), sys.modules.get("multiprocessing.process"), sys.modules.get(_UTIL)
        if pair is None or process is None or util is None or pair._ends_with_child:  # noqa: SLF001 - its own module
            return
        if process.parent_process() is not None:
            pair._ends_with_child = True  # noqa: SLF001
            util.Finalize(None, self.end, exitpriority=_EXIT_PRIORITY)

    def end(self) -> None:
        """Shut down, within the time for exits."""
        pair = self._pair()
        if pair is not None:
            pair.shutdown(time.monotonic() + pair.exit_timeout_s)


def _wait(lane: TraceLane | PriorityLane, request: FlushRequest) -> bool:
    """Wait for the answer; where no thread can be started any more, do the worker's steps here."""
    if not request.answered.is_set() and not lane.worker.start():
        while not request.answered.is_set() and time.monotonic() < request.deadline:
            delay = lane.step()
            if delay is None:
                break
            request.answered.pause(min(delay, request.deadline - time.monotonic()))
    return request.wait()


_living: weakref.WeakSet[LanePair] = weakref.WeakSet()
_hooked: bool = False


def survive_forks(pair: LanePair) -> None:
    """Keep a pair whole through forks, for as long as it lives; no reference keeps it alive."""
    global _hooked  # noqa: PLW0603 - the interpreter's hooks can't be taken back, so they are set once per process
    _living.add(pair)
    if _hooked:
        return
    _hooked = True
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lambda: _each(LanePair.before_fork),
            after_in_parent=lambda: _each(LanePair.after_fork_in_parent),
            after_in_child=lambda: _each(LanePair.after_fork_in_child),
        )


def _each(action: Callable[[LanePair], None]) -> None:
    for pair in tuple(_living):
        action(pair)
