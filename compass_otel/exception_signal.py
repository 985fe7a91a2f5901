"""Whether a failure is told as a span event, as a log event, or as both.

`OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN` decides (core conventions): `logs`, `logs/dup`, anything else the span event.
"""

from enum import StrEnum

from opentelemetry._logs import LoggerProvider, SeverityNumber, get_logger
from opentelemetry.trace import Span, set_span_in_context

from compass_otel import semconv
from compass_otel.span_facts import ErrorFacts, exception_event


class ExceptionSignal(StrEnum):
    """Where exceptions are told."""

    EVENTS = "events"
    LOGS = "logs"
    BOTH = "logs/dup"

    @classmethod
    def parse(cls, text: str | None) -> "ExceptionSignal":
        """Read the variable's comma-separated value; what it does not name leaves the default."""
        words = {word.strip() for word in (text or "").split(",")}
        if cls.BOTH in words:
            return cls.BOTH
        return cls.LOGS if cls.LOGS in words else cls.EVENTS


class ExceptionLog:
    """Writes the log event `gen_ai.client.operation.exception` at WARN, in the failing span's context."""

    def __init__(self, logger_provider: LoggerProvider | None) -> None:
        self._logger = get_logger(semconv.SCOPE_NAME, logger_provider=logger_provider)

    def write(self, span: Span, error: ErrorFacts, at_ns: int) -> None:
        """Tell one failure."""
        self._logger.emit(
            timestamp=at_ns,
            context=set_span_in_context(span),
            severity_number=SeverityNumber.WARN,
            event_name=semconv.EXCEPTION_LOG_EVENT,
            attributes=dict(exception_event(error)),
        )
