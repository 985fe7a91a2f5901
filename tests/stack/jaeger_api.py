"""What Jaeger's query API gives back, in the shape of `replay --json`, so that the two can be compared."""

from __future__ import annotations

import json
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from receivers import wait_until
from stack.programs import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable

# What Jaeger itself makes of the parts of a span that are no attributes.
_OF_JAEGER: Final = frozenset(
    {"error", "otel.scope.name", "otel.scope.version", "otel.status_code", "otel.status_description", "span.kind"}
)
_LIMIT: Final = 5000
_READERS: Final = 4


@dataclass(frozen=True, slots=True)
class Shown:
    """One span as Jaeger shows it."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    kind: str
    status: str
    status_text: str | None
    marked_as_error: bool
    start_us: int
    duration_us: int
    attributes: dict[str, Any]
    events: tuple[tuple[str, dict[str, Any]], ...]
    resource: dict[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        """Trace id and span id."""
        return self.trace_id, self.span_id


class JaegerApi:
    """Asks one Jaeger."""

    def __init__(self, url: str) -> None:
        self._url = url

    def services(self) -> set[str]:
        """Name the services that it knows."""
        return set(self._data("/api/services"))

    def trace(self, trace_id: str) -> list[Shown]:
        """Give the spans of a trace, as often as Jaeger shows each; none if it knows no such trace."""
        return [span for trace in self._data(f"/api/traces/{trace_id}") for span in _spans(trace)]

    def traces(self, trace_ids: Iterable[str]) -> list[Shown]:
        """Give the spans of several traces."""
        with ThreadPoolExecutor(_READERS) as pool:
            return [span for spans in pool.map(self.trace, sorted(set(trace_ids))) for span in spans]

    def search(self, service: str, tags: dict[str, str]) -> set[str]:
        """Give the ids of the traces of a service with a span that has all these attributes."""
        query = {
            "service": service,
            "tags": json.dumps(tags),
            "limit": str(_LIMIT),
            "start": "0",
            "end": str(int(time.time() + 86_400) * 1_000_000),
        }
        return {trace["traceID"] for trace in self._data(f"/api/traces?{urllib.parse.urlencode(query)}")}

    def _data(self, path: str) -> list[Any]:
        body = fetch(self._url + path)
        return json.loads(body)["data"] or [] if body else []

    def wait_for(self, keys: Iterable[tuple[str, str]], timeout_s: float = 30.0) -> set[tuple[str, str]]:
        """Wait until all these spans are shown; give those that are not."""
        missing = set(keys)

        def arrived() -> bool:
            missing.difference_update(span.key for span in self.traces({trace_id for trace_id, _ in missing}))
            return not missing

        wait_until(arrived, timeout_s)
        return missing


def _spans(trace: dict[str, Any]) -> list[Shown]:
    return [_span(span, trace["processes"][span["processID"]]) for span in trace["spans"]]


def _span(span: dict[str, Any], process: dict[str, Any]) -> Shown:
    tags = _values(span["tags"])
    parents = [
        r["spanID"] for r in span["references"] if r["refType"] == "CHILD_OF" and r["traceID"] == span["traceID"]
    ]
    return Shown(
        trace_id=span["traceID"],
        span_id=span["spanID"],
        parent_span_id=parents[0] if parents else None,
        name=span["operationName"],
        kind=str(tags.get("span.kind", "internal")).upper(),
        status=str(tags.get("otel.status_code", "UNSET")),
        status_text=tags.get("otel.status_description"),
        marked_as_error=bool(tags.get("error")),
        start_us=span["startTime"],
        duration_us=span["duration"],
        attributes={key: value for key, value in tags.items() if key not in _OF_JAEGER},
        events=tuple(_event(log["fields"]) for log in span["logs"]),
        resource={"service.name": process["serviceName"], **_values(process["tags"])},
    )


def _event(fields: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    values = _values(fields)
    return values.pop("event"), values


def _values(tags: list[dict[str, Any]]) -> dict[str, Any]:
    return {tag["key"]: tag["value"] for tag in tags}
