"""The priority lane's use of a spool: every step entered in the ledger, every fault turned into "not now".

A spool that can't work is left alone for a growing while; the lane keeps its records in memory meanwhile.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from compass_otel.notices import Notice, Notices
from compass_otel.spool_file import SpoolError, SpoolFault
from compass_otel.stats import Ledger, Loss, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from compass_otel.memory_store import Entry
    from compass_otel.spool import Found, Leased, Spool

_Answer = TypeVar("_Answer")

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0


class SpoolStore:
    """A spool that never raises. `append`, `note` and `forget_note` for any thread; the rest is the worker's.

    Args:
        spool: The spool.
        ledger: Where steps are entered.
        notices: Told about faults.
        clock: Monotonic seconds.

    """

    def __init__(self, spool: Spool, ledger: Ledger, notices: Notices, clock: Callable[[], float]) -> None:
        self.spool = spool
        self._ledger = ledger
        self._notices = notices
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Begin anew, in a forked child."""
        # A full disk takes no record and still gives those it has: the two are tried apart.
        self._appends = _Pause(self._clock)
        self._work = _Pause(self._clock)
        self._unreadable = False
        self._undeleted: list[Leased] = []
        self._unmoved: list[tuple[Leased, str]] = []
        self.needs_stock = False
        """Records were given up, or may have been delivered by another process: `take_stock` would find out."""

    @property
    def is_usable(self) -> bool:
        """Whether it is worth trying to append now."""
        return not self._unreadable and self._appends.is_over()

    @property
    def needs_repair(self) -> bool:
        """Whether the file was found damaged and it is worth trying to begin a new one now."""
        return self._unreadable and self._work.is_over()

    def append(self, entry: Entry) -> bool:
        """Keep a record; returns whether the spool has it now, which is for the caller to enter in the ledger."""
        if not self.is_usable:
            return False
        try:
            evicted = self.spool.append(entry.body, entry.rank, entry.seq, entry.run)
        except SpoolError as error:
            if error.fault is not SpoolFault.TOO_LARGE:
                self._failed(error, self._appends)
            return False
        self._appends.end()
        if evicted:
            self.needs_stock = True
        return True

    def append_again(self, entry: Entry) -> bool:
        """Keep a record whose first append was interrupted: it may be there already."""
        try:
            if self.spool.holds(entry.seq):
                return True
        except SpoolError as error:
            self._failed(error, self._appends)
            return False
        return self.append(entry)

    def note(self, run: bytes, body: bytes, rank: int) -> bool:
        """Keep the note of an open run; returns whether it is kept."""
        if not self.is_usable:
            return False
        try:
            self.spool.note(run, body, rank)
        except SpoolError as error:
            self._failed(error, self._appends)
            return False
        return True

    def forget_note(self, run: bytes) -> None:
        """Drop the note of a run."""
        if self.is_usable:
            try:
                self.spool.forget_note(run)
            except SpoolError as error:
                self._failed(error, self._appends)

    def lease(self, limit: int, max_bytes: int) -> list[Leased]:
        """Take records to send; none when the spool can't."""
        leased = self._try(lambda: self.spool.lease(limit, max_bytes)) or []
        if not leased and self._ledger.number(Place.SPOOLED):
            self.needs_stock = True
        return leased

    def release(self) -> None:
        """Give the lease back."""
        self.spool.release()

    def acknowledge(self, records: Sequence[Leased]) -> None:
        """Delete delivered records, now or, when the spool can't, later; they do not go out again meanwhile."""
        gone = self._try(lambda: self.spool.acknowledge([record.id for record in records]))
        if gone is None:
            self.spool.pass_over(records)
            self._undeleted += records
            gone = len(records)
        self._ledger.move(Place.SPOOLED, Place.DELIVERED, gone)
        self.needs_stock |= gone < len(records)

    def set_aside(self, record: Leased, loss: Loss, reason: str) -> None:
        """Keep a refused record to be looked at, now or later."""
        text = f"{loss}: {reason}"
        moved = self._try(lambda: self.spool.set_aside([record.id], text))
        if moved is None:
            self.spool.pass_over([record])
            self._unmoved.append((record, text))
            moved = 1
        self._ledger.move(Place.SPOOLED, Place.REJECTED, moved, loss)

    def finish_late(self) -> None:
        """Do what could not be done when it was due."""
        if not self._undeleted and not self._unmoved:
            return
        if self._undeleted:
            if self._try(lambda: self.spool.acknowledge([record.id for record in self._undeleted])) is None:
                return
            self._undeleted.clear()
        while self._unmoved:
            record, text = self._unmoved[-1]
            if self._try(partial(self.spool.set_aside, [record.id], text)) is None:
                return
            self._unmoved.pop()
        self.spool.pass_over_nothing()

    def adopt(self) -> Found | None:
        """Take over from dead owners."""
        found = self._try(self.spool.adopt)
        if found is not None and found.records:
            self._ledger.move(Place.RECOVERED, Place.SPOOLED, found.records)
            self.needs_stock = True
            if found.runs:
                text = f"{found.runs} run(s) of a process that died were closed as incomplete"
                self._notices.add(Notice.RUNS_RECOVERED, text, found.runs)
        return found

    def take_stock(self) -> None:
        """Enter what others did: records given up at the bound, records that another process delivered for us."""
        self.needs_stock = False
        expected = self._ledger.number(Place.SPOOLED)
        stock = self._try(self.spool.take_stock)
        if stock is None:
            return
        for reason, records in stock.losses.items():
            if reason == Loss.SPOOL_FULL:
                self._ledger.move(Place.SPOOLED, Place.FAILED, records, reason)
                self._notices.add(Notice.SPOOL_FULL, "the spool is full: priority records were given up", records)
            else:  # `spool flush` sent them for us
                self._ledger.move(Place.SPOOLED, Place.REJECTED, records, reason)
        late = len(self._undeleted) + len(self._unmoved)
        missing = expected - sum(stock.losses.values()) - (stock.records - late)
        if missing > 0:
            self._ledger.move(Place.SPOOLED, Place.DELIVERED, missing)

    def position(self) -> int | None:
        """Where the spool is now, for `is_clear`; None when it can't tell."""
        return self._try(self.spool.position)

    def is_clear(self, position: int | None) -> bool:
        """Whether everything of ours from before the position is gone; without an answer only if nothing is spooled."""
        if not self._ledger.number(Place.SPOOLED):
            return True
        if self._undeleted or self._unmoved:
            return False
        return position is not None and bool(self._try(lambda: self.spool.is_clear(position)))

    def keep_house(self) -> None:
        """Repair what is damaged, look for what others did."""
        if self._unreadable or self.spool.was_replaced():
            self._repair()
        if self._ledger.number(Place.SPOOLED):
            self.take_stock()

    def tidy(self) -> None:
        """Keep the spool's log small."""
        self._try(self.spool.tidy)

    def close(self) -> None:
        """Give everything back."""
        self.spool.close()

    def _repair(self) -> None:
        if not self._work.is_over():
            return
        expected = self._ledger.number(Place.SPOOLED)
        text = f"the spool in {self.spool.folder} can't be read; it was set aside and a new one begun"
        self._notices.add(Notice.SPOOL_UNREADABLE, text)
        try:
            saved = self.spool.repair()
        except SpoolError as error:
            self._work.prolong(error.fault)
            return
        self._unreadable = False
        self._appends.end()
        self._undeleted.clear()
        self._unmoved.clear()
        self._ledger.move(Place.RECOVERED, Place.SPOOLED, saved.rescued)
        self._ledger.move(Place.SPOOLED, Place.FAILED, max(expected - saved.kept, 0), Loss.SPOOL_UNREADABLE)

    def _try(self, action: Callable[[], _Answer]) -> _Answer | None:
        """Do something of the worker's; None if the spool can't."""
        if self._unreadable or not self._work.is_over():
            return None
        try:
            answer = action()
        except SpoolError as error:
            self._failed(error, self._work)
            return None
        self._work.end()
        return answer

    def _failed(self, error: SpoolError, pause: _Pause) -> None:
        if error.fault is SpoolFault.UNREADABLE:
            self._unreadable = True
        elif error.fault is not SpoolFault.BUSY:
            pause.prolong(error.fault)
        self._notices.add(Notice.SPOOL_UNAVAILABLE, f"the spool in {self.spool.folder} can't work now: {error}")


class _Pause:
    """A growing while in which something that failed is not tried."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._length_s = 0.0
        self._until = 0.0

    def is_over(self) -> bool:
        """Whether it is worth trying now."""
        return self._clock() >= self._until

    def prolong(self, fault: SpoolFault) -> None:
        """Note that it failed."""
        longest = math.inf if fault is SpoolFault.INHERITED else _LONGEST_PAUSE_S
        self._length_s = longest if longest == math.inf else min(max(self._length_s * 2, _FIRST_PAUSE_S), longest)
        self._until = self._clock() + self._length_s

    def end(self) -> None:
        """Note that it worked."""
        self._length_s = 0.0
