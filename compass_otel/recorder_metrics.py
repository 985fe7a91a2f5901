"""SessionMetrics: the instruments of the recorder, on whatever MeterProvider the host gives."""

from opentelemetry.metrics import MeterProvider, get_meter

from compass_otel import semconv
from compass_otel.events import Usage
from compass_otel.span_facts import Attributes, pick

_NS_PER_S = 1e9
_REQUEST_KEYS = (
    semconv.GEN_AI_OPERATION_NAME,
    semconv.GEN_AI_PROVIDER_NAME,
    semconv.GEN_AI_REQUEST_MODEL,
    semconv.GEN_AI_RESPONSE_MODEL,
    semconv.ERROR_TYPE,
    semconv.OUTCOME,
)
_TOOL_KEYS = (semconv.GEN_AI_OPERATION_NAME, semconv.GEN_AI_TOOL_NAME, semconv.ERROR_TYPE, semconv.OUTCOME)
_RUN_KEYS = (
    semconv.GEN_AI_OPERATION_NAME,
    semconv.GEN_AI_AGENT_NAME,
    semconv.GEN_AI_PROVIDER_NAME,
    semconv.GEN_AI_REQUEST_MODEL,
    semconv.ERROR_TYPE,
    semconv.OUTCOME,
)
_MODEL_KEYS = (semconv.GEN_AI_PROVIDER_NAME, semconv.GEN_AI_REQUEST_MODEL)


class SessionMetrics:
    """Durations, tokens, cost, session errors and retries of runs. Thread-safe as the meter is; never blocks."""

    def __init__(self, meter_provider: MeterProvider | None) -> None:
        meter = get_meter(semconv.SCOPE_NAME, meter_provider=meter_provider)
        self._request_duration = meter.create_histogram(
            semconv.METRIC_OPERATION_DURATION,
            unit="s",
            description="Duration of one model request.",
            explicit_bucket_boundaries_advisory=semconv.DURATION_BUCKETS_S,
        )
        self._tokens = meter.create_histogram(
            semconv.METRIC_TOKEN_USAGE,
            unit="{token}",
            description="Tokens that one model request used.",
            explicit_bucket_boundaries_advisory=semconv.TOKEN_BUCKETS,
        )
        self._run_duration = meter.create_histogram(
            semconv.METRIC_AGENT_DURATION,
            unit="s",
            description="Duration of one prompt run, retries included.",
            explicit_bucket_boundaries_advisory=semconv.AGENT_DURATION_BUCKETS_S,
        )
        self._tool_duration = meter.create_histogram(
            semconv.METRIC_TOOL_DURATION,
            unit="s",
            description="Duration of one tool call.",
            explicit_bucket_boundaries_advisory=semconv.DURATION_BUCKETS_S,
        )
        self._errors = meter.create_counter(
            semconv.METRIC_SESSION_ERRORS, unit="{error}", description="Session errors, cancels included, by kind."
        )
        self._retries = meter.create_counter(
            semconv.METRIC_RETRIES, unit="{retry}", description="Automatic retries that the agent announced."
        )
        self._runs = meter.create_counter(semconv.METRIC_RUNS, unit="{run}", description="Prompt runs by outcome.")
        self._cost = meter.create_counter(
            semconv.METRIC_COST,
            unit="{USD}",
            description="What model requests cost, failed ones too, as the agent says.",
        )

    def request_ended(self, attributes: Attributes, duration_ns: int, usage: Usage | None) -> None:
        """Record a model request that ended, well or not."""
        facts = pick(attributes, *_REQUEST_KEYS)
        self._request_duration.record(duration_ns / _NS_PER_S, facts)
        if usage is not None and usage.cost_usd:
            self._cost.add(usage.cost_usd, pick(attributes, *_MODEL_KEYS))
        if usage is None or semconv.ERROR_TYPE in facts:
            return
        shared = {key: value for key, value in facts.items() if key != semconv.OUTCOME}
        prompt = usage.input + usage.cache_read + usage.cache_write
        self._tokens.record(prompt, {**shared, semconv.GEN_AI_TOKEN_TYPE: "input"})
        self._tokens.record(usage.output, {**shared, semconv.GEN_AI_TOKEN_TYPE: "output"})

    def tool_ended(self, attributes: Attributes, duration_ns: int) -> None:
        """Record a tool call that ended."""
        self._tool_duration.record(duration_ns / _NS_PER_S, pick(attributes, *_TOOL_KEYS))

    def run_ended(self, attributes: Attributes, duration_ns: int) -> None:
        """Record a run that ended."""
        facts = pick(attributes, *_RUN_KEYS)
        self._run_duration.record(duration_ns / _NS_PER_S, facts)
        # Whether retries ended well, on the counter alone: runs that a retry saved are neither failed nor untroubled.
        self._runs.add(1, {**facts, **pick(attributes, semconv.RETRY_RECOVERED)})

    def session_error(self, kind: str, error_type: str | None, attributes: Attributes) -> None:
        """Count a session error; a cancel has no `error.type`."""
        facts = pick(attributes, *_MODEL_KEYS)
        facts[semconv.SESSION_ERROR_KIND] = kind
        if error_type is not None:
            facts[semconv.ERROR_TYPE] = error_type
        self._errors.add(1, facts)

    def retry(self, attributes: Attributes) -> None:
        """Count an announced retry."""
        self._retries.add(1, pick(attributes, *_MODEL_KEYS))
