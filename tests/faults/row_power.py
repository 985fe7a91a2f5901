"""Row: a power cut, played on the image of a disk: what had not been written to the image is gone.

The host's spool stands on an ext4 file system in an image file. Copying the image while the host runs gives what a
disk would hold if the power went at that moment: what stood in the kernel's memory only is not in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from faults.driver import Host, names_in
from faults.pipeline import Setup
from faults.report import Report
from receivers import Receiver

_IMAGE_BYTES: Final = 32 << 20
_MOUNTED: Final = ("unshare", "--mount", "sh", "-c", 'mount -o loop "$0" "$1" && shift && exec "$@"')
_FAILURES: Final = 60
_WRITTEN: Final = 20
"""So many had ended when the kernel last wrote everything by itself."""


def can_cut() -> bool:
    """Whether the image of a disk can be made and mounted here."""
    if os.geteuid() or _mkfs() is None or shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        image, mount = _disk(Path(folder))
        return subprocess.run([*_MOUNTED, str(image), str(mount), "true"], check=False).returncode == 0


def measure(times: int = 5) -> Report:
    """Cut the power right after the last failure ended."""
    report = Report(
        f"Power cut right after the last of {_FAILURES} failures ended, collector down",
        ("spool_fsync", "cut", "delivered after the next start", "of the first ones, written before"),
    )
    if not can_cut():
        report.notes.append("no right to mount the image of a disk: not measured")
        return report
    for fsync in (True, False):
        for number in range(times):
            _cut(report, fsync=fsync, number=number + 1)
    return report


def _cut(report: Report, *, fsync: bool, number: int) -> None:
    with Receiver() as receiver, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        image, mount = _disk(folder)
        receiver.kill()
        spool, settings = str(mount / "spool"), {"spool_fsync": fsync}
        options = {"count": _FAILURES, "sync_at": _WRITTEN - 1, "hold_s": 60.0}
        setup = Setup("fill", receiver.http_endpoint, spool=spool, settings=settings, options=options)
        host = Host(setup, (*_MOUNTED, str(image), str(mount)))
        host.wait_ready()
        cut = folder / "cut"
        shutil.copyfile(image, cut)
        host.kill()
        receiver.start()
        rest = Setup("rest", receiver.http_endpoint, spool=spool, options={"timeout_s": 20.0})
        result = Host(rest, (*_MOUNTED, str(cut), str(mount))).result()
        stored = names_in(receiver)
    delivered = sum(f"E{n}" in stored for n in range(_FAILURES))
    early = sum(f"E{n}" in stored for n in range(_WRITTEN))
    report.add(fsync, number, f"{delivered} of {_FAILURES}", f"{early} of {_WRITTEN}")
    told = result["stats"]["notices"]
    report.expect(not fsync or delivered == _FAILURES, f"spool_fsync: {delivered} of {_FAILURES} survived")
    report.expect(early == _WRITTEN, f"spool_fsync={fsync}: of what had been written {early} of {_WRITTEN} survived")
    report.expect(not told.get("spool_unreadable"), f"spool_fsync={fsync}: the spool was damaged: {told}")


def _mkfs() -> str | None:
    return shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _disk(folder: Path) -> tuple[Path, Path]:
    """Make an image with an empty file system, and a place to mount it."""
    image, mount = folder / "disk", folder / "mount"
    mount.mkdir(exist_ok=True)
    with image.open("wb") as file:
        file.truncate(_IMAGE_BYTES)
    mkfs = _mkfs()
    assert mkfs is not None
    subprocess.run([mkfs, "-q", "-F", str(image)], check=True)
    return image, mount
