"""Who owns which records of a shared spool folder: told by OS locks on files, never by process ids.

    owners/<name>.alive   held from a processor's start to its end: whoever can lock it has found a dead owner
    owners/<name>.send    held while somebody sends that owner's records: its lease

A lock dies with the process that holds it, also by SIGKILL and also in another container, where a process id would mean
nothing. `flock` and not `lockf`: two processors of one process must exclude each other, and a stray `close` of the same
file must not let go.
"""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_MAX_TRIES = 8


class FileLock:
    """An exclusive lock on one file, held by one object.

    Not thread-safe; nothing here waits.

    Args:
        path: The file; created, private, when absent.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd is not None

    def acquire(self, *, create: bool = True) -> bool:
        """Take the lock if nobody else holds it.

        Args:
            create: Make the file when absent; without it an absent file cannot be locked.

        Returns:
            Whether it is held now.

        Raises:
            OSError: The file can't be made or opened, other than being absent.

        """
        if self._fd is not None:
            return True
        for _ in range(_MAX_TRIES):
            try:
                fd = os.open(self._path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
            except FileNotFoundError:
                return False
            if not _lock(fd):
                os.close(fd)
                return False
            if _is_same_file(fd, self._path):
                self._fd = fd
                return True
            os.close(fd)  # somebody removed the file between our open and our lock: the lock guards nothing
        return False

    def release(self, *, remove: bool = False) -> None:
        """Give the lock back; idempotent.

        Args:
            remove: Remove the file too, while it is still locked, so that nobody locks a file that is about to go.

        """
        fd, self._fd = self._fd, None
        if fd is None:
            return
        if remove:
            self._path.unlink(missing_ok=True)
        os.close(fd)

    def abandon(self) -> None:
        """Close what a fork left in this child, without letting go of the parent's lock."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)  # the lock belongs to the open file, which the parent still has open


class Owner:
    """One owner of records in a folder: its name, its sign of life, its lease.

    Args:
        folder: The spool's folder.
        name: For an owner that exists already; otherwise a new name is made.

    """

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.name = name or uuid.uuid4().hex
        self.alive = FileLock(folder / "owners" / f"{self.name}.alive")
        self.sending = FileLock(folder / "owners" / f"{self.name}.send")

    def start(self) -> bool:
        """Take the sign of life; False if another process already holds it."""
        return self.alive.acquire()

    def take_over(self) -> bool:
        """Take the sign of life of an owner that may be dead; False if it lives. An owner without a file is dead."""
        return self.alive.acquire()

    def end(self) -> None:
        """Give everything back and remove the files."""
        self.sending.release(remove=self.alive.held)
        self.alive.release(remove=True)

    def abandon(self) -> None:
        """Forget, in a forked child, what the parent holds."""
        self.sending.abandon()
        self.alive.abandon()


def is_alive(folder: Path, name: str) -> bool:
    """Tell whether an owner lives, without disturbing it."""
    owner = Owner(folder, name)
    if owner.alive.acquire(create=False):
        owner.alive.release()
        return False
    return (folder / "owners" / f"{name}.alive").exists()


def _lock(fd: int) -> bool:
    """Lock without waiting."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _is_same_file(fd: int, path: Path) -> bool:
    """Whether the path still names the file that was opened."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
