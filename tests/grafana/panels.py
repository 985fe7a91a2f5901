"""Reads the committed dashboards as Grafana does: their queries with variables put in, and where their links lead."""

from __future__ import annotations

import json
import re
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GRAFANA: Final = Path(__file__).parent.parent.parent / "examples" / "grafana"
DASHBOARDS: Final = sorted((GRAFANA / "dashboards").glob("*.json"))
TEMPO_DASHBOARDS: Final = sorted((GRAFANA / "dashboards-tempo").glob("*.json"))
WINDOWS: Final = {"__interval": "1m", "__rate_interval": "4m", "__range": "30m"}
_VARIABLE: Final = re.compile(r"\$\{([\w.]+)(?::(\w+))?\}|\$(\w+)")


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel, of the file that it is from."""

    file: str
    json: Mapping[str, Any]

    @property
    def name(self) -> str:
        """How tests name it."""
        return f"{self.file}: {self.json['title']}"

    @property
    def targets(self) -> list[dict[str, Any]]:
        """Its queries."""
        return list(self.json.get("targets") or [])

    @property
    def links(self) -> list[dict[str, Any]]:
        """Its data links, those of single columns included."""
        config = self.json.get("fieldConfig", {})
        found = list(config.get("defaults", {}).get("links") or [])
        for override in config.get("overrides") or []:
            found += [link for prop in override["properties"] if prop["id"] == "links" for link in prop["value"]]
        return found


def load(path: Path) -> dict[str, Any]:
    """Give a dashboard."""
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def panels(*paths: Path) -> Iterator[Panel]:
    """Give all panels but rows."""
    for path in paths:
        for panel in load(path)["panels"]:
            if panel["type"] != "row":
                yield Panel(path.name, panel)


def put_in(text: str, values: Mapping[str, str]) -> str:
    """Put values of variables into a query or a link, as they stand or escaped, as each is written.

    Raises:
        KeyError: a variable has no value.

    """

    def value(match: re.Match[str]) -> str:
        found = values[match[1] or match[3]]
        assert match[2] in (None, "percentencode")
        return urllib.parse.quote(found, safe="") if match[2] else found

    return _VARIABLE.sub(value, text)


def variables(text: str) -> set[str]:
    """Name the variables in a query or a link."""
    return {match[1] or match[3] for match in _VARIABLE.finditer(text)}


@dataclass(frozen=True, slots=True)
class Search:
    """A search for traces, as a link asks for it."""

    service: str
    tags: dict[str, str]


def search_of(url: str) -> Search:
    """Give the search that a link makes, in Explore with Jaeger's data source, or in Jaeger's own pages."""
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query, strict_parsing=True))
    if parts.path == "/explore":
        (pane,) = json.loads(query["panes"]).values()
        (asked,) = pane["queries"]
        assert (asked["queryType"], pane["datasource"], asked["datasource"]["uid"]) == ("search", "jaeger", "jaeger")
        return Search(asked["service"], logfmt(asked["tags"]))
    assert parts.path == "/search"
    return Search(query["service"], json.loads(query["tags"]))


def logfmt(text: str) -> dict[str, str]:
    """Give the tags of a search as Grafana's Jaeger data source reads them."""
    return dict(term.split("=", 1) for term in text.split())
