"""The ledger of runs: which prompt runs were sent from this machine, so that none is sent twice.

    unknown ──claim──> claimed by a living process ──enter──> sent
       ^                    │          │
       └──────release───────┘          └─the process dies: its claim ends, and what its spool holds counts as `waiting`

A run is known by its first user message (timestamp, digest of the text): a live stream and the session file that it
leaves behind share it, also where the stream states no session id. Whoever sees a run first claims it, and the claim
lives as long as its process, told by an OS lock (`spool_owner`), never by a process id.

What reads a *stream* takes its input at its word: it is happening now, so it is sent, unless a living reader of session
files saw it first. What reads *files* skips what stands here.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Final, TypeVar

from compass_otel.ledger_rows import (
    MAX_KEPT_SPANS,
    Claim,
    Entry,
    KnownRun,
    Reader,
    RowStanding,
    RunFacts,
    Standing,
    bury,
    entry_of,
    row_of,
)
from compass_otel.semconv import Outcome
from compass_otel.spool_owner import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from compass_otel.state_store import StateStore

MAX_RUNS: Final = 50_000
"""Runs that are remembered, about 10 MB; beyond it the one that was seen first is forgotten."""

_Answer = TypeVar("_Answer")


_FREE: Final = Claim(Standing.OURS)


class RunLedger:
    """One process's hand in the ledger. Thread-safe as the store is; each call is one transaction.

    Nothing here raises because of the file: without it every run is `OURS`, and the store tells the person once.

    Args:
        store: The database of the state folder.
        max_runs: How many runs are remembered.

    """

    def __init__(self, store: StateStore, *, max_runs: int = MAX_RUNS) -> None:
        self._store = store
        self._max_runs = max_runs
        self._owner: Owner | None = None

    def known(self, key: str) -> Entry | None:
        """Look a run up; None if it does not stand here."""
        return self._store.change(lambda connection: entry_of(connection, key, self._name()))

    def claim(
        self, facts: RunFacts, reader: Reader, *, outcome: str | None = None, durable: bool = False, again: bool = False
    ) -> Claim:
        """Ask whether to send a run, and claim it.

        Args:
            facts: The run.
            reader: Who asks.
            outcome: How it ended, if that is known: one that was sent as incomplete may then be sent once more.
            durable: A spool keeps the run's own span, from its start on, through the death of this process.
            again: A person asks for runs that were sent before, too.

        """

        def work(connection: sqlite3.Connection) -> Claim:
            row = row_of(connection, facts.key)
            if row is None:
                self._insert(connection, facts, reader, durable=durable)
                return _FREE
            if row.owner is not None and self._end_if_dead(connection, row.owner):
                row = row_of(connection, facts.key) or row
            if row.owner is None and row.standing is RowStanding.UNSENT:
                self._take(connection, facts, reader, durable=durable)
                return Claim(Standing.OURS, row.counted)
            return self._claim_known(connection, facts.key, row, reader, outcome=outcome, again=again)

        return self._with_owner(work) or _FREE

    def ended(self, facts: RunFacts, outcome: str, also: Callable[[sqlite3.Connection], object] | None = None) -> None:
        """Note how a run that this process claimed ended, and that all of it was handed to what sends.

        Args:
            facts: The run.
            outcome: Its `compass.outcome`.
            also: What belongs into the same transaction.

        """

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE run SET outcome = ? WHERE key = ? AND owner = ? AND standing = ?",
                (outcome, facts.key, self._name(), RowStanding.UNSENT),
            )
            if also is not None:
                also(connection)

        self._with_owner(work)

    def mark_counted(self, connection: sqlite3.Connection, key: str) -> None:
        """Note, in a transaction that adds a run's metrics to the sums, that they are there."""
        connection.execute("UPDATE run SET counted = 1 WHERE key = ?", (key,))

    def enter(
        self,
        facts: RunFacts,
        outcome: str,
        spans: Collection[str] = (),
        also: Callable[[sqlite3.Connection], object] | None = None,
    ) -> None:
        """Enter a run whose last span was acknowledged.

        Args:
            facts: The run, with the ids under which it was sent.
            outcome: Its `compass.outcome`.
            spans: Of an incomplete run: ids of its children that had ended, all of them.
            also: What belongs into the same transaction.

        """
        incomplete = outcome == Outcome.INCOMPLETE
        kept = b"".join(map(bytes.fromhex, sorted(spans))) if incomplete and len(spans) <= MAX_KEPT_SPANS else None

        def work(connection: sqlite3.Connection) -> None:
            if row_of(connection, facts.key) is None:
                self._insert(connection, facts, Reader.FILE, durable=False)
            connection.execute(
                "UPDATE run SET standing = ?, owner = NULL, outcome = ?, trace_id = ?, span_id = ?, spans = ?"
                " WHERE key = ? AND (owner IS NULL OR owner = ?)",
                (RowStanding.SENT, outcome, facts.trace_id, facts.span_id, kept, facts.key, self._name()),
            )
            if also is not None:
                also(connection)

        self._with_owner(work)

    def release(self, keys: Iterable[str]) -> None:
        """Give claims back: what was not sent may be sent by anybody."""
        names = list(keys)

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "UPDATE run SET owner = NULL WHERE key = ? AND owner = ?", [(key, self._name()) for key in names]
            )

        if names:
            self._with_owner(work)

    def close(self) -> None:
        """End this process's claims, those that a spool keeps as `waiting`. Idempotent; a later claim begins anew."""
        owner = self._owner
        if owner is None:
            return
        self._store.change(lambda connection: bury(connection, owner.name))
        self._owner = None
        with contextlib.suppress(OSError):
            owner.end()

    # --- inside a transaction ---

    def _claim_known(  # noqa: PLR0913 - the parts of one question
        self,
        connection: sqlite3.Connection,
        key: str,
        row: KnownRun,
        reader: Reader,
        *,
        outcome: str | None,
        again: bool,
    ) -> Claim:
        """Judge a run that was sent, or that a living process has claimed."""
        if again:
            return Claim(Standing.OURS, row.counted)
        if row.owner is not None:
            if reader is Reader.STREAM and row.reader is Reader.STREAM:
                return Claim(Standing.OURS, row.counted)
            return Claim(Standing.SENT if row.owner == self._name() else Standing.ELSEWHERE, row.counted)
        if reader is Reader.STREAM:
            return Claim(Standing.OURS, row.counted)
        if row.outcome == Outcome.INCOMPLETE and outcome not in (None, Outcome.INCOMPLETE):
            connection.execute("UPDATE run SET owner = ?, reader = ? WHERE key = ?", (self._name(), reader, key))
            return Claim(Standing.OURS, row.counted, row.earlier)
        return Claim(Standing.SENT if row.standing is RowStanding.SENT else Standing.WAITING, row.counted)

    def _insert(self, connection: sqlite3.Connection, facts: RunFacts, reader: Reader, *, durable: bool) -> None:
        new = connection.execute(
            "INSERT INTO run(key, standing, owner, reader, durable, counted, trace_id, span_id)"
            " VALUES (?, ?, ?, ?, ?, 0, ?, ?)",
            (facts.key, RowStanding.UNSENT, self._name(), reader, durable, facts.trace_id, facts.span_id),
        ).lastrowid
        connection.execute("DELETE FROM run WHERE id <= ? AND owner IS NULL", ((new or 0) - self._max_runs,))

    def _take(self, connection: sqlite3.Connection, facts: RunFacts, reader: Reader, *, durable: bool) -> None:
        connection.execute(
            "UPDATE run SET owner = ?, reader = ?, durable = ?, outcome = NULL, trace_id = ?, span_id = ?, spans = NULL"
            " WHERE key = ?",
            (self._name(), reader, durable, facts.trace_id, facts.span_id, facts.key),
        )

    def _end_if_dead(self, connection: sqlite3.Connection, name: str) -> bool:
        """End the claims of another owner that is dead; returns whether that was so."""
        if name == self._name():
            return False
        owner = Owner(self._store.folder, name)
        if not owner.take_over():
            return False
        try:
            bury(connection, name)
        finally:
            owner.end()
        return True

    # --- who this process is ---

    def _name(self) -> str:
        return self._owner.name if self._owner is not None else ""

    def _with_owner(self, work: Callable[[sqlite3.Connection], _Answer]) -> _Answer | None:
        """Do some work in a transaction, as an owner whose sign of life is held."""

        def owned(connection: sqlite3.Connection) -> _Answer:
            if self._owner is None:
                self._start(connection)
            return work(connection)

        return self._store.change(owned)

    def _start(self, connection: sqlite3.Connection) -> None:
        owner = Owner(self._store.folder)
        owner.start()  # nobody else can hold a name that was made up just now
        self._owner = owner
        for (name,) in connection.execute("SELECT DISTINCT owner FROM run WHERE owner IS NOT NULL").fetchall():
            self._end_if_dead(connection, name)
