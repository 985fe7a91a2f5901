"""Renderers: put the advisor's notes at the end of a host's message list, in the host's own format.

Each gives a new list and leaves the given one, and every message in it, as it is. Nothing before the end changes, nor
does the system prompt, so a prompt cache that holds the conversation still holds it. One message carries all notes, in
the *user* role: they quote text that a provider wrote, and a `system` or `developer` message would lend that text an
authority it must not have; the `[error-advisor]` mark tells the model that no person speaks.

A note never stands between a tool call and its result. While a call is unanswered there is no room for one, and the
messages come back as they were; a host that builds such requests asks `takes_note` before it asks the advisor.

Pure; not tied to a provider's package. Sources: the request models of the `openai` and `anthropic` packages, and Pi's
`AgentMessage`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, assert_never

from compass_otel.advisor_causes import field, timestamp_ms
from compass_otel.advisor_notes import Note, told

_ANTHROPIC_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_LEGACY_CALL: Final = "function_call"
"""Stands for the id that OpenAI's `function_call` of old does not have."""


class HostFormat(StrEnum):
    """The message formats that a note can be written in."""

    PI = "pi"
    OPENAI = "openai"
    """Chat Completions or Responses, told apart by the messages."""
    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC = "anthropic"


def render(messages: Sequence[Any] | str, notes: Sequence[Note], host: HostFormat) -> list[Any]:
    """Put `notes` at the end of `messages` in the format of `host`.

    Args:
        messages: the host's messages, oldest first; a plain string is Responses' short form of one user message.
        notes: what `ErrorAdvisor.advise` gave.
        host: the format.

    Returns:
        A new list; equal to `messages` if there are no notes, or no room for one.

    """
    match host:
        case HostFormat.PI:
            return render_pi(messages, notes)
        case HostFormat.OPENAI:
            if isinstance(messages, str) or any(_is_responses_item(message) for message in messages):
                return render_openai_responses(messages, notes)
            return render_openai_chat(messages, notes)
        case HostFormat.OPENAI_CHAT:
            return render_openai_chat(messages, notes)
        case HostFormat.OPENAI_RESPONSES:
            return render_openai_responses(messages, notes)
        case HostFormat.ANTHROPIC:
            return render_anthropic(messages, notes)
        case _:
            assert_never(host)


def render_pi(messages: Sequence[Any], notes: Sequence[Note], *, at_ms: int | None = None) -> list[Any]:
    """Add one Pi (or omp) user message, as the `context` hook may return it.

    Args:
        messages: Pi's `AgentMessage`s.
        notes: what the advisor gave.
        at_ms: the new message's timestamp, in milliseconds since the epoch; None takes the last message's.

    """
    if not notes or not takes_note(messages):
        return list(messages)
    if at_ms is None:
        at_ms = next((stamp for m in reversed(messages) if (stamp := timestamp_ms(m)) is not None), 0)
    content = [{"type": "text", "text": told(notes)}]
    return [*messages, {"role": "user", "content": content, "timestamp": at_ms}]


def render_openai_chat(messages: Sequence[Any], notes: Sequence[Note], *, merge: bool = False) -> list[Any]:
    """Add one Chat Completions user message.

    Args:
        messages: the request's `messages`.
        notes: what the advisor gave.
        merge: put the notes into the last message if that is a user's, for a server whose chat template refuses two
            user messages in a row (OpenAI's own API takes them).

    """
    if not notes or not takes_note(messages):
        return list(messages)
    merged = _merged(messages, notes) if merge else None
    return [*messages, {"role": "user", "content": told(notes)}] if merged is None else merged


def render_openai_responses(messages: Sequence[Any] | str, notes: Sequence[Note]) -> list[Any]:
    """Add one user message to the `input` of a Responses request."""
    items = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
    if not notes or not takes_note(items):
        return items
    content = [{"type": "input_text", "text": told(notes)}]
    return [*items, {"type": "message", "role": "user", "content": content}]


def render_anthropic(messages: Sequence[Any], notes: Sequence[Note]) -> list[Any]:
    """Add the notes to a Messages request, as one more text block of the last user message.

    The API joins two user messages in a row, and some servers that speak its format refuse them, so the last user
    message is given again with one block more: after its tool results, as the API demands, and after its
    `cache_control` marks, so that what they cache is found again. Where the last message is not a user's, one is added.
    """
    if not notes or not takes_note(messages):
        return list(messages)
    merged = _merged(messages, notes)
    return [*messages, {"role": "user", "content": [_text_block(notes)]}] if merged is None else merged


def render_text(notes: Iterable[Note]) -> str:
    """All notes as plain text, one line each; "" for none."""
    return told(notes)


def takes_note(messages: Sequence[Any]) -> bool:
    """Whether a message may follow: no tool call waits for its result, and no reasoning item for what it led to."""
    waiting: set[str] = set()
    for message in messages:
        waiting.update(_calls(message))
        waiting.difference_update(_answers(message))
    return not waiting and not (messages and field(messages[-1], "type") == "reasoning")


def _merged(messages: Sequence[Any], notes: Sequence[Note]) -> list[Any] | None:
    """`messages` with the notes in the last one; None if that is not a user's, or cannot be copied unread."""
    last = messages[-1] if messages else None
    if not isinstance(last, Mapping) or last.get("role") != "user":
        return None
    content = last.get("content")
    if isinstance(content, str):
        # The string is short for one text block, which the API caches alike; an empty block it refuses.
        content = [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list | tuple):
        return None
    return [*messages[:-1], {**last, "content": [*content, _text_block(notes)]}]


def _text_block(notes: Sequence[Note]) -> dict[str, str]:
    return {"type": "text", "text": told(notes)}


def _is_responses_item(message: object) -> bool:
    return isinstance(field(message, "type"), str) or any(
        str(field(block, "type")) in ("input_text", "output_text", "input_image", "input_file")
        for block in _listed(message, "content")
    )


def _listed(message: object, name: str) -> Sequence[Any]:
    # A generator is left alone: to read it would be to use the host's message up.
    value = field(message, name)
    return value if isinstance(value, list | tuple) else ()


def _calls(message: object) -> Iterator[str]:
    """Ids of the tool calls that `message` makes."""
    kind = field(message, "type")
    if isinstance(kind, str) and not _is_output(kind):
        yield from _ids(field(message, "id" if kind == "mcp_approval_request" else "call_id"))
    # Pi never runs the calls of a failed answer, so nothing answers them.
    if field(message, "role") != "assistant" or field(message, "stopReason") in ("error", "aborted"):
        return
    if field(message, _LEGACY_CALL) is not None:
        yield _LEGACY_CALL
    for call in _listed(message, "tool_calls"):
        yield from _ids(field(call, "id"))
    for block in _listed(message, "content"):
        if field(block, "type") in _ANTHROPIC_CALLS or field(block, "type") == "toolCall":
            yield from _ids(field(block, "id"))


def _answers(message: object) -> Iterator[str]:
    """Ids of the tool calls that `message` answers."""
    kind = field(message, "type")
    if isinstance(kind, str) and _is_output(kind):
        # `local_shell_call_output` names its call by `id`.
        yield from _ids(field(message, "call_id"), field(message, "id"), field(message, "approval_request_id"))
    yield from _ids(field(message, "tool_call_id"), field(message, "toolCallId"))
    if field(message, "role") == "function":
        yield _LEGACY_CALL
    for block in _listed(message, "content"):
        yield from _ids(field(block, "tool_use_id"))


def _is_output(kind: str) -> bool:
    return kind.endswith("_output") or kind == "mcp_approval_response"


def _ids(*values: object) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))
