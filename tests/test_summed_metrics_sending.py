"""Where the commands' sums go and when, their bounds, and what trouble with the folder costs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from compass_otel import metric_sums
from compass_otel.metric_sums import MAX_SERVICES, MetricSums, Service
from compass_otel.metrics_pump import MetricsPump, interval_s
from compass_otel.metrics_sender import MetricsSender, metrics_settings
from compass_otel.state_store import StateStore
from compass_otel.summed_metrics import SummedMeterProvider
from metrics_support import ERRORS, PI, Backend, MetricsReceiver, Process, last_points

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="backend")
def good_backend() -> Backend:
    """Give a backend that takes everything."""
    return Backend()


@pytest.fixture(name="process")
def one_process(tmp_path: Path, backend: Backend) -> Process:
    """Give one command."""
    return Process(tmp_path / "books", backend)


# --- bounds and trouble ---


def test_the_number_of_series_is_bounded_and_the_rest_is_counted(tmp_path: Path, backend: Backend) -> None:
    """Beyond the limit, failures of new kinds are still counted, in one series that says so."""
    process = Process(tmp_path / "books", backend, max_series=5)
    for number in range(12):
        process.count(attributes={"model": f"m{number}"})
    process.send()
    final = {json.dumps(point.attributes): point.value for point in last_points(backend)}
    assert len(final) == 6
    assert final['{"otel.metric.overflow": true}'] == 7
    assert sum(final.values()) == 12
    assert process.sums.beyond_limits() == 7


def test_the_number_of_services_is_bounded(process: Process) -> None:
    """A folder counts for so many services; what others measure is known to be missing."""
    for number in range(MAX_SERVICES + 3):
        process.count(service=Service.of({"service.name": f"s{number}"}))
    assert process.sums.beyond_limits() == 3


def test_a_release_with_other_buckets_begins_its_series_anew(process: Process, backend: Backend) -> None:
    """Sums over different buckets mean nothing: the histogram begins at 0, with its 0."""
    for bounds in ([1.0, 2.0], [1.0, 5.0, 9.0]):
        provider = SummedMeterProvider()
        provider.get_meter("t").create_histogram("h", explicit_bucket_boundaries_advisory=bounds).record(1.5)
        grown = provider.take()
        process.add(grown)
        process.send()
    assert [(point.count, len(point.buckets)) for point in last_points(backend)] == [(0, 4), (1, 4)]


def test_a_folder_that_cannot_be_written_sends_nothing_and_raises_nothing(tmp_path: Path, backend: Backend) -> None:
    """Without sums there are no metrics: numbers of one process alone would be wrong."""
    (tmp_path / "file").write_text("")
    process = Process(tmp_path / "file" / "below", backend)
    process.count()
    assert process.send() is None
    assert backend.bodies == []
    assert len(process.store.take_warnings()) == 1


def test_a_corrupt_file_begins_new_sums_with_a_new_start(process: Process, backend: Backend) -> None:
    """The old file is kept beside; the new series is a reset that stores of time series understand."""
    process.count(7)
    process.send()
    process.store.close()
    process.store.path.write_bytes(b"garbage" * 999)
    process.count(2)
    process.send()
    assert [point.value for point in last_points(backend)] == [0, 2]
    assert backend.stored.increase(ERRORS) == 9


# --- where they go ---

BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
METRICS = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"


@pytest.mark.parametrize(
    ("endpoint", "variables", "url"),
    [
        (None, {}, None),
        (None, {BASE: "http://a:1"}, "http://a:1/v1/metrics"),
        (None, {BASE: "http://a:1/x/"}, "http://a:1/x/v1/metrics"),
        (None, {BASE: "http://a:1", METRICS: "http://b:2/m"}, "http://b:2/m"),
        (None, {TRACES: "http://a:1/v1/traces"}, None),
        ("http://c:3", {BASE: "http://a:1"}, "http://c:3/v1/metrics"),
        ("http://c:3/v1/traces", {}, "http://c:3/v1/metrics"),
        ("http://c:3/p/v1/traces?k=v", {}, "http://c:3/p/v1/metrics?k=v"),
        ("http://c:3/elsewhere", {}, None),
        ("http://c:4317", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http://c:4317"),
        (None, {BASE: "http://a:1", "OTEL_METRICS_EXPORTER": "none"}, None),
    ],
)
def test_the_standard_variables_say_where_metrics_go(
    endpoint: str | None, variables: dict[str, str], url: str | None
) -> None:
    """The variables for metrics, then the general ones, then the command's endpoint; without one nothing is sent."""
    settings = metrics_settings(endpoint, variables)
    assert (settings.url if settings is not None else None) == url


def test_headers_and_times_of_metrics_have_their_own_variables() -> None:
    """`OTEL_EXPORTER_OTLP_METRICS_*` is obeyed for every setting."""
    prefix = "OTEL_EXPORTER_OTLP_METRICS_"
    variables = {
        METRICS: "http://a",
        prefix + "HEADERS": "k=v",
        prefix + "TIMEOUT": "3",
        prefix + "COMPRESSION": "gzip",
    }
    settings = metrics_settings(None, {**variables, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "t=1"})
    assert settings is not None
    assert (settings.headers, settings.timeout_s, settings.compression) == ((("k", "v"),), 3.0, "gzip")


def test_metrics_arrive_over_http(tmp_path: Path) -> None:
    """The real sender, a real receiver: path, content and what is told afterwards."""
    with MetricsReceiver() as receiver:
        settings = metrics_settings(None, {METRICS: receiver.endpoint})
        assert settings is not None
        store = StateStore(tmp_path / "books")
        sums = MetricSums(store)
        sender = MetricsSender.to(settings, sums, store.folder)
        process = Process(tmp_path / "books", Backend())
        process.count()
        assert sender.send({PI.name}, time.monotonic() + 5).series == 1
        assert [point.value for point in receiver.points] == [0, 1]
        assert receiver.paths == ["/v1/metrics"]
        receiver.status = 404
        process.count()
        problem = sender.send({PI.name}, time.monotonic() + 5).problem
        assert problem is not None
        assert "/v1/metrics" in problem
        assert "\n" not in problem
        sender.close()


def test_the_pump_sends_what_is_new_soon(process: Process, backend: Backend) -> None:
    """A live command's failure is sent while it runs, once for what comes together, and the thread ends."""
    pump = MetricsPump(process.sender, lambda: {PI.name}, soon_s=0.05)
    process.count()
    pump.poke()
    pump.poke()
    deadline = time.monotonic() + 10
    while not backend.bodies and time.monotonic() < deadline:
        time.sleep(0.005)
    pump.close()
    assert len(backend.bodies) == 1
    pump.poke()
    assert len(backend.bodies) == 1


def test_the_pump_obeys_the_standard_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """`OTEL_METRIC_EXPORT_INTERVAL` is in milliseconds; what is no number counts as unset."""
    assert interval_s() == 60
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1500")
    assert interval_s() == 1.5
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "soon")
    assert interval_s() == 60


def test_the_zero_lies_a_second_back_where_there_is_room(tmp_path: Path, backend: Backend) -> None:
    """Later series get their 0 a second before their value, so that also coarse clocks tell the two apart."""
    now = 1_700_000_000_000_000_000
    process = Process(tmp_path / "books", backend, clock_ns=lambda: now)
    process.count()
    process.send()
    now += 60_000_000_000
    process.count(attributes={"error.type": "auth"})
    process.send()
    zero, first = (point for point in last_points(backend) if point.attributes == {"error.type": "auth"})
    assert first.at_ns - zero.at_ns == metric_sums._ZERO_BEFORE_NS
