"""Record types of the Pi family that say nothing for a trace, or little: explicit lists, so that a new type is noticed.

Sources: the types and documents of Pi 0.73.1, Pi 1.6.0 and omp 18.3.4, and every recorded stream of them.
"""

import json
from collections.abc import Callable
from typing import Any

from compass_otel.events import (
    AgentEvent,
    CommandEnd,
    ModelChanged,
    ModelFallback,
    NoticeRaised,
    PlanChanged,
    PromptResult,
    SessionShutdown,
)
from compass_otel.sources.messages import as_text, http_status
from compass_otel.sources.tools import plan_of

OMP_TYPES = frozenset(
    {
        "advisor_cost_changed", "advisor_yielded", "auto_compaction_end", "auto_compaction_start",
        "available_commands_update", "config_warnings_changed", "notice", "prompt_result", "ready",
        "retry_fallback_applied", "retry_fallback_succeeded", "rpc_chunk", "session_settled", "todo_auto_clear",
        "todo_reminder",
    }
)  # fmt: skip
"""Types that only oh-my-pi writes: they tell whose stream it is."""

IGNORED_TYPES = frozenset(
    {
        # Pi: the person's own shell commands, names, levels, bookkeeping
        "bash_execution_update", "entry_appended", "session_info_changed", "summarization_retry_attempt_start",
        "summarization_retry_finished", "summarization_retry_scheduled", "thinking_level_changed",
        # omp
        "advisor_cost_changed", "advisor_yielded", "available_commands_update", "btw_delta", "btw_record",
        "cache_warming_end", "cache_warming_start", "command_output", "config_update", "config_warnings_changed",
        "goal_updated", "irc_message", "live_end", "live_levels", "live_phase", "live_transcript", "persona_changed",
        "ready", "session_info_update", "subagent_event", "subagent_lifecycle", "subagent_progress",
        "tool_stream_update", "ttsr_triggered",
        # requests to the host, and its answers
        "extension_ui_response", "host_tool_call", "host_tool_cancel", "host_tool_result", "host_tool_update",
        "host_uri_cancel", "host_uri_request", "host_uri_result",
        # what only an extension hears
        "after_provider_response", "agent_before_settle", "before_agent_start", "before_provider_headers",
        "before_provider_request", "context", "context_with_system", "input", "provider_stream_event",
        "resources_discover", "session.compacting", "session_before_fork", "session_before_switch",
        "session_before_tree", "session_start", "session_stop", "session_tree", "tool_call", "tool_result",
        "user_bash",
    }
)  # fmt: skip

IGNORED_UPDATES = frozenset(
    {"done", "image_end", "start", "text_end", "thinking_end", "toolcall_delta", "toolcall_end"}
)
"""Inner types of `message_update` that repeat what deltas said or what `message_end` will say."""

BLOCK_STARTS = {"text_start": "text", "thinking_start": "thinking", "toolcall_start": "toolcall"}
"""Inner types that begin a content block, and the block's kind."""

Mapped = tuple[AgentEvent, ...] | None
"""What a record became; None if there is nothing in it for us."""


def _notice(record: dict[str, Any], at_ns: int) -> Mapped:
    text = as_text(record.get("message"))
    return (
        None if text is None else (NoticeRaised(at_ns=at_ns, text=text, level=as_text(record.get("level")) or "info"),)
    )


def _ui_request(record: dict[str, Any], at_ns: int) -> Mapped:
    """Of all requests to the person's screen, only `notify` says something about the work."""
    text = as_text(record.get("message"))
    if record.get("method") != "notify" or text is None:
        return None
    return (NoticeRaised(at_ns=at_ns, text=text, level=as_text(record.get("notifyType")) or "info"),)


def _extension_error(record: dict[str, Any], at_ns: int) -> Mapped:
    where = as_text(record.get("extensionPath")) or "?"
    text = f"extension {where} failed in {as_text(record.get('event')) or '?'}: {plain(record.get('error'))}"
    return (NoticeRaised(at_ns=at_ns, text=text, level="error"),)


def _frame_error(record: dict[str, Any], at_ns: int) -> Mapped:
    what = as_text(record.get("originalType")) or "record"
    text = f"the agent could not send a {what}: {plain(record.get('error'))}"
    return (NoticeRaised(at_ns=at_ns, text=text, level="warning"),)


def _fallback_applied(record: dict[str, Any], at_ns: int) -> Mapped:
    old, new = as_text(record.get("from")), as_text(record.get("to"))
    return (ModelFallback(at_ns=at_ns, from_model=old, to_model=new, reason=as_text(record.get("reason"))),)


def _fallback_succeeded(record: dict[str, Any], at_ns: int) -> Mapped:
    return (ModelFallback(at_ns=at_ns, to_model=as_text(record.get("model")), succeeded=True),)


def _model_changed(record: dict[str, Any], at_ns: int) -> Mapped:
    """`model` is a string "provider/id", an object, or absent (omp 18 says only that it changed)."""
    raw = record.get("model")
    if isinstance(raw, dict):
        provider, model = as_text(raw.get("provider")), as_text(raw.get("id"))
    else:
        provider, model = split_model(raw, as_text(record.get("provider")))
        model = model or as_text(record.get("modelId"))
    return None if model is None else (ModelChanged(at_ns=at_ns, provider=provider, model=model),)


def _prompt_result(record: dict[str, Any], at_ns: int) -> Mapped:
    raw = record.get("error")
    error = raw if isinstance(raw, dict) else {"message": raw}
    result = PromptResult(
        at_ns=at_ns,
        status=as_text(record.get("status")) or ("error" if raw is not None else "completed"),
        error_message=error.get("message"),
        error_status=http_status(error.get("httpStatus")),
        provider=as_text(error.get("provider")),
        model=as_text(error.get("model")),
    )
    return (result,)


def _command_end(record: dict[str, Any], at_ns: int) -> Mapped:
    error = record.get("error")
    end = CommandEnd(
        at_ns=at_ns,
        name=as_text(record.get("name")) or "",
        args=plain(record.get("args")),
        error=None if error is None else plain(error),
    )
    return (end,)


def _todo_reminder(record: dict[str, Any], at_ns: int) -> Mapped:
    plan = plan_of(record.get("todos"))
    return None if plan is None else (PlanChanged(at_ns, plan),)


def _todo_cleared(_record: dict[str, Any], at_ns: int) -> Mapped:
    return (PlanChanged(at_ns),)


def _shut_down(_record: dict[str, Any], at_ns: int) -> Mapped:
    return (SessionShutdown(at_ns),)


SIMPLE_TYPES: dict[str, Callable[[dict[str, Any], int], Mapped]] = {
    "notice": _notice,
    "extension_ui_request": _ui_request,
    "extension_error": _extension_error,
    "rpc_frame_error": _frame_error,
    "retry_fallback_applied": _fallback_applied,
    "retry_fallback_succeeded": _fallback_succeeded,
    "model_changed": _model_changed,
    "model_select": _model_changed,
    "prompt_result": _prompt_result,
    "command_end": _command_end,
    "todo_reminder": _todo_reminder,
    "todo_auto_clear": _todo_cleared,
    "session_shutdown": _shut_down,
    "session_exit": _shut_down,
}
"""Records whose meaning needs nothing that came before."""


def split_model(raw: Any, provider: str | None = None) -> tuple[str | None, str | None]:
    """Split omp's "provider/id" (the id may hold more slashes) into provider and model."""
    name = as_text(raw)
    if name is None or provider is not None or "/" not in name:
        return provider, name
    before, _, after = name.partition("/")
    return before, after


def plain(value: Any) -> str:
    """Render a value that should have been a text."""
    text = as_text(value)
    if text is not None:
        return text
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)
