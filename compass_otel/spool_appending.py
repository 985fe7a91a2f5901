"""Appends of many threads at once, written together: whoever holds the lock writes for those who wait for it.

A commit costs the same for one record as for thirty, and each hand-over of a lock between threads costs more than a
record. So a thread that finds the lock taken leaves its row in line and waits for the row, not for the lock.

Safe in signal handlers: the lock is reentrant, taking a row out of the line is one uninterruptible step, and every row
is written by one statement, so a handler that interrupts a writer may write itself, its own row and others'.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

from compass_otel.spool_file import SpoolError, SpoolFault, spool_error
from compass_otel.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable

Row: TypeAlias = "tuple[int | None, int, int, bytes | None, bytes, int]"
"""Number, rank, time, run, body, bound: the columns of the view `put` but for the estate."""

_ROW: Final = "(?, ?, ?, ?, ?, ?, ?)"
_GROUPS: Final = (32, 16, 8, 4, 2, 1)
_PUT: Final = {
    size: f"INSERT INTO put(estate, seq, rank, at_ns, run, body, bound) VALUES {', '.join([_ROW] * size)}"  # noqa: S608
    for size in _GROUPS
}
_CHANGES: Final = 3  # rows that one append changes at most: the record, the total, the note; more = it made room
_KEEP_BOUND: Final = "UPDATE total SET bound = bound WHERE bytes > bound"
_MAX_EVICT_ROUNDS: Final = 4096
_WAIT_S: Final = 0.25  # whoever waits is an application thread, and a fork of another thread takes this long at times
_WRITING_S: Final = 0.5


class _Ticket:
    """One row in line, and what became of it."""

    __slots__ = ("_token", "error", "made_room", "row", "settled", "wakeup")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.wakeup = Wakeup()
        self.settled = False
        self.made_room = False
        self.error: SpoolError | None = None
        self._token: deque[None] = deque((None,))

    def claim(self) -> bool:
        """Take the right to write the row, or to give it up; only one can have it."""
        try:
            self._token.pop()
        except IndexError:
            return False
        return True

    def settle(self, error: SpoolError | None, *, made_room: bool) -> None:
        """Say what became of the row."""
        self.error, self.made_room, self.settled = error, made_room, True
        self.wakeup.set()


class AppendLock:
    """A reentrant lock whose holder is handed what others want written."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin anew, in a forked child, where whoever held it or stood in line does not exist."""
        self._lock = threading.RLock()
        self.line: deque[_Ticket] = deque()

    def acquire(self, timeout_s: float = 0.0) -> bool:
        """Take the lock if it can be had within the time, seconds."""
        return self._lock.acquire(timeout=timeout_s) if timeout_s > 0 else self._lock.acquire(blocking=False)

    def release(self) -> None:
        """Give the lock back, and wake the first in line, who may have come too late for us."""
        self._lock.release()
        with contextlib.suppress(IndexError):
            self.line[0].wakeup.set()


class GroupAppender:
    """Appends rows. Thread-safe; waits at most 0.75 s.

    Args:
        lock: Guards the connection.
        connect: Gives the connection that appends, and the estate to append to; called with the lock held.

    """

    def __init__(self, lock: AppendLock, connect: Callable[[], tuple[sqlite3.Connection, int]]) -> None:
        self._lock = lock
        self._connect = connect

    def append(self, row: Row) -> bool:
        """Write a row; returns whether others had to make room.

        Raises:
            SpoolError: It can't be written now.

        """
        lock = self._lock
        if not lock.line and lock.acquire():
            try:
                return self._write([row])
            finally:
                lock.release()
        ticket = _Ticket(row)
        lock.line.append(ticket)
        try:
            self._wait(ticket)
        except BaseException:
            ticket.claim()  # a signal handler raised: whoever asks again must not find it written later
            raise
        if ticket.error is not None:
            raise ticket.error
        return ticket.made_room

    def _wait(self, ticket: _Ticket) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not ticket.settled:
            if self._lock.acquire():
                try:
                    self._write_line()
                finally:
                    self._lock.release()
            elif not ticket.wakeup.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                if ticket.claim():
                    ticket.settle(SpoolError(SpoolFault.BUSY, "other threads are writing"), made_room=False)
                else:  # somebody is writing it right now
                    ticket.wakeup.wait(_WRITING_S)
                    if not ticket.settled:
                        ticket.settle(SpoolError(SpoolFault.BUSY, "the disk is slow"), made_room=False)

    def _write_line(self) -> None:
        """Write what stands in line, with the lock held."""
        tickets = self._take(_GROUPS[0])
        error: SpoolError | None = None
        made_room = False
        try:
            made_room = self._write([ticket.row for ticket in tickets])
        except SpoolError as caught:
            error = caught
        except BaseException:
            # A signal handler raised through us. Whether the rows are there is not known; they may be repeated.
            for ticket in tickets:
                ticket.settle(SpoolError(SpoolFault.BUSY, "interrupted"), made_room=False)
            raise
        for ticket in tickets:
            ticket.settle(error, made_room=made_room)

    def _take(self, limit: int) -> list[_Ticket]:
        tickets: list[_Ticket] = []
        line = self._lock.line
        with contextlib.suppress(IndexError):
            while len(tickets) < limit:
                ticket = line.popleft()
                if ticket.claim():
                    tickets.append(ticket)
        return tickets

    def _write(self, rows: list[Row]) -> bool:
        try:
            connection, estate = self._connect()
            before = connection.total_changes
            start = 0
            while start < len(rows):
                size = next(size for size in _GROUPS if size <= len(rows) - start)
                values = [value for row in rows[start : start + size] for value in (estate, *row)]
                connection.execute(_PUT[size], values)
                start += size
            if connection.total_changes - before <= _CHANGES * len(rows):
                return False
            for _ in range(_MAX_EVICT_ROUNDS):  # one round makes room for hundreds of records; a giant takes more
                if connection.execute(_KEEP_BOUND).rowcount <= 0:
                    break
        except (sqlite3.Error, OSError) as error:
            raise spool_error(error) from error
        return True
