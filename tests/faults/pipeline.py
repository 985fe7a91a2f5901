"""What a host process sends with: our processor, or the plain SDK's, under the same few verbs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import StatusCode

from compass_otel import semconv
from compass_otel.priority import is_failure
from compass_otel.sink import TwoLaneSpanProcessor

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from compass_otel.stats import LaneStats

ATTRIBUTES: dict[str, str | int | float | bool] = {
    "agent.session.part": "a value of some twenty letters",
    "agent.session.step": "another value of some letters",
    "agent.session.tokens": 12_000,
    "agent.session.share": 0.5,
    "agent.session.cached": True,
}
"""As many as a usual span has."""


@dataclass(frozen=True)
class Setup:
    """What a host process is told, as JSON."""

    work: str
    """Name of what it does; see `host.WORK`."""
    endpoint: str
    protocol: str = "http/protobuf"
    plain: bool = False
    """The plain SDK instead of ours."""
    spool: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """More arguments of our processor."""
    options: dict[str, Any] = field(default_factory=dict)
    """Of the work."""


class Pipeline:
    """A tracer with one of the two processors.

    Args:
        setup: Which one, and where it sends.

    """

    def __init__(self, setup: Setup) -> None:
        self.sink: TwoLaneSpanProcessor | None = None
        processor: SpanProcessor
        if setup.plain:
            processor = BatchSpanProcessor(stock_exporter(setup.protocol, setup.endpoint))
        else:
            processor = self.sink = TwoLaneSpanProcessor(
                endpoint=setup.endpoint,
                protocol=setup.protocol,
                spool=setup.spool,
                is_priority=is_failure,
                **setup.settings,
            )
        self.attach(processor)

    def attach(self, processor: SpanProcessor) -> None:
        """Put a processor on a provider of its own."""
        self.processor = processor
        self.provider = TracerProvider(resource=Resource({"service.name": "host"}), sampler=ALWAYS_ON)
        self.provider.add_span_processor(processor)
        self.tracer = self.provider.get_tracer("host")

    def fail(self, name: str) -> float:
        """End a failure; returns how long `end` took, seconds."""
        span = self.tracer.start_span(name, attributes=ATTRIBUTES)
        span.set_status(StatusCode.ERROR, "boom")
        return ended(span)

    def work(self, name: str) -> float:
        """End a span that is no failure."""
        return ended(self.tracer.start_span(name, attributes=ATTRIBUTES))

    def run(self, name: str) -> Span:
        """Start a run of an agent."""
        return self.tracer.start_span(
            name, attributes={semconv.SESSION_STATE: "working", "gen_ai.conversation.id": "c"}
        )

    def flush(self, timeout_ms: int = 30_000) -> bool:
        """Flush."""
        return bool(self.processor.force_flush(timeout_ms))

    @property
    def is_circuit_open(self) -> bool:
        """Whether our processor knows that the collector is down, so that nobody waits."""
        return self.sink is not None and self.sink._priority._is_known_to_be_slow()

    def stats(self) -> dict[str, Any]:
        """Give our processor's numbers, the plain SDK's where they exist: nowhere."""
        if self.sink is None:
            return {}
        stats = self.sink.stats()
        return {
            "priority": _plain(stats.priority),
            "trace": _plain(stats.trace),
            "notices": dict(self.sink.notices()),
        }


def stock_exporter(protocol: str, endpoint: str) -> SpanExporter:
    """Make the exporter that most have."""
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter  # noqa: PLC0415 - 90 ms

        return trace_exporter.OTLPSpanExporter(endpoint=endpoint, insecure=True)
    from opentelemetry.exporter.otlp.proto.http import trace_exporter as http  # noqa: PLC0415 - same

    return http.OTLPSpanExporter(endpoint=endpoint)


def ended(span: Span) -> float:
    """End a span; returns how long that took, seconds."""
    begin = time.perf_counter()
    span.end()
    return time.perf_counter() - begin


def memory_bytes() -> int:
    """Tell the resident memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no file of ours
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def _plain(lane: LaneStats) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        name: getattr(lane, name)
        for name in ("accepted", "recovered", "delivered", "retried", "waiting", "spooled", "undelivered", "lost")
    }
    return {**numbers, "losses": {**lane.dropped, **lane.rejected, **lane.failed}, "failed": sum(lane.failed.values())}
