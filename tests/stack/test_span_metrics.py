"""What the real Prometheus has: span metrics by failure, provider and model, and the Collector about itself."""

from __future__ import annotations

import json
import urllib.parse
from typing import TYPE_CHECKING, Any

import pytest

from command_support import CAPTURES
from receivers import wait_until
from stack.exports import exported
from stack.programs import Stack, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.stack

_RUNS = [
    CAPTURES / "pi-1.6" / f"{name}.events.jsonl"
    for name in ("f_http_503_exhausted", "an_d_http_401", "i_abort_mid_stream", "b_tool_success")
]
_CALLS = "traces_span_metrics_calls_total"
_DURATION = "traces_span_metrics_duration_milliseconds"


@pytest.fixture(scope="module", name="stack")
def quick_stack() -> Iterator[Stack]:
    """Give a stack whose span metrics leave every second."""
    flush = "yaml:connectors::span_metrics::metrics_flush_interval: 1s"
    with Stack(flush) as stack:
        yield stack


@pytest.fixture(scope="module", name="prometheus", autouse=True)
def filled_prometheus(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Send a few runs, and give the address of a Prometheus that has their metrics."""
    assert stack.prometheus is not None
    url = stack.prometheus.url
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPASS_OTEL_STATE", str(tmp_path_factory.mktemp("state")))
        exported(stack, *_RUNS)
    assert wait_until(lambda: bool(query(url, f'{_CALLS}{{compass_outcome="failed"}}')), 30.0)
    return url


def query(url: str, text: str) -> list[dict[str, Any]]:
    """Ask Prometheus."""
    return list(ask(url, "query", query=text)["result"])


def ask(url: str, what: str, **parameters: str) -> Any:
    """Call an endpoint of Prometheus's API."""
    body = fetch(f"{url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}")
    assert body is not None
    return json.loads(body)["data"]


def test_failures_are_counted_by_kind_provider_and_model(prometheus: str) -> None:
    """Calls that failed carry the kind of error, the outcome, the provider, the model and the host as labels."""
    text = f'{_CALLS}{{error_type="auth",span_kind="SPAN_KIND_CLIENT"}}'
    # A series begins with a 0, so that `increase()` sees its first failure.
    assert wait_until(lambda: [each["value"][1] for each in query(prometheus, text)] == ["1"], 20.0)
    labels = query(prometheus, text)[0]["metric"]
    assert labels["service_name"] == "pi"
    assert labels["compass_outcome"] == "failed"
    assert labels["gen_ai_provider_name"]
    assert labels["gen_ai_request_model"]
    assert labels["host_name"]
    assert labels["status_code"] == "STATUS_CODE_ERROR"


def test_cancels_are_apart_from_errors(prometheus: str) -> None:
    """Cancelled runs are counted by their outcome, without an error's status or kind."""
    (run,) = query(prometheus, f'{_CALLS}{{compass_outcome="cancelled",span_name=~"invoke_agent.*"}}')
    assert "error_type" not in run["metric"]
    assert run["metric"]["status_code"] == "STATUS_CODE_UNSET"


def test_durations_have_buckets_for_minutes(prometheus: str) -> None:
    """The buckets reach past twenty minutes: runs of agents are long."""
    buckets = query(prometheus, f'{_DURATION}_bucket{{span_name=~"invoke_agent.*"}}')
    assert max(float(each["metric"]["le"]) for each in buckets if each["metric"]["le"] != "+Inf") >= 20 * 60_000


def test_a_point_leads_to_its_trace(prometheus: str) -> None:
    """Exemplars name the trace of a measured call."""
    assert wait_until(lambda: bool(exemplars(prometheus)), 20.0)
    assert all(len(each["labels"]["trace_id"]) == 32 for each in exemplars(prometheus))


def exemplars(url: str) -> list[dict[str, Any]]:
    """Give the exemplars of all durations."""
    series = ask(url, "query_exemplars", query=f"{_DURATION}_bucket", start="0", end="4000000000")
    return [exemplar for each in series for exemplar in each["exemplars"]]


def test_the_collector_is_seen_too(prometheus: str) -> None:
    """Prometheus reads the Collector's own queues, by exporter."""
    assert wait_until(lambda: bool(query(prometheus, "otelcol_exporter_queue_size")), 20.0)
    exporters = {each["metric"]["exporter"] for each in query(prometheus, "otelcol_exporter_queue_capacity")}
    assert {"otlp_grpc/priority", "otlp_grpc/rest"} <= exporters


def test_the_counters_of_compass_otel_come_through(prometheus: str) -> None:
    """The product's own cumulative count of failures reaches Prometheus by the same Collector."""
    assert wait_until(lambda: bool(query(prometheus, "compass_session_errors_total")), 20.0)
    kinds = {each["metric"].get("error_type") for each in query(prometheus, "compass_session_errors_total")}
    assert {"overloaded", "auth"} <= kinds
