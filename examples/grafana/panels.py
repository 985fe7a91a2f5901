"""Panels as these dashboards use them, each a function; what they share is said once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from grafana_foundation_sdk.builders import common as common_build
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from examples.grafana.traces import TraceQuery, TraceStore, source

PROMETHEUS: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${prometheus}")
WIDTH: Final = 24
STAT_HEIGHT: Final = 4
GRAPH_HEIGHT: Final = 8
_MAX_BARS: Final = 80.0
_MIN_STEP: Final = "1m"

RED: Final = "red"
GREEN: Final = "green"
GREY: Final = "#8e8e8e"
ORANGE: Final = "orange"
BLUE: Final = "blue"
OUTCOME_COLOURS: Final = {"completed": GREEN, "failed": RED, "cancelled": GREY, "incomplete": ORANGE}
"""A cancel is no failure, and does not look like one."""

Links = Sequence[Builder[dashboard.DashboardLink]]
Panel = Builder[dashboard.Panel]


@dataclass(frozen=True, slots=True)
class Say:
    """What a person reads of a panel, and how wide it is (of 24)."""

    title: str
    about: str
    width: int = WIDTH // 2


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the label or the query that fills it, and how it looks."""

    name: str
    title: str
    unit: str | None = None
    links: Links = ()
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A query and the names of its series."""

    expr: str
    legend: str
    colours: Mapping[str, str] = field(default_factory=dict)
    """By a word of the series' name."""


def _target(expr: str, legend: str, ref_id: str = "A") -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).legend_format(legend).ref_id(ref_id).datasource(PROMETHEUS)


def _refs(queries: Sequence[Query]) -> list[tuple[str, Query]]:
    return [(chr(ord("A") + index), query) for index, query in enumerate(queries)]


def number(say: Say, query: Query, *, unit: str = "short", links: Links = (), bad_above: float | None = None) -> Panel:
    """Give a big number for the whole time range, one for each series; red from *bad_above* on."""
    steps = [dashboard.Threshold(value=None, color="text")]
    if bad_above is not None:
        steps.append(dashboard.Threshold(value=bad_above, color=RED))
    panel = stat.Panel().title(say.title).description(say.about).datasource(PROMETHEUS).span(say.width)
    panel.height(STAT_HEIGHT).unit(unit).no_value("0").data_links(list(links))
    panel.thresholds(build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps))
    panel.graph_mode(common.BigValueGraphMode.NONE).reduce_options(
        common_build.ReduceDataOptions().calcs(["lastNotNull"])
    )
    panel.text_mode(common.BigValueTextMode.VALUE_AND_NAME)
    panel.with_target(_target(query.expr, query.legend).instant())
    return panel


def _graph(say: Say, queries: Sequence[Query], unit: str, links: Links, *, exemplars: bool = False) -> timeseries.Panel:
    panel = timeseries.Panel().title(say.title).description(say.about).datasource(PROMETHEUS).span(say.width)
    panel.height(GRAPH_HEIGHT).unit(unit).min(0).data_links(list(links))
    panel.tooltip(common_build.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).hide_zeros(True))
    legend = common_build.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST)
    panel.legend(legend.placement(common.LegendPlacement.BOTTOM).show_legend(True))
    for ref_id, query in _refs(queries):
        panel.with_target(_target(query.expr, query.legend, ref_id).range().exemplar(exemplars))
        for word, colour in query.colours.items():
            value = {"mode": "fixed", "fixedColor": colour}
            panel.override_by_regexp(f"/{word}/", [dashboard.DynamicConfigValue("color", value)])
    return panel


def bars(say: Say, *queries: Query, unit: str = "short", links: Links = ()) -> Panel:
    """Give counts per step, stacked: each bar is what happened in its step, so bars add up to what happened."""
    panel = _graph(say, queries, unit, links).interval(_MIN_STEP).max_data_points(_MAX_BARS)
    panel.draw_style(common.GraphDrawStyle.BARS).fill_opacity(80).line_width(0)
    panel.stacking(common_build.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    return panel


def lines(say: Say, *queries: Query, unit: str = "short", links: Links = (), exemplars: bool = False) -> Panel:
    """Give levels over time; *exemplars* shows single traces as points, each a link to its trace."""
    panel = _graph(say, queries, unit, links, exemplars=exemplars).interval(_MIN_STEP)
    panel.draw_style(common.GraphDrawStyle.LINE).fill_opacity(10).span_nulls(True)
    panel.show_points(common.VisibilityMode.AUTO)
    return panel


def rows(say: Say, keys: Sequence[Column], values: Sequence[tuple[Column, str]]) -> Panel:
    """Give a table of the whole time range: label columns, then one column for each query, largest first."""
    panel = table.Panel().title(say.title).description(say.about).datasource(PROMETHEUS).span(say.width)
    panel.height(GRAPH_HEIGHT).no_value("0")
    titles = {column.name: column.title for column in keys}
    for index, (column, expr) in enumerate(values):
        ref_id = chr(ord("A") + index)
        panel.with_target(_target(expr, "", ref_id).instant().format(PromQueryFormat.TABLE))
        titles["Value" if len(values) == 1 else f"Value #{ref_id}"] = column.title
    if len(values) > 1:
        panel.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    order = {name: place for place, name in enumerate(titles)}
    options = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": titles}
    panel.with_transformation(dashboard.DataTransformerConfig(id_val="organize", options=options))
    for column in (*keys, *(column for column, _ in values)):
        _style(panel, column)
    first = values[0][0].title
    panel.sort_by([common_build.TableSortByFieldState().display_name(first).desc(True)])
    return panel


def _style(panel: table.Panel, column: Column) -> None:
    properties: list[dashboard.DynamicConfigValue] = []
    if column.unit is not None:
        properties.append(dashboard.DynamicConfigValue("unit", column.unit))
    if column.links:
        properties.append(dashboard.DynamicConfigValue("links", [link.build() for link in column.links]))
    if column.colour is not None:
        properties.append(dashboard.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": column.colour}))
        properties.append(dashboard.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}))
    if properties:
        panel.override_by_name(column.title, properties)


def trace_table(say: Say, store: TraceStore, service: str, tags: Mapping[str, str], open_trace: str) -> Panel:
    """Give the traces that a search finds; a click on one goes to *open_trace*."""
    panel = table.Panel().title(say.title).description(say.about).datasource(source(store)).span(say.width)
    query = {"refId": "A", "datasource": source(store), **store.search(service, tags)}
    links = [build.DashboardLink("Show it below").url(open_trace).build()]
    panel.height(GRAPH_HEIGHT).with_target(TraceQuery(query))
    return panel.override_by_name("traceID", [dashboard.DynamicConfigValue("links", links)])


def trace_view(say: Say, store: TraceStore, trace_id: str) -> Panel:
    """Give one trace, as a tree."""
    panel = build.Panel().type("traces").title(say.title).description(say.about).datasource(source(store))
    query = {"refId": "A", "datasource": source(store), **store.trace(trace_id)}
    return panel.span(WIDTH).height(GRAPH_HEIGHT * 2).with_target(TraceQuery(query))
