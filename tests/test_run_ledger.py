"""The ledger of runs: each run once, whoever sees it, whatever dies, and never at the cost of the command."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from compass_otel.ledger_rows import Claim, Earlier, Reader, RunFacts, Standing, message_key, span_key
from compass_otel.run_ledger import MAX_RUNS, RunLedger
from compass_otel.spool_file import SpoolFault
from compass_otel.state_folder import instance_id
from compass_otel.state_store import FILE_NAME, StateStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = RunFacts(message_key(1_700_000_000_000, "fix the tests"), "aa" * 16, "bb" * 8)
DIE_WITH_A_CLAIM = """
import os, signal, sys
from pathlib import Path
from compass_otel.ledger_rows import Reader, RunFacts
from compass_otel.run_ledger import RunLedger
from compass_otel.state_store import StateStore
ledger = RunLedger(StateStore(Path(sys.argv[1])))
facts = RunFacts(*sys.argv[2:5])
ledger.claim(facts, Reader.STREAM, durable=sys.argv[5] == "durable")
if sys.argv[6]:
    ledger.ended(facts, sys.argv[6])
os.kill(os.getpid(), signal.SIGKILL)
"""


def ledger_in(folder: Path, **bounds: int) -> RunLedger:
    """Give the hand of what could be another process: ownership is by lock, not by process."""
    return RunLedger(StateStore(folder), **bounds)


@pytest.fixture(name="folder")
def state_folder(tmp_path: Path) -> Path:
    """Give a folder that does not exist yet."""
    return tmp_path / "books"


@pytest.fixture(name="mine")
def first_ledger(folder: Path) -> Iterator[RunLedger]:
    """Give one process's ledger."""
    ledger = ledger_in(folder)
    yield ledger
    ledger.close()


@pytest.fixture(name="other")
def second_ledger(folder: Path) -> Iterator[RunLedger]:
    """Give another's."""
    ledger = ledger_in(folder)
    yield ledger
    ledger.close()


def killed(folder: Path, *, durable: bool, outcome: str = "") -> None:
    """Let a process claim the run and be killed."""
    kept = "durable" if durable else "memory"
    command = [sys.executable, "-c", DIE_WITH_A_CLAIM, str(folder), RUN.key, RUN.trace_id, RUN.span_id, kept, outcome]
    assert subprocess.run(command, check=False, timeout=30).returncode == -signal.SIGKILL


def test_the_instance_id_is_one_for_each_folder(tmp_path: Path) -> None:
    """A state folder has one `service.instance.id` for ever; another folder has another."""
    assert instance_id(tmp_path / "a") == instance_id(tmp_path / "a") != instance_id(tmp_path / "b")


def test_a_run_is_known_by_the_time_and_the_text_of_its_first_message() -> None:
    """Equal time and text are one run, another time or text is another; the text itself is not kept."""
    key = message_key(1, "secret plan")
    assert key == message_key(1, "secret plan")
    assert len({key, message_key(2, "secret plan"), message_key(1, "other plan")}) == 3
    assert "secret" not in key
    assert span_key(1, None) != span_key(1, 5)


@pytest.mark.parametrize("reader", Reader)
def test_whoever_sees_a_run_first_claims_it(mine: RunLedger, other: RunLedger, reader: Reader) -> None:
    """While the first one lives, a reader of files is told that somebody else sends the run."""
    assert mine.claim(RUN, reader) == Claim(Standing.OURS)
    assert other.claim(RUN, Reader.FILE).standing is Standing.ELSEWHERE
    entry = other.known(RUN.key)
    assert entry is not None
    assert entry.standing is Standing.ELSEWHERE


def test_a_live_stream_gives_way_only_to_a_reader_of_files(mine: RunLedger, other: RunLedger) -> None:
    """Two live commands in one pipe both send; one that `watch` was faster than does not."""
    mine.claim(RUN, Reader.STREAM)
    assert other.claim(RUN, Reader.STREAM).standing is Standing.OURS
    mine.release([RUN.key])
    mine.claim(RUN, Reader.FILE)
    assert other.claim(RUN, Reader.STREAM).standing is Standing.ELSEWHERE


def test_an_entered_run_is_skipped_by_files_and_overridden_by_again(mine: RunLedger, other: RunLedger) -> None:
    """What stands in the ledger is sent no more from files, unless a person asks; a live stream is believed."""
    mine.claim(RUN, Reader.STREAM)
    mine.enter(RUN, "completed")
    mine.close()
    assert other.claim(RUN, Reader.FILE, outcome="completed").standing is Standing.SENT
    assert other.claim(RUN, Reader.FILE, outcome="completed", again=True).standing is Standing.OURS
    assert other.claim(RUN, Reader.STREAM).standing is Standing.OURS


def test_a_released_run_may_be_sent_by_anybody(mine: RunLedger, other: RunLedger) -> None:
    """A command that gave up leaves nothing behind; one that ends without saying so leaves nothing either."""
    for orderly in (True, False):
        assert mine.claim(RUN, Reader.FILE).standing is Standing.OURS
        if orderly:
            mine.release([RUN.key])
        else:
            mine.close()
        assert other.claim(RUN, Reader.FILE).standing is Standing.OURS
        other.release([RUN.key])


def test_a_run_that_one_command_meets_twice_is_sent_once(mine: RunLedger) -> None:
    """A file that is named twice, or its copy, is skipped the second time, before anything was acknowledged too."""
    mine.claim(RUN, Reader.FILE, outcome="failed")
    assert mine.claim(RUN, Reader.FILE, outcome="failed").standing is Standing.SENT


def test_nobody_gives_back_what_another_claimed(mine: RunLedger, other: RunLedger) -> None:
    """Releasing and entering touch one's own claims alone."""
    mine.claim(RUN, Reader.FILE)
    other.release([RUN.key])
    other.enter(RUN, "failed")
    assert ledger_standing(mine) is Standing.OURS


def ledger_standing(ledger: RunLedger) -> Standing | None:
    """Tell how the run stands."""
    entry = ledger.known(RUN.key)
    assert entry is not None
    return entry.standing


def test_the_claim_of_a_killed_process_is_taken_over(folder: Path, mine: RunLedger) -> None:
    """SIGKILL ends a claim at once: without a spool nobody else would ever send the run."""
    killed(folder, durable=False)
    assert mine.claim(RUN, Reader.FILE, outcome="failed") == Claim(Standing.OURS)
    assert list((folder / "owners").glob("*.alive")) != []
    mine.close()
    assert list((folder / "owners").iterdir()) == []


def test_a_claim_ends_with_its_process_while_others_go_on(mine: RunLedger, other: RunLedger) -> None:
    """A long-lived command takes over from one that died after it had begun."""
    other.claim(RUN, Reader.FILE)
    mine.claim(RunFacts(message_key(2, ""), RUN.trace_id, RUN.span_id), Reader.FILE)
    assert mine.claim(RUN, Reader.FILE).standing is Standing.ELSEWHERE
    assert other._owner is not None
    other._owner.abandon()
    assert mine.claim(RUN, Reader.FILE).standing is Standing.OURS


def test_a_killed_process_that_had_handed_all_to_its_spool_has_sent(folder: Path, mine: RunLedger) -> None:
    """What waits in a spool is delivered from there, so a reader of files leaves it alone and can say why."""
    killed(folder, durable=True, outcome="failed")
    assert mine.claim(RUN, Reader.FILE, outcome="failed").standing is Standing.WAITING


def test_a_run_that_was_open_in_a_killed_process_is_sent_once_more_when_it_ended(folder: Path, mine: RunLedger) -> None:
    """The spool sends its run span as incomplete; a file that shows the end is sent beside it."""
    killed(folder, durable=True)
    assert mine.claim(RUN, Reader.FILE, outcome="incomplete").standing is Standing.WAITING
    claim = mine.claim(RUN, Reader.FILE, outcome="completed")
    assert claim == Claim(Standing.OURS, earlier=Earlier(RUN.trace_id, RUN.span_id))


def test_an_incomplete_run_is_sent_once_more_and_only_once(mine: RunLedger, other: RunLedger) -> None:
    """A run entered as incomplete whose file shows an end is claimed again, with what was sent of it; then no more."""
    mine.claim(RUN, Reader.FILE, outcome="incomplete")
    mine.enter(RUN, "incomplete", ["01" * 8, "02" * 8])
    assert other.claim(RUN, Reader.FILE, outcome="incomplete").standing is Standing.SENT
    claim = other.claim(RUN, Reader.FILE, outcome="failed")
    assert claim.standing is Standing.OURS
    assert claim.earlier == Earlier(RUN.trace_id, RUN.span_id, frozenset({"01" * 8, "02" * 8}))
    assert mine.claim(RUN, Reader.FILE, outcome="failed").standing is Standing.ELSEWHERE
    other.release([RUN.key])
    assert mine.claim(RUN, Reader.FILE, outcome="failed").earlier == claim.earlier
    mine.enter(RUN, "failed")
    assert other.claim(RUN, Reader.FILE, outcome="completed").standing is Standing.SENT


def test_what_was_sent_of_a_run_of_thousands_is_not_kept(mine: RunLedger) -> None:
    """An incomplete run with more spans than the ledger keeps is remembered without them."""
    mine.enter(RUN, "incomplete", [f"{number:016x}" for number in range(1, 5000)])
    claim = mine.claim(RUN, Reader.FILE, outcome="failed")
    assert claim.earlier == Earlier(RUN.trace_id, RUN.span_id)


def test_the_ledger_is_bounded(folder: Path) -> None:
    """Beyond the bound the run that was seen first is forgotten, but never one that is claimed."""
    ledger = ledger_in(folder, max_runs=10)
    runs = [RunFacts(message_key(number, ""), RUN.trace_id, RUN.span_id) for number in range(40)]
    assert ledger.claim(runs[0], Reader.STREAM).standing is Standing.OURS
    for run in runs[1:]:
        ledger.enter(run, "completed")
    known = [run for run in runs if ledger.known(run.key)]
    assert known == [runs[0], *runs[-10:]]
    assert MAX_RUNS == 50_000
    ledger.close()


def _claim_all(folder: Path, start: int, answers: multiprocessing.Queue[int]) -> None:
    ledger = ledger_in(folder)
    won = 0
    for number in range(start, start + 60):
        facts = RunFacts(message_key(number % 60, "x"), RUN.trace_id, RUN.span_id)
        if ledger.claim(facts, Reader.FILE, outcome="failed").standing is Standing.OURS:
            won += 1
            ledger.enter(facts, "failed")
    ledger.close()
    answers.put(won)


def test_two_processes_at_once_send_each_run_once(folder: Path) -> None:
    """Four processes that replay the same sixty runs at the same time win sixty claims together."""
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[int] = context.Queue()
    workers = [context.Process(target=_claim_all, args=(folder, start, answers)) for start in (0, 15, 30, 45)]
    for worker in workers:
        worker.start()
    won = [answers.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(30)
    assert sum(won) == 60


def test_files_are_private(folder: Path, mine: RunLedger) -> None:
    """Folder 0700, files 0600, whatever the umask."""
    before = os.umask(0)
    try:
        mine.claim(RUN, Reader.FILE)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for path in folder.rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    finally:
        os.umask(before)


@pytest.mark.parametrize("damage", [b"", b"garbage " * 1000], ids=["empty", "garbage"])
def test_a_file_that_cannot_be_read_is_set_aside_and_told(folder: Path, damage: bytes) -> None:
    """A corrupt file costs the memory of what was sent, one line, and nothing else; an empty one is a new one."""
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(damage)
    store = StateStore(folder)
    ledger = RunLedger(store)
    assert ledger.claim(RUN, Reader.FILE).standing is Standing.OURS
    ledger.enter(RUN, "failed")
    assert ledger.claim(RUN, Reader.FILE).standing is Standing.SENT
    ledger.close()
    aside = list(folder.glob("unreadable-state-*.sqlite3"))
    assert len(aside) == store.faults[SpoolFault.UNREADABLE] == len(store.take_warnings()) == bool(damage)
    assert store.take_warnings() == []


def test_a_file_that_is_damaged_while_it_is_open_is_set_aside(folder: Path, mine: RunLedger) -> None:
    """Damage that comes later is noticed at the next use that meets it."""
    for number in range(300):
        mine.enter(RunFacts(message_key(number, "x"), RUN.trace_id, RUN.span_id), "failed")
    mine._store.close()
    path = folder / FILE_NAME
    path.write_bytes(path.read_bytes()[:4096] + os.urandom(path.stat().st_size - 4096))
    assert mine.claim(RUN, Reader.FILE).standing is Standing.OURS
    mine.enter(RUN, "failed")
    assert mine.claim(RUN, Reader.FILE).standing is Standing.SENT
    assert len(list(folder.glob("unreadable-state-*.sqlite3"))) == 1


def test_a_folder_that_cannot_be_written_costs_one_line(tmp_path: Path) -> None:
    """Without a ledger every run is sent; the person is told once, and nothing raises."""
    (tmp_path / "file").write_text("no folder")
    store = StateStore(tmp_path / "file" / "below")
    ledger = RunLedger(store)
    for _ in range(3):
        assert ledger.claim(RUN, Reader.FILE) == Claim(Standing.OURS)
        ledger.ended(RUN, "failed")
        ledger.enter(RUN, "failed")
        ledger.release([RUN.key])
        assert ledger.known(RUN.key) is None
    ledger.close()
    (warning,) = store.take_warnings()
    assert "below" in warning
    assert not store.usable


def test_a_folder_that_was_removed_is_begun_anew(folder: Path, mine: RunLedger) -> None:
    """Somebody who removes the state of a running command takes only its memory."""
    mine.enter(RUN, "failed")
    for path in folder.glob("state-1*"):
        path.unlink()
    assert mine.claim(RUN, Reader.FILE).standing is Standing.OURS


class LedgerMachine(RuleBasedStateMachine):
    """Three processes, four runs, in any order: no run is delivered twice by readers of files."""

    @initialize()
    def begin(self) -> None:
        """Begin with an empty folder."""
        import tempfile  # noqa: PLC0415 - a fixture is not to be had here
        from pathlib import Path  # noqa: PLC0415 - same

        self.folder = Path(tempfile.mkdtemp())
        self.hands = [ledger_in(self.folder) for _ in range(3)]
        self.held: dict[str, int] = {}
        self.sent: set[str] = set()

    @rule(hand=st.integers(0, 2), number=st.integers(0, 3))
    def claim(self, hand: int, number: int) -> None:
        """Claim: won exactly if nobody holds it and nobody sent it."""
        facts = RunFacts(message_key(number, ""), RUN.trace_id, RUN.span_id)
        standing = self.hands[hand].claim(facts, Reader.FILE, outcome="failed").standing
        assert (standing is Standing.OURS) == (facts.key not in self.held and facts.key not in self.sent)
        if standing is Standing.OURS:
            self.held[facts.key] = hand

    @rule(hand=st.integers(0, 2), deliver=st.booleans())
    def settle(self, hand: int, deliver: bool) -> None:
        """Enter or release everything that one holds."""
        for key in [key for key, owner in self.held.items() if owner == hand]:
            del self.held[key]
            if deliver:
                self.hands[hand].enter(RunFacts(key, RUN.trace_id, RUN.span_id), "failed")
                self.sent.add(key)
            else:
                self.hands[hand].release([key])

    @rule(hand=st.integers(0, 2))
    def die(self, hand: int) -> None:
        """Die: the lock goes, nothing is said."""
        owner = self.hands[hand]._owner
        if owner is not None:
            owner.abandon()
        self.hands[hand] = ledger_in(self.folder)
        self.held = {key: holder for key, holder in self.held.items() if holder != hand}

    @invariant()
    def sent_stays_sent(self) -> None:
        """Look that what was entered stands there."""
        for key in getattr(self, "sent", ()):
            entry = self.hands[0].known(key)
            assert entry is not None
            assert entry.standing is Standing.SENT

    def teardown(self) -> None:
        """Remove the folder."""
        import shutil  # noqa: PLC0415 - as above

        for hand in self.hands:
            hand.close()
            hand._store.close()
        shutil.rmtree(self.folder)


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=30, stateful_step_count=30)  # each step is a transaction on disk
