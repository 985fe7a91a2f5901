"""The rows of the ledger of runs: what is known of a run, how it is named, what becomes of a dead owner's claims."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, assert_never

from compass_otel.ids import text_digest
from compass_otel.semconv import Outcome

MAX_KEPT_SPANS: Final = 4096
"""Ids of an incomplete run's spans that are kept, so that none of them is sent twice when its end is seen."""
_SPAN_ID_BYTES: Final = 8


class Reader(IntEnum):
    """Who reads: a claim of the one binds the other only as told above."""

    STREAM = 0
    FILE = 1


class RowStanding(IntEnum):
    """The column `standing`."""

    UNSENT = 0
    SENT = 1
    WAITING = 2


class Standing(Enum):
    """What the ledger says to somebody who wants to send a run."""

    OURS = "ours"
    """Send it; it is claimed for this process, or the ledger can't be used."""
    SENT = "sent"
    """It was sent before."""
    WAITING = "waiting"
    """A live command that ended left it in its spool, from where it is sent."""
    ELSEWHERE = "elsewhere"
    """Another living process is sending it."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as the ledger knows it; ids in lower-case hex."""

    key: str
    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was sent of a run that is to be sent once more, because its end has been seen since."""

    trace_id: str
    span_id: str
    spans: frozenset[str] | None = None
    """Ids of its children that had ended; None if nobody knows."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a claim."""

    standing: Standing
    counted: bool = False
    """Its metrics are in the sums already."""
    earlier: Earlier | None = None
    """With `OURS`: it was sent as incomplete; its run span goes out under a new id."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the ledger, for whoever looks."""

    facts: RunFacts
    standing: Standing | None
    """None: nobody sent it yet, nobody has claimed it."""
    outcome: str | None


def message_key(timestamp_ms: int, text: str) -> str:
    """Name a run by its first user message.

    Args:
        timestamp_ms: The message's own time, as the agent wrote it.
        text: Its text; only a digest of it is kept.

    """
    return f"user {timestamp_ms} {text_digest(text)}"


def span_key(span_id: int, start_ns: int | None) -> str:
    """Name what no user message begins by its derived span id.

    Args:
        span_id: Derived from what the session says of itself.
        start_ns: For an id that different sessions may share; None where it is one session's alone.

    """
    return f"span {span_id:016x}" + ("" if start_ns is None else f" {start_ns}")


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A row."""

    standing: RowStanding
    owner: str | None
    reader: Reader
    counted: bool
    outcome: str | None
    trace_id: str
    span_id: str
    spans: bytes | None

    @property
    def earlier(self) -> Earlier:
        """What was sent of it."""
        spans, size = self.spans, _SPAN_ID_BYTES
        if spans is None:
            return Earlier(self.trace_id, self.span_id)
        ids = frozenset(spans[start : start + size].hex() for start in range(0, len(spans), size))
        return Earlier(self.trace_id, self.span_id, ids)


def row_of(connection: sqlite3.Connection, key: str) -> KnownRun | None:
    """Read the row of a run; None if there is none."""
    row = connection.execute(
        "SELECT standing, owner, reader, counted, outcome, trace_id, span_id, spans FROM run WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        return None
    standing, owner, reader, counted, *rest = row
    return KnownRun(RowStanding(standing), owner, Reader(reader), bool(counted), *rest)


def bury(connection: sqlite3.Connection, owner: str) -> None:
    """End the claims of an owner that is gone.

    What it had handed over whole waits in its spool; of a run that was still open the spool has a note, from which the
    run's own span is sent as incomplete. Without a spool nobody has anything, and whoever comes may send it.
    """
    connection.execute(
        "UPDATE run SET standing = ?, outcome = coalesce(outcome, ?) WHERE owner = ? AND standing = ? AND durable = 1",
        (RowStanding.WAITING, Outcome.INCOMPLETE.value, owner, RowStanding.UNSENT),
    )
    connection.execute("UPDATE run SET owner = NULL WHERE owner = ?", (owner,))


def entry_of(connection: sqlite3.Connection, key: str, name: str) -> Entry | None:
    """Give the line of a run as the owner *name* sees it."""
    row = row_of(connection, key)
    if row is None:
        return None
    standing: Standing | None
    match row.standing:
        case _ if row.owner is not None:
            standing = Standing.OURS if row.owner == name else Standing.ELSEWHERE
        case RowStanding.SENT:
            standing = Standing.SENT
        case RowStanding.WAITING:
            standing = Standing.WAITING
        case RowStanding.UNSENT:
            standing = None
        case _:
            assert_never(row.standing)
    return Entry(RunFacts(key, row.trace_id, row.span_id), standing, row.outcome)
