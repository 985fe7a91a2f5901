"""Standard output of Pi 0.73, Pi 1.x and oh-my-pi, json mode and rpc mode, told apart by what the records hold.

Events of the same kinds that hosts get from the agent core or the extension API, with its own spellings, are read too.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from compass_otel.events import (
    AgentEvent,
    BlockStarted,
    SessionOpened,
    SourceEnded,
    TextDelta,
    ThinkingDelta,
)
from compass_otel.sources import Counts, Decoded, Format, Line
from compass_otel.sources import pi_events as on
from compass_otel.sources.messages import as_text
from compass_otel.sources.pi_types import IGNORED_TYPES, OMP_TYPES, SIMPLE_TYPES
from compass_otel.sources.records import (
    UPDATE_PREFIX,
    ChunkJoiner,
    TextDeltaWire,
    TextStartWire,
    ThinkingDeltaWire,
    ThinkingStartWire,
    ToolcallStartWire,
    decode_update,
    parse,
)
from compass_otel.sources.timing import UNKNOWN_NS, iso_to_ns
from compass_otel.unmapped import Malformed, Unmapped

_HELD_MAX = 4096
"""Events kept back until a stored stream states its first time; recorded streams state it within ten records."""

_BLOCKS: dict[type, str] = {TextStartWire: "text", ThinkingStartWire: "thinking", ToolcallStartWire: "toolcall"}

_HANDLERS: dict[str, Callable[[on.StreamState, dict[str, Any], int | None], on.Outcome]] = {
    "agent_start": on.agent_start,
    "agent_end": on.agent_end,
    "agent_settled": on.agent_settled,
    "session_settled": on.session_settled,
    "turn_start": on.turn_start,
    "turn_end": on.turn_end,
    "message_start": on.message_start,
    "message_update": on.message_update,
    "message_end": on.message_end,
    "tool_execution_start": on.tool_start,
    "tool_execution_update": on.tool_update,
    "tool_execution_end": on.tool_end,
    "auto_retry_start": on.retry_start,
    "auto_retry_end": on.retry_end,
    "compaction_start": on.compaction_start,
    "compaction_end": on.compaction_end,
    "auto_compaction_start": on.compaction_start,
    "auto_compaction_end": on.compaction_end,
    "session_before_compact": on.extension_compaction_start,
    "session_compact": on.extension_compaction_end,
    "session_compact_failed": on.extension_compaction_end,
    "response": on.response,
    "queue_update": on.queue_update,
}


class PiStream:
    """Decodes one stream. Not thread-safe; never blocks, never raises on input.

    Args:
        fallback_ns: time of a stored stream that states none at all, nanoseconds since the epoch (the file's own).

    """

    format = Format.PI_STREAM

    def __init__(self, *, fallback_ns: int | None = None) -> None:
        self._state = on.StreamState()
        self._timeline = self._state.timeline
        self._fallback_ns = fallback_ns
        self._line = self._mapped = self._ignored = self._unmapped = self._malformed = 0
        self._opening: SessionOpened | None = SessionOpened(at_ns=UNKNOWN_NS)
        self._session = self._opening
        self._held: list[AgentEvent] = []
        self._hot = False
        self._ended = False
        self._chunks = ChunkJoiner()

    @property
    def agent(self) -> str:
        """`omp` once a record only oh-my-pi writes was seen, else `pi`."""
        return self._state.agent

    @property
    def counts(self) -> Counts:
        """What became of the records so far."""
        return Counts(self._mapped, self._ignored, self._unmapped, self._malformed)

    def decode(self, line: Line, at_ns: int | None = None) -> tuple[Decoded, ...]:
        """Decode one record; see `Source.decode`."""
        self._line += 1
        if type(line) is str:
            line = line.encode("utf-8", "surrogatepass")
        if not self._hot or type(line) is not bytes or not line.startswith(UPDATE_PREFIX):
            return self._decode_slowly(line, at_ns)
        try:
            inner = decode_update(line).inner
        except (msgspec.DecodeError, RecursionError):
            return self._decode_slowly(line, at_ns)
        timeline = self._timeline
        if at_ns is not None and at_ns > timeline.last_ns:
            timeline.last_ns = at_ns
        if type(inner) is TextDeltaWire:
            self._mapped += 1
            return (TextDelta(timeline.last_ns, inner.delta),)
        if type(inner) is ThinkingDeltaWire:
            self._mapped += 1
            return (ThinkingDelta(timeline.last_ns, inner.delta),)
        block = _BLOCKS.get(type(inner))
        if block is None:
            self._ignored += 1
            return ()
        self._mapped += 1
        return (BlockStarted(timeline.last_ns, block),)

    def reject(self, reason: str) -> tuple[Malformed]:
        """Count a line that was not even read; see `Source.reject`."""
        self._line += 1
        self._malformed += 1
        return (Malformed(reason, self._line),)

    def tick(self, now_ns: int) -> tuple[AgentEvent, ...]:
        """Settle a prompt of Pi 0.73 after two seconds of quiet; see `Source.tick`."""
        settled = self._state.settling.quiet(self._timeline.last_ns, now_ns)
        return () if settled is None else (settled,)

    def end(
        self,
        at_ns: int | None = None,
        *,
        exit_status: int | None = None,
        signal: int | None = None,
        requested: bool = False,
    ) -> tuple[AgentEvent, ...]:
        """Settle what is provisional and say that the input is over; see `Source.end`."""
        if self._ended:
            return ()
        self._ended = True
        now = self._timeline.at(at_ns)
        events: list[AgentEvent] = []
        if self._opening is not None and self._opening.session_id is not None:
            events.append(self._open())
        settled = self._state.settling.input_ended()
        if settled is not None:
            events.append(settled)
        events.append(SourceEnded(at_ns=now, exit_status=exit_status, signal=signal, requested=requested))
        if not self._timeline.known:
            self._timeline.at(None, self._fallback_ns or 1)
        return self._timed(events)

    def _decode_slowly(self, line: Line, at_ns: int | None) -> tuple[Decoded, ...]:
        record = parse(line)
        if record is None:
            return ()
        if isinstance(record, Malformed):
            self._malformed += 1
            return (replace(record, line=self._line),)
        if record.get("type") == "rpc_chunk":
            joined = self._chunks.add(record)
            if isinstance(joined, bytes):
                return self._decode_slowly(joined, at_ns)
            return self._count(joined)
        outcome = self._outcome(record, at_ns)
        if not isinstance(outcome, tuple):
            return self._count(outcome)
        self._mapped += 1
        if self._opening is not None and record.get("type") != "session":
            outcome = (self._open(), *outcome)
        return self._timed(list(outcome))

    def _outcome(self, record: dict[str, Any], at_ns: int | None) -> on.Outcome:
        kind = record.get("type")
        if not isinstance(kind, str) or not kind:
            return Unmapped("", "no_type")
        if kind in OMP_TYPES or "isTerminal" in record:
            self._is_omp()
        if kind == "session":
            return self._new_session(record, at_ns)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            outcome = handler(self._state, record, at_ns)
            if self._state.agent != self._session.agent:
                self._is_omp()
            return self._with_session_id(record, outcome) if kind == "response" else outcome
        simple = SIMPLE_TYPES.get(kind)
        if simple is not None:
            return simple(record, self._timeline.at(at_ns))
        if kind not in IGNORED_TYPES:
            return Unmapped(kind, "unknown_type")
        entry = record.get("entry")
        self._timeline.at(at_ns, iso_to_ns(entry.get("timestamp")) if isinstance(entry, dict) else None)
        return None

    def _count(self, outcome: Unmapped | None) -> tuple[Decoded, ...]:
        if outcome is None:
            self._ignored += 1
            return ()
        self._unmapped += 1
        return (replace(outcome, line=self._line),)

    def _new_session(self, record: dict[str, Any], at_ns: int | None) -> tuple[AgentEvent, ...]:
        """Keep the header until the next record tells whose stream this is: Pi's and omp's headers are the same."""
        events: list[AgentEvent] = []
        if self._opening is not None and self._opening.session_id is not None:
            events.append(self._open())
        now = self._timeline.at(at_ns, iso_to_ns(record.get("timestamp")))
        died = self._state.settling.another_process(now)
        if died is not None:
            events.append(died)
        self._session = self._opening = SessionOpened(
            at_ns=now,
            session_id=as_text(record.get("id")),
            agent=self._state.agent,
            cwd=as_text(record.get("cwd")),
            parent_session=as_text(record.get("parentSession")),
        )
        self._hot = False
        return tuple(events)

    def _with_session_id(self, record: dict[str, Any], outcome: on.Outcome) -> on.Outcome:
        """Take the session's id from an answer to `get_state`: rpc mode has no header."""
        data = record.get("data")
        session_id = as_text(data.get("sessionId")) if isinstance(data, dict) else None
        if session_id is None or session_id == self._session.session_id:
            return outcome
        self._announce_again(session_id=session_id)
        return () if outcome is None else outcome

    def _is_omp(self) -> None:
        """Say whose stream it is, again if it was announced as Pi's."""
        self._state.agent = "omp"
        if self._session.agent != "omp":
            self._announce_again(agent="omp")

    def _announce_again(self, **changes: str) -> None:
        at_ns = UNKNOWN_NS if self._opening is None else self._opening.at_ns
        self._session = self._opening = replace(self._session, at_ns=at_ns, **changes)
        self._hot = False

    def _open(self) -> SessionOpened:
        self._opening = None
        return self._session

    def _timed(self, events: list[AgentEvent]) -> tuple[AgentEvent, ...]:
        """Give events their time if it is known by now, else hold them back."""
        self._held.extend(events)
        if not self._timeline.known:
            if len(self._held) < _HELD_MAX:
                return ()
            self._timeline.at(None, self._fallback_ns or 1)
        ready, self._held = self._held, []
        self._hot = self._opening is None
        now = self._timeline.last_ns
        return tuple(event if event.at_ns != UNKNOWN_NS else replace(event, at_ns=now) for event in ready)
