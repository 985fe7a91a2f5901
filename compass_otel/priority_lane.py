"""The priority lane: kept until delivered, never behind trace records, with a bounded wait for its export.

    offer ──> spool, else memory ──> [waits, if it may] ──> returns
                 │                        ^
                 └──worker: lease, send, acknowledge──┘      refused for good: set aside, counted
                            └─ retry with growing delays ─┘

While the backend is known to be down, nobody waits. One worker owns the connection; what waits together leaves
together.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from compass_otel.backoff import SHORTEST_ATTEMPT_S, Backoff
from compass_otel.flushing import Flushes, FlushRequest
from compass_otel.memory_store import Entry, MemoryStore
from compass_otel.notices import Notice, Notices
from compass_otel.sending_threads import idents, sending
from compass_otel.splitting import Outcome, Refusal, send_isolating
from compass_otel.spool_store import SpoolStore
from compass_otel.stats import LaneStats, Ledger, Loss, Place
from compass_otel.wakeup import Wakeup
from compass_otel.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from compass_otel.delivery import Delivery, Retry, Sender
    from compass_otel.priority import Rank
    from compass_otel.spool import Spool
    from compass_otel.waiting import WaitGate

_BATCH_RECORDS: Final = 512
_BATCH_BYTES: Final = 1 << 20
_HOUSEKEEPING_S: Final = 5.0


class _Record(Protocol):
    @property
    def body(self) -> bytes: ...
    @property
    def seq(self) -> int: ...


_R = TypeVar("_R", bound=_Record)


class PriorityLane:
    """The lane that never drops. All methods are thread-safe unless they say that they are the worker's.

    Args:
        sender: Where records go; this lane's own.
        spool: Keeps records through the death of the process; None = memory only.
        memory_bytes: Bound of what is kept in memory.
        gate: Decides who waits.
        export_timeout_s: Longest time of one request.
        notices: Told about losses and failures.
        clock: Monotonic seconds.

    """

    def __init__(  # noqa: PLR0913 - each is a part it is put together from
        self,
        sender: Sender,
        spool: Spool | None,
        *,
        memory_bytes: int,
        gate: WaitGate,
        export_timeout_s: float,
        notices: Notices,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender = sender
        self._gate = gate
        self._export_timeout_s = export_timeout_s
        self._notices = notices
        self._clock = clock
        self._ledger = Ledger()
        self._memory = MemoryStore(memory_bytes)
        self.store = SpoolStore(spool, self._ledger, notices, clock) if spool is not None else None
        self.worker = Worker("compass-otel-priority", self.step, notices)
        self._reset_state()

    def _reset_state(self) -> None:
        self._seqs = itertools.count(1)
        # At most one batch out of memory is being sent; whoever takes it out of here decides what becomes of it.
        self._flight: deque[list[Entry]] = deque()
        self._waiters: dict[int, Wakeup] = {}
        self._flushes = Flushes()
        self._backoff = Backoff()
        self._sending_since: float | None = None
        self._tidied_at = -math.inf
        self._closed = False
        self._ended = False
        self._end = math.inf

    def begin(self) -> None:
        """Take over what dead processes left in the spool, and go on delivering it."""
        if self.store is None:
            return
        self.store.adopt()
        if self.store.needs_repair:
            self.store.keep_house()
            self.store.adopt()
        self._tidied_at = self._clock()
        if self._ledger.number(Place.SPOOLED):
            self.worker.wake()

    # --- what application threads call ---

    def offer(self, body: bytes, rank: Rank, *, run: bytes | None = None, wait: bool) -> None:
        """Take an encoded record. Returns when it is kept, or, with `wait`, when it was delivered or time is up.

        Args:
            body: The record.
            rank: How long it is kept when there is no room for all.
            run: The open run that ended with it.
            wait: Its export is worth waiting for.

        """
        deadline = self._clock() + self._gate.wait_s
        seq = next(self._seqs)
        done = self._take_seat() if wait else None
        if done is None:
            self._keep(Entry(body, rank, seq, run))
            self.worker.wake()
            return
        self._waiters[seq] = done
        try:
            self._keep(Entry(body, rank, seq, run))
            self.worker.wake()
            self._gate.wait(done, deadline)
        finally:
            self._waiters.pop(seq, None)
            self._gate.leave()

    def stats(self) -> LaneStats:
        """Tell what became of every record."""
        return self._ledger.snapshot()

    def _take_seat(self) -> Wakeup | None:
        if not self._gate.may_wait() or self._is_known_to_be_slow() or threading.get_ident() in idents or self._closed:
            return None
        if not self._gate.take_seat():
            self._notices.add(Notice.WAIT_SKIPPED)
            return None
        return Wakeup()

    def _is_known_to_be_slow(self) -> bool:
        """Whether the circuit is open: the last attempt failed, or one is out for half of what anybody would wait."""
        since = self._sending_since
        return self._backoff.is_open or (since is not None and self._clock() - since >= self._gate.wait_s / 2)

    def _keep(self, entry: Entry) -> None:
        """Put a record where it is safe, and enter it once, though a signal handler may raise at any moment."""
        entered = False
        try:
            if self.store is not None and self.store.append(entry):
                self._ledger.move(Place.ACCEPTED, Place.SPOOLED)
                entered = True
                return
            self._remember(entry)
            entered = True
        except BaseException:
            if not entered and self.store is not None and self.store.append_again(entry):
                self._ledger.move(Place.ACCEPTED, Place.SPOOLED)
            elif not entered:
                self._remember(entry)
            raise

    def _remember(self, entry: Entry) -> None:
        if self._ended:
            self._ledger.move(Place.ACCEPTED, Place.FAILED, 1, Loss.ALREADY_SHUTDOWN)
            return
        self._ledger.move(Place.ACCEPTED, Place.WAITING)
        self._count_evicted(self._memory.put(entry))

    def _count_evicted(self, evicted: Sequence[Entry]) -> None:
        if evicted:
            self._ledger.move(Place.WAITING, Place.FAILED, len(evicted), Loss.MEMORY_FULL)
            text = "priority records were given up: memory for them is full and the backend takes none"
            self._notices.add(Notice.MEMORY_FULL, text, len(evicted))
            self._release_waiters(evicted)

    def _release_waiters(self, records: Sequence[_Record]) -> None:
        if self._waiters:
            for record in records:
                waiter = self._waiters.get(record.seq)
                if waiter is not None:
                    waiter.set()

    # --- flush and end ---

    def request_flush(self, deadline: float) -> FlushRequest:
        """Ask the worker to deliver everything accepted by now; wait on what is returned.

        Args:
            deadline: Monotonic seconds.

        """
        stats = self.stats()
        request = FlushRequest(deadline, goal=next(self._seqs), lost_before=stats.lost_of_accepted)
        if not stats.undelivered:
            request.answer(delivered=True)
            return request
        self._flushes.add(request)
        self.worker.wake()
        return request

    def close_intake(self, deadline: float) -> None:
        """Let nobody wait any more.

        Args:
            deadline: Monotonic seconds; no request outlasts it.

        """
        self._closed = True
        self._end = deadline

    def end(self) -> None:
        """Put what memory holds into the spool, give up what can't be put there, have the worker end. Idempotent."""
        self._closed = self._ended = True
        self._memory.put_back(self._land())  # its request outlasts us; better twice than never
        self._save_memory()
        rest = self._memory.take(1 << 62, 1 << 62)
        self._ledger.move(Place.WAITING, Place.FAILED, len(rest), Loss.SHUTDOWN)
        self._flushes.refuse()
        self.worker.wake()

    def close_store(self) -> None:
        """Leave what is spooled to the next owner."""
        if self.store is not None:
            self.store.close()

    def after_fork_in_child(self) -> None:
        """Begin anew: what was accepted is the parent's."""
        ended = self._ended
        self._ledger.reset()
        self._memory.reset()
        self._gate.reset()
        self._reset_state()
        self._closed = self._ended = ended
        if self.store is not None:
            self.store.reset()
        self._sender.reset_after_fork()
        self.worker.reset()

    # --- the worker ---

    def step(self) -> float | None:
        """Do what is due; the worker's.

        Returns:
            Seconds until the next step; None when the lane has ended.

        """
        now = self._clock()
        if now - self._tidied_at >= _HOUSEKEEPING_S or (self.store is not None and self.store.needs_repair):
            self._tidied_at = now
            self._keep_house()
        self._place_flushes()
        due = now >= self._backoff.until
        is_time = self._end - now >= SHORTEST_ATTEMPT_S
        if is_time and (due or (self._flushes and not self._backoff.is_asked and self._flushes.first_try())):
            while not self._ended and self._send_some():
                self._answer_flushes()
                if self.store is not None:
                    self.store.tidy()
        if self.store is not None:
            self.store.finish_late()
            self.store.tidy()
            if self.store.needs_stock:
                self.store.take_stock()
        self._answer_flushes()
        if not self._flushes:
            self._notices.write()
        if self._ended:
            return None
        now = self._clock()
        housekeeping = self._tidied_at + _HOUSEKEEPING_S - now if self.store is not None else math.inf
        retry = self._backoff.until - now if self._backoff.is_open else math.inf
        return max(min(housekeeping, retry), 0.001)

    def _keep_house(self) -> None:
        if self.store is not None:
            self.store.keep_house()
            if not self._ended:
                self._save_memory()
                self.store.adopt()

    def _save_memory(self) -> None:
        """Move what memory had to keep into the spool, as far as it works again."""
        store = self.store
        while store is not None and store.is_usable and (entries := self._memory.take(_BATCH_RECORDS, _BATCH_BYTES)):
            left = [entry for entry in entries if not store.append(entry)]
            self._ledger.move(Place.WAITING, Place.SPOOLED, len(entries) - len(left))
            if left:
                self._count_evicted(self._memory.put_back(left))
                return

    def _send_some(self) -> bool:
        """Send one batch from memory and one from the spool; returns whether to go on at once."""
        entries = self._memory.take(_BATCH_RECORDS, _BATCH_BYTES) if len(self._memory) else []
        if entries:
            self._flight.append(entries)
            outcome = self._deliver(entries)
            if not self._land():
                return False
            self._settle_memory(outcome)
            if outcome.retry is not None:
                return False
        if self.store is None:
            return bool(entries)
        leased = self.store.lease(_BATCH_RECORDS, _BATCH_BYTES)
        if not leased:
            return bool(entries)
        try:
            spooled = self._deliver(leased)
            if spooled.delivered:
                self.store.acknowledge(spooled.delivered)
            for refusal in spooled.refused:
                self.store.set_aside(refusal.item, refusal.loss, refusal.reason)
        finally:
            self.store.release()
        self._release_waiters([record for record in leased if record.mine])
        return spooled.retry is None

    def _land(self) -> list[Entry]:
        """Take the batch that is being sent out of memory, if nobody else has."""
        try:
            return self._flight.pop()
        except IndexError:
            return []

    def _settle_memory(self, outcome: Outcome[Entry]) -> None:
        self._ledger.move(Place.WAITING, Place.DELIVERED, len(outcome.delivered))
        for refusal in outcome.refused:
            self._ledger.move(Place.WAITING, Place.REJECTED, 1, refusal.loss)
        if outcome.left:
            self._count_evicted(self._memory.put_back(outcome.left))
        self._release_waiters([*outcome.delivered, *(refusal.item for refusal in outcome.refused), *outcome.left])

    def _deliver(self, records: Sequence[_R]) -> Outcome[_R]:
        outcome = send_isolating(records, self._send)
        if outcome.retry is None:
            self._backoff.succeeded()
        else:
            self._ledger.retried(len(outcome.left))
            self._failed(outcome.retry)
        self._tell_refused(outcome.refused)
        return outcome

    def _send(self, records: Sequence[_R]) -> Delivery:
        now = self._clock()
        self._sending_since = now
        try:
            with sending():
                return self._sender.send(
                    [record.body for record in records], min(now + self._export_timeout_s, self._end)
                )
        finally:
            self._sending_since = None

    def _failed(self, answer: Retry) -> None:
        """Open the circuit: whoever waits can stop waiting."""
        self._backoff.failed(answer, self._clock())
        self._notices.add(Notice.NOT_DELIVERED, answer.reason)
        for waiter in tuple(self._waiters.values()):
            waiter.set()

    def _tell_refused(self, refused: Sequence[Refusal[_R]]) -> None:
        if refused:
            text = f"the backend refused priority records for good: {refused[0].reason}"
            self._notices.add(Notice.REFUSED, text, len(refused))

    def _answer_flushes(self) -> None:
        if not self._flushes:
            return
        self._place_flushes()
        if self.store is not None and self.store.needs_stock:
            self.store.take_stock()
        self._flushes.settle(self._clock(), self._is_settled, self.stats().lost_of_accepted)

    def _place_flushes(self) -> None:
        """Note where the spool is for whoever asks now; what is appended after that is not part of the question."""
        if self.store is not None:
            for request in self._flushes.unplaced():
                request.position = self.store.position()

    def _is_settled(self, request: FlushRequest) -> bool:
        if self._memory.holds_up_to(request.goal):
            return False
        return self.store is None or self.store.is_clear(request.position)
