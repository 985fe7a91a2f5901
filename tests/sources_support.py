"""What the tests of the sources share: the recorded streams and files, and short ways to decode them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compass_otel.events import (
    AgentEvent,
    AssistantMessage,
    MessageEnded,
    MessageStarted,
    PromptSettled,
    ToolStarted,
    UserMessage,
)
from compass_otel.sources.pi_session import PiSession
from compass_otel.sources.pi_stream import PiStream
from compass_otel.unmapped import Malformed, Unmapped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from compass_otel.sources import Decoded, Line, Source

HERE = Path(__file__).parent
CAPTURES = HERE / "captures"
EXPECTED: dict[str, Any] = json.loads((CAPTURES / "expected.json").read_text())
NAMES = sorted(EXPECTED)
AGENTS = ("pi-0.73", "pi-1.6", "omp-18")
START_NS = 1_796_000_000_000_000_000
"""Before every recorded time."""


def stream_lines(name: str) -> list[bytes]:
    """Give the lines of a recorded stream, `pi-1.6/a_success_text`."""
    return (CAPTURES / f"{name}.events.jsonl").read_bytes().splitlines(keepends=True)


def session_path(name: str) -> Path:
    """Give the path of the session file of a recorded stream; it may not be there."""
    return CAPTURES / f"{name}.session.jsonl"


def decode_all(source: Source, lines: Iterable[Line], at_ns: int | None = None, *, end: bool = True) -> list[Decoded]:
    """Decode lines, one millisecond apart if they are live, and end the source."""
    out: list[Decoded] = []
    for index, line in enumerate(lines):
        out.extend(source.decode(line, None if at_ns is None else at_ns + index * 1_000_000))
    if end:
        out.extend(source.end())
    return out


def captured(name: str, *, end: bool = True) -> list[Any]:
    """Give the events of a recorded stream."""
    return decode_all(PiStream(), stream_lines(name), end=end)


def captured_file(name: str) -> list[Any]:
    """Give the events of a recorded session file."""
    return decode_all(PiSession(), session_path(name).read_bytes().splitlines(keepends=True))


def feed(*records: dict[str, Any], at_ns: int | None = START_NS, end: bool = True) -> list[Any]:
    """Give the events of a stream made by hand."""
    return decode_all(PiStream(), [json.dumps(record).encode() for record in records], at_ns, end=end)


def of(events: Iterable[Any], *kinds: type) -> list[Any]:
    """Give the events of some kinds."""
    return [event for event in events if isinstance(event, kinds)]


def names_of(events: Iterable[Any]) -> list[str]:
    """Give the kinds of events, in order, deltas and blocks left out."""
    left_out = {"TextDelta", "ThinkingDelta", "BlockStarted"}
    return [type(event).__name__ for event in events if type(event).__name__ not in left_out]


def unusable(events: Iterable[Any]) -> list[Any]:
    """Give what was neither mapped nor ignored."""
    return of(events, Unmapped, Malformed)


def answers(events: Iterable[Any]) -> list[AssistantMessage]:
    """Give the whole answers, in order."""
    return [e.message for e in events if isinstance(e, MessageEnded) and isinstance(e.message, AssistantMessage)]


def assistant(stop: str = "stop", text: str = "", stamp: int = 1_796_000_000_000, **more: Any) -> dict[str, Any]:
    """Make an answer as the agents write it."""
    content = [{"type": "text", "text": text}] if text else []
    return {"role": "assistant", "content": content, "stopReason": stop, "timestamp": stamp, **more}


def user(text: str = "Go", stamp: int = 1_796_000_000_000, **more: Any) -> dict[str, Any]:
    """Make a user message as the agents write it."""
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": stamp, **more}


def start(message: dict[str, Any]) -> dict[str, Any]:
    """Make the record that begins a message."""
    return {"type": "message_start", "message": message}


def whole(message: dict[str, Any]) -> dict[str, Any]:
    """Make the record that ends a message."""
    return {"type": "message_end", "message": message}


def prompts_of(events: Iterable[AgentEvent]) -> list[dict[str, Any]]:
    """Split events into prompts by their settling: user and answer times, calls, ending (None: open)."""
    prompts: list[dict[str, Any]] = []
    current: dict[str, Any] | None = None
    for event in events:
        if isinstance(event, PromptSettled):
            if current is not None:
                prompts.append({**current, "ending": str(event.ending)})
            current = None
        elif isinstance(event, MessageStarted | ToolStarted):
            current = current or {"users": [], "answers": [], "calls": [], "ending": None}
            if isinstance(event, ToolStarted):
                current["calls"].append(event.call_id)
            elif isinstance(event.message, UserMessage):
                current["users"].append(event.message.timestamp_ms)
            elif isinstance(event.message, AssistantMessage):
                current["answers"].append(event.message.timestamp_ms)
    return prompts if current is None else [*prompts, current]
