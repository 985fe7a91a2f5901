"""Warnings that are counted always and logged seldom.

A storm of failures must not become a storm of log lines, and a thread that a signal handler waits for must not stand at
the lock of a log handler. So a warning is only noted where it happens; a worker writes it later, one line for each kind
a minute, with the number of times.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from compass_otel.scrubbing import scrub

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_logger = logging.getLogger("compass_otel.sink")

_INTERVAL_S: Final = 60.0
_MAX_PENDING: Final = 256


class Notice(StrEnum):
    """What is worth a warning."""

    PREDICATE_RAISED = "predicate_raised"
    """The service's `is_priority` raised; the span was taken as priority."""
    PROCESSOR_RAISED = "processor_raised"
    """A fault of our own, kept from the host."""
    WORKER_RAISED = "worker_raised"
    """A fault of our own in a worker; it goes on."""
    WAIT_SKIPPED = "wait_skipped"
    """A priority record that did not wait for its export, because too many waited or its thread had waited enough."""
    SPOOL_UNAVAILABLE = "spool_unavailable"
    """The spool can't write now; records are kept in memory."""
    SPOOL_UNREADABLE = "spool_unreadable"
    """A spool file was damaged or none of ours; it was set aside."""
    SPOOL_FULL = "spool_full"
    """Priority records were given up at the spool's bound."""
    MEMORY_FULL = "memory_full"
    """Priority records were given up at the bound of memory."""
    NOT_DELIVERED = "not_delivered"
    """The backend can't be reached or asks us to come back."""
    REFUSED = "refused"
    """The backend refused records for good."""
    QUEUE_FULL = "queue_full"
    """Trace records were dropped."""
    SECOND_PROCESSOR = "second_processor"
    """Another OTLP processor stands on the same provider: everything arrives twice."""
    RUNS_RECOVERED = "runs_recovered"
    """Runs that were open when their process died."""
    NOTE_FAILED = "note_failed"
    """The note of an open run could not be written."""


_QUIET: Final = frozenset({Notice.WAIT_SKIPPED})


class Notices:
    """Counts warnings and writes them to the log of `compass_otel.sink`.

    `add` is thread-safe, never waits, and safe in signal handlers; `write` is for one thread at a time.

    Args:
        clock: Monotonic seconds.

    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pending: deque[tuple[Notice, str, int]] = deque()
        self._counts: Counter[Notice] = Counter()
        self._told: dict[Notice, float] = {}
        self._untold: Counter[Notice] = Counter()

    def add(self, kind: Notice, text: str = "", times: int = 1) -> None:
        """Note a warning.

        Args:
            kind: What happened.
            text: The same for a person; scrubbed before it is written.
            times: How often.

        """
        self._pending.append((kind, text, times))
        if len(self._pending) > _MAX_PENDING:
            self._count()

    def counts(self) -> Mapping[str, int]:
        """How often each kind happened."""
        counts = self._counts.copy()
        for kind, _, times in tuple(self._pending):
            counts[kind] += times
        return MappingProxyType({str(kind): times for kind, times in counts.items()})

    def write(self) -> None:
        """Write what is due to the log."""
        now = self._clock()
        latest = self._count()
        for kind, text in latest.items():
            last = self._told.get(kind)
            if kind in _QUIET or (last is not None and now - last < _INTERVAL_S):
                continue
            self._told[kind] = now
            times = self._untold.pop(kind)
            _logger.warning("%s%s", scrub(text) or kind.value, f" ({times} times)" if times > 1 else "")

    def reset(self) -> None:
        """Begin anew, in a forked child."""
        self._pending, self._counts, self._untold = deque(), Counter(), Counter()

    def _count(self) -> dict[Notice, str]:
        """Take in what is pending; gives the latest text of each kind."""
        latest: dict[Notice, str] = {}
        for _ in range(len(self._pending)):
            try:
                kind, text, times = self._pending.popleft()
            except IndexError:  # another thread took it in
                break
            self._counts[kind] += times
            self._untold[kind] += times
            latest[kind] = text
        return latest
