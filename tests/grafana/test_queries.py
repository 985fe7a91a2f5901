"""Every query of every panel and rule sees data, in real programs filled by the product, and links lead to traces."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from grafana.panels import DASHBOARDS, WINDOWS, Panel, Search, load, logfmt, panels, put_in, search_of
from grafana.yaml_files import rules_in
from receivers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grafana.conftest import Filled
    from grafana.prometheus_api import Found

pytestmark = pytest.mark.stack

_DAY_S = 86_400.0
_DEADLINE_S = 30.0
_ALL = dict.fromkeys(("service", "host", "provider", "model", "collector"), ".*")
_WITH_TRACES = {"agent.json": {**_ALL, "service": "pi"}, "runs.json": {**_ALL, "service": "svc|pi|omp"}}
"""Services whose spans arrive; the dashboard of one agent shows one."""
_IN_LINKS = {
    "prometheus": "prometheus", "jaeger": "jaeger", "jaeger_pages": "http://jaeger", "__from": "0", "__to": "1",
    "service": "pi",
}  # fmt: skip
PANELS = list(panels(*DASHBOARDS))
OF_METRICS = [panel for panel in PANELS if panel.json["datasource"]["type"] == "prometheus"]
OF_TRACES = [panel for panel in PANELS if panel not in OF_METRICS]
RULES = {rule["alert"]: rule["expr"] for rule in rules_in("compass.yaml")}
LATER_S = {"CompassAgentSilent": 7.5 * _DAY_S}
"""Rules about silence are asked as if it had lasted."""


def named(panel: Panel) -> str:
    """Name a test by its panel."""
    return panel.name


def answers(filled: Filled, panel: Panel, values: dict[str, str] = _ALL) -> list[list[Found]]:
    """Run the queries of a panel, each as Grafana runs it."""
    ask = filled.prometheus
    return [
        (ask.at if target.get("instant") else ask.over)(put_in(target["expr"], {**WINDOWS, **values}))
        for target in panel.targets
    ]


def numbers(found: list[Found]) -> list[float]:
    """Give all numbers of an answer."""
    return [value for series in found for value in series.values]


@pytest.mark.parametrize("panel", OF_METRICS, ids=named)
def test_every_query_of_a_panel_sees_data(filled: Filled, panel: Panel) -> None:
    """No query of it is empty, and none gives only what is no number."""
    wait_until(lambda: all(numbers(found) for found in answers(filled, panel)), _DEADLINE_S)
    for target, found in zip(panel.targets, answers(filled, panel), strict=True):
        assert numbers(found), target["expr"]


@pytest.mark.parametrize(
    "title",
    ["Priority spans lost", "Other spans lost", "Waiting in spools", "Refused by the Collector",
     "Lost, by lane and reason", "Sent again, and warnings", "Spans sent on"],
)  # fmt: skip
def test_trouble_shows_as_more_than_nothing(filled: Filled, title: str) -> None:
    """What stands at 0 on a good day does not on a bad one, in each of its queries."""
    (panel,) = (panel for panel in OF_METRICS if panel.json["title"] == title)
    assert wait_until(lambda: all(max(numbers(found), default=0) > 0 for found in answers(filled, panel)), _DEADLINE_S)


def test_runs_are_counted_exactly(filled: Filled) -> None:
    """Outcomes on the dashboard are those of the runs that were sent, to the last one, for every service."""
    sent = Counter(
        (run["spans"][0]["attributes"]["gen_ai.agent.name"], run["outcome"]) for run in filled.sent.runs if run["spans"]
    )
    (panel,) = (panel for panel in OF_METRICS if panel.name == "runs.json: Outcomes")
    values = {**WINDOWS, **_ALL, "service": "pi|omp", "__interval": "30m"}
    found = filled.prometheus.at(put_in(panel.targets[0]["expr"], values))
    shown = {(each.labels["service_name"], each.labels["compass_outcome"]): each.values[0] for each in found}
    assert shown == dict(sent)


@pytest.mark.parametrize("panel", [panel for panel in OF_METRICS if panel.links], ids=named)
def test_one_click_leads_from_a_panel_to_the_traces(filled: Filled, panel: Panel) -> None:
    """From whatever series or row it shows: each link finds traces in the real Jaeger."""
    found = answers(filled, panel, _WITH_TRACES[panel.file])
    series = [each.labels for series in found for each in series if each.values]
    assert series
    searches = [search_of(url) for url in sorted({url for labels in series for url in _urls(panel, labels)})]

    def without_traces() -> list[Search]:
        return [each for each in searches if not filled.jaeger.search(each.service, each.tags)]

    wait_until(lambda: not without_traces(), 10)
    assert without_traces() == []


def _urls(panel: Panel, labels: dict[str, str]) -> Iterator[str]:
    """Give where the links of a panel lead when a series with these labels is clicked."""
    clicked = {
        f"{where}.{key}": value for where in ("__field.labels", "__data.fields") for key, value in labels.items()
    }
    for link in panel.links:
        yield put_in(link["url"], {**_IN_LINKS, **clicked})


@pytest.mark.parametrize("panel", OF_TRACES, ids=named)
def test_a_panel_of_traces_finds_some(filled: Filled, panel: Panel) -> None:
    """What it searches for is in the real Jaeger, for an agent, and for a conversation with a failure."""
    failed = next(run for run in filled.sent.runs if run["outcome"] == "failed" and _attribute(run, "pi"))
    conversation = str(_attribute(failed, "pi"))
    values = {"service": "pi", "conversation": conversation, "trace": failed["trace_id"]}
    (target,) = panel.targets
    if target.get("queryType") == "search":
        tags = logfmt(put_in(target["tags"], values))
        assert wait_until(lambda: bool(filled.jaeger.search(put_in(target["service"], values), tags)), 10)
    else:
        assert wait_until(lambda: bool(filled.jaeger.trace(put_in(target["query"], values))), 10)


def _attribute(run: dict[str, Any], agent: str) -> str | None:
    """Give the conversation of a run of an agent."""
    attributes: dict[str, str] = run["spans"][0]["attributes"]
    return attributes.get("gen_ai.conversation.id") if attributes["gen_ai.agent.name"] == agent else None


@pytest.mark.parametrize("panel", [p for p in OF_METRICS if any(t.get("exemplar") for t in p.targets)], ids=named)
def test_a_point_on_a_graph_is_a_trace(filled: Filled, panel: Panel) -> None:
    """The exemplars of its query carry ids of traces that are in the real Jaeger."""
    exprs = [put_in(target["expr"], {**WINDOWS, **_WITH_TRACES[panel.file]}) for target in panel.targets]
    ids = {labels["trace_id"] for expr in exprs for labels in filled.prometheus.exemplars(expr)}
    assert ids
    assert all(filled.jaeger.trace(trace_id) for trace_id in ids)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_filter_has_values(filled: Filled, path: Any) -> None:
    """Each variable that asks Prometheus for its values gets some."""
    asked = [each["query"]["query"] for each in load(path)["templating"]["list"] if each["type"] == "query"]
    assert asked
    for query in asked:
        match = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
        assert match is not None
        assert filled.prometheus.values_of(match[2], put_in(match[1], _ALL)), query


@pytest.mark.parametrize("alert", sorted(RULES))
def test_the_query_of_every_rule_sees_data(filled: Filled, alert: str) -> None:
    """Each rule's query gives a series where there is something wrong."""
    later_s = LATER_S.get(alert, 0.0)
    assert wait_until(lambda: bool(filled.prometheus.at(RULES[alert], later_s=later_s)), _DEADLINE_S), RULES[alert]


def test_alerts_fire_and_are_marked_on_the_graphs(filled: Filled) -> None:
    """The real Prometheus fires what waits for nothing, and the dashboards' annotations show it."""
    at_once = {rule["alert"] for rule in rules_in("compass.yaml") if rule["for"] == "0m"} - {*LATER_S}
    assert wait_until(lambda: at_once <= filled.prometheus.firing(), _DEADLINE_S), at_once - filled.prometheus.firing()
    (query,) = {each["expr"] for path in DASHBOARDS for each in load(path)["annotations"]["list"]}
    assert filled.prometheus.over(query)


def test_dashboards_ask_only_what_is_asked_here() -> None:
    """No panel has a query that these tests don't know how to run."""
    known = {"stat", "timeseries", "table", "traces"}
    assert {panel.json["type"] for panel in PANELS} == known
    assert all(json.dumps(target) for panel in PANELS for target in panel.targets)
    assert all(panel.targets for panel in PANELS)
