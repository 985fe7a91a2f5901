"""A failure in a trace that the sampler dropped can still be exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from compass_otel.sampling import KeepFailures

if TYPE_CHECKING:
    from opentelemetry.context import Context


class Kept(SpanProcessor):
    """Keeps what ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep it."""
        self.spans.append(span)


def ended(sampler: Sampler | None, context: Context | None = None) -> tuple[list[ReadableSpan], int]:
    """Give what a processor sees of one span, and how many spans a stock processor exports of it."""
    provider = TracerProvider(sampler=KeepFailures(sampler), shutdown_on_exit=False)
    kept, stock = Kept(), InMemorySpanExporter()
    provider.add_span_processor(kept)
    provider.add_span_processor(SimpleSpanProcessor(stock))
    span = provider.get_tracer("t").start_span("s", context, attributes={"at start": 1})
    span.set_attribute("later", 2)
    span.end()
    return kept.spans, len(stock.get_finished_spans())


UNSAMPLED_PARENT = trace.set_span_in_context(NonRecordingSpan(SpanContext(1, 2, is_remote=True)))
SAMPLED_PARENT = trace.set_span_in_context(
    NonRecordingSpan(SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)))
)


@pytest.mark.parametrize(
    ("sampler", "context"),
    [(ALWAYS_OFF, None), (TraceIdRatioBased(0.0), None), (ParentBased(ALWAYS_ON), UNSAMPLED_PARENT)],
)
def test_a_dropped_span_is_recorded_whole_and_not_sampled(sampler: Sampler, context: Context | None) -> None:
    """A processor of ours sees all its attributes; stock processors and services downstream see it unsampled."""
    (span,), exported = ended(sampler, context)
    assert dict(span.attributes or {}) == {"at start": 1, "later": 2}
    assert not (span.get_span_context() or SpanContext(0, 0, is_remote=False)).trace_flags.sampled
    assert exported == 0


@pytest.mark.parametrize(
    ("sampler", "context"),
    [(ALWAYS_ON, None), (TraceIdRatioBased(1.0), None), (ParentBased(ALWAYS_OFF), SAMPLED_PARENT)],
)
def test_a_sampled_span_is_left_as_it_is(sampler: Sampler, context: Context | None) -> None:
    """What the inner sampler keeps is exported by everybody."""
    (span,), exported = ended(sampler, context)
    assert dict(span.attributes or {}) == {"at start": 1, "later": 2}
    assert exported == 1


@pytest.mark.parametrize(("name", "exported"), [("always_off", 0), ("always_on", 1), ("parentbased_always_off", 0)])
def test_without_a_sampler_the_environment_decides(monkeypatch: pytest.MonkeyPatch, name: str, exported: int) -> None:
    """`OTEL_TRACES_SAMPLER` is obeyed, and failures are kept all the same."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
    spans, count = ended(None)
    assert (len(spans), count) == (1, exported)


def test_the_description_names_both() -> None:
    """A person who reads the provider's sampler sees who decides."""
    assert KeepFailures(ALWAYS_OFF).get_description() == "KeepFailures{AlwaysOffSampler}"
