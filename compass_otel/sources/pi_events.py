"""What each record of a Pi-family stream means, given what came before: one function for each type.

A function gets the stream's state, the record, and the arrival time of a live one; it gives the events, None if the
record is known and carries nothing for us, or `Unmapped` if what it should carry is not there.
"""

import re
from collections import Counter
from typing import Any

from msgspec import Struct, field

from compass_otel.events import (
    AgentEvent,
    AssistantMessage,
    BlockStarted,
    CommandFailed,
    CompactionEnded,
    CompactionStarted,
    InjectionQueued,
    InnerError,
    Message,
    MessageEnded,
    MessageStarted,
    PlanChanged,
    PromptRefused,
    PromptSettled,
    RetryEnded,
    RetryScheduled,
    RunEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolResultMessage,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from compass_otel.patterns import pattern
from compass_otel.sources.messages import (
    as_flag,
    as_float,
    as_int,
    as_text,
    assistant_of,
    message_of,
    messages_of,
    text_of,
    usage_of,
)
from compass_otel.sources.pi_types import BLOCK_STARTS, IGNORED_UPDATES
from compass_otel.sources.settling import Settling
from compass_otel.sources.timing import Timeline, ms_to_ns
from compass_otel.sources.tools import changes_files, diffs_of, exit_code_of, is_synthetic, plan_in
from compass_otel.unmapped import Unmapped

Record = dict[str, Any]
Outcome = tuple[AgentEvent, ...] | Unmapped | None

_OPEN_TOOLS_MAX = 1024
"""Tool calls remembered until they end; a call whose end never comes is forgotten, oldest first."""

_RETRY_CANCELLED = pattern(r"\s*retry (?:was )?(?:cancel|abort)", re.IGNORECASE)
"""How all three agents word a retry wait that a person ended: "Retry cancelled"."""

_PROMPTS = frozenset({"prompt", "abort_and_prompt"})
_INJECTIONS = frozenset({"steer", "follow_up"})


class _OpenTool(Struct):
    """A tool call that has not ended."""

    started_ns: int
    args: Any


class StreamState(Struct):
    """What a stream's later records need to know of its earlier ones."""

    agent: str = "pi"
    timeline: Timeline = field(default_factory=Timeline)
    settling: Settling = field(default_factory=Settling)
    tools: dict[str, _OpenTool] = field(default_factory=dict)
    queued: dict[str, list[str]] = field(default_factory=lambda: {"steer": [], "follow_up": []})
    dequeued: list[str] = field(default_factory=list)
    """Texts that left the queue just now: the next user message is one of them."""
    unnamed: Counter[str] = field(default_factory=Counter)
    """Injections announced without their text, by kind, not yet seen in a `queue_update`."""
    queue_told: bool = False
    """This agent announces injections by `queue_update`, so a command's answer adds nothing."""
    compaction_told: bool = False
    """A compaction runs that the stream itself announced, so the extension API's word for it adds nothing."""


def _with(settled: PromptSettled | None, *events: AgentEvent) -> tuple[AgentEvent, ...]:
    return events if settled is None else (settled, *events)


def agent_start(state: StreamState, _record: Record, arrival_ns: int | None) -> Outcome:
    """Begin a low-level run."""
    state.settling.run_started()
    state.dequeued.clear()
    return (RunStarted(state.timeline.at(arrival_ns)),)


def agent_end(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """End a low-level run, and in omp the prompt with it."""
    now = state.timeline.at(arrival_ns)
    ended = RunEnded(at_ns=now, messages=messages_of(record.get("messages")))
    state.dequeued.clear()
    settled = state.settling.run_ended(record, now, is_omp=state.agent == "omp")
    return (ended,) if settled is None else (ended, settled)


def agent_settled(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """Settle the prompt: Pi 1.6 says that all work is done."""
    return _with(state.settling.all_done(state.timeline.at(arrival_ns), aborted=as_flag(record.get("aborted"))))


def session_settled(state: StreamState, _record: Record, arrival_ns: int | None) -> Outcome:
    """Settle what is open: omp says in rpc mode that nothing will wake the session again."""
    return _with(state.settling.all_done(state.timeline.at(arrival_ns)))


def turn_start(state: StreamState, _record: Record, arrival_ns: int | None) -> Outcome:
    """Begin a turn."""
    return (TurnStarted(state.timeline.at(arrival_ns)),)


def turn_end(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """End a turn."""
    results = tuple(m for m in messages_of(record.get("toolResults")) if isinstance(m, ToolResultMessage))
    now = state.timeline.at(arrival_ns)
    return (TurnEnded(at_ns=now, message=message_of(record.get("message")), tool_results=results),)


def _message(state: StreamState, record: Record) -> Message | None:
    raw = record.get("message")
    if isinstance(raw, dict) and "attribution" in raw:
        state.agent = "omp"
    return message_of(raw, as_text(record.get("messageId")))


def message_start(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """Begin a message; a user's may show that the prompt before is over."""
    message = _message(state, record)
    if message is None:
        return Unmapped("message_start", "wrong_fields")
    now = state.timeline.at(arrival_ns, ms_to_ns(message.timestamp_ms))
    settled = None
    if isinstance(message, UserMessage):
        settled = state.settling.user_message(injected=message.text in state.dequeued)
        state.dequeued.clear()
    elif isinstance(message, AssistantMessage):
        state.settling.work_seen()
    return _with(settled, MessageStarted(now, message))


def message_end(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """End a message, which is whole now."""
    message = _message(state, record)
    if message is None:
        return Unmapped("message_end", "wrong_fields")
    if isinstance(message, AssistantMessage):
        state.settling.work_seen()
    return (MessageEnded(state.timeline.at(arrival_ns, ended_ns(message)), message),)


def ended_ns(message: Message) -> int | None:
    """Give the time at which a stored message was whole, as far as it says: omp and Pi 1.6 do, Pi 0.73 does not."""
    started = ms_to_ns(message.timestamp_ms)
    if isinstance(message, AssistantMessage):
        if message.completed_at_ms is not None:
            return ms_to_ns(message.completed_at_ms)
        if started is not None and message.duration_ms is not None:
            return started + int(message.duration_ms * 1e6)
    return started


def message_update(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """Read a piece of an answer, or its failure."""
    inner = record.get("assistantMessageEvent")
    kind = inner.get("type") if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(kind, str):
        return Unmapped("message_update", "wrong_fields")
    now = state.timeline.at(arrival_ns)
    if kind in ("text_delta", "thinking_delta"):
        delta = as_text(inner.get("delta"))
        if delta is None:
            return Unmapped(f"message_update:{kind}", "wrong_fields")
        return (TextDelta(now, delta) if kind == "text_delta" else ThinkingDelta(now, delta),)
    if kind in BLOCK_STARTS:
        return (BlockStarted(now, BLOCK_STARTS[kind]),)
    if kind == "error":
        return _inner_error(state, inner, now, as_text(record.get("messageId")))
    return None if kind in IGNORED_UPDATES else Unmapped(f"message_update:{kind}", "unknown_type")


def _inner_error(state: StreamState, inner: Record, now_ns: int, message_id: str | None) -> Outcome:
    """Read the stream's own `error` event; without a message in it, the error itself is what is known."""
    state.settling.work_seen()
    raw = inner.get("error")
    message = assistant_of(raw if isinstance(raw, dict) else {"errorMessage": raw}, message_id)
    reason = as_text(inner.get("reason")) or message.stop_reason
    return (InnerError(now_ns, "aborted" if reason == "aborted" else "error", message),)


def tool_start(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """Begin a tool call."""
    call_id = as_text(record.get("toolCallId"))
    if call_id is None:
        return Unmapped("tool_execution_start", "wrong_fields")
    state.settling.work_seen()
    now, name, args = state.timeline.at(arrival_ns), as_text(record.get("toolName")) or "", record.get("args")
    state.tools[call_id] = _OpenTool(now, args if changes_files(name) or "todo" in name.lower() else None)
    if len(state.tools) > _OPEN_TOOLS_MAX:
        del state.tools[next(iter(state.tools))]
    parent = as_text(record.get("parentToolCallId"))
    return (ToolStarted(at_ns=now, call_id=call_id, name=name, args=args, parent_call_id=parent),)


def tool_update(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """Read the output that a running tool shows, whole so far."""
    call_id = as_text(record.get("toolCallId"))
    if call_id is None:
        return Unmapped("tool_execution_update", "wrong_fields")
    now, name = state.timeline.at(arrival_ns), as_text(record.get("toolName")) or ""
    return (ToolUpdated(at_ns=now, call_id=call_id, name=name, output=_output(record.get("partialResult"))),)


def _output(result: Any) -> str:
    return text_of(result.get("content")) if isinstance(result, dict) else as_text(result) or ""


def tool_end(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """End a tool call."""
    call_id = as_text(record.get("toolCallId"))
    if call_id is None:
        return Unmapped("tool_execution_end", "wrong_fields")
    started = state.tools.pop(call_id, None)
    raw, duration = record.get("result"), as_float(record.get("durationMs"))
    stored_ns = started.started_ns + int(duration * 1e6) if started and started.started_ns and duration else None
    result = raw if isinstance(raw, dict) else {"content": as_text(raw) or ""}
    failed = as_flag(record.get("isError")) or as_flag(result.get("isError"))
    return ended_tool(
        state.timeline.at(arrival_ns, stored_ns),
        call_id=call_id,
        name=as_text(record.get("toolName")) or "",
        args=started.args if started else None,
        result=result,
        failed=failed,
        duration_ms=duration,
    )


def ended_tool(  # noqa: PLR0913 - the facts of one tool call
    now_ns: int, *, call_id: str, name: str, args: Any, result: Record, failed: bool, duration_ms: float | None
) -> tuple[AgentEvent, ...]:
    """Build what the end of a tool call tells, from a stream's result or from a session file's `toolResult`."""
    output = _output(result)
    ended = ToolEnded(
        at_ns=now_ns,
        call_id=call_id,
        name=name,
        is_error=failed,
        output=output,
        diffs=diffs_of(args, result) if not failed and changes_files(name) else (),
        duration_ms=duration_ms,
        exit_code=exit_code_of(result, output),
        synthetic=is_synthetic(result),
    )
    plan = None if failed else plan_in(name, args, result)
    return (ended,) if plan is None else (ended, PlanChanged(now_ns, plan))


def retry_start(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """Announce an automatic retry."""
    state.settling.retry_announced()
    scheduled = RetryScheduled(
        at_ns=state.timeline.at(arrival_ns),
        attempt=as_int(record.get("attempt")) or 1,
        max_attempts=as_int(record.get("maxAttempts")),
        delay_ms=as_float(record.get("delayMs")),
        error_message=record.get("errorMessage"),
    )
    return (scheduled,)


def retry_end(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """End automatic retrying; in Pi 0.73 a failed end is the prompt's last record."""
    now, success, error = state.timeline.at(arrival_ns), as_flag(record.get("success")), record.get("finalError")
    cancelled = not success and isinstance(error, str) and _RETRY_CANCELLED.match(error) is not None
    attempt = as_int(record.get("attempt"))
    ended = RetryEnded(at_ns=now, success=success, attempt=attempt, final_error=error, cancelled=cancelled)
    settled = state.settling.retry_over(now, success=success)
    return (ended,) if settled is None else (ended, settled)


def compaction_start(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """Begin a compaction; a manual one is outside every prompt and so ends the one before."""
    reason = as_text(record.get("reason"))
    state.compaction_told = True
    settled = state.settling.compaction_started(manual=reason == "manual")
    return _with(settled, CompactionStarted(at_ns=state.timeline.at(arrival_ns), reason=reason))


def compaction_end(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """End a compaction, one way or another."""
    now, reason = state.timeline.at(arrival_ns), as_text(record.get("reason"))
    state.compaction_told = False
    state.settling.compaction_ended(now, manual=reason == "manual")
    return (ended_compaction(now, record, record.get("result"), reason=reason),)


def ended_compaction(now_ns: int, record: Record, raw_result: Any, *, reason: str | None) -> CompactionEnded:
    """Build what the end of a compaction tells; the result is part of the record, an entry, or absent."""
    result = raw_result if isinstance(raw_result, dict) else {}
    after = as_int(result.get("estimatedTokensAfter"))
    return CompactionEnded(
        at_ns=now_ns,
        reason=reason,
        tokens_before=as_int(result.get("tokensBefore")),
        tokens_after=as_int(result.get("tokensAfter")) if after is None else after,
        aborted=as_flag(record.get("aborted")),
        skipped=as_flag(record.get("skipped")),
        will_retry=as_flag(record.get("willRetry")),
        error_message=record.get("errorMessage"),
        usage=usage_of(result.get("usage")),
    )


def extension_compaction_start(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """Begin a compaction by the extension API's word, `session_before_compact`."""
    if state.compaction_told:
        state.timeline.at(arrival_ns)
        return None
    outcome = compaction_start(state, record, arrival_ns)
    state.compaction_told = False
    return outcome


def extension_compaction_end(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """End a compaction by the extension API's words, `session_compact` and `session_compact_failed`."""
    if state.compaction_told:
        state.timeline.at(arrival_ns)
        return None
    return compaction_end(state, {**record, "result": record.get("compactionEntry")}, arrival_ns)


def response(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """Read the answer to an rpc command: failures and injections say something, other successes nothing."""
    command, success, now = as_text(record.get("command")) or "", record.get("success"), state.timeline.at(arrival_ns)
    if success is False or (success is not True and record.get("error") is not None):
        error = record.get("error")
        if command in _PROMPTS:
            return (PromptRefused(at_ns=now, error_message=error),)
        return (CommandFailed(at_ns=now, command=command, error_message=error),)
    data = record.get("data")
    disposition = data.get("disposition") if isinstance(data, dict) else None
    if command not in _INJECTIONS or state.queue_told or disposition not in (None, "queued"):
        return None
    state.unnamed[command] += 1
    return (InjectionQueued(at_ns=now, kind=command),)


def queue_update(state: StreamState, record: Record, arrival_ns: int | None) -> Outcome:
    """Announce what is new in the queue of injections, and remember what left it."""
    now, state.queue_told = state.timeline.at(arrival_ns), True
    events: list[AgentEvent] = []
    for kind, name in (("steer", "steering"), ("follow_up", "followUp")):
        raw = record.get(name)
        texts = [text for text in raw if isinstance(text, str)] if isinstance(raw, list) else []
        before, after = Counter(state.queued[kind]), Counter(texts)
        for text in (after - before).elements():
            if state.unnamed[kind] > 0:
                state.unnamed[kind] -= 1
            else:
                events.append(InjectionQueued(at_ns=now, kind=kind, text=text))
        state.dequeued.extend((before - after).elements())
        state.queued[kind] = texts
    return tuple(events)
