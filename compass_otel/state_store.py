"""The database of the state folder: the ledger of runs and the commands' sums, shared by all commands of a person.

A command must never fail because its books can't be kept: what goes wrong is counted, told once as a line for the
person, and from then on the command works without. Several processes may share a folder; each change is one
transaction.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

from compass_otel.spool_file import (
    FileForm,
    FileIdentity,
    SpoolError,
    SpoolFault,
    identity_of,
    make_folder,
    open_database,
    set_aside,
    spool_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_Answer = TypeVar("_Answer")

FILE_NAME: Final = "state-1.sqlite3"
_APPLICATION_ID: Final = 0x436D7042
_VERSION: Final = 1
_BUSY_TIMEOUT_S: Final = 2.0
_ATTEMPTS: Final = 2

_SCHEMA: Final = f"""
CREATE TABLE run(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, standing INTEGER NOT NULL, owner TEXT,
                 reader INTEGER NOT NULL, durable INTEGER NOT NULL, counted INTEGER NOT NULL, outcome TEXT,
                 trace_id TEXT NOT NULL, span_id TEXT NOT NULL, spans BLOB);
CREATE INDEX run_owner ON run(owner) WHERE owner IS NOT NULL;
CREATE TABLE service(name TEXT PRIMARY KEY, resource TEXT NOT NULL);
CREATE TABLE instrument(name TEXT PRIMARY KEY, kind TEXT NOT NULL, unit TEXT NOT NULL, description TEXT NOT NULL,
                        bounds TEXT NOT NULL);
CREATE TABLE series(id INTEGER PRIMARY KEY, service TEXT NOT NULL, instrument TEXT NOT NULL, attributes TEXT NOT NULL,
                    value, count INTEGER NOT NULL, buckets TEXT NOT NULL, zero_told INTEGER NOT NULL,
                    revision INTEGER NOT NULL, told INTEGER NOT NULL, UNIQUE (service, instrument, attributes));
CREATE TABLE fact(name TEXT PRIMARY KEY, value INTEGER NOT NULL);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
"""

STATE_FORM: Final = FileForm(
    FILE_NAME, _APPLICATION_ID, _VERSION, _SCHEMA, "SELECT count(*) FROM fact", "unreadable-state"
)

_NEVER_AGAIN: Final = frozenset({SpoolFault.READ_ONLY, SpoolFault.FULL, SpoolFault.IO, SpoolFault.CLOSED})
"""Faults that a command does not try to outlive; a file that is only busy is tried again at the next change."""


class StateStore:
    """One process's view of the database. Thread-safe; a change waits at most 2 s for other processes.

    Args:
        folder: Made, private, at the first change.

    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / FILE_NAME
        self.faults: Counter[SpoolFault] = Counter()
        """What went wrong, by kind."""
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._identity: FileIdentity | None = None
        self._given_up = False
        self._warnings: list[str] = []
        self._warned = False

    @property
    def usable(self) -> bool:
        """Whether changes are still tried."""
        return not self._given_up

    def take_warnings(self) -> list[str]:
        """Give the lines that a person has not been told yet."""
        with self._lock:
            warnings, self._warnings = self._warnings, []
            return warnings

    def change(self, work: Callable[[sqlite3.Connection], _Answer]) -> _Answer | None:
        """Do some work in one transaction, all of it or nothing.

        Args:
            work: Gets the connection; may be called twice, the second time on a new file.

        Returns:
            What `work` returned; None if the database can't be used, which is counted and told.

        """
        with self._lock:
            for _ in range(_ATTEMPTS):
                if self._given_up:
                    return None
                try:
                    return self._transaction(work)
                except SpoolError as error:
                    self._failed(error)
                    if error.fault not in (SpoolFault.UNREADABLE, *_NEVER_AGAIN):
                        return None
            return None

    def close(self) -> None:
        """Close the file; a later change opens it again."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()

    def _transaction(self, work: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        connection = self._opened()
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                answer = work(connection)
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise spool_error(error) from error
        return answer

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None and identity_of(self.path) != self._identity:
            self.close()  # somebody set the file aside, or removed the folder's content
        if self._connection is None:
            make_folder(self.folder)
            self._connection = open_database(self.path, fsync=False, busy_timeout_s=_BUSY_TIMEOUT_S, form=STATE_FORM)
            self._identity = identity_of(self.path)
        return self._connection

    def _failed(self, error: SpoolError) -> None:
        """Count a fault; leave an unreadable file for a new one, and a folder that can't be written alone."""
        self.faults[error.fault] += 1
        if error.fault is SpoolFault.UNREADABLE:
            self._leave_unreadable(error)
        elif error.fault in _NEVER_AGAIN:
            self._give_up(error)
        else:
            self._warn(f"the state folder {self.folder} could not be used at times ({error})")

    def _leave_unreadable(self, error: SpoolError) -> None:
        identity = self._identity if self._connection is not None else identity_of(self.path)
        self.close()
        try:
            aside = set_aside(self.folder, identity, STATE_FORM)
        except SpoolError as second:
            self._give_up(second)
            return
        if aside is None and self.faults[SpoolFault.UNREADABLE] > 1:
            self._give_up(error)
        elif aside is not None:
            self._warnings.append(
                f"{self.path} could not be read and was set aside as {aside.name}; "
                "runs that were sent before may be sent again, and the counters begin at 0"
            )

    def _give_up(self, error: SpoolError) -> None:
        self.close()
        self._given_up = True
        self._warn(
            f"the state folder {self.folder} can't be used ({error}): "
            "runs that were sent before may be sent again, and no metrics are sent"
        )

    def _warn(self, text: str) -> None:
        """Tell a person, once."""
        if not self._warned:
            self._warned = True
            self._warnings.append(text)
