"""Row: a full disk, a folder that can't be written, a spool that is damaged, shared, at its bound, or another's."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from compass_otel.spool_file import FILE_NAME
from faults.driver import Host, deliver_rest, names_in
from faults.pipeline import Setup
from faults.report import Report
from receivers import Receiver

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOBODY: Final = 65534
_DISK_BYTES: Final = 2 << 20
COLUMNS = ("case", "failures", "delivered", "counted as lost", "arrived twice", "longest call ms", "what was told")
# A tmpfs of its own, seen by this one host alone: gone with it, and no other process is disturbed.
_SMALL_DISK: Final = 'mount -t tmpfs -o size=2m none "$0" && exec "$@"'


def measure(count: int = 2000) -> Report:
    """Run every case; the plain SDK keeps nothing on a disk, so it has no column here."""
    report = Report("Disk and spool (2 KB a failure; the plain SDK keeps nothing on disk)", COLUMNS)
    _file_limit(report, count)
    if can_mount():
        _full_disk(report, count)
    else:
        report.notes.append("no right to mount: a full disk was tried by the limit on the size of files alone")
    _not_ours(report, "read-only folder", 0o500)
    _not_ours(report, "another user's spool", 0o711)
    for name in ("corrupt", "truncated", "emptied"):
        _damaged(report, name)
    _shared(report, count // 4)
    _bound(report, count)
    return report


def can_mount() -> bool:
    """Whether a file system of a host's own can be made here."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    probe = subprocess.run([*_own_mounts(), "true"], check=False, capture_output=True)
    return probe.returncode == 0


def _own_mounts() -> tuple[str, ...]:
    return ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--mount")


@contextmanager
def _place() -> Iterator[tuple[Receiver, Path]]:
    with Receiver() as receiver, tempfile.TemporaryDirectory() as folder:
        yield receiver, Path(folder)


def _judge(report: Report, name: str, result: dict[str, Any], receiver: Receiver, failures: int) -> None:
    """Every failure was delivered, once, or is counted; calls returned in time."""
    stored = names_in(receiver)
    delivered = sum(name.startswith("E") for name in stored)
    twice = sum(count for key, count in stored.items() if key.startswith("E")) - delivered
    priority, notices = result["stats"]["priority"], result["stats"]["notices"]
    told = {key: number for key, number in notices.items() if key not in {"wait_skipped", "not_delivered"}}
    shown = ", ".join(f"{key} {number}" for key, number in told.items()) or "nothing"
    report.add(name, failures, delivered, priority["lost"], twice, f"{result['ms']['max_ms']:.0f}", shown)
    report.expect(failures == delivered + priority["lost"], f"{name}: {delivered} of {failures}, {priority} counted")
    report.expect(not twice, f"{name}: {twice} arrived twice")
    report.expect_in_time(result["ms"]["max_ms"] < 1000, f"{name}: a call took {result['ms']['max_ms']:.0f} ms")
    report.expect(not notices.get("processor_raised") and not notices.get("worker_raised"), f"{name}: {notices}")


def _fill(receiver: Receiver, folder: Path, count: int, prefix: tuple[str, ...] = (), **options: Any) -> dict[str, Any]:
    """Fill a spool while nobody listens, then bring the receiver back and wait for the host's end."""
    receiver.kill()
    settings = options.pop("settings", {})
    setup = Setup(
        "fill",
        receiver.http_endpoint,
        spool=str(folder),
        settings=settings,
        options={"count": count, **options},
    )
    host = Host(setup, prefix)
    host.wait_ready()
    receiver.start()
    return host.result()


def _file_limit(report: Report, count: int) -> None:
    name = "disk full, by the limit on files"
    with _place() as (receiver, folder):
        result = _fill(receiver, folder / "spool", count, file_bytes=_DISK_BYTES)
        _judge(report, name, result, receiver, count)
    _degraded(report, name, result)


def _full_disk(report: Report, count: int) -> None:
    name = "disk full, a disk of 2 MB"
    with _place() as (receiver, folder):
        disk = folder / "disk"
        disk.mkdir()
        prefix = (*_own_mounts(), "sh", "-c", _SMALL_DISK, str(disk))
        result = _fill(receiver, disk / "spool", count, prefix)
        _judge(report, name, result, receiver, count)
    _degraded(report, name, result)


def _degraded(report: Report, name: str, result: dict[str, Any]) -> None:
    """Expect the first records in the spool, the others in memory, and that it was told."""
    filled = result["filled"]
    report.expect(filled["priority"]["spooled"], f"{name}: nothing was spooled: {filled}")
    report.expect(filled["priority"]["waiting"], f"{name}: the disk was not full: {filled}")
    report.expect(filled["notices"].get("spool_unavailable"), f"{name}: not told: {filled}")


def _not_ours(report: Report, name: str, mode: int) -> None:
    """Use a spool that this user may not write: one of root's where we are root, else one whose bits say so."""
    with _place() as (receiver, folder):
        spool = folder / "spool"
        if name.startswith("another"):
            _fill_and_die(receiver, spool, 5)
            receiver.restart()
        else:
            spool.mkdir()
        options: dict[str, Any] = {"uid": _NOBODY} if os.geteuid() == 0 else {}
        _forbid(folder, spool, mode)
        result = _fill(receiver, spool, 50, **options)
        _judge(report, name, result, receiver, 50)
        spool.chmod(0o700)
        filled = result["filled"]
        report.expect(filled["priority"]["waiting"] == 50, f"{name}: memory was not used: {filled}")
        report.expect(filled["notices"].get("spool_unavailable"), f"{name}: not told: {filled}")
        report.expect(not list(spool.glob("unreadable-*")), f"{name}: a file that is not ours was moved")


def _forbid(folder: Path, spool: Path, mode: int) -> None:
    folder.chmod(0o711)
    for path in spool.rglob("*"):
        path.chmod(0o000 if os.geteuid() else 0o600)
    spool.chmod(mode)


def _fill_and_die(receiver: Receiver, folder: Path, count: int) -> None:
    receiver.kill()
    options = {"count": count, "kill": True, "first": 100_000}
    host = Host(Setup("fill", receiver.http_endpoint, spool=str(folder), options=options))
    host.wait_ready()
    host.wait_end(30)


def _damaged(report: Report, name: str) -> None:
    """Damage what a dead process left: what can be read is delivered, the file is kept, the next process works."""
    with _place() as (receiver, folder):
        _fill_and_die(receiver, folder, 200)
        path = folder / FILE_NAME
        _checkpoint(path)
        content = path.read_bytes()
        match name:
            case "corrupt":
                path.write_bytes(content[:8192] + os.urandom(len(content) - 8192))
            case "truncated":
                path.write_bytes(content[: len(content) // 2])
            case _:
                path.write_bytes(b"")
        result = _fill(receiver, folder, 100)
        stored = names_in(receiver)
        aside = list(folder.glob("unreadable-*.sqlite3"))
    late = sum(name.startswith("E1000") for name in stored)
    fresh = sum(name.startswith("E") for name in stored) - late
    told = {key: n for key, n in result["stats"]["notices"].items() if key not in {"wait_skipped", "not_delivered"}}
    shown = ", ".join(f"{key} {number}" for key, number in told.items()) or "nothing"
    figures = (f"{fresh} of 100, old ones {late} of 200", "-", 0, f"{result['ms']['max_ms']:.0f}", shown)
    report.add(f"{name} spool of a dead process", "100 + 200", *figures)
    report.expect(fresh == 100, f"{name}: {fresh} of 100 new failures were delivered")
    report.expect(name == "emptied" or aside, f"{name}: the damaged file was not kept")
    report.expect(name == "emptied" or told.get("spool_unreadable"), f"{name}: not told: {told}")


def _checkpoint(path: Path) -> None:
    """Put everything into the file itself, so that damage hits records."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _shared(report: Report, count: int) -> None:
    name = "three processes on one spool"
    with _place() as (receiver, folder):
        receiver.kill()
        hosts = []
        for number in range(3):
            options = {"count": count, "first": number * count}
            hosts.append(Host(Setup("fill", receiver.http_endpoint, spool=str(folder), options=options)))
        for host in hosts:
            host.wait_ready()
        receiver.start()
        results = [host.result() for host in hosts]
        longest = max(result["ms"]["max_ms"] for result in results)
        lost = sum(result["stats"]["priority"]["lost"] for result in results)
        stored = names_in(receiver)
    delivered = sum(name.startswith("E") for name in stored)
    twice = sum(count for key, count in stored.items() if key.startswith("E")) - delivered
    report.add(name, 3 * count, delivered, lost, twice, f"{longest:.0f}", "-")
    held = (delivered, lost, twice) == (3 * count, 0, 0)
    report.expect(held, f"{name}: {delivered} of {3 * count} delivered, {lost} lost, {twice} twice")
    report.expect_in_time(longest < 1000, f"{name}: a call took {longest:.0f} ms")


def _bound(report: Report, count: int) -> None:
    name = "spool at its bound (200 KB)"
    with _place() as (receiver, folder):
        result = _fill(receiver, folder, count, settings={"spool_max_bytes": 200_000})
        _judge(report, name, result, receiver, count)
        stored = names_in(receiver)
        rest = deliver_rest(receiver, folder)
    lost = result["stats"]["priority"]["losses"].get("spool_full", 0)
    report.expect(lost, f"{name}: nothing had to go, so nothing was tested")
    newest = all(f"E{number}" in stored for number in range(lost, count))
    report.expect(newest, f"{name}: it was not the oldest that went")
    report.expect(not rest["stats"]["priority"]["recovered"], f"{name}: something was left behind")
