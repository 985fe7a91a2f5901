"""The trace lane: bounded, drops the oldest, and every span is counted in exactly one place."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compass_otel.delivery import Delivered, Rejected, Retry
from compass_otel.lanes import TraceLane
from compass_otel.notices import Notice, Notices
from compass_otel.sink_settings import QueueSettings
from receivers import wait_until
from sink_support import Clock, FakeSender, span

SETTINGS = QueueSettings(max_queue_size=10, max_export_batch_size=4, max_request_spans=4, schedule_delay_s=5.0)
DOWN = Retry(None, "connection refused")


class Lane(TraceLane):
    """A lane whose steps the test takes itself."""

    def __init__(self, sender: FakeSender, settings: QueueSettings = SETTINGS) -> None:
        self.clock = Clock()
        self.notes = Notices(self.clock)
        super().__init__(sender, settings, self.notes, self.clock)
        self.worker.wake = lambda: None  # type: ignore[method-assign]
        self._wake = self.worker.wake

    def offer_all(self, *names: str) -> None:
        """Offer spans."""
        for name in names:
            self.offer(span(name))

    def later(self, seconds: float) -> float | None:
        """Let time pass and take a step."""
        self.clock.now += seconds
        return self.step()


def names(count: int, start: int = 0) -> list[str]:
    """Give names of spans."""
    return [str(number) for number in range(start, start + count)]


def adds_up(lane: TraceLane) -> bool:
    """Whether every span is in exactly one place."""
    stats = lane.stats()
    return stats.accepted + stats.recovered == stats.delivered + stats.waiting + stats.spooled + stats.lost


def test_a_full_queue_drops_its_oldest_and_counts_each() -> None:
    """The newest spans stay; every drop is counted with its reason."""
    sender = FakeSender(always=DOWN)
    lane = Lane(sender)
    lane.offer_all(*names(25))
    stats = lane.stats()
    assert (stats.accepted, stats.waiting, dict(stats.dropped)) == (25, 10, {"queue_full": 15})
    sender.always = None
    lane.later(5)
    lane.later(5)
    assert sender.taken == names(10, 15)
    assert lane.stats().delivered == 10


def test_nothing_is_dropped_for_room_that_the_worker_made_meanwhile() -> None:
    """A thread that found the queue full and had to stand in line drops nothing if its turn finds room."""
    lane = Lane(FakeSender(always=DOWN))
    lane.offer_all(*names(10))
    late, newest = span("late"), span("newest")
    thread = threading.Thread(target=lane.offer, args=(late,))
    with lane._lock:
        thread.start()
        assert wait_until(lambda: len(lane._queue) == 11)
        assert len(lane._take(20)) == 11
        lane.offer(newest)
    thread.join(10)
    stats = lane.stats()
    assert (stats.waiting, stats.lost) == (12, 0)


def test_drops_are_counted_per_trace() -> None:
    """A run's span can say how many of its trace had been dropped."""
    lane = Lane(FakeSender())
    spans = [span(name) for name in names(12)]
    for each in spans:
        lane.offer(each)
    assert [lane.dropped_of_trace(each.context.trace_id) for each in spans[:3]] == [1, 1, 0]


def test_drops_of_one_trace_add_up() -> None:
    """Several drops of one trace are one number that grows."""
    lane = Lane(FakeSender())
    one = span("s")
    for _ in range(13):
        lane.offer(one)
    assert lane.dropped_of_trace(one.context.trace_id) == 3


def test_counts_of_traces_are_bounded() -> None:
    """A host with endless traces does not grow us: the oldest traces are forgotten, the total is not."""
    lane = Lane(FakeSender(), QueueSettings(max_queue_size=1))
    spans = [span("s") for _ in range(9000)]
    for each in spans:
        lane.offer(each)
    assert lane.dropped_of_trace(spans[0].context.trace_id) == 0
    assert lane.dropped_of_trace(spans[-4000].context.trace_id) == 1
    assert len(lane._dropped_of_trace) + len(lane._dropped_of_older) < 9000
    assert lane.stats().dropped == {"queue_full": 8999}


def test_spans_leave_when_a_batch_is_full_or_their_time_has_come() -> None:
    """A full batch leaves at once, a lone span after the schedule delay."""
    sender = FakeSender()
    lane = Lane(sender)
    lane.offer_all(*names(4))
    assert lane.step() == 5.0
    lane.offer_all("late")
    assert lane.later(2) == 3.0
    assert sender.requests == [names(4)]
    lane.later(3)
    assert sender.requests == [names(4), ["late"]]


def test_a_failed_batch_goes_back_in_front_if_there_is_room() -> None:
    """Nothing is lost by an outage that the queue can hold, and the order stays."""
    sender = FakeSender([DOWN])
    lane = Lane(sender)
    lane.offer_all(*names(4))
    delay = lane.step()
    assert delay is not None
    assert 0.05 < delay < 0.2
    lane.offer_all(*names(4, 4))
    lane.later(delay)
    assert sender.taken == names(8)
    stats = lane.stats()
    assert (stats.delivered, stats.retried, stats.lost) == (8, 4, 0)


def test_of_a_failed_batch_the_oldest_is_dropped_where_room_is_short() -> None:
    """What came in during the attempt is newer and stays."""
    sender = FakeSender()
    lane = Lane(sender)

    def fail_late(_: list[str]) -> Retry:
        lane.offer_all(*names(8, 4))
        return DOWN

    sender.script = [fail_late]
    lane.offer_all(*names(4))
    lane.step()
    assert lane.stats().dropped == {"queue_full": 2}
    lane.later(1)
    lane.later(5)
    assert sender.taken == names(10, 2)


def test_delays_grow_and_end_with_the_first_success() -> None:
    """A dead backend is asked ever more seldom, at least every 6 s; a success makes the next failure start anew."""
    sender = FakeSender(always=DOWN)
    lane = Lane(sender)
    lane.offer_all("one")
    delays = [lane.later(5) or 0.0]
    for _ in range(9):
        delays.append(lane.later(delays[-1] + 0.001) or 0.0)
    assert all(0.8 * 0.1 * 2**n <= delay <= 1.2 * 0.1 * 2**n for n, delay in enumerate(delays[:5]))
    assert all(4.0 <= delay <= 6.0 for delay in delays[6:])
    sender.always = None
    lane.later(delays[-1] + 0.001)
    sender.always = DOWN
    lane.offer_all("two")
    assert (lane.later(5) or 9) < 0.2


@pytest.mark.parametrize(("asked", "kept"), [(2.0, 2.0), (3600.0, 30.0)])
def test_retry_after_is_honoured_within_bounds_also_by_a_flush(asked: float, kept: float) -> None:
    """What the backend asks for is waited out, a flush does not cut it short, but nobody can park us for an hour."""
    sender = FakeSender([Retry(asked, "429")])
    lane = Lane(sender)
    lane.offer_all(*names(4))
    delay = lane.step()
    assert delay == pytest.approx(kept)
    lane.request_flush(lane.clock.now + 100)
    lane.later(kept - 0.5)
    assert len(sender.requests) == 1
    lane.later(0.5)
    assert sender.taken == names(4)


def test_a_flush_cuts_a_delay_of_our_own_short_once() -> None:
    """Whoever flushes gets one attempt at once; after that the delay counts again."""
    sender = FakeSender(always=DOWN)
    lane = Lane(sender)
    lane.offer_all(*names(4))
    lane.step()
    request = lane.request_flush(lane.clock.now + 100)
    lane.step()
    assert len(sender.requests) == 2
    lane.step()
    assert len(sender.requests) == 2
    sender.always = None
    lane.later(10)
    assert request.wait()


def test_a_refused_span_is_found_and_its_neighbours_are_delivered() -> None:
    """A batch that is refused is split until the culprit stands alone."""

    def refuse(batch: list[str]) -> Rejected | Delivered:
        return Rejected("too large") if "2" in batch else Delivered()

    sender = FakeSender(always=refuse)
    lane = Lane(sender)
    lane.offer_all(*names(4))
    lane.step()
    assert sorted(sender.taken) == ["0", "1", "3"]
    stats = lane.stats()
    assert (stats.delivered, dict(stats.rejected)) == (3, {"refused": 1})
    assert lane.notes.counts()[Notice.REFUSED] == 1


def test_a_partial_success_counts_what_was_refused_and_sends_nothing_again() -> None:
    """The backend's own number of refused spans is believed."""
    sender = FakeSender([Delivered(3, "no room")])
    lane = Lane(sender)
    lane.offer_all(*names(4))
    lane.step()
    stats = lane.stats()
    assert (stats.delivered, dict(stats.rejected), len(sender.requests)) == (1, {"partial_success": 3}, 1)


def test_an_object_that_is_no_span_costs_itself_alone() -> None:
    """Whatever a host puts in is counted; its neighbours arrive."""
    sender = FakeSender()
    lane = Lane(sender)
    poison: Any = object()
    lane.offer_all("before")
    lane.offer(poison)
    lane.offer_all("after", "last")
    lane.step()
    assert sender.taken == ["before", "after", "last"]
    assert lane.stats().rejected == {"encoding": 1}
    assert adds_up(lane)


def test_a_request_is_bounded_in_bytes() -> None:
    """Large spans leave in several requests."""
    sender = FakeSender()
    lane = Lane(sender, QueueSettings(max_queue_size=400, max_export_batch_size=400, max_request_spans=400))
    for name in names(400):
        lane.offer(span(name, {"text": "x" * 20_000}))
    lane.step()
    assert sender.taken == names(400)
    assert len(sender.requests) > 2
    assert max(sender.sizes) < 4 << 20


def test_extra_attributes_are_written_also_after_a_retry() -> None:
    """What was given besides the span is not forgotten by a failed attempt, and not kept for ever."""
    sender = FakeSender([DOWN])
    lane = Lane(sender)
    lane.offer(span("s"), {"gen_ai.conversation.id": "c-1"})
    lane.later(5)
    lane.later(1)
    assert sender.sizes[0] == sender.sizes[1]
    lane.offer(span("s"))
    lane.later(5)
    assert sender.sizes[2] < sender.sizes[1]


def test_a_flush_is_true_only_if_nothing_of_before_was_lost() -> None:
    """A span dropped while we flush makes the answer False; what was lost before the call does not."""
    sender = FakeSender()
    lane = Lane(sender)
    lane.offer_all(*names(11))
    good = lane.request_flush(time.monotonic() + 10)
    lane.step()
    assert good.wait()

    def refuse(_: list[str]) -> Rejected:
        return Rejected("never")

    lane.offer_all("x")
    bad = lane.request_flush(time.monotonic() + 10)
    sender.always = refuse
    lane.step()
    assert bad.answered.is_set()
    assert not bad.wait()


def test_a_flush_does_not_wait_for_what_came_after_it() -> None:
    """A busy host can flush: later spans are not part of the question."""
    sender = FakeSender()
    lane = Lane(sender)
    lane.offer_all(*names(4))
    request = lane.request_flush(time.monotonic() + 10)

    def more(_: list[str]) -> Delivered:
        lane.offer_all("later")
        return Delivered()

    sender.script = [more, DOWN]
    lane.step()
    assert request.wait()


def test_a_flush_ends_at_its_deadline() -> None:
    """A backend that never answers costs the caller exactly the time it allowed."""
    lane = TraceLane(FakeSender(gate=threading.Event()), SETTINGS, Notices())
    lane.offer(span("s"))
    start = time.monotonic()
    assert not lane.request_flush(start + 0.2).wait()
    assert 0.19 < time.monotonic() - start < 1.0
    lane._sending._sender.gate.set()  # type: ignore[attr-defined]
    lane.abandon()
    assert lane.worker.join(5)


def test_after_the_end_spans_are_counted_as_dropped_by_shutdown() -> None:
    """Whatever is left at the end, and whatever ends later, is in the numbers."""
    lane = Lane(FakeSender(always=DOWN))
    lane.offer_all(*names(3))
    lane.close_intake(lane.clock.now)
    lane.abandon()
    lane.abandon()
    lane.offer_all("too late")
    assert lane.step() is None
    stats = lane.stats()
    assert (stats.accepted, stats.waiting, dict(stats.dropped)) == (4, 0, {"shutdown": 3, "already_shutdown": 1})


def test_a_request_that_outlasts_the_end_is_counted_once() -> None:
    """A batch that was in flight when its time ran out is dropped by the books, whatever comes of it later."""
    gate = threading.Event()
    lane = TraceLane(FakeSender(gate=gate), SETTINGS, Notices())
    for name in names(4):
        lane.offer(span(name))
    assert wait_until(lambda: lane.stats().waiting == 4 and lane._in_flight == 4)
    lane.abandon()
    gate.set()
    assert lane.worker.join(5)
    stats = lane.stats()
    assert (stats.accepted, stats.delivered, dict(stats.dropped)) == (4, 0, {"shutdown": 4})


def test_a_forked_child_begins_with_nothing() -> None:
    """The parent's queue and counts stay the parent's."""
    sender = FakeSender()
    lane = Lane(sender)
    lane.offer_all(*names(12))
    lane.after_fork_in_child()
    assert (lane.stats().accepted, lane.queue_size(), sender.forked) == (0, 0, 1)
    lane.worker.wake = lambda: None  # type: ignore[method-assign]
    lane.offer_all(*names(4))
    lane.step()
    lane.step()
    assert sender.taken == names(4)


def test_threads_at_full_speed_lose_no_count() -> None:
    """With eight threads, a small queue and a slow backend every span is delivered or counted, and the newest stay."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    sender = FakeSender()
    lane = TraceLane(
        sender, QueueSettings(max_queue_size=64, max_export_batch_size=16, max_request_spans=16), Notices()
    )
    spans = [[span(f"{thread}-{number}") for number in range(1500)] for thread in range(8)]

    def run(mine: list[Any]) -> None:
        for each in mine:
            lane.offer(each)

    threads = [threading.Thread(target=run, args=(mine,)) for mine in spans]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert adds_up(lane)
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert lane.request_flush(time.monotonic() + 20).wait() or lane.stats().waiting == 0
    stats = lane.stats()
    assert stats.accepted == 12_000
    assert stats.delivered == len(sender.taken) == len(set(sender.taken))
    assert stats.delivered + stats.dropped.get("queue_full", 0) == 12_000
    assert sum(lane._dropped_of_trace.values()) <= stats.dropped.get("queue_full", 0)
    lane.abandon()
    assert lane.worker.join(5)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("offer"), st.integers(1, 12)),
            st.tuples(st.just("step"), st.sampled_from([None, DOWN, Rejected("no"), Delivered(1, "one")])),
            st.tuples(st.just("wait"), st.sampled_from([0.1, 1.0, 6.0])),
        ),
        max_size=30,
    )
)
def test_the_numbers_add_up_whatever_happens(steps: list[tuple[str, Any]]) -> None:
    """Accepted = delivered + waiting + lost at every moment, and nothing is delivered twice or out of nowhere."""
    sender = FakeSender()
    lane = Lane(sender)
    offered = 0
    for what, value in steps:
        if what == "offer":
            lane.offer_all(*names(value, offered))
            offered += value
        elif what == "step":
            sender.script = [value] if value is not None else []
            lane.step()
        else:
            lane.later(value)
        stats = lane.stats()
        assert adds_up(lane)
        assert stats.accepted == offered
        assert len(sender.taken) == len(set(sender.taken)) <= stats.delivered
    lane.close_intake(lane.clock.now + 1)
    lane.abandon()
    assert lane.stats().waiting == 0
    assert adds_up(lane)
