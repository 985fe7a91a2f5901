"""Doubles for tests of programs that use this package: a clock that stands still, and traces as plain values.

Nothing in the package imports this module.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from compass_otel.id_generator import DerivedIdGenerator

_NS_PER_MS = 1_000_000


class ManualClock:
    """A wall clock in nanoseconds that moves only when told."""

    def __init__(self, start_ns: int = 1_790_000_000_000 * _NS_PER_MS) -> None:
        self.now_ns = start_ns

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ns

    def advance_ms(self, milliseconds: float) -> None:
        """Move the clock forward."""
        self.now_ns += int(milliseconds * _NS_PER_MS)


class CollectingProvider:
    """A TracerProvider of its own with derived ids, whose finished spans can be looked at."""

    def __init__(self) -> None:
        self.ids = DerivedIdGenerator()
        self._exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider(id_generator=self.ids, resource=Resource({}), shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Finished spans, in the order in which they ended."""
        return self._exporter.get_finished_spans()

    def trees(self) -> list[dict[str, Any]]:
        """Return all finished spans as trees of plain values, see `span_trees`."""
        return span_trees(self.spans)


def span_trees(spans: Iterable[ReadableSpan]) -> list[dict[str, Any]]:
    """Return spans as nested plain values, roots in order of their start, so that a whole trace can be compared.

    Each node has `name`, `kind`, `status`, `start_ns`, `end_ns`, `trace_id`, `span_id`, `attributes`, `events` and
    `children`; `status` is `UNSET`, `OK` or `ERROR: description`; what is empty is left out.
    """
    nodes = {span.context.span_id: _node(span) for span in spans if span.context is not None}
    roots: list[dict[str, Any]] = []
    ordered = sorted(spans, key=lambda span: (span.start_time or 0, span.end_time or 0))
    for span in ordered:
        if span.context is None:
            continue
        parent = nodes.get(span.parent.span_id) if span.parent is not None else None
        (roots if parent is None else parent.setdefault("children", [])).append(nodes[span.context.span_id])
    return roots


def _node(span: ReadableSpan) -> dict[str, Any]:
    description = f": {span.status.description}" if span.status.description else ""
    node: dict[str, Any] = {
        "name": span.name,
        "kind": span.kind.name,
        "status": f"{span.status.status_code.name}{description}",
        "start_ns": span.start_time,
        "end_ns": span.end_time,
        "trace_id": f"{span.context.trace_id:032x}",
        "span_id": f"{span.context.span_id:016x}",
        "attributes": _plain(span.attributes or {}),
        "events": [
            {"name": event.name, "time_ns": event.timestamp, "attributes": _plain(event.attributes or {})}
            for event in span.events
        ],
        "links": [
            {"span_id": f"{link.context.span_id:016x}", "attributes": _plain(link.attributes or {})}
            for link in span.links
        ],
    }
    return {key: value for key, value in node.items() if value or key in ("start_ns", "end_ns", "attributes")}


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in sorted(attributes.items())}
