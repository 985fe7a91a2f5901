"""SessionBridge: the one call for a host: a record in, frames out, spans recorded.

Composes a source, the mapper, the recorder and, if there is one, the advisor; nothing else knows them all. It is the
boundary to the host: what goes wrong inside is counted and logged here, and the host goes on with less telemetry.
"""

import logging
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from opentelemetry._logs import LoggerProvider
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanContext, TracerProvider

from compass_otel._pb.compass.v1.compass_pb2 import SessionFrame
from compass_otel.events import AgentEvent, SessionShutdown, SourceEnded
from compass_otel.ids import IdPrimer
from compass_otel.mapper import EventMapper
from compass_otel.recorder import SessionRecorder
from compass_otel.recorder_settings import options_from_environment
from compass_otel.recording import RecorderOptions, ToldNote
from compass_otel.sources import Counts, Source
from compass_otel.sources.pi_stream import PiStream
from compass_otel.unmapped import Malformed, Unmapped

_logger = logging.getLogger(__name__)

_MAX_LOGGED_ERRORS = 10
"""Internal errors logged per bridge; the rest is only counted, so that a broken stream cannot flood the host's log."""


class Observer(Protocol):
    """Takes every event of the session, as an `ErrorAdvisor` does."""

    def observe(self, event: AgentEvent) -> None:
        """Take one event."""


class SessionBridge:
    """Maps and records one agent session.

    Thread-safety: one caller at a time, from any thread or task; no context is attached, so the host's current span
    is never changed. Never blocks (a span processor may, when a span ends). Never raises from `feed`, `handle`,
    `tick` or `close`: what went wrong is in `internal_errors` and in the log.

    Args:
        tracer_provider: where spans go; None takes the host's global provider. Its globals are never set.
        meter_provider: where metrics go; None takes the host's global provider.
        logger_provider: where log events go when they are asked for; None takes the host's global provider.
        source: decodes the records; None reads what Pi and oh-my-pi write.
        observer: sees every event, for instance an `ErrorAdvisor`.
        ids: gives derived ids, for a provider whose `IdGenerator` is a `DerivedIdGenerator`.
        parent_context: the parent of every run; None takes the span that is current when a run starts.
        options: what to write; None reads the standard variables (content capture, exception signal).
        text_frames: False gives no frames of streamed text and thinking, for a host that only wants spans.
        clock: gives wall time in nanoseconds, for records that arrive live.

    """

    def __init__(  # noqa: PLR0913 - all optional, each one thing a host may own
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        source: Source | None = None,
        observer: Observer | None = None,
        ids: IdPrimer | None = None,
        parent_context: Context | None = None,
        options: RecorderOptions | None = None,
        text_frames: bool = True,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        chosen = options or options_from_environment()
        self._source = source or PiStream()
        self._mapper = EventMapper(scrub=chosen.scrub, text_frames=text_frames)
        self._recorder = SessionRecorder(
            tracer_provider,
            meter_provider=meter_provider,
            logger_provider=logger_provider,
            ids=ids,
            parent_context=parent_context,
            options=chosen,
        )
        self._observer = observer
        self._clock = clock
        self._closed = False
        self.internal_errors = 0

    def feed(self, record: bytes | str | Mapping[str, Any]) -> tuple[SessionFrame, ...]:
        """Map and record one record that arrives now.

        Args:
            record: one line of the agent's stream, or the decoded object.

        Returns:
            The frames it gave, in order.

        """
        now_ns = self._clock()
        return self._guarded(lambda: self._handle_all(self._source.decode(record, now_ns)))

    def tick(self) -> tuple[SessionFrame, ...]:
        """Let time pass without a record: an agent that never says that it settled (Pi 0.73) settles by quiet."""
        return self._guarded(lambda: self._handle_all(self._source.tick(self._clock())))

    def handle(self, event: AgentEvent | Unmapped | Malformed) -> tuple[SessionFrame, ...]:
        """Map and record one event that a source decoded."""
        return self._guarded(lambda: self._handle(event))

    def close(self, reason: str | None = None) -> tuple[SessionFrame, ...]:
        """End what is open as cancelled and say STOPPED; safe to call twice. Flushing is the provider's.

        Args:
            reason: what ended the session, for instance the name of the exception that passed by.

        """
        return self._guarded(lambda: self._close(reason))

    def advised(self, notes: tuple[ToldNote, ...]) -> None:
        """Note what the model is told in its next request; the next chat span says so."""
        self._recorder.advised(notes)

    def tool_context(self, call_id: str) -> Context | None:
        """Return the context of a running tool call: the `parent_context` for a sub-agent's own bridge."""
        return self._recorder.tool_context(call_id)

    @property
    def run_context(self) -> SpanContext | None:
        """The span context of the open run, None if no run is open."""
        return self._recorder.run_context

    @property
    def open_spans(self) -> int:
        """How many spans are open."""
        return self._recorder.open_spans

    @property
    def counts(self) -> Counts:
        """How many records were read, mapped, ignored, unmapped and malformed."""
        return self._source.counts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; an exception that passes by is named and goes on unchanged.

        A cancel (`CancelledError`, `KeyboardInterrupt`, `SystemExit`, `GeneratorExit`) ends the run as cancelled; any
        other exception means that the host failed, so the run is lost and not cancelled.
        """
        if kind is not None and issubclass(kind, Exception):
            self._guarded(lambda: self._end(SourceEnded(at_ns=self._clock(), reason=kind.__name__)))
        self.close(kind.__name__ if kind is not None else None)

    def _close(self, reason: str | None) -> tuple[SessionFrame, ...]:
        if self._closed:
            return ()
        self._closed = True
        return self._end(SessionShutdown(self._clock(), reason))

    def _end(self, how: SourceEnded | SessionShutdown) -> tuple[SessionFrame, ...]:
        """Settle what only waited to see whether something follows (Pi 0.73), then end in the given way."""
        settled = (event for event in self._source.end(how.at_ns) if not isinstance(event, SourceEnded))
        return self._handle_all((*settled, how))

    def _handle_all(self, events: tuple[AgentEvent | Unmapped | Malformed, ...]) -> tuple[SessionFrame, ...]:
        if len(events) == 1:
            return self._handle(events[0])
        return tuple(frame for event in events for frame in self._handle(event))

    def _handle(self, event: AgentEvent | Unmapped | Malformed) -> tuple[SessionFrame, ...]:
        frames = self._mapper.map(event)
        self._recorder.record(event, frames)
        if self._observer is not None and not isinstance(event, Unmapped | Malformed):
            self._observer.observe(event)
        return tuple(frame for frame in frames if isinstance(frame, SessionFrame)) if frames else ()

    def _guarded(self, work: Callable[[], tuple[SessionFrame, ...]]) -> tuple[SessionFrame, ...]:
        """Run `work`; the one place where an error of ours is kept from the host."""
        try:
            return work()
        except Exception:
            self.internal_errors += 1
            if self.internal_errors <= _MAX_LOGGED_ERRORS:
                _logger.exception("compass-otel could not record an event; the host goes on with less telemetry")
            return ()
