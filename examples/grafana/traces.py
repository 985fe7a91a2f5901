"""Where traces are: the ways from a panel to them, and panels that show them, for Jaeger and for Tempo."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.runtime import UnknownDataquery
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import dashboard

LIMIT: Final = 50
"""Traces that a search shows."""
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}")

Tags = Mapping[str, str]


def of_series(key: str) -> str:
    """Name a label of the series that is clicked, for a link."""
    return f"${{__field.labels.{key}:percentencode}}"


def of_row(key: str) -> str:
    """Name a column of the row that is clicked, for a link."""
    return f"${{__data.fields.{key}:percentencode}}"


def of_dashboard(name: str) -> str:
    """Name a variable of the dashboard, for a link."""
    return f"${{{name}:percentencode}}"


def _in_url(text: str) -> str:
    """Escape what stands in a URL, but for Grafana's variables: their values are escaped when they are put in."""
    parts = zip(_VARIABLE.split(text), [*_VARIABLE.findall(text), ""], strict=True)
    return "".join(quote(plain, safe="") + variable for plain, variable in parts)


def _explore(query: Mapping[str, object], kind: str) -> str:
    """Give the address of Explore with this query, at the dashboard's time range."""
    uid = f"${{{kind}}}"
    pane = {
        "datasource": uid,
        "queries": [{"refId": "A", "datasource": {"type": kind, "uid": uid}, **query}],
        "range": {"from": "${__from}", "to": "${__to}"},
    }
    return f"/explore?schemaVersion=1&orgId=1&panes={_in_url(json.dumps({'traces': pane}))}"


@dataclass(frozen=True, slots=True)
class TraceQuery(Builder[Dataquery]):
    """A query that the SDK has no builder for."""

    fields: Mapping[str, object]

    def build(self) -> Dataquery:
        """Give it as the SDK writes it."""
        return UnknownDataquery(dict(self.fields))


class TraceStore(Protocol):
    """A backend of traces, as Grafana sees it."""

    @property
    def kind(self) -> str:
        """The type of its data source in Grafana, and the name of the variable that picks one."""

    def search(self, service: str, tags: Tags) -> Mapping[str, object]:
        """Give the query for spans of a service that have all these attributes."""

    def trace(self, trace_id: str) -> Mapping[str, object]:
        """Give the query for one trace."""

    def variables(self) -> list[Builder[dashboard.VariableModel]]:
        """Give the dashboard variables that links need."""

    def links(self, service: str, tags: Tags) -> list[Builder[dashboard.DashboardLink]]:
        """Give the links to the spans of a service that have all these attributes."""


def source_variable(kind: str, name: str) -> Builder[dashboard.VariableModel]:
    """Give the variable that picks a data source of a kind."""
    return build.DatasourceVariable(kind).label(name).type(kind).regex("")


def source(store: TraceStore) -> dashboard.DataSourceRef:
    """Name the data source that the variable picks."""
    return dashboard.DataSourceRef(type_val=store.kind, uid=f"${{{store.kind}}}")


def link(title: str, url: str) -> Builder[dashboard.DashboardLink]:
    """Give a link that opens beside the dashboard."""
    return build.DashboardLink(title).url(url).target_blank(True)


class Jaeger:
    """Traces in Jaeger: in Explore by its data source, and in its own pages."""

    kind: Final = "jaeger"

    def search(self, service: str, tags: Tags) -> Mapping[str, object]:
        """Give the query; tags are written as in logfmt."""
        text = " ".join(f"{key}={value}" for key, value in tags.items())
        return {"queryType": "search", "service": service, "tags": text, "limit": LIMIT}

    def trace(self, trace_id: str) -> Mapping[str, object]:
        """Give the query; without a type it is for one trace."""
        return {"query": trace_id}

    def variables(self) -> list[Builder[dashboard.VariableModel]]:
        """Give the data source, and where Jaeger's own pages are."""
        pages = build.TextBoxVariable("jaeger_pages").label("Jaeger's own pages")
        return [
            source_variable(self.kind, "Jaeger"),
            pages.default_value("http://127.0.0.1:16686").hide(dashboard.VariableHide.HIDE_VARIABLE),
        ]

    def links(self, service: str, tags: Tags) -> list[Builder[dashboard.DashboardLink]]:
        """Give both ways; Jaeger's own pages count time in microseconds."""
        query = f"service={service}&tags={_in_url(json.dumps(tags))}&limit={LIMIT}"
        pages = f"${{jaeger_pages}}/search?{query}&lookback=custom&start=${{__from}}000&end=${{__to}}000"
        return [
            link("Traces", _explore(self.search(service, tags), self.kind)),
            link("Traces in Jaeger's own pages", pages),
        ]


class Tempo:
    """Traces in Tempo: in Explore, by TraceQL."""

    kind: Final = "tempo"

    def search(self, service: str, tags: Tags) -> Mapping[str, object]:
        """Give the query; numbers and truth values stand bare, all others in quotes."""
        terms = [f'resource.service.name = "{service}"', *(f"span.{key} = {_literal(tags[key])}" for key in tags)]
        return {
            "queryType": "traceql",
            "query": "{ " + " && ".join(terms) + " }",
            "limit": LIMIT,
            "tableType": "traces",
        }

    def trace(self, trace_id: str) -> Mapping[str, object]:
        """Give the query: a bare id is one too."""
        return {"queryType": "traceql", "query": trace_id, "tableType": "traces"}

    def variables(self) -> list[Builder[dashboard.VariableModel]]:
        """Give the data source."""
        return [source_variable(self.kind, "Tempo")]

    def links(self, service: str, tags: Tags) -> list[Builder[dashboard.DashboardLink]]:
        """Give the way into Explore."""
        return [link("Traces", _explore(self.search(service, tags), self.kind))]


def _literal(value: str) -> str:
    return value if value in ("true", "false") or value.isdecimal() else f'"{value}"'
