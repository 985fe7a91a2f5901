"""The priority lane: kept until delivered, with a bounded wait for whoever ended a failure."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from compass_otel.delivery import Delivered, Delivery, Rejected, Retry
from compass_otel.encoding import encode_span
from compass_otel.notices import Notice, Notices
from compass_otel.priority import Rank
from compass_otel.priority_lane import PriorityLane
from compass_otel.spool import Spool
from compass_otel.spool_file import FILE_NAME, SpoolError, SpoolFault, unreadable_files
from compass_otel.waiting import WaitGate
from receivers import wait_until
from sink_support import Clock, FakeSender, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DOWN = Retry(None, "connection refused")


def body(name: str, size: int = 0) -> bytes:
    """Encode a span of that name."""
    return encode_span(span(name, {"text": "x" * size} if size else None))


class Lane(PriorityLane):
    """A lane with a real clock and worker, or, with `by_hand`, with steps that the test takes."""

    def __init__(
        self,
        sender: FakeSender,
        spool: Spool | None = None,
        *,
        wait_s: float = 0.25,
        memory_bytes: int = 1 << 20,
        by_hand: bool = False,
        on_event_loop: bool = False,
    ) -> None:
        self.clock: Callable[[], float] = Clock() if by_hand else time.monotonic
        self.notes = Notices()
        super().__init__(
            sender,
            spool,
            memory_bytes=memory_bytes,
            gate=WaitGate(wait_s, on_event_loop=on_event_loop, clock=self.clock),
            export_timeout_s=10.0,
            notices=self.notes,
            clock=self.clock,
        )
        if by_hand:
            self.worker.wake = lambda: None  # type: ignore[method-assign]

    def put(self, name: str, rank: Rank = Rank.SESSION_ERROR, size: int = 0) -> None:
        """Offer without waiting."""
        self.offer(body(name, size), rank, wait=False)

    def timed(self, name: str) -> float:
        """Offer, waiting if the lane allows it; returns the seconds it took."""
        start = time.monotonic()
        self.offer(body(name), Rank.SESSION_ERROR, wait=True)
        return time.monotonic() - start

    def later(self, seconds: float) -> float | None:
        """Let time pass and take a step."""
        assert isinstance(self.clock, Clock)
        self.clock.now += seconds
        return self.step()

    def stop(self) -> None:
        """End the worker."""
        self.close_intake(time.monotonic())
        self.end()
        self.worker.wake()
        assert self.worker.join(10)
        self.close_store()


@pytest.fixture(name="spool")
def _spool(tmp_path: Path) -> Iterator[Spool]:
    with closing(Spool(tmp_path / "spool")) as spool:
        yield spool


def adds_up(lane: PriorityLane) -> bool:
    """Whether every record is in exactly one place."""
    stats = lane.stats()
    return stats.accepted + stats.recovered == stats.delivered + stats.waiting + stats.spooled + stats.lost


@pytest.mark.parametrize("spooled", [True, False])
def test_with_a_backend_that_answers_the_call_returns_after_the_delivery(spool: Spool, *, spooled: bool) -> None:
    """Synchronous export: when `offer` returns, the record is acknowledged and out of the spool."""
    sender = FakeSender()
    lane = Lane(sender, spool if spooled else None)
    for number in range(20):
        lane.offer(body(str(number)), Rank.SESSION_ERROR, wait=True)
        assert sender.taken[-1] == str(number)
        assert lane.stats().delivered == number + 1
    lane.stop()
    assert lane.stats().undelivered == 0


def test_a_slow_backend_costs_the_wait_and_the_record_stays(spool: Spool) -> None:
    """Not in time: the call returns after its wait, the record is kept and delivered by the worker."""
    sender = FakeSender(gate=threading.Event())
    lane = Lane(sender, spool)
    assert 0.24 < lane.timed("slow") < 0.6
    assert lane.stats().spooled == 1
    assert sender.gate is not None
    sender.gate.set()
    assert wait_until(lambda: lane.stats().delivered == 1)
    lane.stop()


def test_while_the_backend_is_down_nobody_waits_and_a_probe_ends_that(spool: Spool) -> None:
    """The first failed attempt opens the circuit; the next delivery closes it."""
    sender = FakeSender(always=DOWN)
    lane = Lane(sender, spool)
    spool.open()
    assert lane.timed("first") < 0.24
    assert wait_until(lambda: lane.stats().retried > 0)
    assert max(lane.timed(str(number)) for number in range(50)) < 0.1
    sender.always = None
    assert wait_until(lambda: lane.stats().delivered == 51)
    assert wait_until(lambda: not lane._is_known_to_be_slow())
    lane.timed("again")
    assert sender.taken[-1] == "again"
    lane.stop()


def test_while_an_attempt_hangs_nobody_else_waits(spool: Spool) -> None:
    """A backend that takes a request and never answers costs one wait, not one for each failure."""
    sender = FakeSender(gate=threading.Event())
    lane = Lane(sender, spool)
    lane.timed("first")
    assert wait_until(lane._is_known_to_be_slow)
    assert max(lane.timed(str(number)) for number in range(20)) < 0.15
    assert sender.gate is not None
    sender.gate.set()
    assert wait_until(lambda: lane.stats().delivered == 21)
    lane.stop()


def test_at_most_eight_wait_at_once(spool: Spool) -> None:
    """A storm of failures does not throttle the host: the ninth returns after the hand-off, counted."""
    sender = FakeSender(gate=threading.Event())
    lane = Lane(sender, spool, wait_s=1.0)
    times: list[float] = []
    threads = [threading.Thread(target=lambda: times.append(lane.timed("s"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert wait_until(lambda: len(times) == 12)
    assert max(times) < 0.9
    assert lane.notes.counts()[Notice.WAIT_SKIPPED] == 12
    assert sender.gate is not None
    sender.gate.set()
    for thread in threads:
        thread.join()
    assert wait_until(lambda: lane.stats().delivered == 20)
    lane.stop()


def test_a_thread_waits_at_most_one_second_in_ten() -> None:
    """However many failures a thread ends, waiting costs it a tenth of its time at most."""
    clock = Clock()
    gate = WaitGate(0.25, on_event_loop=False, clock=clock)

    class Never:
        def wait(self, timeout_s: float) -> bool:
            clock.now += timeout_s
            return False

    waited: list[tuple[float, float]] = []
    never: Any = Never()
    for _ in range(400):
        start = clock.now
        if gate.take_seat():
            gate.wait(never, start + 0.25)
            gate.leave()
            waited.append((start, clock.now))
        clock.now += 0.1
    assert sum(end - start for start, end in waited) > 3.5
    for _, until in waited:
        inside = sum(
            min(end, until) - max(start, until - 10) for start, end in waited if end > until - 10 and start < until
        )
        assert inside <= 1.0 + 1e-6


def test_another_thread_has_its_own_budget() -> None:
    """One thread that failed a lot does not take the waiting from the others."""
    clock = Clock()
    gate = WaitGate(5.0, on_event_loop=False, clock=clock)
    gate._history.add(clock.now, 1.0)
    assert not gate.take_seat()
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(gate.take_seat()))
    thread.start()
    thread.join()
    assert answers == [True]


@pytest.mark.parametrize("allowed", [False, True])
def test_on_an_event_loop_nobody_waits_unless_told_so(spool: Spool, *, allowed: bool) -> None:
    """Twenty failures at once must not stall the loop for twenty waits; the hand-off is durable all the same."""
    sender = FakeSender(gate=threading.Event())
    lane = Lane(sender, spool, wait_s=0.2, on_event_loop=allowed)
    spool.open()

    async def fail() -> float:
        return lane.timed("on the loop")

    took = asyncio.run(fail())
    assert (took >= 0.19) if allowed else (took < 0.19)
    assert lane.stats().spooled == 1
    assert lane.timed("on a plain thread") > 0.15 or allowed
    assert sender.gate is not None
    sender.gate.set()
    lane.stop()


def test_a_wait_of_zero_never_waits() -> None:
    """`priority_wait_s=0` switches waiting off."""
    sender = FakeSender(gate=threading.Event())
    lane = Lane(sender, wait_s=0)
    assert lane.timed("s") < 0.1
    assert sender.gate is not None
    sender.gate.set()
    lane.stop()


def test_records_that_wait_together_leave_together(spool: Spool) -> None:
    """One request carries what came in while the connection was busy."""
    sender = FakeSender(gate=threading.Event())
    lane = Lane(sender, spool)
    lane.put("first")
    assert wait_until(lambda: bool(sender.requests))
    for number in range(50):
        lane.put(str(number))
    assert sender.gate is not None
    sender.gate.set()
    assert wait_until(lambda: lane.stats().delivered == 51)
    assert [len(request) for request in sender.requests] == [1, 50]
    lane.stop()


def refuse(*bad: str) -> Callable[[list[str]], Delivery]:
    """Refuse every request that holds one of these."""
    return lambda names: Rejected("413 too large") if set(bad) & set(names) else Delivered()


@pytest.mark.parametrize("spooled", [True, False])
def test_a_refused_record_is_isolated_counted_and_set_aside(spool: Spool, *, spooled: bool) -> None:
    """One record that the backend will never take neither blocks nor costs its neighbours."""
    sender = FakeSender(always=refuse("5", "61"))
    lane = Lane(sender, spool if spooled else None, by_hand=True)
    for number in range(100):
        lane.put(str(number))
    lane.step()
    assert len(set(sender.taken)) == 98
    stats = lane.stats()
    assert (stats.delivered, dict(stats.rejected), stats.undelivered) == (98, {"refused": 2}, 0)
    if spooled:
        with spool._handles.working() as connection:
            rows = connection.execute("SELECT reason FROM record").fetchall()
        assert rows == [("refused: 413 too large",)] * 2


def test_a_partial_success_is_looked_into_until_the_culprit_is_found(spool: Spool) -> None:
    """The backend says how many it refused, not which: the parts are sent again and the culprit is set aside."""

    def partly(names: list[str]) -> Delivery:
        return Delivered(1, "bad span") if "7" in names else Delivered()

    sender = FakeSender(always=partly)
    lane = Lane(sender, spool, by_hand=True)
    for number in range(10):
        lane.put(str(number))
    lane.step()
    stats = lane.stats()
    assert (stats.delivered, dict(stats.rejected), stats.undelivered) == (9, {"partial_success": 1}, 0)


def test_without_a_spool_memory_is_bounded_and_every_loss_is_a_broken_promise() -> None:
    """At the bound the lowest rank goes first, there the oldest; each is counted as failed."""
    sender = FakeSender(always=DOWN)
    lane = Lane(sender, memory_bytes=8000, by_hand=True)
    for number in range(5):
        lane.put(f"life{number}", Rank.LIFECYCLE, 500)
        lane.put(f"error{number}", Rank.SESSION_ERROR, 500)
        lane.put(f"chosen{number}", Rank.CHOSEN, 500)
    stats = lane.stats()
    assert stats.accepted == 15
    assert stats.failed == {"memory_full": 15 - stats.waiting}
    sender.always = None
    lane.later(10)
    assert sender.taken[:5] == [f"error{number}" for number in range(5)]
    chosen = [name for name in sender.taken if name.startswith("chosen")]
    assert chosen == [f"chosen{number}" for number in range(5 - len(chosen), 5)]
    assert 0 < len(chosen) < 5
    assert not any(name.startswith("life") for name in sender.taken)
    assert adds_up(lane)


def test_at_the_spools_bound_each_loss_is_counted_with_one_warning(tmp_path: Path) -> None:
    """A full spool gives up the least important, counts each as failed and says so once."""
    sender = FakeSender(always=DOWN)
    with closing(Spool(tmp_path, max_bytes=70_000)) as spool:
        lane = Lane(sender, spool, by_hand=True)
        for number in range(40):
            lane.put(f"life{number}", Rank.LIFECYCLE, 2000)
        for number in range(20):
            lane.put(f"error{number}", Rank.SESSION_ERROR, 2000)
        lane.step()
        stats = lane.stats()
        assert stats.accepted == 60
        assert stats.failed["spool_full"] == 60 - stats.spooled > 20
        assert lane.notes.counts()[Notice.SPOOL_FULL] == stats.failed["spool_full"]
        sender.always = None
        lane.later(10)
        assert [name for name in sender.taken if name.startswith("error")] == [f"error{n}" for n in range(20)]
        assert adds_up(lane)


def test_a_record_larger_than_the_spool_is_kept_in_memory(tmp_path: Path) -> None:
    """The one record that does not fit into the spool is delivered all the same."""
    sender = FakeSender()
    with closing(Spool(tmp_path, max_bytes=70_000)) as spool:
        lane = Lane(sender, spool, by_hand=True)
        lane.put("giant", size=100_000)
        assert (lane.stats().waiting, lane.stats().spooled) == (1, 0)
        lane.step()
        assert sender.taken == ["giant"]


@pytest.mark.parametrize("fault", [SpoolFault.FULL, SpoolFault.READ_ONLY, SpoolFault.IO, SpoolFault.BUSY])
def test_a_spool_that_cannot_write_degrades_to_memory_and_takes_over_again(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, fault: SpoolFault
) -> None:
    """While the disk is full or gone records wait in memory, counted; when it works again they go into the spool."""
    lane = Lane(FakeSender(always=DOWN), spool, by_hand=True)

    def broken(*_: object) -> bool:
        raise SpoolError(fault, "injected")

    with monkeypatch.context() as patch:
        patch.setattr(spool, "append", broken)
        for number in range(3):
            lane.put(str(number))
        lane.step()
        assert (lane.stats().waiting, lane.stats().spooled) == (3, 0)
        assert lane.notes.counts()[Notice.SPOOL_UNAVAILABLE] >= 1
    lane.later(40)
    assert (lane.stats().waiting, lane.stats().spooled) == (0, 3)
    assert adds_up(lane)


def test_a_spool_that_became_unreadable_is_replaced_and_the_loss_counted(spool: Spool, tmp_path: Path) -> None:
    """A damaged file is set aside; what was in it and can't be read is counted as failed."""
    sender = FakeSender(always=DOWN)
    lane = Lane(sender, spool, by_hand=True)
    for number in range(50):
        lane.put(str(number), size=100_000)
    lane.step()
    with spool._handles.working() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    (path,) = (tmp_path / "spool").glob("spool-*.sqlite3")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    for number in range(50, 60):
        lane.put(str(number))
        lane.later(6)
    stats = lane.stats()
    assert stats.failed["spool_unreadable"] > 0
    assert adds_up(lane)
    assert lane.notes.counts()[Notice.SPOOL_UNREADABLE] == 1
    sender.always = None
    lane.later(10)
    assert {str(number) for number in range(52, 60)} <= set(sender.taken)
    assert lane.stats().undelivered == 0


def test_what_was_delivered_is_not_sent_again_while_the_spool_does_not_take_its_deletion(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk a delivered record stays in the file; it goes out once all the same, and is deleted later."""
    sender = FakeSender()
    lane = Lane(sender, spool, by_hand=True)

    def full(*_: object) -> int:
        raise SpoolError(SpoolFault.FULL, "injected")

    with monkeypatch.context() as patch:
        patch.setattr(spool, "acknowledge", full)
        for number in range(3):
            lane.put(str(number))
        for _ in range(5):
            lane.later(40)
        lane.put("3")
        lane.put("other rank", Rank.LIFECYCLE)
        lane.later(40)
        assert sender.taken == ["0", "1", "2", "3", "other rank"]
        assert (lane.stats().delivered, lane.stats().undelivered) == (5, 0)
        assert spool.take_stock().records == 5
    lane.put("late")
    lane.later(40)
    lane.later(40)
    assert sender.taken[5:] == ["late"]
    assert (lane.stats().delivered, lane.stats().undelivered) == (6, 0)
    assert spool.take_stock().records == 0
    assert adds_up(lane)


def test_what_was_refused_is_not_sent_again_while_the_spool_cannot_set_it_aside(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk does not make us offer a refused record for ever; it is set aside when there is room."""
    sender = FakeSender(always=refuse("bad"))
    lane = Lane(sender, spool, by_hand=True)

    def full(*_: object) -> int:
        raise SpoolError(SpoolFault.FULL, "injected")

    with monkeypatch.context() as patch:
        patch.setattr(spool, "set_aside", full)
        lane.put("bad")
        for _ in range(3):
            lane.later(40)
        assert sender.requests == [["bad"]]
        assert lane.stats().rejected == {"refused": 1}
    lane.later(40)
    with spool._handles.working() as connection:
        assert connection.execute("SELECT reason FROM record").fetchall() == [("refused: 413 too large",)]


def test_a_damaged_spool_is_replaced_at_the_start(tmp_path: Path) -> None:
    """A process that lives for a moment only has a spool all the same, whatever it finds in the folder."""
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(b"no database" * 1000)
    with closing(Spool(folder)) as spool:
        lane = Lane(FakeSender(always=DOWN), spool, by_hand=True)
        lane.begin()
        lane.put("1")
        assert (lane.stats().spooled, lane.stats().waiting) == (1, 0)
        assert lane.notes.counts()[Notice.SPOOL_UNREADABLE] == 1
    assert len(unreadable_files(folder)) == 1


def test_what_another_process_delivered_counts_as_delivered_when_next_seen(spool: Spool) -> None:
    """`spool flush` sends our records; our numbers follow."""
    lane = Lane(FakeSender(always=DOWN), spool, by_hand=True)
    for number in range(3):
        lane.put(str(number))
    with spool._handles.working() as connection:
        connection.execute("DELETE FROM record WHERE seq = 2")
    lane.later(6)
    assert (lane.stats().delivered, lane.stats().spooled) == (1, 2)


def test_a_lane_on_a_spool_with_waiting_records_delivers_from_the_start(tmp_path: Path) -> None:
    """What an earlier process left is recovered at construction and goes out at once, counted as recovered."""
    with closing(Spool(tmp_path)) as dead:
        dead.append(body("left behind"), 3)
        dead.note(b"run", body("open run"))
    with closing(Spool(tmp_path)) as spool:
        sender = FakeSender()
        lane = Lane(sender, spool)
        lane.begin()
        assert lane.stats().recovered == 2
        assert wait_until(lambda: lane.stats().delivered == 2)
        assert sorted(sender.taken) == ["left behind", "open run"]
        assert adds_up(lane)
        lane.stop()


def test_a_flush_is_true_when_everything_before_it_was_delivered(spool: Spool) -> None:
    """Records that came later, or from other processes, are not part of the question."""
    sender = FakeSender()
    lane = Lane(sender, spool, by_hand=True)
    lane.put("a")
    request = lane.request_flush(time.monotonic() + 5)

    def more(_: list[str]) -> Delivery:
        lane.put("later")
        return Delivered()

    sender.script = [more, DOWN]
    lane.step()
    assert request.wait()


@pytest.mark.parametrize("spooled", [True, False])
def test_a_flush_is_false_when_a_record_was_refused(spool: Spool, *, spooled: bool) -> None:
    """Refused is not delivered."""
    lane = Lane(FakeSender(always=refuse("a")), spool if spooled else None, by_hand=True)
    lane.put("a")
    request = lane.request_flush(time.monotonic() + 5)
    lane.step()
    assert request.answered.is_set()
    assert not request.wait()


@pytest.mark.parametrize("spooled", [True, False])
def test_at_the_end_memory_goes_into_the_spool_or_is_counted(spool: Spool, *, spooled: bool) -> None:
    """What can't be delivered in time stays in the spool; without one it is a counted, broken promise."""
    lane = Lane(FakeSender(always=DOWN), spool if spooled else None, by_hand=True)
    lane.put("a")
    lane.step()
    lane.close_intake(lane.clock())
    lane.end()
    stats = lane.stats()
    assert stats.waiting == 0
    assert (stats.spooled, dict(stats.failed)) == ((1, {}) if spooled else (0, {"shutdown": 1}))
    assert lane.step() is None
    assert adds_up(lane)


def test_a_batch_out_of_memory_that_is_in_flight_at_the_end_is_counted_once() -> None:
    """A request that outlasts the end can't change the numbers any more."""
    sender = FakeSender(gate=threading.Event())
    lane = Lane(sender)
    lane.put("a")
    assert wait_until(lambda: bool(sender.requests))
    lane.end()
    assert sender.gate is not None
    sender.gate.set()
    assert lane.worker.join(5)
    stats = lane.stats()
    assert (stats.delivered, stats.waiting, dict(stats.failed)) == (0, 0, {"shutdown": 1})


def test_a_record_offered_by_our_own_sending_does_not_wait(spool: Spool) -> None:
    """A failure that ends inside an export is kept without a wait: its thread is the one that would end the wait."""
    sender = FakeSender()
    lane = Lane(sender, spool)

    def again(_: list[str]) -> Delivery:
        assert lane.timed("inner") < 0.2
        return Delivered()

    sender.script = [again]
    lane.timed("outer")
    assert wait_until(lambda: lane.stats().delivered == 2)
    lane.stop()


def test_a_fault_in_the_worker_ends_nothing(spool: Spool) -> None:
    """Whatever a sender raises is counted, and the lane goes on."""
    sender = FakeSender()
    lane = Lane(sender, spool)

    def explode(_: list[str]) -> Delivery:
        raise MemoryError("injected")

    sender.script = [explode]
    lane.put("a")
    assert wait_until(lambda: lane.stats().delivered == 1)
    assert lane.notes.counts()[Notice.WORKER_RAISED] == 1
    lane.stop()
