"""A durable spool of records in one folder: append, lease, acknowledge, recover. Bytes in, bytes out.

    append ──> record, kept by this owner ──lease──> being sent ──acknowledge──> gone
                  │                                     │
                  │ at the byte bound: lowest rank,     └──set_aside──> kept to be looked at, never sent again
                  │ then oldest, is given up                            (the first to go at the bound)
                  v
               counted as a loss of its owner

Deleted only after done: what was leased and not acknowledged is there after a crash, and goes out again. Several
processes may share a folder; each owns what it appended for as long as it holds its lock (`spool_owner`). `adopt` takes
over from dead owners, their open runs included.

What was appended survives the death of the process. With `fsync` it survives a power cut too; without it a power cut
may cost the last seconds.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from compass_otel.spool_appending import GroupAppender
from compass_otel.spool_file import (
    RANK_STEP,
    ROW_OVERHEAD_BYTES,
    SpoolError,
    SpoolFault,
    identity_of,
    set_aside,
)
from compass_otel.spool_handles import SpoolHandles
from compass_otel.spool_owner import Owner
from compass_otel.spool_rescue import rescue
from compass_otel.spool_sql import (
    ACKNOWLEDGE,
    BEFORE,
    COUNT,
    FORGET_NOTE,
    HOLDS,
    LEASE,
    LOST,
    NOTE,
    PUT,
    RANKS,
    READ_ALL,
    READ_NOTES,
    SET_ASIDE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

DEFAULT_MAX_BYTES: Final = 256 << 20

_CHECKPOINT_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Leased:
    """A record to send."""

    id: int
    seq: int
    """The number that its appender gave it; means nothing for another owner's record."""
    body: bytes
    mine: bool
    """This owner appended it; otherwise it was taken over."""
    estate: int = 0
    """The set of records that it belongs to."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was taken over from dead owners."""

    records: int = 0
    """Records, lost runs included, and those that were given up at the bound: `take_stock` tells of these."""
    runs: int = 0
    """Of these, runs that were open when their process died."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What could still be read of a file that had to be left."""

    kept: int = 0
    """Records of this owner."""
    rescued: int = 0
    """Records of dead owners."""


@dataclass(frozen=True, slots=True)
class Stock:
    """What this owner has in the file."""

    records: int
    losses: Mapping[str, int] = field(default_factory=dict)
    """Records of this owner that were given up since the last look, by reason."""


class Spool:
    """One owner's view of a spool folder.

    `append`, `note` and `forget_note` may be called by any thread, from a signal handler or a collector run too; each
    waits at most 0.5 s. The others are for one worker thread at a time and may wait for the disk. Forks are survived if
    `before_fork` and its two counterparts are called around them. Every method but `close`, `release` and the three
    for forks raises `SpoolError` when the spool can't do it now.

    Args:
        folder: Made, with mode 0700, when absent.
        max_bytes: Bound of all records of all owners, set-aside ones included. The file is about as large.
        fsync: Wait for the disk at every append.

    """

    def __init__(self, folder: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, fsync: bool = False) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._handles = SpoolHandles(folder, fsync=fsync)
        self._logged_bytes = 0
        self._starts: dict[tuple[int, int], int] = {}
        self._appender = GroupAppender(self._handles.append_lock, self._handles.appender)
        self.before_fork = self._handles.before_fork
        self.after_fork_in_parent = self._handles.after_fork_in_parent
        self.close = self._handles.close

    def after_fork_in_child(self) -> None:
        """Become another owner; the parent's records stay the parent's."""
        self._starts = {}
        self._handles.after_fork_in_child()

    # --- what application threads call ---

    def append(self, body: bytes, rank: int, seq: int | None = None, run: bytes | None = None) -> bool:
        """Keep a record; from the moment this returns it survives the death of the process.

        Args:
            body: The record.
            rank: 1 to 3; see `RANKS`.
            seq: A number of the caller's, above 0 and not used before; given back by `lease`. None = nobody asks.
            run: The open run whose note this record makes obsolete: cleared in the same transaction.

        Returns:
            Whether it had to make room; `take_stock` says how many of ours went.

        """
        if len(body) + ROW_OVERHEAD_BYTES > self._max_bytes:
            raise SpoolError(SpoolFault.TOO_LARGE, f"{len(body)} bytes in a spool of {self._max_bytes}")
        self._logged_bytes += len(body) + ROW_OVERHEAD_BYTES
        return self._appender.append((seq, rank, time.time_ns(), run, body, self._max_bytes))

    def holds(self, seq: int) -> bool:
        """Whether this owner's record with that number is there: for whoever was interrupted while it appended."""
        with self._handles.appending() as connection:
            return connection.execute(HOLDS, (self._handles.estate, seq)).fetchone() is not None

    def note(self, run: bytes, body: bytes, rank: int = RANKS[-1]) -> None:
        """Keep what is to be said of an open run if this process dies; replaces an earlier note of the same run."""
        with self._handles.appending() as connection:
            connection.execute(NOTE, (self._handles.estate, run, rank, time.time_ns(), body))

    def forget_note(self, run: bytes) -> None:
        """Drop the note of a run that ended without a record of its own in this file."""
        with self._handles.appending() as connection:
            connection.execute(FORGET_NOTE, (self._handles.estate, run))

    # --- what the worker calls ---

    def open(self) -> None:
        """Make folder and file and become an owner: shows at once whether the spool can work."""
        with self._handles.working():
            pass

    def lease(self, limit: int, max_bytes: int) -> list[Leased]:
        """Take records to send: the highest rank first, within a rank the oldest.

        Args:
            limit: At most so many.
            max_bytes: At most so many bytes, but always one record.

        Returns:
            The records; empty if there are none, or if another process is sending ours (`spool flush`). They are ours
            until `release`, and come again until they are acknowledged or set aside.

        """
        if not self._handles.take_lease():
            return []
        leased: list[Leased] = []
        for estate in self._handles.estates:
            room = max_bytes - sum(len(record.body) for record in leased)
            if len(leased) >= limit or room <= 0:
                break
            starts = [self._starts.get((estate, rank), rank * RANK_STEP) for rank in reversed(RANKS)]
            found = self._handles.run(partial(_find, arguments=(estate, limit - len(leased), room, *starts)))
            words = iter(found.split(" ") if found else ())
            mine = estate == self._handles.estate
            leased += [
                Leased(int(id_), int(seq), bytes.fromhex(body), mine, estate)
                for id_, seq, body in zip(words, words, words, strict=True)
            ]
        if not leased:
            self.release()
        return leased

    def release(self) -> None:
        """Give the lease back."""
        if self._handles.owner is not None:
            self._handles.owner.sending.release()

    def acknowledge(self, ids: Sequence[int]) -> int:
        """Delete delivered records.

        Returns:
            How many of them were still there; the others had been given up in the meantime and are losses.

        """
        gone = start = 0
        while start < len(ids):
            size = next(size for size in ACKNOWLEDGE if size <= len(ids) - start)
            gone += self._handles.run(partial(_delete, ids=ids[start : start + size]))
            start += size
        return gone

    def pass_over(self, records: Sequence[Leased]) -> None:
        """Lease records of this kind only from behind these: they are done with, and can't be deleted now.

        A full disk lets records be read and not be deleted; without this they would go out again and again.
        """
        for record in records:
            place = (record.estate, record.id // RANK_STEP)
            self._starts[place] = max(self._starts.get(place, 0), record.id + 1)

    def pass_over_nothing(self) -> None:
        """Lease from the start again."""
        self._starts.clear()

    def set_aside(self, ids: Sequence[int], reason: str) -> int:
        """Keep records that the backend refused for good where a person can look at them; they are not sent again.

        Returns:
            How many of them were still there.

        """
        with self._handles.working() as connection, transaction(connection):
            return connection.executemany(SET_ASIDE, [(reason, id_) for id_ in ids]).rowcount

    def adopt(self) -> Found:
        """Take over what dead owners left: their records, and their open runs as the records that their notes hold."""
        with self._handles.working() as connection:
            heir = self._handles.start().name
            names = connection.execute("SELECT DISTINCT keeper FROM estate WHERE keeper != ?", (heir,)).fetchall()
            records = runs = 0
            for (name,) in names:
                dead = Owner(self.folder, name)
                if not dead.take_over():
                    continue
                try:
                    found = self._inherit(connection, name, heir)
                except sqlite3.Error:
                    dead.alive.release()
                    raise
                dead.end()
                records, runs = records + found.records, runs + found.runs
            return Found(records, runs)

    def _inherit(self, connection: sqlite3.Connection, dead: str, heir: str) -> Found:
        records = runs = 0
        kept: list[int] = []
        with transaction(connection):
            for (estate,) in connection.execute("SELECT id FROM estate WHERE keeper = ?", (dead,)).fetchall():
                notes = connection.execute(READ_NOTES, (estate,)).fetchall()
                for run, rank, at_ns, body in notes:
                    connection.execute(PUT, (estate, None, rank, at_ns, run, body, self._max_bytes))
                runs += len(notes)
                # What was given up and not yet counted by its owner is taken over too, so that somebody counts it.
                found = connection.execute(COUNT, (estate,)).fetchone()[0]
                found += connection.execute(LOST, (estate,)).fetchone()[0]
                records += found
                if found:
                    connection.execute("UPDATE estate SET keeper = ? WHERE id = ?", (heir, estate))
                    kept.append(estate)
                else:
                    connection.execute("DELETE FROM estate WHERE id = ?", (estate,))
        self._handles.estates += kept
        return Found(records, runs)

    def take_stock(self) -> Stock:
        """Count what this owner has in the file, and collect what was written down as lost for it."""
        with self._handles.working() as connection, transaction(connection):
            losses: dict[str, int] = {}
            records = 0
            for estate in self._handles.estates:
                rows = connection.execute("SELECT reason, records FROM loss WHERE estate = ?", (estate,)).fetchall()
                for reason, number in rows:
                    losses[reason] = losses.get(reason, 0) + number
                if rows:
                    connection.execute("DELETE FROM loss WHERE estate = ?", (estate,))
                records += connection.execute(COUNT, (estate,)).fetchone()[0]
            return Stock(records, losses)

    def position(self) -> int:
        """Tell the number that the next record will get, for `is_clear`."""
        with self._handles.working() as connection:
            return int(connection.execute("SELECT next FROM total").fetchone()[0])

    def is_clear(self, position: int) -> bool:
        """Whether nothing that this owner itself appended before `position` is waiting any more."""
        with self._handles.working() as connection:
            return connection.execute(BEFORE, (self._handles.estate, position)).fetchone() is None

    def tidy(self) -> None:
        """Move the log into the database when it has grown: waits for the disk, blocks no appender."""
        if self._logged_bytes > _CHECKPOINT_BYTES:
            self._logged_bytes = 0
            with self._handles.working() as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    # --- when the file went bad or away ---

    def was_replaced(self) -> bool:
        """Whether another file, or none, stands where ours was: someone set it aside or removed it."""
        identity = self._handles.identity
        return identity is not None and identity_of(self._handles.path) != identity

    def repair(self) -> Repaired:
        """Leave an unreadable, replaced or removed file and go on in a new one, with what can still be read."""
        handles = self._handles
        with handles.exclusive() as connection:
            records = _readable(connection, READ_ALL, handles.estates)
            notes = _readable(connection, READ_NOTES, handles.estates)
            known = handles.estates if connection is not None else []
            identity, replaced = handles.identity, self.was_replaced()
            handles.leave_file()
            self._starts.clear()
            aside = None if replaced else set_aside(self.folder, identity or identity_of(handles.path))
            rescued = rescue(self.folder, aside, known) if aside is not None else []
            with handles.working() as fresh, transaction(fresh):
                for rank, seq, at_ns, body in (*records, *((rank, None, at, body) for rank, at, body in rescued)):
                    fresh.execute(PUT, (handles.estate, seq, rank, at_ns, None, body, self._max_bytes))
                for run, rank, at_ns, body in notes:
                    fresh.execute(NOTE, (handles.estate, run, rank, at_ns, body))
        return Repaired(len(records), len(rescued))


def _find(connection: sqlite3.Connection, arguments: tuple[int, ...]) -> str | None:
    (found,) = connection.execute(LEASE, arguments).fetchone()
    return found if isinstance(found, str) else None


def _delete(connection: sqlite3.Connection, ids: Sequence[int]) -> int:
    return connection.execute(ACKNOWLEDGE[len(ids)], ids).rowcount


def _readable(connection: sqlite3.Connection | None, query: str, estates: Sequence[int]) -> list[tuple[Any, ...]]:
    """Read rows one by one until the damage, if any."""
    rows: list[tuple[Any, ...]] = []
    if connection is None:
        return rows
    for estate in estates:
        with contextlib.suppress(sqlite3.Error):
            for row in connection.execute(query, (estate,)):
                rows.append(row)  # noqa: PERF402 - what came before the damage must stay
    return rows


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do several statements or none; for a worker's connection only."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
