"""What stands on a span: pure functions from events and verdicts to attributes.

Every string passes `scrub` here, so a recorder cannot forget it. The facts of a failure are attributes as well as an
event, because a viewer lists attributes and hides events.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from compass_otel import semconv
from compass_otel.classification import Classification, Failure, classify
from compass_otel.events import AssistantMessage, ToolEnded, ToolStarted, Usage
from compass_otel.scrubbing import cut

Attributes = dict[str, str | int | float | bool | list[str]]

_MAX_NAME_BYTES = 256
_MAX_PATHS = 50

_FINISH_REASONS = {"toolUse": "tool_calls"}
"""Agents' words for which the conventions have another; the rest is passed on."""


class ErrorFacts(Struct, frozen=True):
    """A session error as it is written on a span: `kind` is `ERROR` or `ABORTED`, `text` is scrubbed and cut."""

    kind: str
    text: str
    status: int | None
    event_id: str
    error_type: str
    retryable: bool

    @property
    def aborted(self) -> bool:
        """Whether this is a cancel."""
        return self.kind == "ABORTED"


def name(text: object, scrub: Callable[[str], str]) -> str:
    """Make a model, tool or agent name fit for an attribute."""
    return cut(scrub(str(text)), _MAX_NAME_BYTES)


def judge(message: AssistantMessage, reason: str, last_good: Usage | None, agent: str) -> Classification:
    """Classify a failed answer; agents count the tokens of a prompt differently, so `agent` matters."""
    return classify(
        Failure(
            message=message.error_message,
            status=message.error_status,
            provider=message.provider,
            model=message.model,
            stop_reason=reason,
            usage=usage_mapping(message.usage),
            last_good_usage=usage_mapping(last_good),
            stop_details=message.stop_details,
            agent=agent,
        )
    )


def usage_mapping(usage: Usage | None) -> dict[str, int] | None:
    """Return usage in the agents' own words, as `classify` takes it."""
    if usage is None:
        return None
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
    }


def request_facts(message: AssistantMessage, scrub: Callable[[str], str]) -> Attributes:
    """Return what is known of a model request when it starts."""
    facts: Attributes = {semconv.GEN_AI_OPERATION_NAME: semconv.SpanName.CHAT.value}
    if message.provider is not None:
        provider = semconv.PROVIDER_NAMES.get(message.provider, message.provider)
        facts[semconv.GEN_AI_PROVIDER_NAME] = name(provider, scrub)
    if message.model is not None:
        facts[semconv.GEN_AI_REQUEST_MODEL] = name(message.model, scrub)
    return facts


def response_facts(message: AssistantMessage, scrub: Callable[[str], str]) -> Attributes:
    """Return what a finished or failed answer tells: ids, usage, cost."""
    facts: Attributes = {}
    if message.response_id is not None:
        facts[semconv.GEN_AI_RESPONSE_ID] = name(message.response_id, scrub)
    if message.response_model is not None:
        facts[semconv.GEN_AI_RESPONSE_MODEL] = name(message.response_model, scrub)
    facts.update(usage_facts(message.usage))
    return facts


def usage_facts(usage: Usage | None) -> Attributes:
    """Return token and cost attributes; nothing for a request that used nothing."""
    if usage is None or not (usage.input or usage.output or usage.cache_read or usage.cache_write):
        return {}
    facts: Attributes = {
        semconv.GEN_AI_USAGE_INPUT_TOKENS: usage.input + usage.cache_read + usage.cache_write,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: usage.output,
    }
    if usage.cache_read:
        facts[semconv.GEN_AI_USAGE_CACHE_READ] = usage.cache_read
    if usage.cache_write:
        facts[semconv.GEN_AI_USAGE_CACHE_WRITE] = usage.cache_write
        facts[semconv.GEN_AI_USAGE_CACHE_CREATION] = usage.cache_write
    if usage.reasoning:
        facts[semconv.GEN_AI_USAGE_REASONING] = usage.reasoning
    if usage.cost_usd:
        facts[semconv.COST_USD] = usage.cost_usd
    return facts


def finish_reason(message: AssistantMessage, scrub: Callable[[str], str]) -> str:
    """Return the finish reason in the conventions' word where they have one."""
    reason = message.raw_stop_reason or message.stop_reason or "unknown"
    return name(_FINISH_REASONS.get(reason, reason), scrub)


def failure_facts(error: ErrorFacts) -> Attributes:
    """Return the facts of an ERROR as attributes."""
    facts: Attributes = {
        semconv.ERROR_TYPE: error.error_type,
        semconv.SESSION_ERROR_KIND: error.kind,
        semconv.SESSION_ERROR_MESSAGE: error.text,
        semconv.ERROR_RETRYABLE: error.retryable,
    }
    if error.status is not None:
        facts[semconv.HTTP_RESPONSE_STATUS_CODE] = error.status
        facts[semconv.SESSION_ERROR_STATUS] = error.status
    return facts


def cancel_facts(error: ErrorFacts) -> Attributes:
    """Return the facts of an ABORTED as attributes."""
    facts: Attributes = {semconv.SESSION_ERROR_KIND: error.kind, semconv.SESSION_ERROR_MESSAGE: error.text}
    if error.status is not None:
        facts[semconv.SESSION_ERROR_STATUS] = error.status
    return facts


def exception_event(error: ErrorFacts) -> Attributes:
    """Return the attributes of the `exception` event (Grafana's Exceptions tab and Jaeger read these names)."""
    facts: Attributes = {
        semconv.EXCEPTION_TYPE: error.error_type,
        semconv.EXCEPTION_MESSAGE: error.text,
        semconv.SESSION_ERROR_KIND: error.kind,
        semconv.EVENT_ID: error.event_id,
    }
    if error.status is not None:
        facts[semconv.SESSION_ERROR_STATUS] = error.status
    return facts


def cancelled_event(error: ErrorFacts) -> Attributes:
    """Return the attributes of the `compass.session.cancelled` event."""
    return {
        semconv.SESSION_ERROR_KIND: error.kind,
        semconv.SESSION_ERROR_MESSAGE: error.text,
        semconv.EVENT_ID: error.event_id,
    }


def tool_start_facts(event: ToolStarted, scrub: Callable[[str], str]) -> Attributes:
    """Return what is known of a tool call when it starts."""
    facts: Attributes = {
        semconv.GEN_AI_OPERATION_NAME: semconv.SpanName.EXECUTE_TOOL.value,
        semconv.GEN_AI_TOOL_NAME: name(event.name, scrub),
        semconv.GEN_AI_TOOL_CALL_ID: name(event.call_id, scrub),
        semconv.GEN_AI_TOOL_TYPE: "function",
    }
    if event.parent_call_id is not None:
        facts[semconv.TOOL_PARENT_CALL_ID] = name(event.parent_call_id, scrub)
    return facts


def tool_end_facts(event: ToolEnded, scrub: Callable[[str], str]) -> Attributes:
    """Return what the end of a tool call tells, without its content."""
    facts: Attributes = {}
    if event.exit_code is not None:
        facts[semconv.TOOL_EXIT_CODE] = event.exit_code
    if event.diffs:
        facts[semconv.TOOL_DIFF_PATHS] = [name(diff.path, scrub) for diff in event.diffs[:_MAX_PATHS]]
    return facts


def pick(source: Mapping[str, object], *keys: str) -> Attributes:
    """Return the entries of `source` under `keys` that are there."""
    return {key: value for key in keys if isinstance(value := source.get(key), str | int | float | bool)}
