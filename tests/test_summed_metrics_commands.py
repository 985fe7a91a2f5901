"""What a store of time series sees of the commands: each run counted once, the first failure at once."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from command_support import CAPTURES, COMMAND, compass
from compass_otel.metrics_sender import MetricsSender, metrics_settings
from metrics_support import PI, Backend, MetricsReceiver, Process, points_of
from receivers import Receiver, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOOD = CAPTURES / "pi-1.6" / "b_tool_success.events.jsonl"
BILLING = CAPTURES / "pi-1.6" / "d4_http_402_billing.events.jsonl"
BILLING_FILE = CAPTURES / "pi-1.6" / "d4_http_402_billing.session.jsonl"
CANCELLED = CAPTURES / "omp-18" / "i_abort_mid_stream.session.jsonl"
ERRORS, RUNS = "compass.session.errors", "compass.runs"


@pytest.fixture(name="receiver")
def running_receiver() -> Iterator[Receiver]:
    """Give a receiver of traces."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(name="metrics")
def running_metrics_receiver(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[MetricsReceiver]:
    """Give a receiver of metrics; the variables name both."""
    with MetricsReceiver() as metrics:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", receiver.http_endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", metrics.endpoint)
        yield metrics


def test_of_many_one_shot_commands_the_one_billing_failure_is_seen(metrics: MetricsReceiver) -> None:
    """Many short commands, several at a time, one of them with a billing failure: it is counted once, and is seen."""
    streams = [(BILLING if number == 5 else GOOD).read_bytes() for number in range(8)]
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda stream: compass("ingest", stdin=stream), streams))
    assert [each.returncode for each in done] == [0] * 8, done
    store = metrics.store
    assert store.refused == 0
    assert store.increase(ERRORS, ("error.type", "billing"), ("compass.session_error.kind", "ERROR")) == 1
    assert store.increase(RUNS) == 8
    assert store.increase(RUNS, ("compass.outcome", "failed")) == 1
    points = metrics.points
    assert len({point.start_ns for point in points}) == 1
    assert len({point.resource["service.instance.id"] for point in points}) == 1
    assert {point.resource["service.name"] for point in points} == {"pi"}


def test_the_numbers_of_one_process_are_no_metrics(metrics: MetricsReceiver) -> None:
    """Lanes and spool of a short process go to the last line; what is sent are facts about runs."""
    compass("ingest", stdin=BILLING.read_bytes())
    names = {point.metric for point in metrics.points}
    assert {ERRORS, RUNS, "gen_ai.client.operation.duration", "gen_ai.invoke_agent.duration"} <= names
    assert not [name for name in names if name.startswith("otel.")]


def test_a_run_is_counted_once_however_often_it_is_read(metrics: MetricsReceiver) -> None:
    """Skipped runs are not counted, nor are those that `--again` sends once more, nor the file of a live run."""
    compass("ingest", stdin=BILLING.read_bytes())
    for arguments in (["--export"], ["--export", "--again"], ["--export"]):
        done = compass("replay", *arguments, BILLING_FILE, CANCELLED)
        assert done.returncode == 0, done.stderr
    store = metrics.store
    assert store.increase(ERRORS, ("error.type", "billing")) == 1
    assert store.increase(ERRORS, ("compass.session_error.kind", "ABORTED")) == 1
    assert store.increase(RUNS) == 2
    assert store.increase("gen_ai.invoke_agent.duration") == 2


def test_what_a_replay_gave_up_is_counted_when_it_is_delivered(receiver: Receiver, metrics: MetricsReceiver) -> None:
    """A run that was not delivered is neither in the ledger nor in the sums; the next command counts it, once."""
    receiver.kill()
    assert compass("replay", "--export", "--timeout", "1", BILLING_FILE).returncode == 1
    assert metrics.store.increase(RUNS) == 0
    receiver.restart()
    assert compass("replay", "--export", BILLING_FILE).returncode == 0
    assert metrics.store.increase(RUNS) == 1


def test_a_live_run_is_counted_whatever_becomes_of_its_spans(receiver: Receiver, metrics: MetricsReceiver) -> None:
    """A collector that takes no spans, or none yet, hides no failure from the counters."""
    receiver.kill()
    assert compass("ingest", stdin=BILLING.read_bytes()).returncode == 1
    assert metrics.store.increase(ERRORS, ("error.type", "billing")) == 1


def test_a_live_failure_is_counted_while_the_agent_goes_on(
    metrics: MetricsReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is to be woken by a failure does not wait for the end of the session."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
    live = subprocess.Popen(
        [*COMMAND, "ingest"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert live.stdin is not None
    live.stdin.write(BILLING.read_bytes())
    live.stdin.flush()
    assert wait_until(lambda: metrics.store.increase(ERRORS, ("error.type", "billing")) == 1)
    live.communicate(timeout=30)
    assert live.returncode == 0
    assert metrics.store.increase(ERRORS) == 1


def test_a_collector_without_metrics_costs_one_line(metrics: MetricsReceiver) -> None:
    """A refusal fails no command and loses no count: what was refused goes out later, with its 0."""
    metrics.status = 404
    for command in (["ingest"], ["replay", "--export", CANCELLED]):
        done = compass(*command, stdin=BILLING.read_bytes())
        assert done.returncode == 0, done.stderr
        (line,) = [line for line in done.stderr.splitlines() if "metrics" in line]
        assert "OTEL_METRICS_EXPORTER=none" in line
        assert "trace" in done.stderr.splitlines()[-1]
    metrics.status = 200
    compass("ingest", stdin=GOOD.read_bytes())
    assert metrics.store.increase(ERRORS) == 2
    assert metrics.store.increase(RUNS) == 3


def test_metrics_can_be_switched_off(metrics: MetricsReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """`OTEL_METRICS_EXPORTER=none` asks nobody, and a mistake in their settings stops no spans."""
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    assert "metrics" not in compass("ingest", stdin=GOOD.read_bytes()).stderr
    assert metrics.paths == []
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "/not/there.pem")
    done = compass("ingest", stdin=GOOD.read_bytes())
    assert done.returncode == 0
    assert "no metrics are sent" in done.stderr
    assert "0 dropped" in done.stderr.splitlines()[-1]


class _MetricsService(grpc.GenericRpcHandler):
    """The one method of OTLP/gRPC for metrics."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """Give it."""
        if call.method != "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export":
            return None
        return grpc.unary_unary_rpc_method_handler(self._take)

    def _take(self, body: bytes, _: grpc.ServicerContext) -> bytes:
        self.bodies.append(body)
        return b""


def test_metrics_are_sent_over_grpc_where_the_variables_say_so(receiver: Receiver, tmp_path: Path) -> None:
    """GRPC carries them to the service for metrics; a server that has none is one line, and the 0 is kept."""
    process = Process(tmp_path / "books", Backend())
    process.count()
    variables = {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"}
    without = metrics_settings(receiver.grpc_endpoint, variables)
    assert without is not None
    sender = MetricsSender.to(without, process.sums, process.folder)
    problem = sender.send({PI.name}, time.monotonic() + 5).problem
    sender.close()
    assert problem is not None
    assert "takes metrics" in problem
    service = _MetricsService()
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    settings = metrics_settings(f"http://127.0.0.1:{port}", variables)
    assert settings is not None
    sender = MetricsSender.to(settings, process.sums, process.folder)
    assert sender.send({PI.name}, time.monotonic() + 5).problem is None
    sender.close()
    server.stop(None).wait(5)
    (body,) = service.bodies
    assert [point.value for point in points_of(ExportMetricsServiceRequest.FromString(body))] == [0, 1]
