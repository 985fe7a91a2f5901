"""A small OTLP/HTTP receiver for metrics, and what its data points say to a store of time series."""

from __future__ import annotations

import http.server
import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from compass_otel.delivery import Delivered
from compass_otel.metric_sums import MetricSums, Service
from compass_otel.metrics_sender import MetricsSender
from compass_otel.state_store import StateStore
from compass_otel.summed_metrics import Increments, SummedMeterProvider
from receivers.store import attributes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

    from compass_otel.delivery import Delivery

CUMULATIVE = 2
ERRORS = "compass.session.errors"
PI = Service.of({"service.name": "pi", "service.instance.id": "one", "host.name": "here"})
OMP = Service.of({"service.name": "omp", "service.instance.id": "one"})
BILLING = {"error.type": "billing"}


@dataclass(frozen=True)
class Point:
    """One data point: of a histogram `value` is its sum."""

    request: int
    metric: str
    unit: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    scope: str
    start_ns: int
    at_ns: int
    value: float
    count: int | None = None
    buckets: tuple[int, ...] = ()
    bounds: tuple[float, ...] = ()


def points_of(request: ExportMetricsServiceRequest, number: int = 0) -> Iterator[Point]:
    """Give the data points of a request; all must be cumulative, sums monotonic."""
    for resource_metrics in request.resource_metrics:
        resource = attributes_of(resource_metrics.resource.attributes)
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                yield from _points(metric, resource, scope_metrics.scope.name, number)


def _points(metric: Metric, resource: dict[str, Any], scope: str, number: int) -> Iterator[Point]:
    data: Any = metric.sum if metric.HasField("sum") else metric.histogram
    assert data.aggregation_temporality == CUMULATIVE
    assert metric.HasField("histogram") or metric.sum.is_monotonic
    for each in data.data_points:
        is_sum = metric.HasField("sum")
        yield Point(
            request=number,
            metric=metric.name,
            unit=metric.unit,
            attributes=attributes_of(each.attributes),
            resource=resource,
            scope=scope,
            start_ns=each.start_time_unix_nano,
            at_ns=each.time_unix_nano,
            value=getattr(each, each.WhichOneof("value")) if is_sum else each.sum,
            count=None if is_sum else each.count,
            buckets=() if is_sum else tuple(each.bucket_counts),
            bounds=() if is_sum else tuple(each.explicit_bounds),
        )


@dataclass
class Store:
    """What a store of time series makes of points: it refuses samples that go back, and knows what has grown."""

    samples: dict[tuple[Any, ...], list[tuple[int, float]]] = field(default_factory=dict)
    refused: int = 0

    def take(self, points: list[Point]) -> None:
        """Take the points of one request."""
        for point in points:
            name = (point.metric, point.resource["service.name"], point.resource["service.instance.id"])
            rows = self.samples.setdefault((*name, *sorted(map(str, point.attributes.items()))), [])
            sample = (point.at_ns // 1_000_000, point.count if point.count is not None else point.value)
            if rows and sample[0] <= rows[-1][0]:
                self.refused += 1
            else:
                rows.append(sample)

    def increase(self, metric: str, *attributes: tuple[str, Any]) -> float:
        """Sum what a metric's series grew by between samples: a fall is a reset, the first sample grew from nothing."""
        wanted = set(map(str, attributes))
        total = 0.0
        for key, rows in self.samples.items():
            if key[0] == metric and wanted <= set(key[3:]):
                values = [value for _, value in rows]
                total += sum(b - a if b >= a else b for a, b in itertools.pairwise(values))
        return total


class MetricsReceiver:
    """Takes OTLP metrics over HTTP on loopback, or refuses them."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[ExportMetricsServiceRequest] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.paths.append(self.path)
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                if outer.status < 300:
                    outer.requests.append(ExportMetricsServiceRequest.FromString(body))
                answer = ExportMetricsServiceResponse().SerializeToString()
                self.send_response(outer.status)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def endpoint(self) -> str:
        """The whole URL."""
        return f"http://127.0.0.1:{self._server.server_port}/v1/metrics"

    @property
    def points(self) -> list[Point]:
        """All points in order of arrival."""
        return [point for number, request in enumerate(self.requests) for point in points_of(request, number)]

    @property
    def store(self) -> Store:
        """Give the points to a store, request by request."""
        store = Store()
        for number, request in enumerate(self.requests):
            store.take(list(points_of(request, number)))
        return store


class Backend:
    """A sender that answers as told and keeps what it took."""

    target = "nowhere"

    def __init__(self) -> None:
        self.answer: Delivery = Delivered()
        self.stored = Store()
        self.bodies: list[bytes] = []

    def send(self, batch: Sequence[bytes], deadline: float) -> Delivery:  # noqa: ARG002 - a sender's form
        """Take a request."""
        (body,) = batch
        self.bodies.append(body)
        if isinstance(self.answer, Delivered):
            self.stored.take(list(points_of(ExportMetricsServiceRequest.FromString(body))))
        return self.answer

    def describe(self) -> str:
        """Say where."""
        return self.target

    def reset_after_fork(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Process:
    """What one command does with the sums."""

    def __init__(self, folder: Path, backend: Backend, **settings: Any) -> None:
        self.folder = folder
        self.store = StateStore(folder)
        self.sums = MetricSums(self.store, **settings)
        self.sender = MetricsSender(self.sums, folder, backend)

    def count(self, amount: float = 1, attributes: dict[str, Any] | None = None, service: Service = PI) -> None:
        """Count errors."""
        provider = SummedMeterProvider()
        provider.get_meter("t").create_counter(ERRORS).add(amount, BILLING if attributes is None else attributes)
        self.add(provider.take(), service)

    def add(self, grown: Increments, service: Service = PI) -> None:
        """Add to the sums."""
        self.store.change(lambda connection: self.sums.add(connection, service, grown))

    def send(self, *services: Service) -> str | None:
        """Send; give the problem."""
        report = self.sender.send({service.name for service in services or (PI,)}, time.monotonic() + 5)
        return report.problem


def last_points(backend: Backend) -> list[Any]:
    """Give the points of the last request."""
    return list(points_of(ExportMetricsServiceRequest.FromString(backend.bodies[-1])))
