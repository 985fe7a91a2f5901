"""What a conversation is made of: messages, the tool calls in them, and what a model request used."""

from typing import Any

from msgspec import Struct


class Usage(Struct, frozen=True):
    """Tokens and cost of one model request, as the agent counts them.

    `input` is the uncached part only; the whole prompt is `input + cache_read + cache_write` (Pi family, measured).
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int | None = None
    cost_usd: float | None = None


class ToolCall(Struct, frozen=True):
    """A tool call inside an assistant message."""

    call_id: str
    name: str
    arguments: Any = None


class AssistantMessage(Struct, frozen=True, kw_only=True):
    """One answer of the model, whole or failed; `error_message` keeps whatever JSON value the agent gave."""

    timestamp_ms: int | None = None
    provider: str | None = None
    model: str | None = None
    api: str | None = None
    response_model: str | None = None
    response_id: str | None = None
    stop_reason: str | None = None
    raw_stop_reason: str | None = None
    error_message: Any = None
    error_status: int | None = None
    stop_details: Any = None
    usage: Usage | None = None
    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    duration_ms: float | None = None
    time_to_first_chunk_ms: float | None = None
    completed_at_ms: float | None = None
    message_id: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the message says that it failed or was aborted."""
        return self.stop_reason in ("error", "aborted")

    @property
    def empty(self) -> bool:
        """Whether the answer holds nothing: no text, no thinking, no tool call."""
        return not (self.text or self.thinking or self.tool_calls)


class UserMessage(Struct, frozen=True, kw_only=True):
    """What a person (or a host in their name) said to the agent."""

    timestamp_ms: int | None = None
    text: str = ""
    message_id: str | None = None


class ToolResultMessage(Struct, frozen=True, kw_only=True):
    """The result of a tool call as it enters the conversation."""

    call_id: str
    tool_name: str = ""
    is_error: bool = False
    text: str = ""
    timestamp_ms: int | None = None


class OtherMessage(Struct, frozen=True, kw_only=True):
    """A message that is neither of the above: `system`, `custom`, `developer`, summaries."""

    role: str
    timestamp_ms: int | None = None
    text: str = ""


Message = AssistantMessage | UserMessage | ToolResultMessage | OtherMessage
