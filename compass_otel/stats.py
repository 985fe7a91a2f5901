"""What became of every record: numbers that always add up.

    accepted ─┐             ┌─> delivered
              ├─> waiting ──┤
    recovered ┘      │      ├─> dropped   (trace lane: tolerated, counted by reason)
                     v      ├─> rejected  (the backend refused it for good)
                  spooled ──┴─> failed    (priority lane: a broken promise)

Every record is in exactly one of these places, and every step is one entry of a log, so whoever looks, whenever,
finds `accepted + recovered = delivered + waiting + spooled + dropped + rejected + failed`.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FOLD_AT: Final = 512
_COURTESY_S: Final = 0.05


class Loss(StrEnum):
    """Why a record was not delivered: the keys of `dropped`, `rejected` and `failed`."""

    QUEUE_FULL = "queue_full"
    """Trace lane: the oldest had to go for a newer one."""
    SHUTDOWN = "shutdown"
    """Still undelivered when the time for shutdown was over."""
    ALREADY_SHUTDOWN = "already_shutdown"
    """Ended after shutdown."""
    REENTRY = "reentry"
    """A span that our own sending made: sending it would make another."""
    ENCODING = "encoding"
    """Something that is no span, or says so when it is read."""
    REFUSED = "refused"
    """The backend will never take it."""
    PARTIAL_SUCCESS = "partial_success"
    """The backend took its batch but for some records."""
    MEMORY_FULL = "memory_full"
    """Priority lane without a spool, or with one that can't write: the byte bound of memory."""
    SPOOL_FULL = "spool_full"
    """The byte bound of the spool."""
    SPOOL_UNREADABLE = "spool_unreadable"
    """It stood in a spool file that was damaged."""


class LossCounts(dict[str, int]):
    """Numbers by reason, read-only; a dict and no view of one, so that `asdict`, copies and pickles of it work."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a snapshot cannot be changed")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[LossCounts], tuple[dict[str, int]]]:
        """Copy by value, since the usual way sets items."""
        return type(self), (dict(self),)


class Place(StrEnum):
    """Where a record can be."""

    ACCEPTED = "accepted"
    RECOVERED = "recovered"
    WAITING = "waiting"
    SPOOLED = "spooled"
    DELIVERED = "delivered"
    DROPPED = "dropped"
    REJECTED = "rejected"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LaneStats:
    """One lane at one moment; all are numbers of records since the process started or forked."""

    accepted: int = 0
    """Ended here and taken in."""
    recovered: int = 0
    """Taken over from an earlier or another process."""
    delivered: int = 0
    """Acknowledged by the backend."""
    retried: int = 0
    """Sendings that have to be repeated; no place, so no part of the sum."""
    dropped: Mapping[str, int] = field(default_factory=LossCounts)
    rejected: Mapping[str, int] = field(default_factory=LossCounts)
    failed: Mapping[str, int] = field(default_factory=LossCounts)
    waiting: int = 0
    """In memory, being sent included."""
    spooled: int = 0
    """In the spool, being sent included."""

    @property
    def lost(self) -> int:
        """Dropped, rejected and failed together."""
        return sum(self.dropped.values()) + sum(self.rejected.values()) + sum(self.failed.values())

    @property
    def lost_of_accepted(self) -> int:
        """The lost without those that were refused on arrival: what a flush asks about."""
        refused = (Loss.ALREADY_SHUTDOWN, Loss.REENTRY)
        return self.lost - sum(places.get(loss, 0) for places in (self.dropped, self.failed) for loss in refused)

    @property
    def undelivered(self) -> int:
        """Waiting and spooled together."""
        return self.waiting + self.spooled


@dataclass(frozen=True, slots=True)
class Stats:
    """Both lanes at one moment."""

    priority: LaneStats = field(default_factory=LaneStats)
    trace: LaneStats = field(default_factory=LaneStats)


_Step = tuple[Place | None, Place | None, int, str | None]


class Ledger:
    """The steps that records took. Thread-safe, never waits, and safe in signal handlers and collector runs.

    A step is appended to a deque, which is one uninterruptible operation; the sums are made when somebody looks.
    """

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque()
        self._sums: Counter[tuple[Place, str | None]] = Counter()
        self._retried = 0
        self._fold_lock = threading.Lock()

    def move(self, source: Place | None, target: Place | None, records: int = 1, reason: str | None = None) -> None:
        """Write down that records went from one place to another.

        Args:
            source: None = from outside.
            target: None = nowhere: a sending that has to be repeated.
            records: How many.
            reason: For dropped, rejected and failed: a `Loss`.

        """
        if records:
            self._steps.append((source, target, records, reason))
            if len(self._steps) >= _FOLD_AT:
                self._fold()

    def retried(self, records: int) -> None:
        """Write down that records have to be sent again."""
        self.move(None, None, records)

    def number(self, place: Place) -> int:
        """Tell how many records are in a place, or went through it (accepted, recovered)."""
        sums, _ = self._read()
        return sum(number for (where, _), number in sums.items() if where is place)

    def snapshot(self) -> LaneStats:
        """Add everything up."""
        sums, retried = self._read()
        numbers = {place: sums.get((place, None), 0) for place in Place}
        losses = {
            place: LossCounts({reason: n for (where, reason), n in sums.items() if where is place and reason and n})
            for place in (Place.DROPPED, Place.REJECTED, Place.FAILED)
        }
        return LaneStats(
            accepted=numbers[Place.ACCEPTED],
            recovered=numbers[Place.RECOVERED],
            delivered=numbers[Place.DELIVERED],
            retried=retried,
            dropped=losses[Place.DROPPED],
            rejected=losses[Place.REJECTED],
            failed=losses[Place.FAILED],
            waiting=numbers[Place.WAITING],
            spooled=numbers[Place.SPOOLED],
        )

    def reset(self) -> None:
        """Begin anew, in a forked child."""
        self._steps, self._sums, self._retried = deque(), Counter(), 0
        self._fold_lock = threading.Lock()

    def _read(self) -> tuple[Counter[tuple[Place, str | None]], int]:
        with courtesy(self._fold_lock) as held:
            if held:
                self._drain(self._steps)
            sums, retried = self._sums.copy(), self._retried
            rest = () if held else tuple(self._steps)
        for step in rest:
            retried += _apply(sums, step)
        return sums, retried

    def _fold(self) -> None:
        if self._fold_lock.acquire(blocking=False):
            try:
                self._drain(self._steps)
            finally:
                self._fold_lock.release()

    def _drain(self, steps: deque[_Step]) -> None:
        for _ in range(len(steps)):
            self._retried += _apply(self._sums, steps.popleft())


def _apply(sums: Counter[tuple[Place, str | None]], step: _Step) -> int:
    """Put one step into the sums; returns the records that it says have to be sent again."""
    source, target, records, reason = step
    if target is None:
        return records
    if source in (Place.ACCEPTED, Place.RECOVERED):
        sums[source, None] += records
    elif source is not None:
        sums[source, None] -= records
    sums[target, reason] += records
    return 0


@contextlib.contextmanager
def courtesy(lock: threading.Lock | threading.RLock, wait_s: float = _COURTESY_S) -> Iterator[bool]:
    """Hold a lock if it can be had soon; gives whether it is held.

    For state whose single operations are safe without it: a signal handler may have interrupted the holder and wait for
    us, and then nobody would ever go on.
    """
    held = lock.acquire(timeout=wait_s)
    try:
        yield held
    finally:
        if held:
            lock.release()
