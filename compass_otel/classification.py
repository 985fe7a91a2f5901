"""What went wrong: one pure function from a failed answer to its class.

`classify` agrees with Pi 1.6's own classifiers wherever they are not plainly wrong; the exceptions are listed, each
with its reason, beside the recorded cases. The rules are the table in `classification_rules`.
Nothing here does I/O, keeps state or raises on input, so every function may be called from any thread.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from compass_otel.classification_status import parse_status, status_to_judge_by
from compass_otel.classification_text import Text, read, render_message
from compass_otel.classification_words import (
    BY_STATUS,
    CANCELLED_STATUS,
    NEVER_PASSES,
    Advice,
    ErrorType,
    advice_for,
)
from compass_otel.patterns import compile_patterns

__all__ = ["Advice", "Classification", "ErrorType", "Failure", "classify", "parse_status", "prepare", "render_message"]

_SUCCESS: Final = frozenset({
    "stop", "length", "toolUse", "tool_use", "tool_calls", "end_turn", "stop_sequence", "max_tokens", "pause_turn",
    "pending",
})  # fmt: skip
_ABORTS: Final = frozenset({"aborted", "abort", "cancelled", "canceled"})
_REFUSALS: Final = frozenset({"refusal", "sensitive", "safety", "content_filter", "blocked"})
_SERVER_FAILED: Final = 500

_NEARLY_FULL: Final = 0.9
"""From this share of the window on, an answer without any reason is taken for an overflow (field case FC-A013)."""
_FILLED: Final = 0.99
"""A length stop without output filled the window from this share on. Source: pi-ai's isContextOverflow."""

_BODYLESS: Final = frozenset({400, 422})
_NO_REASON: Final = frozenset({
    "400", "422", "http", "https", "status", "code", "error", "bad", "request", "unprocessable", "entity", "no", "body",
    "null", "none", "undefined", "empty", "failed", "with", "response", "from", "the", "api", "inference", "backend",
    "provider", "upstream", "returned", "message", "type", "content", "a", "an",
})  # fmt: skip
"""Words that repeat a status and give no reason."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed answer, or an answer that may hide a failure.

    Args:
        message: the error text; None or any JSON value.
        status: the HTTP status as a number of its own, if the host has one.
        provider: the provider's id as the agent writes it.
        model: the model's id; reserved for rows that need it.
        stop_reason: why the answer ended, in the agent's words.
        usage: this answer's usage in the agent's own mapping: `input`, `output`, `cacheRead`, `cacheWrite` (tokens).
        last_good_usage: the usage of the last answer that did not fail, in the same shape.
        context_window: the model's window in tokens.
        stop_details: what the agent knows beside the stop reason, such as `{"type": "refusal"}`.
        agent: the agent's name; `omp` counts cache writes as part of a silent overflow, Pi does not.

    """

    message: object = None
    status: int | None = None
    provider: str | None = None
    model: str | None = None
    stop_reason: str | None = "error"
    usage: Mapping[str, Any] | None = None
    last_good_usage: Mapping[str, Any] | None = None
    context_window: int | None = None
    stop_details: object = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Classification:
    """A verdict.

    Attributes:
        error_type: the class; None where nothing failed (an abort, a good answer).
        retryable: whether the same request may well succeed if it is sent again; true exactly if `advice` is transient.
        retry_after_s: how long the provider asked to wait, in seconds, if it said so.
        status: the HTTP status, if known.
        advice: what a model must be told.

    """

    error_type: ErrorType | None
    retryable: bool
    retry_after_s: float | None
    status: int | None
    advice: Advice


def classify(failure: Failure) -> Classification:
    """Judge a failed answer.

    Args:
        failure: what is known of it.

    Returns:
        The verdict. Unknown wording is `_OTHER` and not retryable; nothing is guessed from digits inside ids.

    """
    message = render_message(failure.message)
    status = parse_status(failure.message, status=failure.status)
    reason = failure.stop_reason if isinstance(failure.stop_reason, str) else None
    if reason in _ABORTS:
        return _no_failure(status, Advice.ABORTED)
    if _was_refused(failure, reason):
        return _verdict(ErrorType.CONTENT_FILTER, Advice.OTHER, status, None)
    if reason in _SUCCESS or (reason is None and not message):
        if _silently_overflowed(failure):
            return _verdict(ErrorType.CONTEXT_OVERFLOW, Advice.OVERFLOW, status, None)
        return _no_failure(status, Advice.NONE)
    if not message and reason != "error":
        verdict = _judge(failure, f"finish_reason: {reason}", status)
        return _no_failure(status, Advice.NONE) if verdict.error_type is ErrorType.OTHER else verdict
    return _judge(failure, message, status)


def _no_failure(status: int | None, advice: Advice) -> Classification:
    return Classification(None, retryable=False, retry_after_s=None, status=status, advice=advice)


@functools.cache
def prepare() -> None:
    """Build the rules now, some 20 ms, instead of at the first failure. Later calls cost nothing.

    Whoever judges where time matters calls it; the public classes of this package do when they are made.
    """
    classify(Failure(message="prepared"))
    compile_patterns()


def _judge(failure: Failure, message: str, status: int | None) -> Classification:
    from compass_otel.classification_rules import first_rule  # noqa: PLC0415 - built when needed; see `prepare`
    from compass_otel.classification_waits import stated_wait_s  # noqa: PLC0415 - the same

    text = read(message)
    known = status_to_judge_by(text, status)
    by_usage = _without_reason(failure, text, known)
    if by_usage is not None:
        return _verdict(*by_usage, status, None)
    wait_s = stated_wait_s(text.plain)
    rule = first_rule(text, known, wait_s)
    if rule is not None:
        return _verdict(rule.gives, rule.advised, status, wait_s)
    return _verdict(*_by_status(known, text), status, wait_s)


def _verdict(error_type: ErrorType, advice: Advice, status: int | None, wait_s: float | None) -> Classification:
    retryable = advice is Advice.TRANSIENT
    wait_s = None if advice is Advice.OVERFLOW else wait_s
    return Classification(error_type, retryable=retryable, retry_after_s=wait_s, status=status, advice=advice)


def _by_status(known: int | None, text: Text) -> tuple[ErrorType, Advice]:
    if known == CANCELLED_STATUS:
        return ErrorType.OTHER, Advice.ABORTED
    if known in BY_STATUS:
        return BY_STATUS[known], advice_for(BY_STATUS[known])
    if known is not None and known >= _SERVER_FAILED:
        return ErrorType.SERVER_ERROR, Advice.OTHER if known in NEVER_PASSES else Advice.TRANSIENT
    if text.page and known is None:
        return ErrorType.MALFORMED_RESPONSE, Advice.TRANSIENT
    return ErrorType.OTHER, Advice.OTHER


def _without_reason(failure: Failure, text: Text, known: int | None) -> tuple[ErrorType, Advice] | None:
    """Judge a refusal without a reason: by the last usage if that is known (FC-A013, FC-A014), else by the provider."""
    if known not in _BODYLESS or not (" no body " in text.words or text.tokens <= _NO_REASON):
        return None
    share = _window_share(failure)
    full = share >= _NEARLY_FULL if share is not None else failure.provider == "cerebras"
    if full:
        return ErrorType.CONTEXT_OVERFLOW, Advice.OVERFLOW
    return (ErrorType.OTHER, Advice.OTHER) if " no body " in text.words or not text.tokens else None


def _window_share(failure: Failure) -> float | None:
    usage, window = failure.last_good_usage, _tokens(failure.context_window)
    if not isinstance(usage, Mapping) or not window:
        return None
    return sum(_tokens(usage.get(key)) for key in ("input", "output", "cacheRead", "cacheWrite")) / window


def _silently_overflowed(failure: Failure) -> bool:
    """Whether a good answer's usage says that the conversation no longer fits. Source: pi-events, 5.1 B and C, 5.4."""
    usage, window = failure.usage, _tokens(failure.context_window)
    if not isinstance(usage, Mapping) or not window:
        return False
    held = _tokens(usage.get("input")) + _tokens(usage.get("cacheRead"))
    if failure.agent == "omp":
        return held + _tokens(usage.get("cacheWrite")) > window
    if failure.stop_reason == "length":
        return "output" in usage and _tokens(usage["output"]) == 0 and held >= _FILLED * window
    return failure.stop_reason == "stop" and held > window


def _was_refused(failure: Failure, reason: str | None) -> bool:
    details = failure.stop_details
    kind = details.get("type") if isinstance(details, Mapping) else None
    return reason in _REFUSALS or (isinstance(kind, str) and kind in _REFUSALS)


def _tokens(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return max(0, value)
