"""Which records are priority: told from the record alone, the same for spans and for frames.

| | a span | a frame |
|---|---|---|
| lifecycle | the run span: carries `compass.session.state` | sets a state |
| injection | carries `compass.session.injections` | a `session_injection` |
| session error | carries `compass.session_error.kind`, ERROR or ABORTED | a `session_error` |

Spans are told apart by these attributes whatever their scope, since spans of other instrumentations are completed with
them too. An ABORTED record has no error status and is priority all the same.

Thread-safe; nothing here blocks or changes its argument.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.trace import StatusCode

from compass_otel import semconv
from compass_otel._pb.compass.v1.compass_pb2 import AgentSessionFrame, AgentSessionState, SessionFrame
from compass_otel.sdk_private import attributes_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan  # noqa: TID251 - the type alone

Frame: TypeAlias = SessionFrame | AgentSessionFrame
_FRAME_TYPES: Final = (SessionFrame, AgentSessionFrame)


class Rank(IntEnum):
    """How long a priority record is kept when there is no room for all: the higher, the longer."""

    LIFECYCLE = 1
    """Lifecycle records and injections."""
    CHOSEN = 2
    """What a service's own predicate chose."""
    SESSION_ERROR = 3
    """Failures and cancels of a session."""


def is_lifecycle(record: ReadableSpan | Frame) -> bool:
    """Whether the record says in which state a session or run is.

    Args:
        record: A span, ended or not, or a frame.

    """
    if isinstance(record, _FRAME_TYPES):
        return bool(record.state != AgentSessionState.AGENT_SESSION_STATE_UNSPECIFIED)
    return semconv.SESSION_STATE in attributes_of(record)


def is_injection(record: ReadableSpan | Frame) -> bool:
    """Whether the record says that a user message was injected into a running run.

    Args:
        record: A span, ended or not, or a frame.

    """
    if isinstance(record, _FRAME_TYPES):
        return _event_case(record) == "session_injection"
    return semconv.SESSION_INJECTIONS in attributes_of(record)


def is_session_error(record: ReadableSpan | Frame) -> bool:
    """Whether the record carries a failure or a cancel of a session.

    Args:
        record: A span, ended or not, or a frame.

    """
    if isinstance(record, _FRAME_TYPES):
        return _event_case(record) == "session_error"
    return semconv.SESSION_ERROR_KIND in attributes_of(record)


def is_priority(record: ReadableSpan | Frame) -> bool:
    """Whether the record rides the priority lane; everything else rides the trace lane.

    Args:
        record: A span, ended or not, or a frame.

    """
    return is_lifecycle(record) or is_injection(record) or is_session_error(record)


def is_failure(span: ReadableSpan) -> bool:
    """Whether the span failed: status ERROR, cancels excluded. A service's ready-made `is_priority`.

    Args:
        span: An ended span.

    """
    if span.status.status_code is not StatusCode.ERROR:
        return False
    attributes = attributes_of(span)
    return (
        attributes.get(semconv.SESSION_ERROR_KIND) != "ABORTED"
        and attributes.get(semconv.OUTCOME) != semconv.Outcome.CANCELLED
    )


def rank_of(span: ReadableSpan, *, chosen: bool) -> Rank:
    """Tell how long a priority span is kept when there is no room for all.

    Args:
        span: An ended span that is priority.
        chosen: A service's predicate chose it.

    """
    if is_session_error(span):
        return Rank.SESSION_ERROR
    return Rank.CHOSEN if chosen else Rank.LIFECYCLE


def _event_case(frame: Frame) -> str | None:
    """Name the kind of event that a frame carries."""
    event = frame.event if isinstance(frame, AgentSessionFrame) else frame.typed_event
    case: str | None = event.WhichOneof("event")
    return case
