"""Any `SpanExporter` as a sender, by its result alone.

An exporter says success or failure, or raises, or hangs; it cannot say whether a failed batch may succeed later, so
that is always assumed. What it does is bounded here: it runs on a thread of ours, is left alone when its time is up,
and is not called again before it has returned, so a hanging exporter holds one thread and one batch.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from opentelemetry import context as context_api
from opentelemetry.sdk.trace.export import SpanExportResult

from compass_otel.delivery import Delivered, Delivery, Rejected, Retry
from compass_otel.encoding import RecordError
from compass_otel.otlp_answers import one_line
from compass_otel.record_spans import rebuild_spans
from compass_otel.sdk_private import suppressed_context
from compass_otel.sending_threads import sending

_logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

_MAX_LATE_RECORDS: Final = 10_000
_CLOSE_TIMEOUT_S: Final = 1.0


@dataclass(slots=True)
class _Call:
    """One call of the exporter, and what came of it."""

    records: tuple[bytes, ...]
    spans: tuple[ReadableSpan, ...]
    done: threading.Event = field(default_factory=threading.Event)
    result: object = None
    error: BaseException | None = None


class ExporterSender:
    """Sends records through a `SpanExporter`.

    The spans it gets are rebuilt from the records, so records of an earlier process go out like those of this one. One
    thread at a time. Blocks until the exporter returned or the deadline.

    - Success: delivered. Failure: retry. Raises or returns anything else: retry, counted in `raised` and `nonsense`.
    - A batch that made the exporter raise is given to it span by span. Those it takes are remembered and not sent
      again; the answer then says how many it did not take, so that the caller splits the batch and comes to the
      culprit, which is rejected if the exporter raises for it again.
    - A call that outlasts the deadline is a retry; if it ends well after all, its records are remembered as delivered.

    Args:
        exporter: The exporter; ours from now on: `close` shuts it down.

    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._name = f"{type(exporter).__module__}.{type(exporter).__qualname__}"
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._worker: threading.Thread | None = None
        self._pid = os.getpid()
        self._running: _Call | None = None
        self._taken: dict[bytes, None] = {}
        self._culprits: dict[bytes, None] = {}
        self._closed = False
        self.raised = 0
        """How often the exporter raised."""
        self.nonsense = 0
        """How often it returned something that is no `SpanExportResult`."""

    @property
    def target(self) -> str:
        """Class of the exporter: where it sends is known to it alone."""
        return self._name

    def describe(self) -> str:
        """One line for a person."""
        return f"the exporter {self._name}"

    def __repr__(self) -> str:
        """Show the class alone: an exporter's own text may hold credentials."""
        return f"<ExporterSender {self._name}>"

    def send_spans(self, spans: Sequence[ReadableSpan], deadline: float) -> Delivery:
        """Send spans that are still at hand, without a detour over records; otherwise like `send`.

        Nothing is remembered of them: a call that outlasts the deadline may deliver them twice.
        """
        if (busy := self._busy(deadline)) is not None:
            return busy
        return self._answer_of(_Call((), tuple(spans)), deadline)

    def send(self, batch: Sequence[bytes], deadline: float) -> Delivery:
        """Send records; see `delivery.Sender`."""
        if (busy := self._busy(deadline)) is not None:
            return busy
        left = [record for record in batch if record not in self._taken]
        delivery = self._deliver(tuple(left), deadline) if left else Delivered()
        if isinstance(delivery, Delivered) and not delivery.rejected:
            for record in batch:
                self._taken.pop(record, None)
        return delivery

    def reset_after_fork(self) -> None:
        """Forget the parent's thread and its calls; the exporter itself is the host's matter."""
        self._pid = os.getpid()
        self._calls = SimpleQueue()
        self._worker = None
        self._running = None

    def close(self) -> None:
        """Shut the exporter down, waiting a second at most."""
        if self._closed:
            return
        self._closed = True
        self._calls.put(None)
        thread = threading.Thread(target=self._shutdown_exporter, name="compass-otel-exporter-shutdown", daemon=True)
        with contextlib.suppress(RuntimeError):  # no threads at the interpreter's end: then its own exit hooks close it
            thread.start()
            thread.join(_CLOSE_TIMEOUT_S)

    def _busy(self, deadline: float) -> Retry | None:
        """Say why nothing can be sent now; None if it can."""
        if self._closed:
            return self._retry("the sender is closed")
        if self._pid != os.getpid():
            self.reset_after_fork()
        return None if self._finish_running(deadline) else self._retry("an earlier call has not returned yet")

    def _deliver(self, records: tuple[bytes, ...], deadline: float) -> Delivery:
        try:
            call = _Call(records, tuple(span for record in records for span in rebuild_spans(record)))
        except RecordError as error:
            return Rejected(one_line(f"{self._name}: {error}"))
        delivery = self._answer_of(call, deadline)
        if call.error is None:
            return delivery
        if len(records) == 1:
            return self._raised_for_one(call)
        return self._one_by_one(records, deadline, call.error)

    def _answer_of(self, call: _Call, deadline: float) -> Delivery:
        if not self._run(call, deadline):
            return self._retry("it has not returned within the time for it")
        if call.error is not None:
            return self._retry(f"it raised {type(call.error).__name__}: {call.error}")
        return self._answer(call)

    def _answer(self, call: _Call) -> Delivery:
        if call.result is SpanExportResult.SUCCESS:
            return Delivered()
        if call.result is SpanExportResult.FAILURE:
            return self._retry("it reported a failure; its own log may say why")
        self.nonsense += 1
        return self._retry(f"it returned {type(call.result).__name__} instead of a SpanExportResult")

    def _raised_for_one(self, call: _Call) -> Delivery:
        reason = f"it raised {type(call.error).__name__}: {call.error}"
        if call.records[0] in self._culprits:  # it took this span's neighbours, so the span is at fault
            del self._culprits[call.records[0]]
            return Rejected(one_line(f"{self._name}: {reason}"))
        return self._retry(reason)

    def _one_by_one(self, records: tuple[bytes, ...], deadline: float, error: BaseException) -> Delivery:
        """Find out for which spans it raises, as far as the time goes."""
        culprits: list[bytes] = []
        taken = 0
        for record in records:
            if time.monotonic() >= deadline:
                break
            delivery = self._deliver((record,), deadline)
            if isinstance(delivery, Delivered):
                taken += 1
                self._remember(self._taken, record)
            else:
                culprits.append(record)
        reason = f"it raised {type(error).__name__}: {error}"
        if not taken or taken + len(culprits) < len(records):
            return self._retry(reason)
        for record in culprits:
            self._remember(self._culprits, record)
        return Delivered(len(culprits), one_line(f"{self._name}: {reason}"))

    def _run(self, call: _Call, deadline: float) -> bool:
        """Have the worker make the call; False if it has not returned by the deadline."""
        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(
                target=self._work, args=(self._calls,), name="compass-otel-exporter", daemon=True
            )
            try:
                self._worker.start()
            except RuntimeError as error:  # the interpreter is ending
                self._worker = None
                call.error = error
                return True
        self._running = call
        self._calls.put(call)
        return self._finish_running(deadline)

    def _finish_running(self, deadline: float) -> bool:
        """Wait for the call that runs; False if it still runs at the deadline."""
        call = self._running
        if call is None:
            return True
        if not call.done.wait(max(deadline - time.monotonic(), 0.0)):
            return False
        self._running = None
        if call.result is SpanExportResult.SUCCESS:
            for record in call.records:
                self._remember(self._taken, record)
        return True

    def _work(self, calls: SimpleQueue[_Call | None]) -> None:
        context_api.attach(suppressed_context())
        while (call := calls.get()) is not None:
            try:
                with sending():
                    call.result = self._exporter.export(call.spans)
            except BaseException as error:  # noqa: BLE001 - boundary: foreign code on a thread of ours, counted
                self.raised += 1
                call.error = error
            call.done.set()

    def _shutdown_exporter(self) -> None:
        try:
            self._exporter.shutdown()
        except Exception as error:  # noqa: BLE001 - boundary: foreign code, counted
            self.raised += 1
            # Its type alone: the text of a foreign error can hold what must not be logged.
            _logger.warning("the exporter failed while it was shut down: %s", type(error).__name__)

    def _remember(self, records: dict[bytes, None], record: bytes) -> None:
        while len(records) >= _MAX_LATE_RECORDS:
            del records[next(iter(records))]
        records[record] = None

    def _retry(self, what: str) -> Retry:
        return Retry(None, one_line(f"{self._name}: {what}"))
