"""The priority lane's use of a spool: every step entered in the ledger, every fault turned into "not now".

A spool that can't work is left alone for a growing while; the lane keeps its records in memory meanwhile.
"""

from __future__ import annotations

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
        self._pause_s = 0.0
        self._paused_until = 0.0
        self._unreadable = False
        self._to_delete: list[int] = []
        self.needs_stock = False
        """Records were given up, or may have been delivered by another process: `take_stock` would find out."""

    @property
    def is_usable(self) -> bool:
        """Whether it is worth trying now."""
        return self._clock() >= self._paused_until and not self._unreadable

    @property
    def needs_repair(self) -> bool:
        """Whether the file was found damaged and it is worth trying to begin a new one now."""
        return self._unreadable and self._clock() >= self._paused_until

    def append(self, entry: Entry) -> bool:
        """Keep a record; returns whether the spool has it now, which is for the caller to enter in the ledger."""
        if not self.is_usable:
            return False
        try:
            evicted = self.spool.append(entry.body, entry.rank, entry.seq, entry.run)
        except SpoolError as error:
            if error.fault is not SpoolFault.TOO_LARGE:
                self._failed(error)
            return False
        self._pause_s = 0.0
        if evicted:
            self.needs_stock = True
        return True

    def append_again(self, entry: Entry) -> bool:
        """Keep a record whose first append was interrupted: it may be there already."""
        try:
            if self.spool.holds(entry.seq):
                return True
        except SpoolError as error:
            self._failed(error)
            return False
        return self.append(entry)

    def note(self, run: bytes, body: bytes, rank: int) -> bool:
        """Keep the note of an open run; returns whether it is kept."""
        if not self.is_usable:
            return False
        try:
            self.spool.note(run, body, rank)
        except SpoolError as error:
            self._failed(error)
            return False
        return True

    def forget_note(self, run: bytes) -> None:
        """Drop the note of a run."""
        if self.is_usable:
            try:
                self.spool.forget_note(run)
            except SpoolError as error:
                self._failed(error)

    def lease(self, limit: int, max_bytes: int) -> list[Leased]:
        """Take records to send; none when the spool can't, nor before it took the deletion of what was delivered."""
        if self._to_delete and not self._delete():
            return []
        leased = self._try(lambda: self.spool.lease(limit, max_bytes)) or []
        if not leased and self.is_usable and self._ledger.number(Place.SPOOLED):
            self.needs_stock = True
        return leased

    def release(self) -> None:
        """Give the lease back."""
        self.spool.release()

    def acknowledge(self, records: Sequence[Leased]) -> bool:
        """Delete delivered records; returns whether they are gone. If not, that is tried again; they stay here."""
        self._to_delete += [record.id for record in records]
        return self._delete()

    def _delete(self) -> bool:
        gone = self._try(lambda: self.spool.acknowledge(self._to_delete))
        if gone is None:
            return False
        self._ledger.move(Place.SPOOLED, Place.DELIVERED, gone)
        self.needs_stock |= gone < len(self._to_delete)
        self._to_delete = []
        return True

    def set_aside(self, record: Leased, loss: Loss, reason: str) -> bool:
        """Keep a refused record to be looked at; returns whether it is out of the way."""
        moved = self._try(lambda: self.spool.set_aside([record.id], f"{loss}: {reason}"))
        if moved:
            self._ledger.move(Place.SPOOLED, Place.REJECTED, 1, loss)
        return moved is not None

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
        missing = expected - sum(stock.losses.values()) - stock.records
        if missing > 0:
            self._ledger.move(Place.SPOOLED, Place.DELIVERED, missing)

    def position(self) -> int | None:
        """Where the spool is now, for `is_clear`; None when it can't tell."""
        return self._try(self.spool.position)

    def is_clear(self, position: int | None) -> bool:
        """Whether everything of ours from before the position is gone; without an answer only if nothing is spooled."""
        if not self._ledger.number(Place.SPOOLED):
            return True
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
        if self._clock() < self._paused_until:
            return
        expected = self._ledger.number(Place.SPOOLED)
        text = f"the spool in {self.spool.folder} can't be read; it was set aside and a new one begun"
        self._notices.add(Notice.SPOOL_UNREADABLE, text)
        try:
            saved = self.spool.repair().records
        except SpoolError as error:
            self._pause(error)
            return
        self._unreadable = False
        self._to_delete = []  # those numbers mean other records in the new file
        self._ledger.move(Place.SPOOLED, Place.FAILED, max(expected - saved, 0), Loss.SPOOL_UNREADABLE)

    def _try(self, action: Callable[[], _Answer]) -> _Answer | None:
        """Do something; None if the spool can't."""
        if not self.is_usable:
            return None
        try:
            answer = action()
        except SpoolError as error:
            self._failed(error)
            return None
        self._pause_s = 0.0
        return answer

    def _failed(self, error: SpoolError) -> None:
        if error.fault is SpoolFault.UNREADABLE:
            self._unreadable = True
        elif error.fault is not SpoolFault.BUSY:
            self._pause(error)
        self._notices.add(Notice.SPOOL_UNAVAILABLE, f"the spool in {self.spool.folder} can't work now: {error}")

    def _pause(self, error: SpoolError) -> None:
        if error.fault is SpoolFault.INHERITED:
            self._pause_s = float("inf")
        self._pause_s = min(max(self._pause_s * 2, _FIRST_PAUSE_S), max(_LONGEST_PAUSE_S, self._pause_s))
        self._paused_until = self._clock() + self._pause_s
