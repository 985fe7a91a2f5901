"""TwoLaneSpanProcessor: a failure is never lost, and telemetry never hurts the host.

    on_end ──┬─ is_priority(span) ──> encode ──> PriorityLane: spool, bounded wait, kept until delivered
             └─ everything else ────────────────> TraceLane: bounded, drops the oldest, counts

The processor decides and hands over; everything that lasts happens on the lanes' own threads.
"""

from __future__ import annotations

import atexit
import threading
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.trace import SpanProcessor

from compass_otel import semconv
from compass_otel.errors import ConfigError
from compass_otel.identity import IdentityKeeper
from compass_otel.notices import Notice, Notices
from compass_otel.priority import Rank, is_priority, is_session_error, rank_of
from compass_otel.scrubbing import prepare
from compass_otel.sdk_private import attributes_of, processors_beside
from compass_otel.sending_threads import idents

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.trace import ReadableSpan, Span
    from opentelemetry.sdk.trace.export import SpanExporter

    from compass_otel.lane_pair import LanePair
    from compass_otel.stats import Stats

DEFAULT_MEMORY_BYTES: Final = 64 << 20
DEFAULT_SPOOL_BYTES: Final = 256 << 20
_MAX_OWN_SPANS: Final = 4096
_STATE: Final = semconv.SESSION_STATE
_INJECTIONS: Final = semconv.SESSION_INJECTIONS
_ERROR_KIND: Final = semconv.SESSION_ERROR_KIND


class TwoLaneSpanProcessor(SpanProcessor):
    """Exports spans over two lanes: failures are kept until delivered, everything else may be dropped and is counted.

    Priority are run spans, spans with injections, session errors and cancels (`is_lifecycle`, `is_injection`,
    `is_session_error`), and what `is_priority` chooses besides: a service gives `is_failure`, and every failure of its
    own is priority.

    Thread-safe. `on_start` and `on_end` never raise; they block only as `priority_wait_s` and the spool say: a priority
    record is written to the spool (tens of microseconds, at most half a second when the disk or another process is
    slow), and a failure, a cancel or a chosen span then waits for its delivery, unless the backend is down, the thread
    runs an event loop, eight others wait, or the thread has waited 1 s within 10 s. Everything is safe in signal
    handlers. Call `shutdown` at the end, or let the provider's own exit hook do it; at exit what is left is delivered
    within `exit_timeout_s`, and what is spooled stays for the next process.

    Args:
        exporter: Any `SpanExporter`; ours from now on. None = OTLP, by the arguments below and the standard
            `OTEL_EXPORTER_OTLP_*` variables; HTTP/protobuf unless they say otherwise.
        spool: Folder that keeps priority records through the death of the process; made, mode 0700, when absent.
            Several processes may share it. None = memory only.
        is_priority: Chooses more priority spans; gets an ended span. One that raises counts as True.
        priority_wait_s: Longest wait of one record for its delivery, seconds; 0 = never wait.
        wait_on_event_loop: Wait on threads that run an event loop too.
        endpoint: URL; over HTTP the whole one.
        protocol: `http/protobuf` or `grpc`.
        headers: Added to those of the variables.
        timeout_s: Longest time for one request, seconds.
        compression: `none`, `gzip` or (HTTP) `deflate`.
        certificate_file: PEM file of the authorities to trust.
        client_key_file: PEM file of our own key.
        client_certificate_file: PEM file of our own certificate.
        insecure: Plain text for a gRPC endpoint without a scheme.
        max_queue_size: Spans of the trace lane; else `OTEL_BSP_MAX_QUEUE_SIZE`, else 2048.
        schedule_delay_millis: Longest time that a trace span waits for others; else `OTEL_BSP_SCHEDULE_DELAY`, 5000.
        max_export_batch_size: Trace spans of one request; else `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`, else 512, and under
            load whatever waits.
        export_timeout_millis: Longest time of one request of either lane; else `OTEL_BSP_EXPORT_TIMEOUT`, 30000.
        spool_fsync: Wait for the disk at every priority record: survives a power cut too.
        spool_max_bytes: Bound of the spool; beyond it session errors win over chosen spans, those over lifecycle
            records, then the newer over the older.
        memory_max_bytes: Bound of priority records in memory, without a spool or while it can't write.
        exit_timeout_s: How long `shutdown` takes unless told otherwise, seconds.
        meter_provider: Gets the numbers of `stats()` as metrics; None = the global one.

    Raises:
        ConfigError: An argument cannot work. A spool that can't be written is none: it is reported and memory is used.

    """

    def __init__(  # noqa: PLR0913 - a setting each, all with defaults
        self,
        exporter: SpanExporter | None = None,
        *,
        spool: str | os.PathLike[str] | None = None,
        is_priority: Callable[[ReadableSpan], bool] | None = None,
        priority_wait_s: float = 0.25,
        wait_on_event_loop: bool = False,
        endpoint: str | None = None,
        protocol: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        compression: str | None = None,
        certificate_file: str | os.PathLike[str] | None = None,
        client_key_file: str | os.PathLike[str] | None = None,
        client_certificate_file: str | os.PathLike[str] | None = None,
        insecure: bool | None = None,
        max_queue_size: int | None = None,
        schedule_delay_millis: float | None = None,
        max_export_batch_size: int | None = None,
        export_timeout_millis: float | None = None,
        spool_fsync: bool = False,
        spool_max_bytes: int = DEFAULT_SPOOL_BYTES,
        memory_max_bytes: int = DEFAULT_MEMORY_BYTES,
        exit_timeout_s: float = 2.0,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        # Senders, spool, database and TLS take longer to load than the SDK; who makes no processor needs none of them.
        from compass_otel import sink_parts, sink_settings  # noqa: PLC0415
        from compass_otel.otlp_settings import load_settings  # noqa: PLC0415
        from compass_otel.spool import Spool  # noqa: PLC0415

        self._exit_timeout_s = sink_settings.check_seconds("exit_timeout_s", exit_timeout_s, zero=True)
        wait_s = sink_settings.check_seconds("priority_wait_s", priority_wait_s, zero=True)
        folder = sink_settings.check_folder(spool)
        spool_bytes = sink_settings.check_bytes("spool_max_bytes", spool_max_bytes)
        memory_bytes = sink_settings.check_bytes("memory_max_bytes", memory_max_bytes)
        if is_priority is not None and not callable(is_priority):
            raise ConfigError("is_priority", is_priority, "a function of an ended span, or None")
        queue = sink_settings.load_queue_settings(
            max_queue_size=max_queue_size,
            schedule_delay_millis=schedule_delay_millis,
            max_export_batch_size=max_export_batch_size,
            export_timeout_millis=export_timeout_millis,
        )
        if exporter is not None:
            senders = sink_parts.exporter_senders(exporter)
        else:
            settings = load_settings(
                endpoint=endpoint,
                protocol=protocol,
                headers=headers,
                timeout_s=timeout_s,
                compression=compression,
                certificate_file=certificate_file,
                client_key_file=client_key_file,
                client_certificate_file=client_certificate_file,
                insecure=insecure,
            )
            senders = sink_parts.otlp_senders(settings)
        prepare()
        self._chosen = is_priority
        self._notices = Notices()
        self._identity = IdentityKeeper()
        self._own_spans: set[int] = set()
        self._seen_processors: tuple[object, ...] = ()
        self._sends_otlp = exporter is None or _is_otlp(exporter)
        self._is_shut = False
        self._pair = sink_parts.lane_pair(
            senders,
            queue,
            Spool(folder, max_bytes=spool_bytes, fsync=spool_fsync) if folder is not None else None,
            memory_bytes=memory_bytes,
            wait_s=wait_s,
            wait_on_event_loop=wait_on_event_loop,
            notices=self._notices,
            exit_timeout_s=self._exit_timeout_s,
            meter_provider=meter_provider,
        )
        self._trace, self._priority, self._runs = self._pair.trace, self._pair.priority, self._pair.runs
        self._offer_trace = self._trace.offer
        self._encode = sink_parts.encode_priority
        _shut_down_at_exit(self)
        self._priority.begin()
        self._notices.write()

    # --- what the SDK calls ---

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Take note of a span that starts: its identity, and if it is a run or a chat, of the run. Never raises."""
        try:
            beside = processors_beside(span)
            if beside is not self._seen_processors:
                self._look_at_processors(beside)
            if idents and threading.get_ident() in idents:
                self._own_spans.add(span.get_span_context().span_id)
                if len(self._own_spans) > _MAX_OWN_SPANS:
                    self._own_spans.clear()
            if attributes_of(span):
                self._identity.note(span)
                self._runs.started(span)
        except Exception as error:  # noqa: BLE001 - boundary: nothing of ours may reach the host; counted
            self._notices.add(Notice.PROCESSOR_RAISED, f"on_start: {type(error).__name__}: {error}")

    def on_end(self, span: ReadableSpan) -> None:
        """Hand an ended span to its lane. Never raises; see the class for how long it may block."""
        try:
            attributes = attributes_of(span)
            # The same question as `is_priority`, asked in the cheapest way: most spans are not.
            if _STATE in attributes or _ERROR_KIND in attributes or _INJECTIONS in attributes:
                self._on_candidate(span)
            elif self._identity.has_notes or self._own_spans:
                self._on_noted(span)
            elif self._chosen is not None and self._is_chosen(span):
                self._on_priority(span, Rank.CHOSEN, None)
            elif span.context is None or span.context.trace_flags & 1:
                self._offer_trace(span)
        except Exception as error:  # noqa: BLE001 - boundary: nothing of ours may reach the host; counted
            self._notices.add(Notice.PROCESSOR_RAISED, f"on_end: {type(error).__name__}: {error}")

    def force_flush(self, timeout_millis: float = 30_000) -> bool:
        """Deliver everything that was accepted before this call.

        Args:
            timeout_millis: Longest time, milliseconds, by the monotonic clock.

        Returns:
            True only if everything that this process accepted before the call, and had not already counted as lost,
            was delivered.

        """
        return self._pair.flush(time.monotonic() + timeout_millis / 1000)

    def shutdown(self, timeout_millis: float | None = None) -> bool:  # type: ignore[override]  # the SDK ignores what it gets
        """Take nothing more, deliver what can be delivered in time, end. Twice is as good as once.

        Args:
            timeout_millis: Longest time, milliseconds; None = `exit_timeout_s`.

        Returns:
            Whether everything was delivered. What is in the spool stays there for the next process.

        """
        self._is_shut = True
        timeout_s = self._exit_timeout_s if timeout_millis is None else timeout_millis / 1000
        return self._pair.shutdown(time.monotonic() + timeout_s)

    # --- what people ask ---

    def stats(self) -> Stats:
        """Tell what became of every span: an immutable snapshot of both lanes. Does not block."""
        return self._pair.stats()

    def notices(self) -> Mapping[str, int]:
        """Tell how often each kind of warning was counted, logged or not; see `notices.Notice`."""
        return self._notices.counts()

    def describe(self) -> str:
        """Say in one line where spans go, without credentials."""
        return self._pair.senders[0].describe()

    def __repr__(self) -> str:
        """Show where spans go, without credentials."""
        return f"<{type(self).__name__}: {self.describe()}>"

    def __del__(self) -> None:
        """Deliver what is left in the background, and say that `shutdown` was forgotten."""
        if getattr(self, "_is_shut", True):
            return
        deadline = time.monotonic() + self._exit_timeout_s
        _in_background(self._pair, deadline)
        warnings.warn(f"{self!r} was dropped without shutdown()", ResourceWarning, stacklevel=2)

    # --- deciding ---

    def _is_chosen(self, span: ReadableSpan) -> bool:
        assert self._chosen is not None  # noqa: S101 - asked before
        try:
            return bool(self._chosen(span))
        except Exception as error:  # noqa: BLE001 - boundary: the service's own code; rather too much than lost
            self._notices.add(Notice.PREDICATE_RAISED, f"is_priority raised {type(error).__name__}: {error}")
            return True

    def _on_candidate(self, span: ReadableSpan) -> None:
        """Take a span that carries one of our marks."""
        lost = self._identity.lost(span)
        if self._is_own(span):
            return
        if not is_priority(span):
            self._on_trace(span, lost)
            return
        chosen = not is_session_error(span) and self._chosen is not None and self._is_chosen(span)
        self._on_priority(span, rank_of(span, chosen=chosen), lost)

    def _on_noted(self, span: ReadableSpan) -> None:
        """Take a span of which something may have been noted at its start."""
        if self._is_own(span):
            return
        lost = self._identity.lost(span)
        if self._chosen is not None and self._is_chosen(span):
            self._on_priority(span, Rank.CHOSEN, lost)
        elif lost is not None and _STATE in lost:  # a run span whose state the SDK's limit threw out
            self._on_priority(span, Rank.LIFECYCLE, lost)
        else:
            self._on_trace(span, lost)

    def _on_trace(self, span: ReadableSpan, extra: Mapping[str, Any] | None) -> None:
        if span.context is None or span.context.trace_flags & 1:
            self._trace.offer(span, extra)

    def _on_priority(self, span: ReadableSpan, rank: Rank, lost: Mapping[str, Any] | None) -> None:
        extra = dict(lost) if lost else {}
        run = self._runs.ended(span)
        context = span.context
        if context is not None and (run is not None or _STATE in attributes_of(span)):
            dropped = self._trace.dropped_of_trace(context.trace_id)
            if dropped:
                extra[semconv.DROPPED_SPANS] = dropped
        body = self._encode(span, extra or None)
        wait = rank is not Rank.LIFECYCLE or self._priority.store is None
        self._priority.offer(body, rank, run=run, wait=wait)

    def _is_own(self, span: ReadableSpan) -> bool:
        """Whether our own sending started the span; it is counted and not sent."""
        context = span.context
        if not self._own_spans or context is None or context.span_id not in self._own_spans:
            return False
        self._own_spans.discard(context.span_id)
        self._trace.count_reentry()
        return True

    def _look_at_processors(self, beside: tuple[object, ...]) -> None:
        """Warn once if another processor of the provider sends OTLP too: then everything arrives twice."""
        self._seen_processors = beside
        if not self._sends_otlp or self._notices.counts().get(Notice.SECOND_PROCESSOR):
            return
        for other in beside:  # this one may not be among them: hosts put processors into others of their own
            if other is self:
                break
            if isinstance(other, TwoLaneSpanProcessor):
                return  # that one tells
        for other in beside:
            if other is not self and _sends_otlp(other):
                text = f"{type(other).__name__} on the same provider exports OTLP too: every span arrives twice"
                self._notices.add(Notice.SECOND_PROCESSOR, text)
                return


def _sends_otlp(processor: object) -> bool:
    if isinstance(processor, TwoLaneSpanProcessor):
        return processor._sends_otlp  # noqa: SLF001 - its own class
    return _is_otlp(getattr(processor, "span_exporter", None))


def _is_otlp(exporter: object) -> bool:
    return any("exporter.otlp" in kind.__module__ for kind in type(exporter).__mro__)


def _in_background(pair: LanePair, deadline: float) -> None:
    """End the lanes of a processor that nobody has any more, without making the collector's thread wait."""
    try:
        threading.Thread(target=pair.shutdown, args=(deadline,), name="compass-otel-end", daemon=True).start()
    except RuntimeError:  # the interpreter is ending: what is spooled stays, the rest has no time
        pair.shutdown(time.monotonic())


_living: weakref.WeakSet[TwoLaneSpanProcessor] = weakref.WeakSet()
_hooked: bool = False


def _shut_down_at_exit(processor: TwoLaneSpanProcessor) -> None:
    """Shut a processor down at the interpreter's end, if it still lives and nobody else did."""
    global _hooked  # noqa: PLW0603 - one exit hook for all, so that dropped processors leave nothing behind
    _living.add(processor)
    if not _hooked:
        _hooked = True
        atexit.register(_shut_down_all)


def _shut_down_all() -> None:
    for processor in tuple(_living):
        processor.shutdown()
