"""Messages of the Pi family, read with patience: an odd neighbour never costs a failure its place.

Field names and what each version gives: measured on Pi 0.73, Pi 1.6 and omp 18.
"""

from typing import Any

from compass_otel.events import (
    AssistantMessage,
    Message,
    OtherMessage,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from compass_otel.sources.timing import plausible_ms

_STATUS_FIRST, _STATUS_LAST = 100, 599


def as_text(value: Any) -> str | None:
    """Give a string as it is, a number as its digits, anything else as None."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return str(value)
    except ValueError:  # an int of more digits than Python cares to print
        return None


def as_int(value: Any) -> int | None:
    """Give a whole number, also from a float or digits in a string; None for anything else, NaN and infinity too."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    try:
        return int(value) if isinstance(value, float | str) else None
    except (ValueError, OverflowError):
        return None


def as_float(value: Any) -> float | None:
    """Give a finite number that is not negative, else None; durations and costs are read with it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e15 else None  # noqa: PLR2004 - no duration or cost has 15 digits


def as_flag(value: Any) -> bool:
    """Give a truth value; agents write true and false, hosts may write words."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def http_status(value: Any) -> int | None:
    """Give an HTTP status, also from a string; None for 0 and anything that is none."""
    status = as_int(value)
    return status if status is not None and _STATUS_FIRST <= status <= _STATUS_LAST else None


def blocks_of(content: Any, kind: str) -> list[dict[str, Any]]:
    """Give the content blocks of one type, whatever else stands between them."""
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict) and block.get("type") == kind]


def text_of(content: Any, kind: str = "text") -> str:
    """Give the readable text of a message's or a result's `content`, which may be a plain string."""
    if isinstance(content, str):
        return content if kind == "text" else ""
    texts = [block.get(kind) for block in blocks_of(content, kind)]
    return "\n".join(text for text in texts if isinstance(text, str))


def usage_of(raw: Any) -> Usage | None:
    """Read token counts and cost; None if the agent gave none."""
    if not isinstance(raw, dict):
        return None
    cost = raw.get("cost")
    return Usage(
        input=_count(raw.get("input")),
        output=_count(raw.get("output")),
        cache_read=_count(raw.get("cacheRead")),
        cache_write=_count(raw.get("cacheWrite")),
        reasoning=_first_count(raw, "reasoning", "reasoningTokens"),
        cost_usd=as_float(cost.get("total") if isinstance(cost, dict) else cost),
    )


def _count(value: Any) -> int:
    number = as_int(value)
    return number if number is not None and number > 0 else 0


def _first_count(raw: dict[str, Any], *names: str) -> int | None:
    for name in names:
        if name in raw:
            return _count(raw[name])
    return None


def _tool_calls(content: Any) -> tuple[ToolCall, ...]:
    calls = []
    for block in blocks_of(content, "toolCall"):
        call_id = as_text(block.get("id"))
        if call_id is not None:
            calls.append(ToolCall(call_id, as_text(block.get("name")) or "", block.get("arguments")))
    return tuple(calls)


def assistant_of(raw: dict[str, Any], message_id: str | None = None) -> AssistantMessage:
    """Read an answer of the model. `errorMessage` is kept as it is: text, or whatever JSON a host put there."""
    content = raw.get("content")
    duration = as_float(raw.get("durationMs"))
    return AssistantMessage(
        timestamp_ms=plausible_ms(raw.get("timestamp")),
        provider=as_text(raw.get("provider")),
        model=as_text(raw.get("model")),
        api=as_text(raw.get("api")),
        response_model=as_text(raw.get("responseModel")) or as_text(raw.get("upstreamModel")),
        response_id=as_text(raw.get("responseId")),
        stop_reason=as_text(raw.get("stopReason")),
        raw_stop_reason=as_text(raw.get("rawStopReason")),
        error_message=raw.get("errorMessage"),
        error_status=http_status(raw.get("errorStatus")),
        stop_details=raw.get("stopDetails"),
        usage=usage_of(raw.get("usage")),
        text=text_of(content),
        thinking=text_of(content, "thinking"),
        tool_calls=_tool_calls(content),
        duration_ms=as_float(raw.get("duration")) if duration is None else duration,
        time_to_first_chunk_ms=as_float(raw.get("ttft")),
        completed_at_ms=plausible_ms(raw.get("completedAt")),
        message_id=message_id,
    )


def tool_result_of(raw: dict[str, Any]) -> ToolResultMessage | None:
    """Read a `toolResult` message; None without the call's id, since it would belong to nothing."""
    call_id = as_text(raw.get("toolCallId"))
    if call_id is None:
        return None
    return ToolResultMessage(
        call_id=call_id,
        tool_name=as_text(raw.get("toolName")) or "",
        is_error=as_flag(raw.get("isError")),
        text=text_of(raw.get("content")),
        timestamp_ms=plausible_ms(raw.get("timestamp")),
    )


def message_of(raw: Any, message_id: str | None = None) -> Message | None:
    """Read a message of any role; None for what is no message."""
    if not isinstance(raw, dict):
        return None
    role = raw.get("role")
    if role == "assistant" or (not isinstance(role, str) and ("stopReason" in raw or "errorMessage" in raw)):
        return assistant_of(raw, message_id)
    if role == "user":
        stamp, text = plausible_ms(raw.get("timestamp")), text_of(raw.get("content"))
        return UserMessage(timestamp_ms=stamp, text=text, message_id=message_id)
    if role == "toolResult":
        return tool_result_of(raw)
    if isinstance(role, str):
        return OtherMessage(
            role=role, timestamp_ms=plausible_ms(raw.get("timestamp")), text=text_of(raw.get("content"))
        )
    return None


def messages_of(raw: Any) -> tuple[Message, ...]:
    """Read a list of messages, skipping what is none."""
    if not isinstance(raw, list):
        return ()
    return tuple(message for item in raw if (message := message_of(item)) is not None)
