"""The readable lines and small choices that the mapper puts into frames: pure functions of one event each."""

import json
import signal
from collections.abc import Callable
from typing import assert_never

from compass_otel._pb.compass.v1.compass_pb2 import AgentPlanEntryStatus, AgentToolCallStatus
from compass_otel.classification import render_message
from compass_otel.events import (
    AssistantMessage,
    CommandEnd,
    CommandFailed,
    CompactionEnded,
    CompactionStarted,
    ModelFallback,
    NoticeRaised,
    RetryEnded,
    RetryScheduled,
    SourceEnded,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    UserMessage,
)
from compass_otel.semconv import MAX_TOOL_OUTPUT_CHARS

_MAX_TITLE_CHARS = 200
_MAX_LABEL_CHARS = 256
_MAX_LINE_CHARS = 1000
_TITLE_ARGUMENTS = ("command", "path", "file_path", "pattern", "query", "url", "description", "prompt")
_ORDERLY_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})

_PLAN_STATUS = {
    "pending": AgentPlanEntryStatus.AGENT_PLAN_ENTRY_STATUS_PENDING,
    "in_progress": AgentPlanEntryStatus.AGENT_PLAN_ENTRY_STATUS_IN_PROGRESS,
    "completed": AgentPlanEntryStatus.AGENT_PLAN_ENTRY_STATUS_COMPLETED,
}


def label(text: str, scrub: Callable[[str], str]) -> str:
    """Return an identifier, bounded; whoever wrote the stream wrote it too, so it takes the same door as prose."""
    return scrub(text)[:_MAX_LABEL_CHARS]


def message_id(role: str, message: AssistantMessage | UserMessage, scrub: Callable[[str], str]) -> str:
    """Return the message's own id, else one made of its role and time, else `""`."""
    if message.message_id is not None:
        return label(message.message_id, scrub)
    return f"{role}-{message.timestamp_ms}" if message.timestamp_ms is not None else ""


def plan_status(status: str) -> AgentPlanEntryStatus:
    """Return the wire value of a plan entry's status; an unknown word is UNSPECIFIED."""
    return _PLAN_STATUS.get(status, AgentPlanEntryStatus.AGENT_PLAN_ENTRY_STATUS_UNSPECIFIED)


def tool_status(event: ToolUpdated | ToolEnded) -> AgentToolCallStatus:
    """Return the wire status of a tool call after `event`."""
    if isinstance(event, ToolUpdated):
        return AgentToolCallStatus.AGENT_TOOL_CALL_STATUS_IN_PROGRESS
    if event.is_error:
        return AgentToolCallStatus.AGENT_TOOL_CALL_STATUS_FAILED
    return AgentToolCallStatus.AGENT_TOOL_CALL_STATUS_COMPLETED


def tool_title(event: ToolStarted, scrub: Callable[[str], str]) -> str:
    """Return `name` or `name: the argument a person would look for`, on one line."""
    detail = ""
    if isinstance(event.args, dict):
        detail = next((str(event.args[key]) for key in _TITLE_ARGUMENTS if event.args.get(key)), "")
    if not detail:
        return label(event.name, scrub)
    return " ".join(scrub(f"{event.name}: {detail}").split())[:_MAX_TITLE_CHARS]


def tool_output(text: str, scrub: Callable[[str], str]) -> str:
    """Return readable output, scrubbed before it is cut, with a mark where it was cut."""
    clean = scrub(text)
    if len(clean) <= MAX_TOOL_OUTPUT_CHARS:
        return clean
    mark = f"… [cut, {len(clean)} characters in all]"
    return clean[: MAX_TOOL_OUTPUT_CHARS - len(mark)] + mark


def _short(value: object) -> str:
    text = render_message(value)
    return text if len(text) <= _MAX_LINE_CHARS else text[:_MAX_LINE_CHARS] + "…"


def retry_scheduled(event: RetryScheduled) -> str:
    """Say that a retry was announced."""
    of = f" of {event.max_attempts}" if event.max_attempts is not None else ""
    wait = f" in {event.delay_ms / 1000:g} s" if event.delay_ms is not None else ""
    return f"retry {event.attempt}{of}{wait}: {_short(event.error_message)}"


def retry_ended(event: RetryEnded) -> str:
    """Say how retrying ended."""
    count = event.attempt if event.attempt is not None else 0
    times = f"{count} {'retry' if count == 1 else 'retries'}"
    if event.success:
        return f"recovered after {times}"
    return f"gave up after {times}: {_short(event.final_error)}"


def notice_line(
    event: CompactionStarted | CompactionEnded | ModelFallback | NoticeRaised | CommandFailed,
) -> str | None:
    """Say in one line what happened; None where there is nothing to say."""
    match event:
        case CompactionStarted():
            return f"compaction started ({event.reason})" if event.reason else "compaction started"
        case CompactionEnded():
            return _compaction_ended(event)
        case ModelFallback():
            verb = "answered after fallback" if event.succeeded else "fell back"
            source = f" from {event.from_model}" if event.from_model else ""
            why = f": {event.reason}" if event.reason else ""
            return f"model {verb}{source} to {event.to_model or 'another model'}{why}"
        case NoticeRaised():
            return f"{event.level}: {_short(event.text)}" if event.text else None
        case CommandFailed():
            return f"command {event.command} failed: {_short(event.error_message)}"
        case _:
            assert_never(event)


def _compaction_ended(event: CompactionEnded) -> str:
    if event.aborted:
        return "compaction cancelled"
    if event.error_message is not None:
        return f"compaction failed: {_short(event.error_message)}"
    if event.skipped:
        return "compaction skipped"
    if event.tokens_before is not None and event.tokens_after is not None:
        return f"compaction done: {event.tokens_before} to {event.tokens_after} tokens"
    return "compaction done"


def command_line(event: CommandEnd) -> str:
    """Say that an extension command failed."""
    return f"command /{event.name} failed: {_short(event.error)}"


def ended_on_request(event: SourceEnded) -> bool:
    """Whether a person ended the agent: SIGINT, or a signal that we passed on."""
    return event.requested or event.signal == signal.SIGINT


def orderly(event: SourceEnded) -> bool:
    """Whether an agent without an open run ended in order, whatever its exit status says of the last answer."""
    return event.signal is None or event.requested or event.signal in _ORDERLY_SIGNALS


def end_text(event: SourceEnded) -> str:
    """Say how the agent ended with a run open, naming signal or exit status where known."""
    if event.signal is not None:
        return f"the agent ended with the run open: signal {signal_name(event.signal)}"
    if event.exit_status is not None:
        return f"the agent ended with the run open: exit status {event.exit_status}"
    if event.reason is not None:
        return f"the host ended with the run open: {event.reason}"
    if event.requested:
        return "the run was interrupted"
    return "the stream ended with the run open"


def signal_name(number: int) -> str:
    """Return `SIGKILL` for 9; the number where this system has no name for it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def compact_json(value: object) -> str:
    """Write a value as compact JSON, non-ASCII readable; what JSON has no form for is written as its `str`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
