"""What `replay --export` sent and told, and what Jaeger shows of it, in the same words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from command_support import compass

if TYPE_CHECKING:
    from pathlib import Path

    from stack.jaeger_api import Shown
    from stack.programs import Stack


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent: every run as `replay --json` tells it."""

    runs: tuple[dict[str, Any], ...]

    @property
    def spans(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Every span by its ids."""
        return {(span["trace_id"], span["span_id"]): span for run in self.runs for span in run["spans"]}

    def traces_with(self, key: str, value: str) -> set[str]:
        """Give the ids of the traces with a span that has the attribute."""
        return {span["trace_id"] for span in self.spans.values() if as_tag(span["attributes"].get(key)) == value}

    def values(self, key: str) -> set[str]:
        """Give all values of an attribute."""
        return {as_tag(s["attributes"][key]) for s in self.spans.values() if key in s["attributes"]}


def as_tag(value: Any) -> Any:
    """Give an attribute as Jaeger searches for it."""
    return value if isinstance(value, str) or value is None else json.dumps(value, separators=(",", ":"))


def exported(stack: Stack, *paths: Path | str, protocol: str = "http/protobuf", compression: str = "none") -> Sent:
    """Send with `replay --export`, and give what it showed of what it sent."""
    endpoint = stack.collector.grpc_endpoint if protocol == "grpc" else stack.collector.http_endpoint
    env = {"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_COMPRESSION": compression}
    done = compass("replay", "--json", "--export", "--endpoint", endpoint, *paths, env=env)
    assert done.returncode == 0, done.stderr
    return sent_as(done.stdout)


def sent_as(told: str) -> Sent:
    """Read the output of `--json`; a run that a file leaves open is shown, not sent."""
    runs = [run for line in told.splitlines() for run in json.loads(line)["runs"]]
    return Sent(tuple(run for run in runs if run["outcome"] != "open"))


def shown_as(span: Shown) -> dict[str, Any]:
    """Give what Jaeger shows, in the words of `replay --json`."""
    return {
        "name": span.name,
        "kind": span.kind,
        "status": span.status,
        "status_message": span.status_text,
        "parent_span_id": span.parent_span_id,
        "start_us": span.start_us,
        "attributes": {key: value for key, value in span.attributes.items() if key != "compass.lane"},
        "events": list(span.events),
    }


def told_as(span: dict[str, Any]) -> dict[str, Any]:
    """Give what `replay --json` tells, as far as a backend keeps it."""
    return {
        "name": span["name"],
        "kind": span["kind"],
        "status": span["status"],
        "status_message": span["status_message"],
        "parent_span_id": span["parent_span_id"],
        "start_us": span["start_unix_ns"] // 1000,
        "attributes": {key: plain(value) for key, value in span["attributes"].items()},
        "events": [(e["name"], {key: plain(value) for key, value in e["attributes"].items()}) for e in span["events"]],
    }


def plain(value: Any) -> Any:
    """Give an attribute as Jaeger shows it: lists become JSON text."""
    return as_tag(value) if isinstance(value, list) else value
