"""What each entry of a session file means, given what came before: one function for each type.

Times: a message's `timestamp` is when it began (a request's start), the entry's own when it was appended (its end).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from compass_otel.events import (
    AgentEvent,
    AssistantMessage,
    CompactionStarted,
    Ending,
    MessageEnded,
    MessageStarted,
    ModelChanged,
    OtherMessage,
    PlanChanged,
    PromptSettled,
    RetryEnded,
    RetryScheduled,
    RunEnded,
    RunStarted,
    SessionShutdown,
    ToolResultMessage,
    ToolStarted,
    UserMessage,
)
from compass_otel.sources.messages import as_float, as_text, message_of, text_of
from compass_otel.sources.pi_events import ended_compaction, ended_tool
from compass_otel.sources.pi_types import split_model
from compass_otel.sources.timing import Timeline, iso_to_ns, ms_to_ns
from compass_otel.sources.tools import plan_of
from compass_otel.unmapped import Unmapped

Record = dict[str, Any]
Outcome = tuple[AgentEvent, ...] | Unmapped | None

_FINAL = frozenset({"stop", "length", "error", "aborted"})
"""Stop reasons after which the agent may have been done; `toolUse`, `pending` and `deferred` ask for more."""

IGNORED_ENTRIES = frozenset(
    {
        "archive", "branch_summary", "context_edit", "credential_pin", "label", "mode_change", "model_usage",
        "reset_boundary", "service_tier_change", "session_info", "session_init", "thinking_level_change",
        "title_change", "ttsr_injection", "usage",
    }
)  # fmt: skip
"""Entries that say nothing for a trace."""


@dataclass(slots=True)
class _OpenTool:
    """A tool call whose result has not come."""

    name: str
    args: Any
    started: bool


@dataclass(slots=True)
class _Prompt:
    """A prompt at work."""

    message: UserMessage
    last_ns: int
    """When its latest entry was appended."""
    answer: AssistantMessage | None = None
    """The latest answer; None while tools run or the model is asked."""
    failure: AssistantMessage | None = None
    """The latest answer, if it failed and nothing but bookkeeping followed: another attempt is a retry."""
    retries: int = 0
    tools: dict[str, _OpenTool] = field(default_factory=dict)
    compactions: list[AgentEvent] = field(default_factory=list)
    """Compactions after a good answer: within the prompt if it goes on, else after it; not said until that shows."""


@dataclass(slots=True)
class EntryState:
    """What a file's later entries need to know of its earlier ones."""

    agent: str = "pi"
    timeline: Timeline = field(default_factory=Timeline)
    prompt: _Prompt | None = None

    def answer_is_final(self) -> bool:
        """Whether the latest prompt's last answer could be its end; True too if there is no prompt."""
        prompt = self.prompt
        return prompt is None or (prompt.answer is not None and prompt.answer.stop_reason in _FINAL)

    def answer_failed(self) -> bool:
        """Whether the latest prompt's last answer says that it failed, so that a retry may be waiting."""
        return self.prompt is not None and self.prompt.answer is not None and self.prompt.answer.stop_reason == "error"

    def open_prompt(self) -> UserMessage | None:
        """Give the prompt whose answer is not in the file."""
        return None if self.prompt is None or self.answer_is_final() else self.prompt.message

    def close(self, ending: Ending) -> tuple[AgentEvent, ...]:
        """Settle the latest prompt; `ending` says how, if its answer is not in the file."""
        prompt, final = self.prompt, self.answer_is_final()
        if prompt is None:
            return ()
        self.prompt = None
        events: list[AgentEvent] = []
        if prompt.retries and prompt.failure is not None:
            error = prompt.failure.error_message
            events.append(RetryEnded(at_ns=prompt.last_ns, success=False, attempt=prompt.retries, final_error=error))
        events.append(RunEnded(at_ns=prompt.last_ns))
        events.append(PromptSettled(at_ns=prompt.last_ns, ending=Ending.SETTLED if final else ending))
        return (*events, *prompt.compactions)


def message(state: EntryState, entry: Record) -> Outcome:
    """Read a `message` entry of any role."""
    raw = entry.get("message")
    if isinstance(raw, dict) and "attribution" in raw:
        state.agent = "omp"
    value = message_of(raw)
    if value is None or not isinstance(raw, dict):
        return Unmapped("message", "wrong_fields")
    appended_ns = iso_to_ns(entry.get("timestamp"))
    if isinstance(value, UserMessage):
        return _user(state, raw, value, appended_ns)
    if isinstance(value, AssistantMessage):
        return _assistant(state, raw, value, appended_ns)
    if isinstance(value, ToolResultMessage):
        return _tool_result(state, raw, value, appended_ns)
    return _other(state, value, appended_ns)


def _user(state: EntryState, raw: Record, value: UserMessage, appended_ns: int | None) -> Outcome:
    """Begin a prompt, or inject into the one at work: a message that is older than what it follows had waited."""
    written_ns, prompt = ms_to_ns(value.timestamp_ms) or appended_ns, state.prompt
    waited = written_ns is not None and prompt is not None and written_ns < prompt.last_ns
    if prompt is not None and (waited or raw.get("steering") is True or raw.get("attribution") == "agent"):
        now = state.timeline.at(None, appended_ns)
        prompt.last_ns, prompt.answer, prompt.failure = now, None, None
        return (*_go_on(prompt), MessageStarted(now, value), MessageEnded(now, value))
    events = state.close(Ending.UNANSWERED)
    now = state.timeline.at(None, written_ns)
    state.prompt = _Prompt(value, now)
    return (*events, RunStarted(now), MessageStarted(now, value), MessageEnded(now, value))


def _go_on(prompt: _Prompt) -> list[AgentEvent]:
    """Say what was kept back in case the prompt was over."""
    events, prompt.compactions = prompt.compactions, []
    return events


def _assistant(state: EntryState, raw: Record, value: AssistantMessage, appended_ns: int | None) -> Outcome:
    """Read an answer; one that follows a failure directly is a retry of it."""
    events: list[AgentEvent] = []
    started_ns = ms_to_ns(value.timestamp_ms) or appended_ns
    prompt = state.prompt
    if prompt is None:
        now = state.timeline.at(None, started_ns)
        prompt = state.prompt = _Prompt(UserMessage(), now)
        events.append(RunStarted(now))
    events.extend(_go_on(prompt))
    if prompt.failure is not None:
        prompt.retries += 1
        error = prompt.failure.error_message
        events.append(RetryScheduled(at_ns=prompt.last_ns, attempt=prompt.retries, error_message=error))
    events.append(MessageStarted(state.timeline.at(None, started_ns), value))
    now = state.timeline.at(None, appended_ns)
    events.append(MessageEnded(now, value))
    if prompt.retries and not value.failed:
        events.append(RetryEnded(at_ns=now, success=True, attempt=prompt.retries))
        prompt.retries = 0
    prompt.last_ns, prompt.answer = now, value
    prompt.failure = value if value.stop_reason == "error" else None
    is_omp = state.agent == "omp" or "completedAt" in raw
    for call in value.tool_calls:
        runs = not value.failed and not is_omp
        prompt.tools[call.call_id] = _OpenTool(call.name, call.arguments, started=runs)
        if runs:
            events.append(ToolStarted(at_ns=now, call_id=call.call_id, name=call.name, args=call.arguments))
    return tuple(events)


def _tool_result(state: EntryState, raw: Record, value: ToolResultMessage, appended_ns: int | None) -> Outcome:
    """End a tool call. omp's result after a failed answer is one that never ran."""
    now = state.timeline.at(None, ms_to_ns(value.timestamp_ms) or appended_ns)
    prompt = state.prompt
    tool = prompt.tools.pop(value.call_id, None) if prompt is not None else None
    name, args = value.tool_name or (tool.name if tool else ""), tool.args if tool else None
    events: list[AgentEvent] = []
    if tool is None or not tool.started:
        events.append(ToolStarted(at_ns=now, call_id=value.call_id, name=name, args=args))
    duration = as_float(raw.get("durationMs"))
    events.extend(
        ended_tool(
            now,
            call_id=value.call_id,
            name=name,
            args=args,
            result=raw,
            failed=value.is_error,
            duration_ms=duration,
        )
    )
    events.extend((MessageStarted(now, value), MessageEnded(now, value)))
    now = state.timeline.at(None, appended_ns)
    if prompt is not None:
        prompt.last_ns = now
        if not (prompt.answer is not None and prompt.answer.failed):
            prompt.answer = None
    return tuple(events)


def _other(state: EntryState, value: OtherMessage, appended_ns: int | None) -> Outcome:
    """Read a message that is part of a prompt; system prompts and the person's own shell commands are not."""
    if value.role in ("system", "bashExecution", "compactionSummary", "branchSummary"):
        state.timeline.at(None, appended_ns)
        return None
    now = state.timeline.at(None, appended_ns)
    return (MessageStarted(now, value), MessageEnded(now, value))


def custom_message(state: EntryState, entry: Record) -> Outcome:
    """Read a message that an extension or omp itself put into the conversation."""
    value = OtherMessage(role="custom", text=text_of(entry.get("content")))
    return _other(state, value, iso_to_ns(entry.get("timestamp")))


def custom(state: EntryState, entry: Record) -> Outcome:
    """Read omp's own notes: a tool's start, an orderly exit, an edited plan; an extension's are ignored."""
    raw, kind = entry.get("data"), entry.get("customType")
    data = raw if isinstance(raw, dict) else {}
    stamp = iso_to_ns(data.get("startedAt")) or iso_to_ns(entry.get("timestamp"))
    if kind == "session_exit":
        events = state.close(Ending.UNANSWERED)
        return (*events, SessionShutdown(state.timeline.at(None, stamp)))
    if kind == "tool_execution_start":
        return _tool_note(state, data, stamp)
    if kind == "user_todo_edit":
        plan = plan_of(data.get("phases"))
        return None if plan is None else (PlanChanged(state.timeline.at(None, stamp), plan),)
    return None


def _tool_note(state: EntryState, data: Record, stamp: int | None) -> Outcome:
    """Take omp's note that a tool began, which alone tells that it ran before the process was killed."""
    state.agent = "omp"
    call_id = as_text(data.get("toolCallId"))
    prompt = state.prompt
    if call_id is None or prompt is None:
        return None
    now, args = state.timeline.at(None, stamp), data.get("args")
    tool = prompt.tools.setdefault(call_id, _OpenTool(as_text(data.get("toolName")) or "", args, started=False))
    if tool.started:
        return None
    tool.started = True
    return (ToolStarted(at_ns=now, call_id=call_id, name=tool.name, args=args),)


def compaction(state: EntryState, entry: Record) -> Outcome:
    """Read a compaction. When it began is not in the file: after a failure at once, else unknown, so no time at all."""
    prompt = state.prompt
    within = prompt is not None and (prompt.answer is None or prompt.answer.stop_reason == "error")
    started_ns = prompt.last_ns if prompt is not None and within else None
    now = state.timeline.at(None, iso_to_ns(entry.get("timestamp")))
    events = (
        CompactionStarted(at_ns=now if started_ns is None else started_ns),
        ended_compaction(now, {}, entry, reason=None),
    )
    if prompt is None:
        return events
    if not within:
        prompt.compactions.extend(events)
        return ()
    prompt.last_ns, prompt.failure = now, None
    return events


def model_change(state: EntryState, entry: Record) -> Outcome:
    """Read a change of model: Pi gives `provider` and `modelId`, omp `model` as "provider/id"."""
    now = state.timeline.at(None, iso_to_ns(entry.get("timestamp")))
    if "model" in entry:
        state.agent = "omp"
    provider, model = split_model(entry.get("model"), as_text(entry.get("provider")))
    return (ModelChanged(at_ns=now, provider=provider, model=model or as_text(entry.get("modelId"))),)


def title(state: EntryState, _entry: Record) -> Outcome:
    """Take omp's title slot, the line before the header."""
    state.agent = "omp"
    return None


HANDLERS: dict[str, Callable[[EntryState, Record], Outcome]] = {
    "message": message,
    "custom": custom,
    "custom_message": custom_message,
    "compaction": compaction,
    "model_change": model_change,
    "title": title,
}
"""Entries that become events."""
