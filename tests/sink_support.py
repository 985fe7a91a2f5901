"""Doubles for the lanes: a sender that answers by script, a clock by hand, spans without a provider's processor."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Status, StatusCode

from compass_otel import semconv
from compass_otel.delivery import Delivered, Delivery
from compass_otel.encoding import decode_records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.util.types import AnyValue

ERROR_ATTRIBUTES: Mapping[str, AnyValue] = {semconv.SESSION_ERROR_KIND: "ERROR", semconv.ERROR_TYPE: "overloaded"}


class Clock:
    """Monotonic seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


@dataclass
class FakeSender:
    """Takes every batch, unless the script has another answer; remembers the names of what it took."""

    script: list[Delivery | Callable[[list[str]], Delivery]] = field(default_factory=list)
    always: Delivery | Callable[[list[str]], Delivery] | None = None
    requests: list[list[str]] = field(default_factory=list)
    """Names of each request, whatever the answer."""
    taken: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    deadlines: list[float] = field(default_factory=list)
    gate: threading.Event | None = None
    """If set, `send` waits for it."""
    closed: bool = False
    forked: int = 0
    target: str = "memory"

    def send(self, batch: Sequence[bytes], deadline: float) -> Delivery:
        """Answer."""
        names = [span.name for record in batch for span in spans_of(record)]
        self.requests.append(names)
        self.sizes.append(sum(map(len, batch)))
        self.deadlines.append(deadline)
        if self.gate is not None:
            assert self.gate.wait(20)
        answer = self.script.pop(0) if self.script else self.always or Delivered()
        if callable(answer):
            answer = answer(names)
        if isinstance(answer, Delivered) and not answer.rejected:
            self.taken += names
        return answer

    def describe(self) -> str:
        """One line."""
        return self.target

    def reset_after_fork(self) -> None:
        """Count."""
        self.forked += 1

    def close(self) -> None:
        """Remember."""
        self.closed = True


def spans_of(record: bytes) -> list[ReadableSpan]:
    """Take a record or a fragment apart."""
    from compass_otel.record_spans import rebuild_spans  # noqa: PLC0415 - the lanes' tests need names alone

    assert decode_records(record)
    return rebuild_spans(record)


class Collecting(SpanProcessor):
    """Keeps ended spans."""

    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep."""
        self.ended.append(span)


def provider_of(*processors: SpanProcessor) -> TracerProvider:
    """Make a provider that ends with the test."""
    provider = TracerProvider(resource=Resource({"service.name": "test"}), sampler=ALWAYS_ON, shutdown_on_exit=False)
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


_collecting = Collecting()
_tracer = provider_of(_collecting).get_tracer("test")


def span(name: str, attributes: Mapping[str, AnyValue] | None = None, *, error: bool = False) -> ReadableSpan:
    """Make an ended span."""
    live = _tracer.start_span(name, attributes=attributes)
    if error:
        live.set_status(Status(StatusCode.ERROR, "boom"))
    live.end()
    return _collecting.ended.pop()
