"""Which records are priority, as spans and as frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compass_otel import semconv
from compass_otel._pb.compass.v1.compass_pb2 import (
    AgentSessionFrame,
    AgentSessionState,
    SessionError,
    SessionErrorKind,
    SessionEvent,
    SessionFrame,
    SessionInjection,
    SessionNotice,
)
from compass_otel.priority import (
    Rank,
    is_failure,
    is_injection,
    is_lifecycle,
    is_priority,
    is_session_error,
    rank_of,
)
from sink_support import span

if TYPE_CHECKING:
    from opentelemetry.util.types import AnyValue

STATE = AgentSessionState.AGENT_SESSION_STATE_WORKING
ABORTED = SessionErrorKind.SESSION_ERROR_KIND_ABORTED


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({semconv.SESSION_STATE: "working"}, (True, False, False)),
        ({semconv.SESSION_INJECTIONS: 1}, (False, True, False)),
        ({semconv.SESSION_ERROR_KIND: "ERROR"}, (False, False, True)),
        ({semconv.SESSION_ERROR_KIND: "ABORTED"}, (False, False, True)),
        ({semconv.SESSION_STATE: "errored", semconv.SESSION_ERROR_KIND: "ERROR"}, (True, False, True)),
        ({"session.id": "s", "gen_ai.operation.name": "chat"}, (False, False, False)),
        ({}, (False, False, False)),
    ],
)
def test_spans_are_told_apart_by_their_attributes(
    attributes: dict[str, AnyValue], expected: tuple[bool, bool, bool]
) -> None:
    """Lifecycle, injection and session error are read from the attributes alone; one of them makes a span priority."""
    record = span("s", attributes)
    assert (is_lifecycle(record), is_injection(record), is_session_error(record)) == expected
    assert is_priority(record) == any(expected)


@pytest.mark.parametrize("wrapped", [False, True], ids=["session frame", "subscriber frame"])
@pytest.mark.parametrize(
    ("state", "event", "expected"),
    [
        (STATE, None, (True, False, False)),
        (0, SessionEvent(session_injection=SessionInjection(message_id="m")), (False, True, False)),
        (0, SessionEvent(session_error=SessionError(kind=ABORTED)), (False, False, True)),
        (0, SessionEvent(session_error=SessionError()), (False, False, True)),
        (STATE, SessionEvent(session_error=SessionError()), (True, False, True)),
        (0, SessionEvent(notice=SessionNotice(text="n")), (False, False, False)),
        (0, None, (False, False, False)),
    ],
)
def test_frames_are_told_apart_by_state_and_event(
    state: AgentSessionState, event: SessionEvent | None, expected: tuple[bool, bool, bool], *, wrapped: bool
) -> None:
    """The same three names answer for frames: state changes, injections, session errors; the rest may be dropped."""
    frame = AgentSessionFrame(state=state, event=event) if wrapped else SessionFrame(state=state, typed_event=event)
    assert (is_lifecycle(frame), is_injection(frame), is_session_error(frame)) == expected
    assert is_priority(frame) == any(expected)


def test_an_aborted_span_is_priority_without_error_status() -> None:
    """A cancel has no error status and rides the priority lane all the same."""
    record = span("chat", {semconv.SESSION_ERROR_KIND: "ABORTED"})
    assert record.status.is_unset
    assert is_priority(record)


@pytest.mark.parametrize(
    ("attributes", "error", "expected"),
    [
        ({}, True, True),
        ({semconv.SESSION_ERROR_KIND: "ERROR"}, True, True),
        ({semconv.SESSION_ERROR_KIND: "ABORTED"}, True, False),
        ({semconv.OUTCOME: "cancelled"}, True, False),
        ({}, False, False),
        ({semconv.SESSION_ERROR_KIND: "ERROR"}, False, False),
    ],
)
def test_a_failure_is_any_span_with_error_status_but_no_cancel(
    attributes: dict[str, AnyValue], *, error: bool, expected: bool
) -> None:
    """`is_failure` chooses a service's own failures, whatever library made them, and no cancel."""
    assert is_failure(span("op", attributes, error=error)) is expected


def test_session_errors_rank_over_chosen_spans_over_lifecycle_records() -> None:
    """What is given up first at the bound: lifecycle records, then chosen spans, session errors last."""
    error = span("chat", {semconv.SESSION_ERROR_KIND: "ABORTED"})
    run = span("run", {semconv.SESSION_STATE: "ready"})
    assert rank_of(error, chosen=False) == rank_of(error, chosen=True) == Rank.SESSION_ERROR
    assert rank_of(run, chosen=True) == Rank.CHOSEN
    assert rank_of(run, chosen=False) == Rank.LIFECYCLE
    assert sorted(Rank) == [Rank.LIFECYCLE, Rank.CHOSEN, Rank.SESSION_ERROR]
