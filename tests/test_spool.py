"""The spool: what was appended is kept until it is acknowledged, whoever dies in between."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compass_otel import spool_appending
from compass_otel.spool import Found, Repaired, Spool
from compass_otel.spool_file import FILE_NAME, ROW_OVERHEAD_BYTES, SpoolError, SpoolFault, unreadable_files
from receivers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 1 << 20

CHILD = """
import os, sys, signal
from pathlib import Path
from compass_otel.spool import Spool
spool = Spool(Path(sys.argv[1]))
"""


def bodies(spool: Spool, limit: int = 1000) -> list[bytes]:
    """Lease everything and give it back."""
    leased = spool.lease(limit, 100 * MIB)
    spool.release()
    return [record.body for record in leased]


def run_child(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script that has a spool on the folder."""
    return subprocess.run(
        [sys.executable, "-c", CHILD + code, str(folder)], capture_output=True, text=True, timeout=30, check=False
    )


@pytest.fixture(name="spool")
def _spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool")
    yield spool
    spool.close()


def test_appended_records_come_back_by_rank_then_age(spool: Spool) -> None:
    """A lease gives session errors before the rest, and the oldest of a rank first."""
    for number, rank in enumerate((1, 3, 2, 3, 1)):
        spool.append(b"%d-%d" % (rank, number), rank, seq=number)
    leased = spool.lease(10, MIB)
    assert [record.body for record in leased] == [b"3-1", b"3-3", b"2-2", b"1-0", b"1-4"]
    assert [record.seq for record in leased] == [1, 3, 2, 0, 4]
    assert all(record.mine for record in leased)


def test_a_lease_is_bounded_by_number_and_bytes_but_never_empty_for_a_large_record(spool: Spool) -> None:
    """No request grows without bound, and one large record still leaves."""
    for _ in range(5):
        spool.append(b"x" * 100, 1)
    assert len(bodies(spool, limit=3)) == 3
    assert len(spool.lease(100, 250)) == 2
    assert len(spool.lease(100, 10)) == 1


def test_acknowledged_records_are_gone_and_the_others_come_again(spool: Spool) -> None:
    """Only what was acknowledged is deleted."""
    for number in range(4):
        spool.append(b"%d" % number, 1)
    leased = spool.lease(2, MIB)
    assert spool.acknowledge([record.id for record in leased]) == 2
    spool.release()
    assert bodies(spool) == [b"2", b"3"]
    assert spool.acknowledge([leased[0].id]) == 0


def test_a_record_set_aside_is_never_leased_again_but_kept(spool: Spool, tmp_path: Path) -> None:
    """What the backend refused for good stays to be looked at and blocks nobody."""
    for body in (b"bad", b"good"):
        spool.append(body, 3)
    assert spool.set_aside([spool.lease(1, MIB)[0].id], "too large") == 1
    assert bodies(spool) == [b"good"]
    with closing(sqlite3.connect(tmp_path / "spool" / FILE_NAME)) as connection:
        assert connection.execute("SELECT reason, body FROM record WHERE reason IS NOT NULL").fetchall() == [
            ("too large", b"bad")
        ]


def test_folder_and_files_are_private(spool: Spool, tmp_path: Path) -> None:
    """Nobody but the user reads what is spooled, whatever the umask."""
    before = os.umask(0)
    try:
        spool.append(b"secret", 1)
    finally:
        os.umask(before)
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
    files = [path for path in (tmp_path / "spool").rglob("*") if path.is_file()]
    assert len(files) >= 4
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_a_record_survives_sigkill_right_after_append(tmp_path: Path) -> None:
    """From the moment append returns the record outlives the process; the next owner finds it at once."""
    folder = tmp_path / "spool"
    result = run_child("spool.append(b'last words', 3); os.kill(os.getpid(), signal.SIGKILL)", folder)
    assert result.returncode == -signal.SIGKILL
    with closing(Spool(folder)) as heir:
        assert heir.adopt() == Found(1, 0)
        leased = heir.lease(10, MIB)
        assert [(record.body, record.mine) for record in leased] == [(b"last words", False)]
        assert heir.acknowledge([leased[0].id]) == 1
        assert heir.adopt() == Found()


def test_leased_and_unacknowledged_records_go_out_again_after_a_crash(tmp_path: Path) -> None:
    """A lease dies with its process."""
    folder = tmp_path / "spool"
    run_child("spool.append(b'in flight', 3); spool.lease(1, 99); os.kill(os.getpid(), signal.SIGKILL)", folder)
    with closing(Spool(folder)) as heir:
        heir.adopt()
        assert bodies(heir) == [b"in flight"]


def test_an_owner_that_closed_leaves_its_records_to_the_next(tmp_path: Path) -> None:
    """An orderly end with records waiting is no loss."""
    first = Spool(tmp_path)
    first.append(b"waiting", 2)
    first.close()
    first.close()
    with closing(Spool(tmp_path)) as heir:
        assert heir.adopt() == Found(1, 0)
        assert bodies(heir) == [b"waiting"]


def test_a_living_owner_keeps_its_records(tmp_path: Path, spool: Spool) -> None:
    """Nobody takes over from an owner that lives, in this process or another."""
    spool.append(b"mine", 1)
    with closing(Spool(tmp_path / "spool")) as other:
        assert other.adopt() == Found()
        assert bodies(other) == []
    result = run_child("print(spool.adopt().records)", tmp_path / "spool")
    assert result.stdout == "0\n", result.stderr
    assert bodies(spool) == [b"mine"]


def test_two_heirs_never_get_the_same_record(tmp_path: Path) -> None:
    """What one took over the other does not see."""
    with closing(Spool(tmp_path)) as first, closing(Spool(tmp_path)) as second:
        run_child("spool.append(b'once', 3); os._exit(0)", tmp_path)
        found = [first.adopt().records, second.adopt().records]
        assert found == [1, 0]
        assert bodies(first) == [b"once"]
        assert bodies(second) == []


def test_an_heir_that_dies_passes_its_inheritance_on(tmp_path: Path) -> None:
    """Records wait through any number of deaths."""
    run_child("spool.append(b'old', 3); os._exit(0)", tmp_path)
    result = run_child("print(spool.adopt().records, flush=True); os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    assert result.stdout == "1\n", result.stderr
    with closing(Spool(tmp_path)) as heir:
        assert heir.adopt().records == 1
        assert bodies(heir) == [b"old"]


def test_the_note_of_an_open_run_becomes_a_record_when_its_process_dies(tmp_path: Path) -> None:
    """A run that was open at SIGKILL is found by the next owner, once, as its last note says."""
    run_child(
        "spool.note(b'run-1', b'first'); spool.note(b'run-1', b'second'); spool.note(b'run-2', b'other')\n"
        "spool.forget_note(b'run-2'); os.kill(os.getpid(), signal.SIGKILL)",
        tmp_path,
    )
    with closing(Spool(tmp_path)) as heir, closing(Spool(tmp_path)) as late:
        assert heir.adopt() == Found(1, 1)
        assert late.adopt() == Found()
        assert bodies(heir) == [b"second"]


def test_the_record_of_an_ended_run_clears_its_note(tmp_path: Path) -> None:
    """After the run's own record there is nothing left to say if the process dies."""
    run_child("spool.note(b'run', b'open'); spool.append(b'ended', 1, run=b'run'); os._exit(0)", tmp_path)
    with closing(Spool(tmp_path)) as heir:
        assert heir.adopt() == Found(1, 0)
        assert bodies(heir) == [b"ended"]


@settings(max_examples=25)
@given(
    records=st.lists(st.tuples(st.sampled_from((1, 2, 3)), st.integers(0, 900)), min_size=1, max_size=40),
    room=st.integers(1200, 6000),
)
def test_at_the_bound_rank_wins_then_the_newer(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[int, int]], room: int
) -> None:
    """The spool never exceeds its bound, gives up the lowest rank and there the oldest, and counts each loss."""
    kept: list[tuple[int, int, int]] = []
    losses = 0
    with closing(Spool(tmp_path_factory.mktemp("bound"), max_bytes=room)) as spool:
        for number, (rank, size) in enumerate(records):
            evicted = spool.append(b"%03d" % number + b"." * size, rank)
            kept = sorted([*kept, (rank, number, size + 3 + ROW_OVERHEAD_BYTES)])
            before = losses
            while sum(item[2] for item in kept) > room:
                kept.pop(0)
                losses += 1
            assert evicted == (losses > before)
        expected = [number for _, number, _ in sorted(kept, key=lambda item: (-item[0], item[1]))]
        assert [int(body[:3]) for body in bodies(spool)] == expected
        stock = spool.take_stock()
        assert stock.records == len(kept)
        assert stock.losses.get("spool_full", 0) == losses
        assert spool.take_stock().losses == {}


def test_records_set_aside_are_the_first_to_go_and_no_second_loss(tmp_path: Path) -> None:
    """Evidence makes room for what may still be delivered; it was counted when it was refused."""
    with closing(Spool(tmp_path, max_bytes=1000)) as spool:
        spool.append(b"a" * 300, 3)
        spool.set_aside([spool.lease(1, MIB)[0].id], "refused")
        spool.append(b"b" * 300, 1)
        spool.append(b"c" * 300, 1)
        assert bodies(spool) == [b"b" * 300, b"c" * 300]
        assert spool.take_stock().losses == {}


def test_another_owners_losses_wait_for_it(tmp_path: Path) -> None:
    """When one process makes room at the expense of another, the other learns how many it lost."""
    with closing(Spool(tmp_path, max_bytes=1000)) as victim, closing(Spool(tmp_path, max_bytes=1000)) as other:
        victim.append(b"v" * 300, 1)
        other.append(b"o" * 300, 3)
        assert other.append(b"p" * 300, 3)
        assert other.take_stock().losses == {}
        stock = victim.take_stock()
        assert (stock.records, dict(stock.losses)) == (0, {"spool_full": 1})


def test_a_row_whose_thread_was_interrupted_is_not_written_behind_its_back(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a handler raised in the middle of the wait for a row, the row is written only if it is asked for again."""
    lock = spool._handles.append_lock
    spool.append(b"first", 1, seq=1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(spool._appender, "_wait", interrupted)
        lock.line.append(spool_appending._Ticket((9, 1, 0, None, b"other", 1 << 20)))
        with pytest.raises(KeyboardInterrupt):
            spool.append(b"second", 1, seq=2)
    spool.append(b"third", 1, seq=3)
    assert not spool.holds(2)
    assert bodies(spool) == [b"first", b"other", b"third"]


def test_losses_that_a_dead_owner_did_not_count_are_taken_over(tmp_path: Path) -> None:
    """What was given up of a process that died before it knew is counted by its heir."""
    with closing(Spool(tmp_path, max_bytes=1000)) as other:
        dead = Spool(tmp_path, max_bytes=1000)
        dead.append(b"v" * 300, 1)
        for _ in range(2):
            other.append(b"o" * 300, 3)
        dead.close()
        assert other.adopt() == Found(1, 0)
        assert other.take_stock().losses == {"spool_full": 1}


def test_a_record_larger_than_the_spool_is_refused_and_costs_nobody_else(tmp_path: Path) -> None:
    """One giant does not empty the spool."""
    with closing(Spool(tmp_path, max_bytes=1000)) as spool:
        spool.append(b"small", 1)
        with pytest.raises(SpoolError) as caught:
            spool.append(b"x" * 1000, 3)
        assert caught.value.fault is SpoolFault.TOO_LARGE
        assert bodies(spool) == [b"small"]


def test_whoever_was_interrupted_can_ask_whether_a_record_is_there(spool: Spool) -> None:
    """A signal handler may raise in the middle of an append: the spool knows whether it had been done."""
    spool.append(b"once", 2, seq=7)
    assert spool.holds(7)
    assert not spool.holds(8)


def test_threads_that_find_the_spool_taken_are_served_together_or_told(spool: Spool) -> None:
    """Whoever waits in line is written by whoever holds the lock, and gives up after a bounded wait."""
    lock = spool._handles.append_lock
    errors: list[SpoolError] = []

    def append(number: int) -> None:
        try:
            spool.append(b"%d" % number, 1)
        except SpoolError as error:
            errors.append(error)

    assert lock.acquire()
    threads = [threading.Thread(target=append, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    assert wait_until(lambda: len(lock.line) == 10)
    lock.release()
    for thread in threads:
        thread.join()
    assert sorted(bodies(spool)) == [b"%d" % number for number in range(10)]
    assert lock.acquire()
    thread = threading.Thread(target=append, args=(99,))
    start = time.monotonic()
    thread.start()
    thread.join()
    lock.release()
    assert 0.2 < time.monotonic() - start < 1.0
    assert [error.fault for error in errors] == [SpoolFault.BUSY]
    spool.append(b"after", 1)
    assert b"99" not in bodies(spool)


def test_a_position_is_clear_when_all_that_came_before_it_left(spool: Spool) -> None:
    """A flush can tell when everything accepted before it is gone, whatever came after."""
    spool.append(b"before", 1)
    position = spool.position()
    spool.append(b"after", 3)
    assert not spool.is_clear(position)
    (after, before) = spool.lease(10, MIB)
    spool.acknowledge([before.id])
    assert spool.is_clear(position)
    assert after.body == b"after"


def test_a_lease_excludes_other_senders_of_the_same_owner(tmp_path: Path, spool: Spool) -> None:
    """While somebody else sends our records we get none, and then again."""
    spool.append(b"record", 1)
    assert spool.lease(1, MIB)
    name = next((tmp_path / "spool" / "owners").glob("*.send"))
    code = f"""
import fcntl
fd = os.open({str(name)!r}, os.O_RDWR)
try:
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB); print("free", flush=True)
except BlockingIOError:
    print("busy", flush=True)
"""
    assert run_child(code, tmp_path / "other").stdout == "busy\n"
    spool.release()
    assert run_child(code, tmp_path / "other").stdout == "free\n"


@pytest.mark.parametrize(
    "content",
    [b"this is no database" * 500, b"SQLite format 3\x00" + b"\xff" * 8000, b"\x00" * 100],
    ids=["text", "header only", "zeros"],
)
def test_an_unreadable_file_is_set_aside_and_the_spool_goes_on(tmp_path: Path, content: bytes) -> None:
    """A file that is no spool is kept under another name, and a new one takes its place."""
    (tmp_path / FILE_NAME).write_bytes(content)
    with closing(Spool(tmp_path)) as spool:
        with pytest.raises(SpoolError) as caught:
            spool.open()
        assert caught.value.fault is SpoolFault.UNREADABLE
        spool.repair()
        spool.append(b"fine", 1)
        assert bodies(spool) == [b"fine"]
    (aside,) = unreadable_files(tmp_path)
    assert aside.read_bytes() == content


def test_another_programs_database_is_set_aside_not_touched(tmp_path: Path) -> None:
    """A database that is not ours keeps its content."""
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("CREATE TABLE theirs(x)")
        connection.execute("INSERT INTO theirs VALUES (7)")
        connection.commit()
    with closing(Spool(tmp_path)) as spool:
        with pytest.raises(SpoolError, match="not ours"):
            spool.open()
        spool.repair()
        spool.append(b"fine", 1)
    with closing(sqlite3.connect(unreadable_files(tmp_path)[0])) as connection:
        assert connection.execute("SELECT x FROM theirs").fetchall() == [(7,)]


def test_a_newer_format_version_is_not_written_to(tmp_path: Path) -> None:
    """An older release does not guess what a newer one means."""
    with closing(Spool(tmp_path)) as spool:
        spool.append(b"from the future", 1)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with closing(Spool(tmp_path)) as spool, pytest.raises(SpoolError) as caught:
        spool.open()
    assert caught.value.fault is SpoolFault.UNREADABLE


def test_a_file_damaged_in_use_is_left_with_what_can_still_be_read(tmp_path: Path) -> None:
    """Truncation under a running process costs at most what was in the lost part."""
    spool = Spool(tmp_path)
    for number in range(200):
        spool.append(b"%03d" % number + b"." * 1000, 1)
    with spool._handles.working() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    os.truncate(tmp_path / FILE_NAME, 60_000)

    def use() -> None:
        for number in range(200, 400):
            spool.append(b"%03d" % number, 1)
            bodies(spool)

    with pytest.raises(SpoolError) as caught:
        use()
    assert caught.value.fault is SpoolFault.UNREADABLE
    spool.repair()
    spool.append(b"after", 3)
    assert bodies(spool)[0] == b"after"
    assert len(unreadable_files(tmp_path)) == 1
    spool.close()


def test_what_a_dead_owner_left_in_a_damaged_file_is_rescued_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    """Half a file gives what it still holds; a living owner's records are left to it."""
    with closing(Spool(tmp_path)) as dead:
        for number in range(300):
            dead.append(b"%03d" % number + b"." * 2000, 1 + number % 3)
        dead.note(b"run", b"open run")
    path = tmp_path / FILE_NAME
    os.truncate(path, path.stat().st_size // 2)
    with closing(Spool(tmp_path)) as spool:
        with pytest.raises(SpoolError) as caught:
            spool.adopt()
        assert caught.value.fault is SpoolFault.UNREADABLE
        repaired = spool.repair()
        assert repaired.rescued > 0
        found = bodies(spool)
        assert len(found) == repaired.rescued
        assert all(body[3:4] == b"." or body == b"open run" for body in found)


def test_records_follow_when_the_file_was_replaced_by_another_process(tmp_path: Path) -> None:
    """If someone else set our file aside, we go on in the new one and take our records along."""
    spool = Spool(tmp_path)
    spool.append(b"mine", 2, seq=5)
    spool.note(b"run", b"open")
    spool.open()
    for suffix in ("-wal", "-shm", ""):
        (tmp_path / f"{FILE_NAME}{suffix}").rename(tmp_path / f"away{suffix}")
    with closing(Spool(tmp_path)) as other:
        other.append(b"other", 1)
        assert spool.was_replaced()
        assert spool.repair() == Repaired(1, 0)
        assert not spool.was_replaced()
        (record,) = spool.lease(10, MIB)
        assert (record.body, record.seq) == (b"mine", 5)
        spool.close()
        assert other.adopt() == Found(2, 1)


def test_only_the_newest_unreadable_files_are_kept(tmp_path: Path) -> None:
    """A spool that keeps breaking does not fill the disk."""
    for number in range(7):
        (tmp_path / FILE_NAME).write_bytes(b"broken %d" % number)
        with closing(Spool(tmp_path)) as spool:
            spool.repair()
        (tmp_path / FILE_NAME).unlink()
    assert len(unreadable_files(tmp_path)) == 4


def test_a_full_disk_raises_and_leaves_what_was_kept(spool: Spool) -> None:
    """Appending to a full disk fails by name; what was appended before stays readable."""
    spool.append(b"kept", 1)
    with spool._handles.appending() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    def fill() -> None:
        for _ in range(100):
            spool.append(b"x" * 2000, 1)

    with pytest.raises(SpoolError) as caught:
        fill()
    assert caught.value.fault is SpoolFault.FULL
    assert bodies(spool)[0] == b"kept"


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, what: str) -> None:
    """A read-only folder, or another user's file, is `read_only`, not a crash."""
    folder = tmp_path / "spool"
    with closing(Spool(folder)) as spool:
        spool.append(b"root's", 1)
    folder.chmod(0o555 if what == "folder" else 0o777)
    (folder / "owners").chmod(0o777)
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    code = """
from compass_otel.spool_file import SpoolError
if os.getuid() == 0: os.setuid(65534)
try:
    spool.append(b"x", 1); print("appended")
except SpoolError as error:
    print(error.fault)
"""
    assert run_child(code, folder).stdout == "read_only\n"


def test_threads_append_side_by_side_without_loss(spool: Spool) -> None:
    """Eight threads, one worker that acknowledges meanwhile: nothing lost, nothing twice."""
    seen: list[bytes] = []

    def append(thread: int) -> None:
        for number in range(100):
            spool.append(b"%d-%d" % (thread, number), 1 + number % 3)

    threads = [threading.Thread(target=append, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    while True:
        running = any(thread.is_alive() for thread in threads)
        leased = spool.lease(64, MIB)
        seen += [record.body for record in leased]
        if leased:
            assert spool.acknowledge([record.id for record in leased]) == len(leased)
        elif not running:
            break
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(b"%d-%d" % (thread, number) for thread in range(8) for number in range(100))


def test_four_processes_share_a_folder_without_loss(tmp_path: Path) -> None:
    """Every record that any of four processes had acknowledged to its caller is found afterwards."""
    code = """
from compass_otel.spool_file import SpoolError
for n in range(200):
    while True:
        try: spool.append(b"%d-%d" % (os.getpid(), n), 1); break
        except SpoolError as error: assert error.fault == "busy"
os._exit(0)
"""
    children = [subprocess.Popen([sys.executable, "-c", CHILD + code, str(tmp_path)]) for _ in range(4)]
    assert [child.wait(30) for child in children] == [0] * 4
    with closing(Spool(tmp_path)) as heir:
        assert heir.adopt().records == 800
        assert len(set(bodies(heir))) == 800


def test_a_handler_that_interrupts_an_append_may_append_itself(spool: Spool) -> None:
    """A signal in the middle of an append neither deadlocks nor loses a record, wherever it strikes."""
    handled: list[int] = []

    def handler(*_: object) -> None:
        handled.append(1)
        spool.append(b"from the handler", 3)

    # Not the real-time timer: the suite's own time limit uses it.
    signal.signal(signal.SIGPROF, handler)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    made = 0
    try:
        while made < 3000 or len(handled) < 10:
            spool.append(b"%d" % made, 1)
            made += 1
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
    found = bodies(spool, limit=1_000_000)
    assert found.count(b"from the handler") == len(handled)
    assert len(found) == made + len(handled)


def test_a_forked_child_is_another_owner_and_touches_nothing_of_its_parents(tmp_path: Path) -> None:
    """A fork while threads append: no deadlock, no record lost or doubled, the child's records are the child's."""
    code = """
import threading
from compass_otel.spool_file import SpoolError
os.register_at_fork(before=spool.before_fork, after_in_parent=spool.after_fork_in_parent,
                    after_in_child=spool.after_fork_in_child)
stop = threading.Event()
count = [0]
def work():
    while not stop.is_set():
        try: spool.append(b"parent-%d" % count[0], 1); count[0] += 1
        except SpoolError as error: assert error.fault == "busy"
thread = threading.Thread(target=work, daemon=True); thread.start()
pids = []
for child in range(10):
    pid = os.fork()
    if pid == 0:
        for n in range(20):
            while True:
                try: spool.append(b"child-%d-%d" % (child, n), 1); break
                except SpoolError as error: assert error.fault == "busy"
        assert not any(r.body.startswith(b"parent") for r in spool.lease(1000, 1 << 20))
        os._exit(0)
    pids.append(pid)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
stop.set(); thread.join()
print(count[0], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    result = run_child(code, tmp_path)
    assert result.stdout, result.stderr
    with closing(Spool(tmp_path)) as heir:
        heir.adopt()
        found = bodies(heir, limit=1_000_000)
    assert len(found) == len(set(found))
    assert sum(body.startswith(b"parent") for body in found) == int(result.stdout)
    assert sum(body.startswith(b"child") for body in found) == 200


def test_a_child_forked_in_the_middle_of_a_write_leaves_the_file_alone(tmp_path: Path) -> None:
    """If the file cannot be put down before a fork, the child is told so instead of damaging it."""
    code = """
from compass_otel import spool_handles
from compass_otel.spool_file import SpoolError
import threading
spool_handles._FORK_WAIT_S = 0.05
spool.append(b"parent", 1)
inside, leave = threading.Event(), threading.Event()
def hold():
    with spool._handles.working(): inside.set(); leave.wait()
threading.Thread(target=hold, daemon=True).start()
inside.wait()
spool.before_fork(); pid = os.fork()
if pid == 0:
    spool.after_fork_in_child()
    try: spool.append(b"child", 1)
    except SpoolError as error: print(error.fault, flush=True)
    os._exit(0)
spool.after_fork_in_parent(); os.waitpid(pid, 0); leave.set()
spool.append(b"parent again", 1)
print(len(spool.lease(9, 999)))
"""
    result = run_child(code, tmp_path)
    assert result.stdout == "inherited\n2\n", result.stderr


def test_fsync_waits_for_the_disk_at_every_append(tmp_path: Path) -> None:
    """With fsync the database runs in the mode that survives a power cut."""
    with closing(Spool(tmp_path, fsync=True)) as spool:
        spool.append(b"x", 1)
        with spool._handles.appending() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_log_is_moved_into_the_database_when_it_has_grown(tmp_path: Path, spool: Spool) -> None:
    """The write-ahead log stays small while a worker tidies."""
    log = tmp_path / "spool" / f"{FILE_NAME}-wal"
    largest = 0
    for _ in range(400):
        spool.append(b"x" * 40_000, 1)
        spool.tidy()
        largest = max(largest, log.stat().st_size)
    assert largest < 8 * MIB
