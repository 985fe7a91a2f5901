"""Sends the commands' sums over OTLP: cumulative totals, to where the standard variables say that metrics go.

One process at a time sends, so that a later request never carries earlier numbers: stores refuse samples that go back.
A backend that takes no metrics is no reason for a command to fail: it costs one line.
"""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, assert_never

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from compass_otel import semconv
from compass_otel.delivery import Delivered, Rejected, Retry
from compass_otel.otlp_settings import OtlpSettings, Protocol, Signal, endpoint_is_set, load_settings
from compass_otel.sender import make_sender
from compass_otel.spool_owner import FileLock
from compass_otel.summed_metrics import Growth, Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from compass_otel.delivery import Delivery, Sender
    from compass_otel.metric_sums import MetricSums, Series, Unsent

_LOCK_FILE: Final = "metrics.lock"
_LOCK_STEP_S: Final = 0.01
_EXPORTER: Final = "OTEL_METRICS_EXPORTER"
_SWITCH: Final = f"{_EXPORTER}=none stops them"
_ZERO: Final = Growth(0, 0)


@dataclass(frozen=True, slots=True)
class MetricsReport:
    """What became of one sending."""

    series: int = 0
    """That the backend has now."""
    problem: str | None = None
    """One line for a person; None if all went well, or there was nothing to do."""


def metrics_settings(endpoint: str | None, environ: Mapping[str, str] | None = None) -> OtlpSettings | None:
    """Read where the commands' metrics go.

    Args:
        endpoint: What a person gave for the command. Its path is that for traces, and changed if it is the usual one;
            another path belongs to traces alone.
        environ: The variables; None = the process's.

    Returns:
        The settings; None if nobody named a place for metrics, or `OTEL_METRICS_EXPORTER` is `none`.

    Raises:
        ConfigError: A setting cannot work.

    """
    variables = os.environ if environ is None else environ
    if variables.get(_EXPORTER, "").strip().lower() == "none":
        return None
    if endpoint is None:
        return (
            load_settings(environ=variables, signal=Signal.METRICS)
            if endpoint_is_set(variables, Signal.METRICS)
            else None
        )
    settings = load_settings(endpoint=endpoint, environ=variables, signal=Signal.METRICS)
    path, mark, query = settings.path.partition("?")
    if settings.protocol is Protocol.GRPC or path == Signal.METRICS.path:
        return settings
    if path.endswith(Signal.TRACES.path):
        path = path.removesuffix(Signal.TRACES.path) + Signal.METRICS.path
        return dataclasses.replace(settings, path=f"{path}{mark}{query}")
    return None


class MetricsSender:
    """Sends what of the sums is unsent. Thread-safe but for two threads in `send` at once.

    Args:
        sums: The sums.
        folder: The state folder.
        sender: Where they go, made with settings for metrics.

    """

    def __init__(self, sums: MetricSums, folder: Path, sender: Sender) -> None:
        self._sums = sums
        self._folder = folder
        self._sender = sender

    @classmethod
    def to(cls, settings: OtlpSettings, sums: MetricSums, folder: Path) -> MetricsSender:
        """Make it from settings. Raises ConfigError."""
        return cls(sums, folder, make_sender(settings))

    def send(self, services: Collection[str], deadline: float) -> MetricsReport:
        """Send all series of these services, and what other commands left unsent.

        Args:
            services: Names as `Service.name` gives them.
            deadline: Monotonic seconds; blocks until then at most.

        """
        if not self._folder.is_dir():
            return MetricsReport()  # nothing was ever counted here, or nothing can be
        lock = FileLock(self._folder / _LOCK_FILE)
        try:
            while not lock.acquire():
                if time.monotonic() >= deadline:
                    return MetricsReport(0, "metrics wait: another command is sending them")
                time.sleep(_LOCK_STEP_S)
        except OSError:
            return MetricsReport()  # a folder that can't be used was told when something was to be counted
        try:
            return self._send_now(services, deadline)
        finally:
            lock.release()

    def close(self) -> None:
        """Release the connection."""
        self._sender.close()

    def _send_now(self, services: Collection[str], deadline: float) -> MetricsReport:
        unsent = self._sums.unsent(services)
        if unsent is None:
            return MetricsReport()
        self._sums.begin(unsent)
        delivery = self._sender.send([encode_metrics(unsent)], deadline)
        return self._settled(unsent, delivery)

    def _settled(self, unsent: Unsent, delivery: Delivery) -> MetricsReport:
        match delivery:
            case Delivered(rejected=rejected, message=message):
                self._sums.told(unsent)
                problem = f"metrics: {rejected} points were refused: {message}" if rejected else None
                return MetricsReport(len(unsent.series), problem)
            case Retry(reason=reason, in_doubt=in_doubt):
                if in_doubt:
                    return MetricsReport(0, f"metrics were perhaps not taken, and are kept: {reason}")
                self._sums.refused(unsent)
                return MetricsReport(0, f"metrics were not taken and are kept ({_SWITCH}): {reason}")
            case Rejected(reason=reason):
                self._sums.refused(unsent)
                return MetricsReport(0, f"metrics were not taken and are kept ({_SWITCH}): {reason}")
            case _:
                assert_never(delivery)


def encode_metrics(unsent: Unsent) -> bytes:
    """Give the body of an `ExportMetricsServiceRequest`: a 0 before the total of each series that has had none."""
    request = ExportMetricsServiceRequest()
    for service, of_service in groupby(unsent.series, key=lambda each: each.service):
        resource = Resource(attributes=_pairs(unsent.resources.get(service, {})))
        scope = pb.ScopeMetrics(scope=InstrumentationScope(name=semconv.SCOPE_NAME))
        for instrument, of_instrument in groupby(of_service, key=lambda each: each.instrument):
            metric = scope.metrics.add(name=instrument.name, unit=instrument.unit, description=instrument.description)
            match instrument.kind:
                case Kind.COUNTER:
                    metric.sum.aggregation_temporality = pb.AGGREGATION_TEMPORALITY_CUMULATIVE
                    metric.sum.is_monotonic = True
                    metric.sum.data_points.extend(_numbers(unsent, of_instrument))
                case Kind.HISTOGRAM:
                    metric.histogram.aggregation_temporality = pb.AGGREGATION_TEMPORALITY_CUMULATIVE
                    metric.histogram.data_points.extend(_histograms(unsent, of_instrument))
                case _:
                    assert_never(instrument.kind)
        request.resource_metrics.add(resource=resource, scope_metrics=[scope])
    return request.SerializeToString(deterministic=True)


def _numbers(unsent: Unsent, series: Iterable[Series]) -> Iterable[pb.NumberDataPoint]:
    for each in series:
        for at_ns, total in _samples(unsent, each):
            point = pb.NumberDataPoint(
                attributes=_pairs(each.attributes), start_time_unix_nano=unsent.start_ns, time_unix_nano=at_ns
            )
            if isinstance(total.value, int):
                point.as_int = total.value
            else:
                point.as_double = total.value
            yield point


def _histograms(unsent: Unsent, series: Iterable[Series]) -> Iterable[pb.HistogramDataPoint]:
    for each in series:
        for at_ns, total in _samples(unsent, each):
            yield pb.HistogramDataPoint(
                attributes=_pairs(each.attributes),
                start_time_unix_nano=unsent.start_ns,
                time_unix_nano=at_ns,
                count=total.count,
                sum=total.value,
                bucket_counts=total.buckets or [0] * len(each.total.buckets),
                explicit_bounds=each.instrument.bounds,
            )


def _samples(unsent: Unsent, series: Series) -> Iterable[tuple[int, Growth]]:
    if not series.zero_told:
        yield unsent.zero_ns, _ZERO
    yield unsent.at_ns, series.total


def _pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: object) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int() if -(1 << 63) <= value < 1 << 63:
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=[_value(item) for item in value]))
        case _:
            return AnyValue(string_value=str(value).encode("utf-8", "replace").decode())
