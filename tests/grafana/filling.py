"""Agents inside a service of somebody's: recorded streams through the product, with its metrics over OTLP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from command_support import CAPTURES
from compass_otel import SessionBridge, TwoLaneSpanProcessor

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_EVERY_MS: Final = 1000


class Service:
    """A service that runs agents and sends what they do; metrics go to *metrics*, spans where the sink sends them.

    Args:
        name: `service.name`.
        metrics: Base URL of the Collector that takes the metrics.
        sink: Arguments of the sink.

    """

    def __init__(self, name: str, metrics: str, **sink: Any) -> None:
        resource = Resource({"service.name": name, "host.name": f"{name}-host", "service.instance.id": f"{name}-1"})
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=f"{metrics}/v1/metrics"), export_interval_millis=_EVERY_MS
        )
        self.meter_provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self.tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.sink = TwoLaneSpanProcessor(meter_provider=self.meter_provider, exit_timeout_s=0.5, **sink)
        self.tracer_provider.add_span_processor(self.sink)

    def __enter__(self) -> Self:
        """Give it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.meter_provider.shutdown()
        self.tracer_provider.shutdown()

    def run(self, *captures: str, agent: str = "pi-1.6") -> None:
        """Let agents run as they were recorded, one after the other, now."""
        for lines in (_lines(CAPTURES / agent / f"{name}.events.jsonl") for name in captures):
            with SessionBridge(tracer_provider=self.tracer_provider, meter_provider=self.meter_provider) as bridge:
                for line in lines:
                    bridge.feed(line)

    def tell(self) -> None:
        """Send the metrics as they stand."""
        assert self.meter_provider.force_flush()


def _lines(path: Path) -> Iterable[bytes]:
    return path.read_bytes().splitlines()
