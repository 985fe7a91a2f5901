"""Dashboard 2: one agent, and one conversation of it, run by run, down to the trace.

No metric carries a conversation's id: it would make a series of each. So what is told of a conversation here comes from
the traces themselves, and what metrics tell is of the agent.
"""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard

from compass_otel import semconv
from examples.grafana import frame, promql
from examples.grafana.panels import OUTCOME_COLOURS, WIDTH, Query, Say, bars, number, trace_table, trace_view
from examples.grafana.promql import PER_SERVICE_AND_HOST, RANGE, STEP, grown, named, select, total
from examples.grafana.runs_dashboard import RUN, outcome_links
from examples.grafana.traces import TraceStore, of_series

UID: Final = "compass-agent"
_SERVICE: Final = "${service}"
_CONVERSATION: Final = "${conversation}"
_OPEN_TRACE: Final = (
    f"/d/{UID}?var-service=${{service:percentencode}}&var-conversation=${{conversation:percentencode}}"
    "&var-trace=${__value.raw}&${__url_time_range}"
)


def build_agent(store: TraceStore) -> dashboard.Dashboard:
    """Build it, on the traces of *store*."""
    about = "One agent and one of its conversations: what its runs came to, and each run's trace."
    texts: list[Builder[dashboard.VariableModel]] = [
        build.TextBoxVariable("conversation").label("Conversation").description("gen_ai.conversation.id of a run"),
        build.TextBoxVariable("trace").label("Trace").description("A trace id; a click in a table sets it"),
    ]
    variables = [*frame.service_and_host(promql.RUNS, one_service=True), *texts]
    made = frame.begin(UID, "Agents: one agent, one conversation", about, store, variables)
    _numbers(made, store)
    _graphs(made, store)
    made.with_row(build.Row("Runs of the agent that did not end well: click one to see it below"))
    for outcome, about_it in (
        ("failed", "They ended in failure."),
        ("incomplete", "Their end was never seen."),
        ("cancelled", "A person or the host stopped them; they are no failures."),
    ):
        say = Say(f"{outcome.title()} runs", about_it, WIDTH // 3)
        made.with_panel(trace_table(say, store, _SERVICE, {**RUN, semconv.OUTCOME: outcome}, _OPEN_TRACE))
    made.with_row(build.Row("The conversation"))
    one = {semconv.GEN_AI_CONVERSATION_ID: _CONVERSATION}
    every = Say("Runs of the conversation", "Each prompt is one run, and one trace. Enter the conversation's id above.")
    made.with_panel(trace_table(every, store, _SERVICE, {**RUN, **one}, _OPEN_TRACE))
    failed = Say("Failed requests of the conversation", "Traces with a failed model request, repaired ones included.")
    made.with_panel(trace_table(failed, store, _SERVICE, {semconv.SESSION_ERROR_KIND: "ERROR", **one}, _OPEN_TRACE))
    made.with_row(build.Row("The run"))
    made.with_panel(trace_view(Say("The run", "Failures first: the red spans say what went wrong."), store, "${trace}"))
    return frame.number_panels(made)


def _runs(window: str, *matchers: str) -> str:
    return grown(promql.RUNS, select(PER_SERVICE_AND_HOST, *matchers), window)


def _numbers(made: build.Dashboard, store: TraceStore) -> None:
    def of_host(expr: str) -> Query:
        return Query(total(expr, promql.HOST), named(promql.HOST))

    made.with_panel(number(Say("Runs", "By host.", 6), of_host(_runs(RANGE)), links=store.links(_SERVICE, RUN)))
    for outcome, about, bad_above in (
        ("failed", "Runs that ended in failure, by host.", 1.0),
        ("cancelled", "Runs that a person or the host stopped, by host.", None),
    ):
        query = of_host(_runs(RANGE, f'{promql.OUTCOME}="{outcome}"'))
        links = outcome_links(store, outcome, _SERVICE)
        made.with_panel(number(Say(outcome.title(), about, 6), query, links=links, bad_above=bad_above))
    cost = of_host(grown(promql.COST, select(PER_SERVICE_AND_HOST), RANGE))
    made.with_panel(number(Say("Cost", "As the agent says, by host.", 6), cost, unit="currencyUSD"))


def _graphs(made: build.Dashboard, store: TraceStore) -> None:
    outcomes = total(_runs(STEP), promql.OUTCOME)
    made.with_panel(
        bars(
            Say("Outcomes", "Runs by outcome. Click a bar for its traces."),
            Query(outcomes, named(promql.OUTCOME), OUTCOME_COLOURS),
            links=outcome_links(store, of_series(promql.OUTCOME), _SERVICE),
        )
    )
    errors = grown(promql.ERRORS, select(PER_SERVICE_AND_HOST, f'{promql.KIND}="ERROR"'), STEP)
    made.with_panel(
        bars(
            Say("Failed requests by kind and model", "Those that a retry repaired included."),
            Query(
                total(errors, promql.ERROR_TYPE, promql.MODEL),
                named(promql.ERROR_TYPE, promql.MODEL),
            ),
            links=store.links(
                _SERVICE,
                {semconv.SESSION_ERROR_KIND: "ERROR", semconv.ERROR_TYPE: of_series(promql.ERROR_TYPE)},
            ),
        )
    )
