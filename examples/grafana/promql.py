"""The metrics as Prometheus names them, and the queries that dashboards and alert rules share."""

from typing import Final

from compass_otel import semconv


def label(key: str) -> str:
    """Give an attribute key as Prometheus writes it."""
    return key.replace(".", "_")


RUNS: Final = f"{label(semconv.METRIC_RUNS)}_total"
ERRORS: Final = f"{label(semconv.METRIC_SESSION_ERRORS)}_total"
RETRIES: Final = f"{label(semconv.METRIC_RETRIES)}_total"
COST: Final = f"{label(semconv.METRIC_COST)}_total"
TOKENS: Final = label(semconv.METRIC_TOKEN_USAGE)
RUN_SECONDS: Final = f"{label(semconv.METRIC_AGENT_DURATION)}_seconds"
REQUEST_SECONDS: Final = f"{label(semconv.METRIC_OPERATION_DURATION)}_seconds"
TOOL_SECONDS: Final = f"{label(semconv.METRIC_TOOL_DURATION)}_seconds"
SPAN_MILLISECONDS: Final = "traces_span_metrics_duration_milliseconds"
PROCESSED: Final = "otel_sdk_processor_span_processed_total"
QUEUE_SIZE: Final = "otel_sdk_processor_span_queue_size"
QUEUE_CAPACITY: Final = "otel_sdk_processor_span_queue_capacity"
RESENT: Final = "compass_sink_retried_total"
NOTICES: Final = "compass_sink_notices_total"

SERVICE: Final = label(semconv.SERVICE_NAME)
HOST: Final = label(semconv.HOST_NAME)
PROVIDER: Final = label(semconv.GEN_AI_PROVIDER_NAME)
MODEL: Final = label(semconv.GEN_AI_REQUEST_MODEL)
OUTCOME: Final = label(semconv.OUTCOME)
ERROR_TYPE: Final = label(semconv.ERROR_TYPE)
KIND: Final = label(semconv.SESSION_ERROR_KIND)
RECOVERED: Final = label(semconv.RETRY_RECOVERED)
TOOL: Final = label(semconv.GEN_AI_TOOL_NAME)
TOKEN_TYPE: Final = label(semconv.GEN_AI_TOKEN_TYPE)
LANE: Final = label(semconv.LANE)

NOT_CANCELLED: Final = f'{OUTCOME}!="cancelled"'
FAILED: Final = f'{NOT_CANCELLED}, {ERROR_TYPE}!=""'
"""What ended in failure, lost processes included: whatever went wrong has a type. With the switch that gives cancels an
error status they have one too, and are no failures for all that."""
PER_SERVICE_AND_HOST: Final = f'{SERVICE}=~"$service", {HOST}=~"$host"'
PER_MODEL: Final = f'{PER_SERVICE_AND_HOST}, {PROVIDER}=~"$provider", {MODEL}=~"$model"'

STEP: Final = "$__interval"
RANGE: Final = "$__range"
LOOKBACK: Final = "7d"
SHORT_LOOKBACK: Final = "1d"
"""For histograms, whose series are many."""


def select(*matchers: str) -> str:
    """Give a selector of these matchers, `{...}`."""
    return "{" + ", ".join(matchers) + "}"


def grown(metric: str, selector: str, window: str, lookback: str = LOOKBACK) -> str:
    """Give how much each series of a counter grew in a window, exactly.

    For `total` and its like, which put brackets around it.

    `increase()` needs two samples in the window and guesses beyond them. Agents that run now and then leave one sample
    a run, and a series whose first sample is a failure has nothing before it: both would be missed. So: the last value
    in the window less the last one before it; the value itself where there was none in all of *lookback*; and
    `increase()` only where the counter began anew.
    """
    now = f"last_over_time({metric}{selector}[{window}])"
    before = f"last_over_time({metric}{selector}[{lookback}] offset {window})"
    return f"\n  {now} - {before} >= 0\n  or ({now} unless {before})\n  or increase({metric}{selector}[{window}])\n"


def named(*keys: str) -> str:
    """Give the name of a series: the values of these labels."""
    return " ".join(f"{{{{{key}}}}}" for key in keys)


def total(expression: str, *by: str) -> str:
    """Add up by labels."""
    return f"sum by ({', '.join(by)}) ({expression})"


def quantile(share: float, buckets: str, *by: str) -> str:
    """Give a quantile of a histogram, by labels."""
    return f"histogram_quantile({share}, {total(buckets, 'le', *by)})"


def collector(name: str, *matchers: str) -> str:
    """Select a metric of the Collector itself: whether its counters end in `_total` depends on how it is read."""
    return select(f'__name__=~"otelcol_{name}(_total)?"', *matchers)
