"""The spool's database file: its format, how it is opened, what is done with one that can't be read.

One file per format, `spool-1.sqlite3`, so that two releases with different formats may share a folder. Within a format
`PRAGMA user_version` may grow by additions only.

Every change that an application thread makes is *one* SQL statement, with the work of several done by triggers: a
signal handler or a collector run can interrupt Python between two calls but not within one, so whatever it interrupts,
no transaction stays open behind it.

    record.id = rank * 2**48 + number      the order in which records are given up at the bound: rank first, then age
    rank 0 = set aside, 1 to 3 = waiting

SQLite locks by process: nothing here opens the database file by other means while a connection to it may be open.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import uuid
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from compass_otel.errors import CompassError
from compass_otel.spool_owner import FileLock

FILE_NAME: Final = "spool-1.sqlite3"
RANK_STEP: Final = 1 << 48
ROW_OVERHEAD_BYTES: Final = 128
"""What a record costs besides its body: counted with it against the bound."""
_APPLICATION_ID: Final = 0x436D7053
_VERSION: Final = 1
_SUFFIXES: Final = ("", "-wal", "-shm")
_KEPT_UNREADABLE_FILES: Final = 4
_BUSY_RETRIES: Final = 20
_FOLDER_LOCK_S: Final = 1.0

_SCHEMA: Final = f"""
CREATE TABLE total(one INTEGER PRIMARY KEY CHECK (one = 1), next INTEGER NOT NULL, bytes INTEGER NOT NULL,
                   bound INTEGER NOT NULL, given_up INTEGER NOT NULL, given_up_at_s INTEGER);
INSERT INTO total VALUES (1, 1, 0, 0, 0, NULL);
CREATE TABLE estate(id INTEGER PRIMARY KEY AUTOINCREMENT, keeper TEXT NOT NULL);
CREATE TABLE record(id INTEGER PRIMARY KEY, estate INTEGER NOT NULL, seq INTEGER NOT NULL, at_ns INTEGER NOT NULL,
                    reason TEXT, body BLOB NOT NULL);
CREATE INDEX record_estate ON record(estate);
CREATE TABLE open_run(estate INTEGER NOT NULL, run BLOB NOT NULL, rank INTEGER NOT NULL, at_ns INTEGER NOT NULL,
                      body BLOB NOT NULL, PRIMARY KEY (estate, run));
CREATE TABLE loss(estate INTEGER NOT NULL, reason TEXT NOT NULL, records INTEGER NOT NULL,
                  PRIMARY KEY (estate, reason));
CREATE TABLE victim(id INTEGER PRIMARY KEY, estate INTEGER NOT NULL);

CREATE VIEW put AS
  SELECT 0 AS estate, 0 AS seq, 0 AS rank, 0 AS at_ns, x'' AS run, x'' AS body, 0 AS bound;
CREATE TRIGGER put_record INSTEAD OF INSERT ON put BEGIN
  DELETE FROM open_run WHERE estate = NEW.estate AND run = NEW.run;
  INSERT INTO record(id, estate, seq, at_ns, body)
    SELECT NEW.rank * {RANK_STEP} + next, NEW.estate, coalesce(NEW.seq, -next), NEW.at_ns, NEW.body FROM total;
  UPDATE total SET next = next + 1, bytes = bytes + length(NEW.body) + {ROW_OVERHEAD_BYTES}, bound = NEW.bound;
END;
CREATE TRIGGER record_gone AFTER DELETE ON record BEGIN
  UPDATE total SET bytes = bytes - length(OLD.body) - {ROW_OVERHEAD_BYTES};
END;
CREATE TRIGGER keep_bound AFTER UPDATE OF bound ON total WHEN NEW.bytes > NEW.bound BEGIN
  INSERT INTO victim SELECT id, estate FROM (
    SELECT id, estate, size, SUM(size) OVER (ORDER BY id) AS upto FROM (
      SELECT id, estate, length(body) + {ROW_OVERHEAD_BYTES} AS size FROM record ORDER BY id LIMIT 256))
    WHERE upto - size < NEW.bytes - NEW.bound;
  INSERT INTO loss SELECT estate, 'spool_full', count(*) FROM victim WHERE id >= {RANK_STEP} GROUP BY estate
    ON CONFLICT (estate, reason) DO UPDATE SET records = records + excluded.records;
  UPDATE total SET given_up = given_up + (SELECT count(*) FROM victim WHERE id >= {RANK_STEP}),
                   given_up_at_s = CAST(strftime('%s', 'now') AS INTEGER)
    WHERE EXISTS (SELECT 1 FROM victim WHERE id >= {RANK_STEP});
  DELETE FROM record WHERE id IN (SELECT id FROM victim);
  DELETE FROM victim;
END;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
"""  # noqa: S608 - only constants of this module are put in


@dataclass(frozen=True, slots=True)
class FileForm:
    """The form of a database file in a state folder: the spool's, or that of another module that keeps one so."""

    name: str
    application_id: int
    version: int
    schema: str
    """Makes the tables, and sets the two numbers above."""
    probe: str
    """A query that only a file of this form can answer."""
    aside: str
    """What the name of an unreadable file begins with, once it was set aside."""


SPOOL_FORM: Final = FileForm(
    FILE_NAME, _APPLICATION_ID, _VERSION, _SCHEMA, "SELECT next, bytes, bound, given_up FROM total", "unreadable"
)


class SpoolFault(StrEnum):
    """What is wrong with a spool; each asks for something else."""

    FULL = "disk_full"
    READ_ONLY = "read_only"
    UNREADABLE = "unreadable"
    """No database, another program's, a newer format, or damaged: the file must be set aside."""
    BUSY = "busy"
    """Another process held the file longer than we wait."""
    IO = "io_error"
    INHERITED = "inherited"
    """A fork came in the middle of a write that would not end: this child must not touch the file."""
    CLOSED = "closed"
    TOO_LARGE = "too_large"
    """One record is larger than the whole spool may be."""


class SpoolError(CompassError):
    """The spool can't do what was asked; nothing that it acknowledged before is lost by that.

    Args:
        fault: What is wrong.
        text: The same for a person.

    """

    def __init__(self, fault: SpoolFault, text: str) -> None:
        super().__init__(f"{fault}: {text}")
        self.fault = fault


_FAULTS: Final = {
    sqlite3.SQLITE_FULL: SpoolFault.FULL,
    sqlite3.SQLITE_READONLY: SpoolFault.READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: SpoolFault.READ_ONLY,
    sqlite3.SQLITE_PERM: SpoolFault.READ_ONLY,
    sqlite3.SQLITE_AUTH: SpoolFault.READ_ONLY,
    sqlite3.SQLITE_CORRUPT: SpoolFault.UNREADABLE,
    sqlite3.SQLITE_NOTADB: SpoolFault.UNREADABLE,
    sqlite3.SQLITE_FORMAT: SpoolFault.UNREADABLE,
    sqlite3.SQLITE_ERROR: SpoolFault.UNREADABLE,  # a table of ours is missing or has another shape
    sqlite3.SQLITE_CONSTRAINT: SpoolFault.UNREADABLE,
    sqlite3.SQLITE_MISMATCH: SpoolFault.UNREADABLE,
    sqlite3.SQLITE_BUSY: SpoolFault.BUSY,
    sqlite3.SQLITE_LOCKED: SpoolFault.BUSY,
    sqlite3.SQLITE_PROTOCOL: SpoolFault.BUSY,
    sqlite3.SQLITE_TOOBIG: SpoolFault.TOO_LARGE,
}


def spool_error(error: sqlite3.Error | OSError) -> SpoolError:
    """Name what a database or file error means for the spool."""
    if isinstance(error, OSError):
        return SpoolError(SpoolFault.READ_ONLY, f"{type(error).__name__}: {error.strerror or error}")
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # Python's own refusals: a closed connection, a use from within itself
        return SpoolError(SpoolFault.CLOSED, str(error))
    return SpoolError(_FAULTS.get(code & 0xFF, SpoolFault.IO), str(error))


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file a path names; two are equal if it is the same file."""

    device: int
    inode: int


def identity_of(path: Path) -> FileIdentity | None:
    """Tell which file is there, None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return FileIdentity(status.st_dev, status.st_ino)


def make_folder(folder: Path) -> None:
    """Make the spool's folder and the one for owners, private to this user.

    Raises:
        SpoolError: A folder can't be made.

    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "owners").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise spool_error(error) from error


def open_database(path: Path, *, fsync: bool, busy_timeout_s: float, form: FileForm = SPOOL_FORM) -> sqlite3.Connection:
    """Open the database file, making it private and in our format when absent.

    Args:
        path: The file.
        fsync: Wait for the disk at every change.
        busy_timeout_s: How long a statement waits for other connections, seconds.
        form: What the file must be.

    Returns:
        A connection in autocommit mode that several threads may use in turn.

    Raises:
        SpoolError: The file can't be opened, or is none of ours (`UNREADABLE`).

    """
    connection = None
    try:
        _make_private(path)
        connection = sqlite3.connect(
            path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        _use_write_ahead_log(connection, busy_timeout_s)
        connection.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
        # Whoever appends must not pay for the checkpoint: the worker does it; this bound is for the case that it can't.
        connection.execute("PRAGMA wal_autocheckpoint = 16384")
        connection.execute("PRAGMA journal_size_limit = 4194304")
        _check_format(connection, form)
    except (sqlite3.Error, OSError, SpoolError) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, SpoolError):
            raise
        raise spool_error(error) from error
    return connection


def _make_private(path: Path) -> None:
    """Make the file before SQLite does, which would use the umask; its log files copy the mode."""
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _use_write_ahead_log(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Switch the file to a write-ahead log; SQLite does not wait by itself for others who do so at the same time."""
    deadline = time.monotonic() + max(timeout_s, 1.0)
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except sqlite3.OperationalError as error:
            if spool_error(error).fault is not SpoolFault.BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return


def _check_format(connection: sqlite3.Connection, form: FileForm) -> None:
    """Make the tables in an empty file; refuse a file that is not ours."""
    for _ in range(_BUSY_RETRIES):
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application == form.application_id and 1 <= version <= form.version:
            connection.execute(form.probe).fetchone()
            return
        if application or version or connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            raise SpoolError(SpoolFault.UNREADABLE, f"format {application:#x}/{version} is not ours")
        try:
            connection.executescript(f"BEGIN IMMEDIATE;{form.schema}COMMIT;")
        except sqlite3.OperationalError:  # another process made the tables in between: look again
            if connection.in_transaction:
                connection.rollback()
    raise SpoolError(SpoolFault.BUSY, "another process keeps making the tables")


def set_aside(folder: Path, identity: FileIdentity | None, form: FileForm = SPOOL_FORM) -> Path | None:
    """Rename an unreadable database file, with its log, so that a new one can take its place.

    Args:
        folder: The spool's folder.
        identity: The file that was found unreadable; if another stands there by now, somebody else was faster.
        form: Which of the folder's files it is.

    Returns:
        The new path; None if there was nothing to do.

    Raises:
        SpoolError: The file can't be renamed.

    """
    path = folder / form.name
    lock = FileLock(folder / "folder.lock")
    try:
        deadline = time.monotonic() + _FOLDER_LOCK_S
        while not lock.acquire():
            if time.monotonic() > deadline:
                return None
            time.sleep(0.005)
        if identity_of(path) is None or (identity is not None and identity_of(path) != identity):
            return None
        now_ns = time.time_ns()  # in the name, so that sorting by name is sorting by age
        now = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_ns // 10**9))
        aside = folder / f"{form.aside}-{now}-{now_ns % 10**9:09}-{uuid.uuid4().hex[:4]}.sqlite3"
        for suffix in reversed(_SUFFIXES):  # the log first: a new file must never meet the old one's log
            with contextlib.suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        _forget_old_ones(folder, form)
    except OSError as error:
        raise spool_error(error) from error
    finally:
        lock.release()
    return aside


def unreadable_files(folder: Path, form: FileForm = SPOOL_FORM) -> list[Path]:
    """List the files that were set aside, oldest first."""
    return sorted(folder.glob(f"{form.aside}-*.sqlite3"))


def _forget_old_ones(folder: Path, form: FileForm) -> None:
    """Keep the disk bounded: an unreadable file is evidence, a pile of them is a leak."""
    for path in unreadable_files(folder, form)[:-_KEPT_UNREADABLE_FILES]:
        for suffix in _SUFFIXES:
            Path(f"{path}{suffix}").unlink(missing_ok=True)
