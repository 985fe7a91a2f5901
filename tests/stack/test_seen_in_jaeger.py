"""What a person sees in the real Jaeger, after the real Collector: the same as `replay --json` tells, found by search."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from command_support import CAPTURES, compass
from goldens import captured, capture_path
from stack.jaeger_api import JaegerApi, Shown
from stack.programs import Stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.stack

_SERVICES: Final = ("pi", "omp")
_WAYS: Final = [
    pytest.param("http/protobuf", "none", id="http"),
    pytest.param("http/protobuf", "gzip", id="http-gzip"),
    pytest.param("grpc", "none", id="grpc"),
    pytest.param("grpc", "gzip", id="grpc-gzip"),
]
_FAILED: Final = CAPTURES / "pi-1.6" / "f_http_503_exhausted.events.jsonl"


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
    runs = [run for line in done.stdout.splitlines() for run in json.loads(line)["runs"]]
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


@pytest.fixture(scope="module", name="sent")
def everything_sent(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sent]:
    """Send every recorded stream."""
    patch = pytest.MonkeyPatch()
    patch.setenv("COMPASS_OTEL_STATE", str(tmp_path_factory.mktemp("sent")))
    sent = exported(stack, *(capture_path("stream", name) for name in captured("stream")))
    patch.undo()
    assert JaegerApi(stack.jaeger.query_url).wait_for(sent.spans) == set()
    yield sent


def test_every_recorded_stream_is_seen_as_it_was_told(sent: Sent, jaeger: JaegerApi) -> None:
    """Tree, outcome, error type, status, events, attributes, times and ids in Jaeger are those of `replay --json`."""
    found = jaeger.traces({trace_id for trace_id, _ in sent.spans})
    assert sorted(span.key for span in found) == sorted(sent.spans)
    for span in found:
        assert shown_as(span) == told_as(sent.spans[span.key])
    assert len(sent.runs) >= len(captured("stream"))


@pytest.mark.parametrize(("protocol", "compression"), _WAYS)
def test_every_way_of_sending_gives_the_same(
    sent: Sent, stack: Stack, jaeger: JaegerApi, protocol: str, compression: str
) -> None:
    """Session files of all captures, over gRPC and HTTP, plain and gzip, are seen as they were told."""
    stack.jaeger.kill()  # it forgets, so that what is seen came by this way
    stack.jaeger.start()
    names = captured("session")
    files = [capture_path("session", name) for name in names]
    found_sent = exported(stack, *files, protocol=protocol, compression=compression)
    assert jaeger.wait_for(found_sent.spans) == set()
    for span in jaeger.traces({trace_id for trace_id, _ in found_sent.spans}):
        assert shown_as(span) == told_as(found_sent.spans[span.key])
    assert {run["outcome"] for run in found_sent.runs} == {"completed", "failed", "cancelled", "incomplete"}
