"""What all dashboards have: variables that filter, marks where alerts fired, links to each other."""

from collections.abc import Sequence
from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard

from examples.grafana import promql
from examples.grafana.panels import PROMETHEUS, RED
from examples.grafana.traces import TraceStore, source_variable

TAG: Final = "compass-otel"
_ALL: Final = ".*"
"""All: series that lack the label too, where a regular expression of the known values would leave them out."""


def picked(name: str, metric: str, key: str, *, filters: str = "", one: bool = False) -> build.QueryVariable:
    """Give a variable with the values of a label; several may be picked, or all, unless *one*."""
    variable = build.QueryVariable(name).label(name.title()).datasource(PROMETHEUS)
    variable.query({"qryType": 1, "query": f"label_values({metric}{filters}, {key})", "refId": f"values-{name}"})
    variable.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    if not one:
        variable.multi(True).include_all(True).all_value(_ALL)
        variable.current(dashboard.VariableOption(selected=True, text=["All"], value=["$__all"]))
    return variable


def service_and_host(metric: str, *, one_service: bool = False) -> list[Builder[dashboard.VariableModel]]:
    """Give the filters by service and host."""
    of_service = promql.select(f'{promql.SERVICE}=~"$service"')
    return [
        picked("service", metric, promql.SERVICE, one=one_service),
        picked("host", metric, promql.HOST, filters=of_service),
    ]


def provider_and_model() -> list[Builder[dashboard.VariableModel]]:
    """Give the filters by provider and model."""
    of_host = promql.select(promql.PER_SERVICE_AND_HOST)
    of_provider = promql.select(promql.PER_SERVICE_AND_HOST, f'{promql.PROVIDER}=~"$provider"')
    return [
        picked("provider", promql.RUNS, promql.PROVIDER, filters=of_host),
        picked("model", promql.RUNS, promql.MODEL, filters=of_provider),
    ]


def begin(
    uid: str,
    title: str,
    about: str,
    store: TraceStore | None,
    variables: Sequence[Builder[dashboard.VariableModel]],
) -> build.Dashboard:
    """Begin a dashboard; its first variables pick the data sources."""
    made = build.Dashboard(title).uid(uid).description(about).tags([TAG]).time("now-24h", "now").refresh("1m")
    made.tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
    made.with_variable(source_variable("prometheus", "Prometheus"))
    for variable in (*(store.variables() if store else ()), *variables):
        made.with_variable(variable)
    alerts = build.AnnotationQuery().name("Alerts").datasource(PROMETHEUS).enable(True).icon_color(RED)
    made.annotation(alerts.expr('ALERTS{alertstate="firing", alertname=~"Compass.*"}'))
    others = build.DashboardLink("compass-otel").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
    return made.link(others.keep_time(True).include_vars(True))


def number_panels(made: build.Dashboard) -> dashboard.Dashboard:
    """Finish: give each panel its id, in reading order."""
    built = made.build()
    for panel_id, panel in enumerate(built.panels or [], start=1):
        panel.id_val = panel_id
    return built
