"""Recording: what the recorders of one session share: options, identity, the open run, and how a span is finished."""

from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct, field
from opentelemetry.trace import SpanContext

from compass_otel import semconv
from compass_otel._pb.compass.v1.compass_pb2 import SessionError
from compass_otel.classification import Classification
from compass_otel.events import Usage
from compass_otel.exception_signal import ExceptionLog, ExceptionSignal
from compass_otel.frames import is_aborted, kind_name
from compass_otel.recorder_metrics import SessionMetrics
from compass_otel.run_spans import OpenChat, OpenSpan, OpenTool, RunSpans, mark_cancelled, mark_failed
from compass_otel.scrubbing import cut, scrub
from compass_otel.span_facts import ErrorFacts
from compass_otel.span_starter import SessionIdentity, SpanStarter

_MAX_FAILED_REMEMBERED = 16
"""Failed spans that an advisor's note can still link to; notes are about the last failures only."""


class RecorderOptions(Struct, frozen=True, kw_only=True):
    """What to write and how.

    Args:
        aborted_as_error: give cancelled spans an error status, for shops that want it so.
        capture_content: write prompts, answers, tool arguments and results (off by default, as the conventions ask).
        exception_signal: whether a failure is a span event, a log event or both.
        scrub: the door that every text passes.

    """

    aborted_as_error: bool = False
    capture_content: bool = False
    exception_signal: ExceptionSignal = ExceptionSignal.EVENTS
    scrub: Callable[[str], str] = scrub


class SessionFailure(Struct, frozen=True):
    """A session error and the id of the event that told it."""

    error: SessionError
    event_id: str

    @property
    def aborted(self) -> bool:
        """Whether it is a cancel."""
        return is_aborted(self.error)

    def judged(self, verdict: Classification) -> ErrorFacts:
        """Return it as it is written on a span, with the type that classification gave."""
        return self.typed(str(verdict.error_type or semconv.OTHER), retryable=verdict.retryable)

    def typed(self, error_type: str, *, retryable: bool = False) -> ErrorFacts:
        """Return it as it is written on a span; its text passed `scrub` on its way into the frame."""
        return ErrorFacts(
            kind=kind_name(self.error),
            text=cut(self.error.message, semconv.MAX_ERROR_TEXT_BYTES),
            status=self.error.status if self.error.HasField("status") else None,
            event_id=self.event_id,
            error_type=error_type,
            retryable=retryable,
        )


class ToldNote(Struct, frozen=True):
    """A note that the model is told in its next request: its class, its text, and when its cause failed."""

    note_class: str
    text: str
    failed_at_ns: int | None = None


class Recording(Struct):
    """State shared by the recorders of one session; one caller at a time."""

    starter: SpanStarter
    metrics: SessionMetrics
    log: ExceptionLog
    options: RecorderOptions
    identity: SessionIdentity = field(default_factory=SessionIdentity)
    run: RunSpans | None = None
    previous_run: SpanContext | None = None
    previous_key: tuple[str, ...] = ("session",)
    outside: OpenSpan | None = None
    last_good_usage: Usage | None = None
    compacted: bool = False
    told: list[ToldNote] = field(default_factory=list)
    failed_spans: "OrderedDict[int, SpanContext]" = field(default_factory=OrderedDict)

    @property
    def open_spans(self) -> int:
        """How many spans are open."""
        run = self.run
        if run is None:
            return int(self.outside is not None)
        parts = (run.chat, run.compaction, self.outside)
        return 1 + len(run.tools) + len(run.held_tools) + sum(part is not None for part in parts)

    def opened_run(self) -> RunSpans:
        """Return the open run.

        Raises:
            RuntimeError: no run is open: a mistake of the caller, which opens one first.

        """
        if self.run is None:
            raise RuntimeError("no run is open")
        return self.run

    def finish(self, target: OpenSpan, at_ns: int, usage: Usage | None = None) -> None:
        """End a span and record its metrics."""
        end_ns = target.end(at_ns)
        self.count_ended(target, end_ns, usage)

    def count_ended(self, target: OpenSpan, end_ns: int, usage: Usage | None = None) -> None:
        """Record the metrics of a span that was ended."""
        if self.run is not None:
            self.run.latest_ns = max(self.run.latest_ns, end_ns)
        duration_ns = end_ns - target.start_ns
        if isinstance(target, OpenChat):
            self.metrics.request_ended(target.attributes, duration_ns, usage)
        elif isinstance(target, OpenTool):
            self.metrics.tool_ended(target.attributes, duration_ns)

    def mark(self, target: OpenSpan, error: ErrorFacts, at_ns: int) -> None:
        """Write a session error on a span, once, in the signal that was asked for, and count it."""
        signal = self.options.exception_signal
        if error.aborted:
            mark_cancelled(target, error, at_ns, as_error=self.options.aborted_as_error)
        else:
            mark_failed(target, error, at_ns, with_event=signal is not ExceptionSignal.LOGS)
            if signal is not ExceptionSignal.EVENTS:
                self.log.write(target.span, error, at_ns)
            self._remember_failed(at_ns, target.span.get_span_context())
        self.metrics.session_error(error.kind, None if error.aborted else error.error_type, target.attributes)

    def close_open(self, at_ns: int, outcome: semconv.Outcome, *, lost_type: str | None = None) -> None:
        """End everything that is open inside the run."""
        for closed in self.opened_run().close_children(at_ns, outcome, lost_type=lost_type):
            self.count_ended(closed, max(at_ns, closed.start_ns))

    def release_held_tools(self, *, cancelled: bool) -> None:
        """Tell tools that ended with an error as failed or as cancelled."""
        for tool in self.opened_run().release_held_tools(cancelled=cancelled):
            self.count_ended(tool, max(tool.failed_at_ns or tool.start_ns, tool.start_ns))

    def _remember_failed(self, at_ns: int, context: SpanContext) -> None:
        self.failed_spans[at_ns] = context
        while len(self.failed_spans) > _MAX_FAILED_REMEMBERED:
            self.failed_spans.popitem(last=False)
