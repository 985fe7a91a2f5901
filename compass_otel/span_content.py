"""Prompts, answers, tool arguments and results as attributes; written only where content capture was asked for.

Shapes follow the conventions' message JSON. Every string is scrubbed, and each attribute is cut to 16 KiB.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from compass_otel import semconv
from compass_otel.events import AssistantMessage
from compass_otel.scrubbing import cut
from compass_otel.span_facts import Attributes

_MAX_CONTENT_BYTES = 16 * 1024


def input_facts(inputs: Iterable[tuple[str, str]], scrub: Callable[[str], str]) -> Attributes:
    """Return the messages that were new in a request, as (role, text)."""
    messages = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in inputs]
    return {semconv.GEN_AI_INPUT_MESSAGES: _written(messages, scrub)} if messages else {}


def output_facts(message: AssistantMessage, scrub: Callable[[str], str]) -> Attributes:
    """Return the answer."""
    parts: list[dict[str, Any]] = []
    if message.thinking:
        parts.append({"type": "reasoning", "content": message.thinking})
    if message.text:
        parts.append({"type": "text", "content": message.text})
    parts.extend(
        {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    )
    answer = {"role": "assistant", "parts": parts, "finish_reason": message.stop_reason or "unknown"}
    return {semconv.GEN_AI_OUTPUT_MESSAGES: _written([answer], scrub)}


def arguments_facts(arguments: Any, scrub: Callable[[str], str]) -> Attributes:
    """Return the arguments of a tool call."""
    return {semconv.GEN_AI_TOOL_CALL_ARGUMENTS: _written(arguments, scrub)} if arguments is not None else {}


def result_facts(output: str, scrub: Callable[[str], str]) -> Attributes:
    """Return the result of a tool call."""
    return {semconv.GEN_AI_TOOL_CALL_RESULT: cut(scrub(output), _MAX_CONTENT_BYTES)} if output else {}


def _written(value: Any, scrub: Callable[[str], str]) -> str:
    return cut(scrub(json.dumps(value, ensure_ascii=False, default=str)), _MAX_CONTENT_BYTES)
