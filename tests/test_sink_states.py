"""Both lanes and the spool through random interleavings: no priority record vanishes, every number adds up."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from compass_otel.delivery import Delivered, Delivery, Rejected, Retry
from compass_otel.encoding import encode_span
from compass_otel.lanes import TraceLane
from compass_otel.notices import Notices
from compass_otel.priority import Rank
from compass_otel.priority_lane import PriorityLane
from compass_otel.sink_settings import QueueSettings
from compass_otel.spool import Spool
from compass_otel.spool_admin import flush
from compass_otel.spool_file import FILE_NAME, SpoolError, SpoolFault
from compass_otel.waiting import WaitGate
from sink_support import Clock, FakeSender, span, spans_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compass_otel.stats import LaneStats

DOWN = Retry(None, "down")
QUEUE = QueueSettings(max_queue_size=8, max_export_batch_size=3, max_request_spans=3, schedule_delay_s=1.0)
SPOOL_BYTES = 70_000
MEMORY_BYTES = 20_000


def answer_of(mode: str) -> Any:
    """Give what a sender answers in a mode; names that end in 7 are the bad ones."""

    def refuse(names: list[str]) -> Delivery:
        return Rejected("bad") if any(name.endswith("7") for name in names) else Delivered()

    def partly(names: list[str]) -> Delivery:
        return Delivered(sum(name.endswith("7") for name in names), "bad")

    return {"up": None, "down": DOWN, "later": Retry(2.0, "429"), "refuses": refuse, "partly": partly}[mode]


class Process:
    """One process's lanes, with steps and time by hand."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.sender = FakeSender()
        self.trace_sender = FakeSender()
        self.notices = Notices(clock)
        self.spool = Spool(folder, max_bytes=SPOOL_BYTES)
        gate = WaitGate(0, on_event_loop=False, clock=clock)
        self.priority = PriorityLane(
            self.sender,
            self.spool,
            memory_bytes=MEMORY_BYTES,
            gate=gate,
            export_timeout_s=1,
            notices=self.notices,
            clock=clock,
        )
        self.trace = TraceLane(self.trace_sender, QUEUE, self.notices, clock)
        for lane in (self.priority, self.trace):
            lane.worker.wake = lambda: None  # type: ignore[method-assign]
        self.trace._wake = lambda: None
        self.offered: Counter[str] = Counter()
        self.traced = 0
        self.priority.begin()

    def answer(self, mode: str) -> None:
        """Let both senders answer so from now on."""
        self.sender.always = self.trace_sender.always = answer_of(mode)

    def in_memory(self) -> Counter[str]:
        """Names that wait in memory."""
        entries = [entry for queue in self.priority._memory._queues.values() for entry in queue]
        return Counter(each.name for entry in entries for each in spans_of(entry.body))

    def die(self) -> None:
        """Go as by SIGKILL: locks fall, nothing is tidied."""
        handles = self.spool._handles
        handles._close_connections()
        if handles.owner is not None:
            handles.owner.abandon()
        handles.owner = None


class Lanes(RuleBasedStateMachine):
    """The machine."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = Clock()
        self.process = Process(self.folder, self.clock)
        self.numbers = 0
        self.delivered: Counter[str] = Counter()
        self.everything: set[str] = set()
        self.gone = 0
        """Records that were counted as failed in earlier processes, or stood in the memory of one that died."""
        self.broken = False

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.process.die()
        shutil.rmtree(self.folder)

    @rule(count=st.integers(1, 12))
    def end_trace_spans(self, count: int) -> None:
        """Offer to the trace lane."""
        for _ in range(count):
            self.numbers += 1
            self.process.trace.offer(span(f"t{self.numbers}"))
        self.process.traced += count

    @rule(rank=st.sampled_from(list(Rank)), size=st.sampled_from([0, 500, 9000]), count=st.integers(1, 5))
    def end_priority_spans(self, rank: Rank, size: int, count: int) -> None:
        """Offer to the priority lane."""
        for _ in range(count):
            self.numbers += 1
            name = f"p{self.numbers}"
            self.everything.add(name)
            self.process.offered[name] += 1
            body = encode_span(span(name, {"x": "x" * size}))
            with self._disk():
                self.process.priority.offer(body, rank, wait=False)

    @rule(seconds=st.sampled_from([0.0, 0.2, 1.0, 6.0, 40.0]))
    def let_the_workers_work(self, seconds: float) -> None:
        """Take a step of each lane."""
        self.clock.now += seconds
        with self._disk():
            self.process.priority.step()
        self.process.trace.step()

    @rule(mode=st.sampled_from(["up", "down", "later", "refuses", "partly"]))
    def change_the_backend(self, mode: str) -> None:
        """Let it answer otherwise."""
        self.process.answer(mode)

    @rule()
    def break_the_disk(self) -> None:
        """Let every use of the spool fail, until it is mended."""
        self.broken = True

    @rule()
    def mend_the_disk(self) -> None:
        """Let the spool work again."""
        self.broken = False

    @precondition(lambda self: not self.broken)
    @rule()
    def flush_from_outside(self) -> None:
        """Let a person send what waits, beside the living process."""
        sender = FakeSender(always=answer_of("refuses"))
        flush(self.folder, sender, 0.01)
        self.delivered.update(sender.taken)

    @precondition(lambda self: not self.broken)
    @rule(orderly=st.booleans())
    def start_anew(self, orderly: bool) -> None:
        """End the process, in order or by SIGKILL, and start the next."""
        self._collect()
        if orderly:
            self.process.priority.close_intake(self.clock.now)
            self.process.priority.end()
            self.process.trace.close_intake(self.clock.now)
            self.process.trace.abandon()
            self._check(self.process.priority.stats())
            self.process.priority.close_store()
        else:
            self.gone += sum(self.process.in_memory().values())
            self.process.die()
        self.gone += sum(self.process.priority.stats().failed.values())
        self.process = Process(self.folder, self.clock)

    @precondition(lambda self: not self.broken)
    @rule()
    def fork(self) -> None:
        """Be the child of a fork; the parent dies, so that there is one process to look at."""
        self._collect()
        process = self.process
        self.gone += sum(process.in_memory().values()) + sum(process.priority.stats().failed.values())
        process.spool.before_fork()
        process.spool.after_fork_in_child()
        process.priority.after_fork_in_child()
        process.trace.after_fork_in_child()
        for lane in (process.priority, process.trace):
            lane.worker.wake = lambda: None  # type: ignore[method-assign]
        process.offered.clear()
        process.traced = 0
        process.priority.begin()

    @invariant()
    def every_number_adds_up(self) -> None:
        """Find every record of both lanes in exactly one place, at every moment."""
        priority, trace = self.process.priority.stats(), self.process.trace.stats()
        self._check(priority)
        self._check(trace)
        assert priority.accepted == sum(self.process.offered.values())
        assert trace.accepted == self.process.traced
        assert not priority.dropped
        assert not trace.failed

    @invariant()
    def nothing_of_the_priority_lane_vanishes(self) -> None:
        """Each record is delivered, kept, set aside, or counted as failed; what was never ended never arrives."""
        self._collect()
        kept, set_aside = self._in_spool()
        known = set(self.delivered) | set(kept) | set(set_aside) | set(self.process.in_memory())
        assert known <= self.everything
        counted = self.gone + sum(self.process.priority.stats().failed.values())
        pending = self._uncounted_losses()
        # A bad one that was refused out of memory has no place in the spool: its number alone tells of it.
        vanished = {name for name in self.everything - known if not name.endswith("7")}
        assert len(vanished) <= counted + pending

    def _check(self, stats: LaneStats) -> None:
        assert stats.accepted + stats.recovered == stats.delivered + stats.waiting + stats.spooled + stats.lost
        assert min(stats.waiting, stats.spooled, stats.delivered) >= 0

    def _collect(self) -> None:
        self.delivered.update(name for name in self.process.sender.taken if name.startswith("p"))
        self.process.sender.taken.clear()

    def _in_spool(self) -> tuple[list[str], list[str]]:
        with closing(sqlite3.connect(self.folder / FILE_NAME)) as connection:
            rows = connection.execute("SELECT id, body FROM record").fetchall()
        names = [(id_ >= 1 << 48, each.name) for id_, body in rows for each in spans_of(body)]
        return [name for waits, name in names if waits], [name for waits, name in names if not waits]

    def _uncounted_losses(self) -> int:
        """Count losses at the spool's bound that are written down and not yet seen by the process."""
        with closing(sqlite3.connect(self.folder / FILE_NAME)) as connection:
            return int(connection.execute("SELECT coalesce(sum(records), 0) FROM loss").fetchone()[0])

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """Break the spool for what is done inside, if it is broken."""
        spool: Any = self.process.spool
        methods = ("append", "lease", "acknowledge", "set_aside", "adopt", "take_stock", "tidy", "note")
        if self.broken:

            def fail(*_: object, **__: object) -> None:
                raise SpoolError(SpoolFault.FULL, "injected")

            for method in methods:
                setattr(spool, method, fail)
        try:
            yield
        finally:
            if self.broken:
                for method in methods:
                    delattr(spool, method)


TestLanes = Lanes.TestCase
TestLanes.settings = settings(max_examples=15, stateful_step_count=30)
