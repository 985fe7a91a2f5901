"""Frames: what the mapper makes of events, in the wire types of `compass.v1`, and their JSON-lines form.

A frame is a protobuf `SessionFrame`: a typed event, a lifecycle state, or both. `ERRORED` is always a frame of its own
after the session error (DL-322), so the mapper here never builds one that holds both.
"""

from typing import Any

from compass_otel._pb.compass.v1.compass_pb2 import (
    AgentSessionFrame,
    AgentSessionState,
    SessionError,
    SessionErrorKind,
    SessionFrame,
)
from compass_otel.semconv import SessionState

_STATE_VALUES = {
    SessionState.STARTING: AgentSessionState.AGENT_SESSION_STATE_STARTING,
    SessionState.READY: AgentSessionState.AGENT_SESSION_STATE_READY,
    SessionState.WORKING: AgentSessionState.AGENT_SESSION_STATE_WORKING,
    SessionState.STOPPED: AgentSessionState.AGENT_SESSION_STATE_STOPPED,
    SessionState.ERRORED: AgentSessionState.AGENT_SESSION_STATE_ERRORED,
    SessionState.DISCONNECTED: AgentSessionState.AGENT_SESSION_STATE_DISCONNECTED,
}
_STATE_NAMES = {value: name for name, value in _STATE_VALUES.items()}


def state_frame(state: SessionState) -> SessionFrame:
    """Build the lifecycle frame for `state`."""
    return SessionFrame(state=_STATE_VALUES[state])


def state_of(frame: SessionFrame) -> SessionState | None:
    """Return the lifecycle state that the frame carries, None if it is a trace frame."""
    return _STATE_NAMES.get(frame.state)


def session_error_of(frame: SessionFrame) -> SessionError | None:
    """Return the session error that the frame carries, None if it carries none."""
    if frame.typed_event.WhichOneof("event") == "session_error":
        return frame.typed_event.session_error
    return None


def is_aborted(error: SessionError) -> bool:
    """Whether the session error is a deliberate cancel and not a failure."""
    return error.kind == SessionErrorKind.SESSION_ERROR_KIND_ABORTED


def kind_name(error: SessionError) -> str:
    """Return `ERROR` or `ABORTED`, the value of `compass.session_error.kind`."""
    return "ABORTED" if is_aborted(error) else "ERROR"


def subscriber_frame(frame: SessionFrame, session_id: str) -> AgentSessionFrame:
    """Wrap a frame as a subscriber that tails the session sees it."""
    wrapped = AgentSessionFrame(session_id=session_id, state=frame.state)
    if frame.HasField("typed_event"):
        wrapped.event.CopyFrom(frame.typed_event)
    return wrapped


def frame_json(frame: AgentSessionFrame) -> str:
    """Write one frame as one line of protobuf-JSON, non-ASCII readable, without a line end."""
    from google.protobuf import json_format  # noqa: PLC0415 - wanted where frames are written, not to map

    return json_format.MessageToJson(frame, indent=None, ensure_ascii=False)


def parse_frame_json(line: str) -> AgentSessionFrame:
    """Read one line of protobuf-JSON.

    Raises:
        google.protobuf.json_format.ParseError: the line is no `AgentSessionFrame`.

    """
    from google.protobuf import json_format  # noqa: PLC0415 - the same

    frame: Any = json_format.Parse(line, AgentSessionFrame())
    assert isinstance(frame, AgentSessionFrame)  # noqa: S101 - narrows Any, Parse returns what it was given
    return frame
