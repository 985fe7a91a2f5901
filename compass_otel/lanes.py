"""The trace lane: bounded, drops the oldest, counts every drop, exports in batches from its own thread.

    offer ──> deque ──take──> in flight ──> delivered | rejected
                │   <──put back, if there is room──┘
                └─ full: the oldest is dropped, counted by reason and by trace

`offer` takes no lock: it appends, and only if that made the queue too long it drops the oldest under a lock that nobody
holds for longer than that. Spans are encoded by the worker, in batches.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import defaultdict, deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from compass_otel.backoff import SHORTEST_ATTEMPT_S, Backoff
from compass_otel.delivery import Delivered, Delivery, Retry
from compass_otel.flushing import Flushes, FlushRequest
from compass_otel.notices import Notice, Notices
from compass_otel.splitting import Outcome, send_isolating
from compass_otel.stats import LaneStats, Ledger, Loss, LossCounts, Place, courtesy
from compass_otel.trace_sending import TraceRequest, TraceSending
from compass_otel.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from compass_otel.delivery import Sender
    from compass_otel.sink_settings import QueueSettings

_MAX_TRACES: Final = 4096  # whose drops are told apart


class TraceLane:
    """The lane that may drop. All methods are thread-safe unless they say that they are the worker's.

    Args:
        sender: Where batches go; this lane's own.
        settings: Bounds and times.
        notices: Told about drops and failures.
        clock: Monotonic seconds.

    """

    def __init__(
        self,
        sender: Sender,
        settings: QueueSettings,
        notices: Notices,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sending = TraceSending(sender)
        self._settings = settings
        self._notices = notices
        self._clock = clock
        self._max_queue = settings.max_queue_size
        self._reset_state()
        self.worker = Worker("compass-otel-trace", self.step, notices)
        self._wake = self.worker.wake

    def _reset_state(self) -> None:
        self._queue: deque[ReadableSpan] = deque()
        self._lock = threading.RLock()
        self._in_flight = 0
        self._ledger = Ledger()
        self._overflowed = 0
        # Two generations: what is dropped for a trace is remembered while thousands of others come after it.
        self._dropped_of_trace: defaultdict[int, int] = defaultdict(int)
        self._dropped_of_older: Mapping[int, int] = {}
        self._flushes = Flushes()
        self._backoff = Backoff()
        self._sent_at = self._clock()
        self._closed = False
        self._abandoned = False
        self._woken = False
        self._wake_at = 1  # the first span starts the thread
        self._partly_refused = 0
        self._end = math.inf

    # --- what application threads call ---

    def offer(self, span: ReadableSpan, extra: Mapping[str, Any] | None = None) -> None:
        """Take an ended span. Never waits, never raises.

        Args:
            span: The span.
            extra: Attributes to write besides its own.

        """
        if self._closed:
            self._ledger.move(None, Place.DROPPED, 1, Loss.ALREADY_SHUTDOWN)
            return
        if extra:
            self._sending.keep_extra(span, extra)
        queue = self._queue
        queue.append(span)
        size = len(queue)
        if size > self._max_queue:
            self._drop_oldest()
        elif size >= self._wake_at and not self._woken:
            self._woken = True
            self._wake()

    def count_reentry(self) -> None:
        """Count a span that our own sending started, and that is therefore not sent."""
        self._ledger.move(None, Place.DROPPED, 1, Loss.REENTRY)

    def dropped_of_trace(self, trace_id: int) -> int:
        """How many spans of a trace were dropped so far."""
        return self._dropped_of_trace.get(trace_id, 0) + self._dropped_of_older.get(trace_id, 0)

    def stats(self) -> LaneStats:
        """Tell what became of every span."""
        with courtesy(self._lock):
            return self._stats()

    def _stats(self) -> LaneStats:
        sums = self._ledger.snapshot()
        dropped = dict(sums.dropped)
        if self._overflowed:
            dropped[Loss.QUEUE_FULL] = dropped.get(Loss.QUEUE_FULL, 0) + self._overflowed
        waiting = len(self._queue) + self._in_flight
        # Nobody counts what comes in, it would cost each span as much as queueing it: it is the sum of what it became.
        accepted = sums.delivered + sums.lost + self._overflowed + waiting
        return replace(sums, accepted=accepted, dropped=LossCounts(dropped), waiting=waiting)

    def queue_size(self) -> int:
        """How many spans are queued."""
        return len(self._queue)

    def _drop_oldest(self) -> None:
        with self._lock:
            if len(self._queue) <= self._max_queue:
                return  # the worker made room while we stood at the lock
            try:
                span = self._queue.popleft()
            except IndexError:  # the worker took the queue in between
                return
            self._overflowed += 1
            self._count_trace(span)
        self._sending.forget_extra(span)
        if not self._woken:
            self._woken = True
            self._wake()

    def _count_trace(self, span: ReadableSpan) -> None:
        context = span.context
        if context is not None:
            counts = self._dropped_of_trace
            counts[context.trace_id] += 1
            if len(counts) > _MAX_TRACES:
                self._dropped_of_older, self._dropped_of_trace = counts, defaultdict(int)

    def _count_drops(self, spans: Sequence[ReadableSpan], loss: Loss) -> None:
        self._ledger.move(None, Place.DROPPED, len(spans), loss)
        for span in spans:
            self._count_trace(span)
        self._sending.forget_extras(spans)

    # --- flush and end ---

    def request_flush(self, deadline: float) -> FlushRequest:
        """Ask the worker to deliver everything accepted by now; wait on what is returned.

        Args:
            deadline: Monotonic seconds.

        """
        stats = self.stats()
        request = FlushRequest(deadline, goal=stats.accepted, lost_before=stats.lost_of_accepted)
        if not stats.waiting:
            request.answer(delivered=True)
            return request
        self._flushes.add(request)
        self._woken = True
        self._wake()
        return request

    def close_intake(self, deadline: float) -> None:
        """Take nothing more: what ends from now on is counted as dropped.

        Args:
            deadline: Monotonic seconds; no request outlasts it.

        """
        self._closed = True
        self._end = deadline

    def abandon(self) -> None:
        """Give up what is not delivered, and have the worker end. Idempotent."""
        self._closed = True
        with courtesy(self._lock):
            self._abandoned = True
            left, self._in_flight = self._in_flight, 0
            self._ledger.move(None, Place.DROPPED, left, Loss.SHUTDOWN)
            self._count_drops(self._pop(len(self._queue)), Loss.SHUTDOWN)
        self._flushes.refuse()
        self._wake()

    def after_fork_in_child(self) -> None:
        """Begin anew: the queue is the parent's, its worker does not exist here."""
        closed = self._closed
        self._reset_state()
        self._closed = self._abandoned = closed
        self._sending.reset_after_fork()
        self.worker.reset()

    # --- the worker ---

    def step(self) -> float | None:
        """Do what is due; the worker's.

        Returns:
            Seconds until the next step; None when the lane has ended.

        """
        self._woken = False
        self._wake_at = self._settings.max_export_batch_size
        now = self._clock()
        due = self._backoff.until
        is_time = self._end - now >= SHORTEST_ATTEMPT_S
        if is_time and (now >= due or (self._flushes and not self._backoff.is_asked and self._flushes.first_try())):
            while self._is_batch_due(self._clock()):
                if not self._send_batch():
                    break
        if self._flushes:
            self._answer_flushes()
        if not self._flushes:
            self._notices.write()
        if self._abandoned:
            return None
        now = self._clock()
        if self._backoff.until > now:
            return self._backoff.until - now
        return max(self._settings.schedule_delay_s - (now - self._sent_at), 0.001)

    def _is_batch_due(self, now: float) -> bool:
        size = len(self._queue)
        if not size or self._abandoned:
            self._sent_at = now
            return False
        return bool(
            size >= self._wake_at
            or self._flushes
            or self._closed
            or self._backoff.is_open
            or now - self._sent_at >= self._settings.schedule_delay_s
        )

    def _send_batch(self) -> bool:
        """Send one batch; returns whether to go on."""
        batch = self._take(self._settings.max_request_spans)
        left, answer = self._deliver(batch)
        self._sent_at = self._clock()
        if answer is None:
            self._backoff.succeeded()
        else:
            self._ledger.retried(len(left))
            self._backoff.failed(answer, self._sent_at)
            self._notices.add(Notice.NOT_DELIVERED, answer.reason)
            self._put_back(left)
        if self._flushes:
            self._answer_flushes()
        return answer is None

    def _take(self, limit: int) -> list[ReadableSpan]:
        with courtesy(self._lock):
            batch = self._pop(limit)
            self._in_flight = len(batch)
        return batch

    def _pop(self, limit: int) -> list[ReadableSpan]:
        spans: list[ReadableSpan] = []
        popleft = self._queue.popleft
        with contextlib.suppress(IndexError):  # fewer than that; nothing else raises it here
            while len(spans) < limit:
                spans.append(popleft())
        return spans

    def _put_back(self, spans: list[ReadableSpan]) -> None:
        """Queue again what was not delivered, in front; the oldest of it is dropped where there is no room."""
        with courtesy(self._lock):
            if self._abandoned:
                return
            room = max(self._max_queue - len(self._queue), 0)
            surplus = max(len(spans) - room, 0)
            self._queue.extendleft(reversed(spans[surplus:]))
            self._in_flight = 0
            self._count_drops(spans[:surplus], Loss.QUEUE_FULL)

    def _deliver(self, batch: list[ReadableSpan]) -> tuple[list[ReadableSpan], Retry | None]:
        """Send spans, in requests of bounded size; returns what is left and why."""
        done = 0
        while done < len(batch):
            request = self._sending.encode_request(batch, done)
            done = request.end
            self._settle_unencodable(request.unencodable)
            if request.spans:
                outcome = send_isolating(request.spans, partial(self._send, request))
                self._settle(outcome)
                if outcome.retry is not None:
                    return outcome.left + batch[done:], outcome.retry
        return [], None

    def _send(self, request: TraceRequest, spans: Sequence[ReadableSpan]) -> Delivery:
        """Send spans together; partial refusals are counted here and not looked for: to find them costs repetitions."""
        deadline = min(self._clock() + self._settings.export_timeout_s, self._end)
        answer = self._sending.send(request, spans, deadline)
        if isinstance(answer, Delivered) and answer.rejected:
            refused = min(answer.rejected, len(spans))
            self._partly_refused += refused
            self._notices.add(Notice.REFUSED, f"partial success: {answer.message}", refused)
            return Delivered()
        return answer

    def _settle_unencodable(self, errors: Sequence[str]) -> None:
        if errors:
            with courtesy(self._lock):
                if not self._abandoned:
                    self._in_flight -= len(errors)
                    self._ledger.move(None, Place.REJECTED, len(errors), Loss.ENCODING)
            self._notices.add(Notice.REFUSED, f"a span can't be encoded: {errors[0]}", len(errors))

    def _settle(self, outcome: Outcome[ReadableSpan]) -> None:
        delivered = len(outcome.delivered) - self._partly_refused
        with courtesy(self._lock):
            if not self._abandoned:
                self._in_flight -= len(outcome.delivered) + len(outcome.refused)
                self._ledger.move(None, Place.DELIVERED, delivered)
                self._ledger.move(None, Place.REJECTED, self._partly_refused, Loss.PARTIAL_SUCCESS)
                for refusal in outcome.refused:
                    self._ledger.move(None, Place.REJECTED, 1, refusal.loss)
        self._partly_refused = 0
        if outcome.refused:
            self._notices.add(Notice.REFUSED, outcome.refused[0].reason, len(outcome.refused))
        self._sending.forget_extras([*outcome.delivered, *(refusal.item for refusal in outcome.refused)])

    def _answer_flushes(self) -> None:
        stats = self.stats()
        settled = stats.delivered + stats.lost
        self._flushes.settle(self._clock(), lambda request: settled >= request.goal, stats.lost_of_accepted)
