"""The open database of one spool owner: connections, locks, ownership, and what a fork does to them.

Two connections: one that application threads use in turn to append, one for the worker that sends. So a worker in the
middle of a transaction never makes an application thread wait for a Python lock, and a thread that a signal handler
interrupted while it held the appenders' lock does not keep the worker from its work.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from compass_otel.spool_appending import AppendLock
from compass_otel.spool_file import (
    FILE_NAME,
    FileIdentity,
    SpoolError,
    SpoolFault,
    identity_of,
    make_folder,
    open_database,
    spool_error,
)
from compass_otel.spool_owner import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_Answer = TypeVar("_Answer")

_LOCK_WAIT_S: Final = 0.25  # the caller is an application thread, and a fork of another thread takes this long at times
_APPEND_WAIT_S: Final = 0.2
_COURTESY_S: Final = 0.05
_EXCLUSIVE_S: Final = 2.0
_WORK_WAIT_S: Final = 2.0
_FORK_WAIT_S: Final = 1.0
_NO_CHECKPOINT_ON_CLOSE: Final = 1006  # SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, which Python names from 3.12 on

_NEW_ESTATE: Final = "INSERT INTO estate(keeper) VALUES (?)"
_LEAVE_ESTATE: Final = (
    "DELETE FROM estate WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM record WHERE estate = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM open_run WHERE estate = ?1)"
)

# Connections that a fork left in this process half-used. SQLite must never see them again, not even to close them.
_never_touch: list[sqlite3.Connection | None] = []


class SpoolHandles:
    """Connections and ownership of one spool owner; opened on first use.

    Args:
        folder: The spool's folder.
        fsync: Wait for the disk at every change.

    """

    def __init__(self, folder: Path, *, fsync: bool) -> None:
        self.folder = folder
        self.path = folder / FILE_NAME
        self.owner: Owner | None = None
        self.estate = 0
        """The set of records that this owner appends to."""
        self.estates: list[int] = []
        """All sets that this owner keeps: its own and those of dead owners that it took over."""
        self.identity: FileIdentity | None = None
        self._fsync = fsync
        self.append_lock = AppendLock()
        self._work_lock = threading.RLock()
        self._start_lock = threading.RLock()
        self._appender: sqlite3.Connection | None = None
        self._worker: sqlite3.Connection | None = None
        self._barred: SpoolFault | None = None
        self._forking = False

    @contextlib.contextmanager
    def appending(self) -> Iterator[sqlite3.Connection]:
        """Lend the appenders' connection to one thread; waits at most 0.25 s for it and 0.2 s for the file.

        A signal handler that interrupts the thread may use it as well: between two statements no work is half-done.

        Raises:
            SpoolError: It can't be had, or what was done with it failed.

        """
        lock = self.append_lock
        if not lock.acquire(_LOCK_WAIT_S):
            raise SpoolError(SpoolFault.BUSY, "other threads of this process are writing")
        try:
            yield self.appender()[0]
        except (sqlite3.Error, OSError) as error:
            raise spool_error(error) from error
        finally:
            lock.release()

    def appender(self) -> tuple[sqlite3.Connection, int]:
        """Give the appenders' connection, and the estate to append to, to whoever holds the lock for it."""
        if self._appender is None:
            self.start()
            self._appender = open_database(self.path, fsync=self._fsync, busy_timeout_s=_APPEND_WAIT_S)
        return self._appender, self.estate

    def run(self, action: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Do one statement of the worker's, on the appenders' connection if it can be had soon.

        Two connections that write in turn forget each other's pages each time; one remembers. But a thread that holds
        the appenders' lock may have been interrupted by a handler that waits for the worker, so this is a courtesy of
        50 ms, and the worker's own connection is right as well.

        Raises:
            SpoolError: It could not be done.

        """
        if self.append_lock.acquire(_COURTESY_S):
            try:
                return action(self.appender()[0])
            except sqlite3.Error as error:
                if spool_error(error).fault is not SpoolFault.BUSY:
                    raise spool_error(error) from error
            except OSError as error:
                raise spool_error(error) from error
            finally:
                self.append_lock.release()
        with self.working() as connection:
            return action(connection)

    @contextlib.contextmanager
    def working(self) -> Iterator[sqlite3.Connection]:
        """Lend the worker's connection.

        Raises:
            SpoolError: It can't be had, or what was done with it failed.

        """
        with self._work_lock:
            try:
                if self._worker is None:
                    self.start()
                    self._worker = open_database(self.path, fsync=self._fsync, busy_timeout_s=_WORK_WAIT_S)
                yield self._worker
            except (sqlite3.Error, OSError) as error:
                raise spool_error(error) from error

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[sqlite3.Connection | None]:
        """Keep every other thread away from the file; gives the connection that is open, if any."""
        if not self.append_lock.acquire(_EXCLUSIVE_S):
            raise SpoolError(SpoolFault.BUSY, "other threads of this process keep writing")
        try:
            with self._work_lock:
                yield self._worker or self._appender
        finally:
            self.append_lock.release()

    def start(self) -> Owner:
        """Become an owner, if this is not one yet: folder, file, sign of life, a set of records.

        Raises:
            SpoolError: It can't be done.

        """
        try:
            return self._start()
        except (sqlite3.Error, OSError) as error:
            raise spool_error(error) from error

    def take_lease(self) -> bool:
        """Take the right to send this owner's records; False if somebody else has it.

        Raises:
            SpoolError: It can't be found out.

        """
        try:
            return self._start().sending.acquire()
        except (sqlite3.Error, OSError) as error:
            raise spool_error(error) from error

    def _start(self) -> Owner:
        if self._barred is not None:
            raise SpoolError(self._barred, "this process was forked while its parent was writing")
        with self._start_lock:
            owner = self.owner or Owner(self.folder)
            if self.estate:
                return owner
            make_folder(self.folder)
            if not owner.start():
                raise SpoolError(SpoolFault.BUSY, f"owner {owner.name} is taken")
            self.owner = owner
            connection = open_database(self.path, fsync=self._fsync, busy_timeout_s=_WORK_WAIT_S)
            with contextlib.closing(connection):
                self.identity = identity_of(self.path)
                estate = connection.execute(_NEW_ESTATE, (owner.name,)).lastrowid
            assert estate is not None  # noqa: S101 - an INSERT into a table always has one
            self.estates.append(estate)
            self.estate = estate
            return owner

    def leave_file(self) -> None:
        """Close the file and forget what was known about its content; the owner stays."""
        self._close_connections()
        self.estates, self.estate, self.identity = [], 0, None

    def close(self) -> None:
        """Stop being an owner: what is waiting is for the next one. Idempotent; never raises."""
        with contextlib.suppress(SpoolError), self.exclusive():
            owner, self.owner = self.owner, None
            if owner is None:
                return
            with contextlib.suppress(sqlite3.Error):
                if self._worker is not None:
                    self._worker.executemany(_LEAVE_ESTATE, [(estate,) for estate in self.estates])
            self.leave_file()
            with contextlib.suppress(OSError):
                owner.end()

    def before_fork(self) -> None:
        """Leave the file alone, so that a child inherits no half-done work and no open database; waits at most 2 s."""
        append = self.append_lock.acquire(_FORK_WAIT_S)
        work = append and self._work_lock.acquire(timeout=_FORK_WAIT_S)
        self._forking = append and work
        if self._forking:
            self._close_connections(checkpoint=False)
        elif append:
            self.append_lock.release()

    def after_fork_in_parent(self) -> None:
        """Go on as before."""
        if self._forking:
            self._forking = False
            self._work_lock.release()
            self.append_lock.release()

    def after_fork_in_child(self) -> None:
        """Become another owner; the parent's records stay the parent's."""
        if not self._forking:
            _never_touch.extend((self._appender, self._worker))
            self._appender = self._worker = None
            self._barred = SpoolFault.INHERITED
        self._forking = False
        self.append_lock.renew()
        self._work_lock, self._start_lock = threading.RLock(), threading.RLock()
        if self.owner is not None:
            self.owner.abandon()
        self.owner, self.estate, self.estates, self.identity = None, 0, [], None

    def _close_connections(self, *, checkpoint: bool = True) -> None:
        """Close both.

        Args:
            checkpoint: Let the last one to close move the log into the database, which waits for the disk. Python
                before 3.12 can't ask for less.

        """
        for connection in (self._appender, self._worker):
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    configure = getattr(connection, "setconfig", None)
                    if configure is not None and not checkpoint:
                        configure(_NO_CHECKPOINT_ON_CLOSE, True)
                    connection.close()
        self._appender = self._worker = None
