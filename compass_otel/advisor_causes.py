"""Causes: what a note can be about, read from an event or from a host's own message.

A cause keeps no foreign text but the two quotations that a note may need, so that a failure text of a megabyte is gone
once it is read. Everything here is pure.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from compass_otel.advisor_quote import mask_private_hosts, quote, scrubbed
from compass_otel.classification import Failure, classify, render_message
from compass_otel.events import AssistantMessage, Usage
from compass_otel.patterns import pattern

NS_PER_MS: Final = 1_000_000

_MAX_NUMBER: Final = 2**53
"""JSON numbers of other languages are exact up to here; a time or a status beyond it is none."""

Key = tuple[int | None, int]
"""Tells two failed messages apart: their timestamp in milliseconds, and a hash of their text."""


class Said(Struct, frozen=True):
    """What somebody else said about a failure: a quotation, and the same without private host names; both may be ''."""

    quotation: str = ""
    masked: str = ""


UNSAID: Final = Said()

_OWN_LOG_FILE: Final = pattern(r"\s*raw-http-request=[^\n]*\Z")
"""omp names a file of its own behind the provider's text; no provider said that."""


class Cause(Struct, frozen=True, kw_only=True):
    """One failed request of a model.

    `order` is the number of the event that told it, 0 for one that only a message list tells. `failed_at_ns` is None
    where nothing says when. `retries` counts the automatic retries that were made before this failure.
    """

    key: Key
    order: int
    failed_at_ns: int | None
    message_timestamp_ms: int | None
    provider: str | None
    model: str | None
    advice: str
    error_type: str
    retryable: bool
    status: int | None
    said: Said
    retries: int = 0


class Mark(Struct, frozen=True):
    """A point in the session: everything that failed before it is settled."""

    order: int
    at_ns: int

    def is_after(self, cause: Cause) -> bool:
        """Whether `cause` lies before this mark: by order where it was observed, else by time."""
        if cause.order:
            return cause.order <= self.order
        return cause.failed_at_ns is not None and cause.failed_at_ns <= self.at_ns


class Model(Struct, frozen=True):
    """Which model answers; a None says that nobody told."""

    provider: str | None = None
    name: str | None = None


class Reader(Struct, frozen=True):
    """Turns failed messages into causes; `scrub` is the door that every text passes."""

    scrub: Callable[[str], str]
    context_window: int | None = None

    def say(self, value: object) -> Said:
        """Quote `value`, whatever JSON value it is."""
        text = _OWN_LOG_FILE.sub("", scrubbed(render_message(value), self.scrub))
        if not text:
            return UNSAID
        masked = mask_private_hosts(text)
        quotation = quote(text)
        return Said(quotation, quotation if masked == text else quote(masked))

    def from_event(self, message: AssistantMessage, at_ns: int, order: int, good: Usage | None) -> Cause:
        """Read the failed `message` that the event with number `order` told at `at_ns`."""
        failure = Failure(
            message=message.error_message,
            status=message.error_status,
            provider=message.provider,
            model=message.model,
            stop_reason=message.stop_reason or "error",
            usage=_usage_mapping(message.usage),
            last_good_usage=_usage_mapping(good),
            context_window=self.context_window,
            stop_details=message.stop_details,
        )
        return self._cause(failure, at_ns, message.timestamp_ms, order)

    def from_text(self, error: object, at_ns: int, order: int, status: int | None = None) -> Cause:
        """Read a failure that no message carries."""
        return self._cause(Failure(message=error, status=status), at_ns, None, order)

    def from_listed(self, message: object, good: object, window: int | None) -> Cause:
        """Read a failed message of the host's own list; `good` is the last answer before it that went well."""
        usage, last_good = field(message, "usage"), field(good, "usage")
        failure = Failure(
            message=field(message, "errorMessage"),
            status=_integer(field(message, "errorStatus")),
            provider=_text(field(message, "provider")),
            model=_text(field(message, "model")),
            stop_reason="error",
            usage=usage if isinstance(usage, Mapping) else None,
            last_good_usage=last_good if isinstance(last_good, Mapping) else None,
            context_window=window or self.context_window,
            stop_details=field(message, "stopDetails"),
        )
        return self._cause(failure, _ended_at_ns(message), timestamp_ms(message), 0)

    def is_silent_overflow(self, message: AssistantMessage) -> bool:
        """Whether an answer that did not fail still says that the conversation no longer fits."""
        failure = Failure(
            message=None,
            provider=message.provider,
            model=message.model,
            stop_reason=message.stop_reason or "stop",
            usage=_usage_mapping(message.usage),
            context_window=self.context_window,
        )
        return classify(failure).advice == "overflow"

    def _cause(self, failure: Failure, failed_at_ns: int | None, stamp_ms: int | None, order: int) -> Cause:
        verdict = classify(failure)
        return Cause(
            key=_key(stamp_ms, failure.message),
            order=order,
            failed_at_ns=failed_at_ns,
            message_timestamp_ms=stamp_ms,
            provider=failure.provider,
            model=failure.model,
            advice=str(verdict.advice),
            error_type=str(verdict.error_type),
            retryable=verdict.retryable,
            status=verdict.status,
            said=self.say(failure.message),
        )


def key_of(message: object) -> Key:
    """Tell a failed message of the host's own list from others."""
    return _key(timestamp_ms(message), field(message, "errorMessage"))


def _key(stamp_ms: int | None, error: object) -> Key:
    return stamp_ms, hash(render_message(error))


def with_retries(cause: Cause, retries: int) -> Cause:
    """`cause` after `retries` automatic retries."""
    return replace(cause, retries=retries)


def field(message: object, name: str) -> Any:
    """Read a field of a host's message, be it a mapping or an object; None where it has none."""
    if isinstance(message, Mapping):
        return message.get(name)
    return getattr(message, name, None)


def timestamp_ms(message: object) -> int | None:
    """When the request of a host's message began: milliseconds since the epoch, or an ISO 8601 text."""
    value = field(message, "timestamp")
    if isinstance(value, str):
        return _iso_ms(value)
    return _integer(value)


def _ended_at_ns(message: object) -> int | None:
    # The timestamp is the start of the request; a request may run for minutes before it fails.
    completed = _integer(field(message, "completedAt"))
    if completed is not None:
        return completed * NS_PER_MS
    started = timestamp_ms(message)
    if started is None:
        return None
    lasted = _integer(field(message, "durationMs")) or _integer(field(message, "duration")) or 0
    return (started + max(lasted, 0)) * NS_PER_MS


def _iso_ms(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _integer(value: object) -> int | None:
    # A bool is an int to Python, and no comparison with a NaN holds.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX_NUMBER:
        return None
    return int(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def model_of(value: object) -> Model:
    """Read the host's word for a model: `provider/id`, an id, or a mapping or object with `provider` and `id`."""
    if isinstance(value, str):
        provider, _, rest = value.partition("/")
        return Model(provider, rest) if rest else Model(None, value or None)
    name = next((found for key in ("id", "modelId", "model", "name") if (found := _text(field(value, key)))), None)
    return Model(_text(field(value, "provider")), name)


def window_of(value: object) -> int | None:
    """Read the context window in tokens that the host's model mapping states (`contextWindow`), if any."""
    return _integer(field(value, "contextWindow")) if not isinstance(value, str) else None


def model_changed(cause: Cause, now: Model) -> bool:
    """Whether another model answers now than the one that failed; False where either is unknown."""
    if cause.model is None or now.name is None:
        return False
    # An id may hold a slash of its own, so the text forms are compared whole too.
    return not (cause.model == now.name and _same(cause.provider, now.provider)) and cause.model != _whole(now)


def provider_changed(cause: Cause, now: Model) -> bool:
    """Whether the request goes to another provider; a changed model of an unknown provider counts as one."""
    if cause.provider is None or now.provider is None:
        return model_changed(cause, now)
    return cause.provider != now.provider and cause.model != _whole(now)


def _same(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


def _whole(model: Model) -> str | None:
    return f"{model.provider}/{model.name}" if model.provider and model.name else model.name


def _usage_mapping(usage: Usage | None) -> dict[str, int] | None:
    if usage is None:
        return None
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
    }
