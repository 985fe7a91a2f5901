"""Dashboard 1: agent runs. What came of them, what failed and why, what it cost, how long it took."""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

from compass_otel import semconv
from examples.grafana import frame, promql
from examples.grafana.panels import (
    GREY,
    OUTCOME_COLOURS,
    RED,
    Column,
    Links,
    Panel,
    Query,
    Say,
    bars,
    lines,
    number,
    rows,
)
from examples.grafana.promql import FAILED, PER_MODEL, RANGE, STEP, grown, named, select, total
from examples.grafana.traces import TraceStore, of_row, of_series

UID: Final = "compass-runs"
RUN: Final = {semconv.GEN_AI_OPERATION_NAME: semconv.SpanName.INVOKE_AGENT.value}
_MODEL_KEYS: Final = (promql.SERVICE, promql.PROVIDER, promql.MODEL)
_ERROR: Final = f'{promql.KIND}="ERROR"'
_ABORTED: Final = f'{promql.KIND}="ABORTED"'


def build_runs(store: TraceStore) -> dashboard.Dashboard:
    """Build it, with links into *store*."""
    variables = [*frame.service_and_host(promql.RUNS), *frame.provider_and_model()]
    about = "Prompt runs of agents: outcomes, failures by kind, cancels apart from them, retries, cost, durations."
    made = frame.begin(UID, "Agents: runs", about, store, variables)
    _totals(made, store)
    made.with_row(build.Row("What failed, and what a person stopped"))
    _failures(made, store)
    made.with_row(build.Row("Cost and tokens"))
    _cost(made, store)
    made.with_row(build.Row("Durations"))
    _durations(made, store)
    return frame.number_panels(made)


def outcome_links(store: TraceStore, outcome: str, service: str | None = None) -> Links:
    """Give the links to runs of an outcome."""
    return store.links(service or of_series(promql.SERVICE), {**RUN, semconv.OUTCOME: outcome})


def _runs(window: str, *matchers: str) -> str:
    return grown(promql.RUNS, select(PER_MODEL, *matchers), window)


def _totals(made: build.Dashboard, store: TraceStore) -> None:
    service = promql.SERVICE

    def of_service(expr: str) -> Query:
        return Query(total(expr, service), named(service))

    every = store.links(of_series(service), RUN)
    made.with_panel(number(Say("Runs", "Prompt runs that ended.", 3), of_service(_runs(RANGE)), links=every))
    for outcome, about, bad_above in (
        ("failed", "Runs that ended in failure.", 1.0),
        ("cancelled", "Runs that a person or the host stopped. No failures: they are in no failure count.", None),
        ("incomplete", "Runs whose end was never seen: the process was lost, or the file does not tell.", None),
    ):
        query = of_service(_runs(RANGE, f'{promql.OUTCOME}="{outcome}"'))
        links = outcome_links(store, outcome)
        made.with_panel(number(Say(outcome.title(), about, 3), query, links=links, bad_above=bad_above))
    ended = total(_runs(RANGE, promql.NOT_CANCELLED), service)
    share = f"({total(_runs(RANGE, FAILED), service)} or {ended} * 0) / {ended}"
    made.with_panel(
        number(
            Say("Failure share", "Of the runs that nobody stopped: how many failed, or lost their process.", 3),
            Query(share, named(service)),
            unit="percentunit",
            links=outcome_links(store, "failed"),
            bad_above=0.2,
        )
    )
    say = Say("Saved by a retry", "Runs that failed on the way, and ended well.", 3)
    saved = of_service(_runs(RANGE, f'{promql.RECOVERED}="true"', f'{promql.OUTCOME}="completed"'))
    recovered = store.links(of_series(service), {**RUN, semconv.RETRY_RECOVERED: "true"})
    made.with_panel(number(say, saved, links=recovered))
    say = Say("Retries", "Automatic retries that agents announced.", 3)
    retries = of_service(grown(promql.RETRIES, select(PER_MODEL), RANGE))
    made.with_panel(number(say, retries, links=_failed_requests(store)))
    say = Say("Cost", "As the agents say, failed requests included.", 3)
    cost = of_service(grown(promql.COST, select(PER_MODEL), RANGE))
    made.with_panel(number(say, cost, unit="currencyUSD", links=every))


def _failed_requests(store: TraceStore, **tags: str) -> Links:
    return store.links(of_series(promql.SERVICE), {semconv.SESSION_ERROR_KIND: "ERROR", **tags})


def _failures(made: build.Dashboard, store: TraceStore) -> None:
    outcomes = total(_runs(STEP), promql.SERVICE, promql.OUTCOME)
    made.with_panel(
        bars(
            Say("Outcomes", "Runs by outcome. Click a bar for its traces."),
            Query(outcomes, named(promql.SERVICE, promql.OUTCOME), OUTCOME_COLOURS),
            links=outcome_links(store, of_series(promql.OUTCOME)),
        )
    )
    made.with_panel(_failed_runs_table(store))
    _failed_requests_panels(made, store)
    model = named(*_MODEL_KEYS)
    cancels = total(grown(promql.ERRORS, select(PER_MODEL, _ABORTED), STEP), *_MODEL_KEYS)
    made.with_panel(
        bars(
            Say("Cancels", "Model requests that a person or the host stopped; none of them is a failure."),
            Query(cancels, model, {".": GREY}),
            links=store.links(of_series(promql.SERVICE), {semconv.SESSION_ERROR_KIND: "ABORTED"}),
        )
    )
    retries = total(grown(promql.RETRIES, select(PER_MODEL), STEP), *_MODEL_KEYS)
    made.with_panel(
        bars(
            Say("Retries by model", "Automatic retries, by the model whose request is repeated."),
            Query(retries, model),
            links=_failed_requests(store, **{semconv.GEN_AI_REQUEST_MODEL: of_series(promql.MODEL)}),
        )
    )


def _model_columns(links: Links) -> list[Column]:
    return [
        Column(promql.SERVICE, "Service"),
        Column(promql.ERROR_TYPE, "Kind", links=links, colour=RED),
        Column(promql.PROVIDER, "Provider"),
        Column(promql.MODEL, "Model"),
    ]


def _failed_runs_table(store: TraceStore) -> Panel:
    kind = {**RUN, semconv.ERROR_TYPE: of_row(promql.ERROR_TYPE)}
    expr = f"{total(_runs(RANGE, FAILED), *_MODEL_KEYS, promql.ERROR_TYPE)} > 0"
    return rows(
        Say("Failed runs by kind, provider and model", "Runs that ended in failure. Click a kind for its traces."),
        _model_columns(store.links(of_row(promql.SERVICE), kind)),
        [(Column("runs", "Runs"), expr)],
    )


def _failed_requests_panels(made: build.Dashboard, store: TraceStore) -> None:
    errors = select(PER_MODEL, _ERROR)
    over_time = total(grown(promql.ERRORS, errors, STEP), promql.SERVICE, promql.ERROR_TYPE)
    made.with_panel(
        bars(
            Say("Failed requests by kind", "Every failed model request, those that a retry repaired included."),
            Query(over_time, named(promql.SERVICE, promql.ERROR_TYPE)),
            links=_failed_requests(store, **{semconv.ERROR_TYPE: of_series(promql.ERROR_TYPE)}),
        )
    )
    kind = {semconv.SESSION_ERROR_KIND: "ERROR", semconv.ERROR_TYPE: of_row(promql.ERROR_TYPE)}
    by_model = f"{total(grown(promql.ERRORS, errors, RANGE), *_MODEL_KEYS, promql.ERROR_TYPE)} > 0"
    made.with_panel(
        rows(
            Say("Failed requests by kind, provider and model", "The same, for the whole time range."),
            _model_columns(store.links(of_row(promql.SERVICE), kind)),
            [(Column("requests", "Requests"), by_model)],
        )
    )


def _cost(made: build.Dashboard, store: TraceStore) -> None:
    links = store.links(of_series(promql.SERVICE), {**RUN, semconv.GEN_AI_REQUEST_MODEL: of_series(promql.MODEL)})
    model = named(promql.SERVICE, promql.MODEL)
    cost = total(grown(promql.COST, select(PER_MODEL), STEP), promql.SERVICE, promql.MODEL)
    made.with_panel(
        bars(
            Say("Cost by model", "US dollars, as the agents say."), Query(cost, model), unit="currencyUSD", links=links
        )
    )
    sums = grown(f"{promql.TOKENS}_sum", select(PER_MODEL), STEP)
    tokens = total(sums, promql.SERVICE, promql.MODEL, promql.TOKEN_TYPE)
    made.with_panel(
        bars(
            Say("Tokens by model and kind", "Of requests that ended well; input counts cached tokens too."),
            Query(tokens, f"{model} {named(promql.TOKEN_TYPE)}"),
            links=links,
        )
    )


def _durations(made: build.Dashboard, store: TraceStore) -> None:
    _quantile_lines(made, store)
    buckets = grown(f"{promql.RUN_SECONDS}_bucket", select(PER_MODEL), RANGE, promql.SHORT_LOOKBACK)
    counts = grown(f"{promql.RUN_SECONDS}_count", select(PER_MODEL), RANGE, promql.SHORT_LOOKBACK)
    keys = (promql.SERVICE, promql.OUTCOME)
    ended = {**RUN, semconv.OUTCOME: of_row(promql.OUTCOME)}
    made.with_panel(
        rows(
            Say("Runs by outcome", "Durations of whole runs, waits for retries included."),
            [
                Column(promql.SERVICE, "Service"),
                Column(promql.OUTCOME, "Outcome", links=store.links(of_row(promql.SERVICE), ended)),
            ],
            [
                (Column("runs", "Runs"), f"{total(counts, *keys)} > 0"),
                (Column("p50", "Median", "s"), promql.quantile(0.5, buckets, *keys)),
                (Column("p95", "95 %", "s"), promql.quantile(0.95, buckets, *keys)),
            ],
        )
    )
    made.with_panel(_tools(store))


def _quantile_lines(made: build.Dashboard, store: TraceStore) -> None:
    bucket = f"{promql.SPAN_MILLISECONDS}_bucket"
    for what, spans, by, tags in (
        ("Runs: 95 %", "invoke_agent.*", promql.OUTCOME, {**RUN, semconv.OUTCOME: of_series(promql.OUTCOME)}),
        ("Model requests: 95 %", "chat.*", promql.MODEL, {semconv.GEN_AI_REQUEST_MODEL: of_series(promql.MODEL)}),
    ):
        chosen = select(PER_MODEL, f'span_name=~"{spans}"')
        rate = grown(bucket, chosen, "$__rate_interval", promql.SHORT_LOOKBACK)
        made.with_panel(
            lines(
                Say(what, "From the Collector's span metrics. Each point is a trace: click it to open the trace."),
                Query(promql.quantile(0.95, rate, promql.SERVICE, by), named(promql.SERVICE, by)),
                unit="ms",
                links=store.links(of_series(promql.SERVICE), tags),
                exemplars=True,
            )
        )


def _tools(store: TraceStore) -> Panel:
    selector = select(promql.PER_SERVICE_AND_HOST)
    keys = (promql.SERVICE, promql.TOOL)

    def window(part: str, *matchers: str) -> str:
        chosen = select(promql.PER_SERVICE_AND_HOST, *matchers) if matchers else selector
        return grown(f"{promql.TOOL_SECONDS}_{part}", chosen, RANGE, promql.SHORT_LOOKBACK)

    tool = {semconv.GEN_AI_TOOL_NAME: of_row(promql.TOOL)}
    return rows(
        Say("Tools", "Calls of tools, those that failed, and how long they took."),
        [
            Column(promql.SERVICE, "Service"),
            Column(promql.TOOL, "Tool", links=store.links(of_row(promql.SERVICE), tool)),
        ],
        [
            (Column("calls", "Calls"), f"{total(window('count'), *keys)} > 0"),
            (Column("failed", "Failed", colour=RED), f"{total(window('count', FAILED), *keys)} > 0"),
            (Column("p95", "95 %", "s"), promql.quantile(0.95, window("bucket"), *keys)),
        ],
    )
