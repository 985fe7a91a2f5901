"""CollectedRun: one run and its spans, kept small: ended spans are compact JSON, about a kilobyte each, not objects."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec
from opentelemetry.sdk.trace import ReadableSpan, Span  # noqa: TID251  # the commands' own provider

from compass_otel import semconv
from compass_otel.jsonout import OPEN_OUTCOME, RunObject, SessionErrorObject, SpanObject, encode_json, span_object

MAX_DRAWN: Final = 400
"""Spans of one run that a tree shows: all of an ordinary day's work, and no more than a person scrolls through."""
_TROUBLE: Final = (f'"{semconv.SESSION_ERROR_KIND}"'.encode(), b'"status":"ERROR"')


class _SpanHead(msgspec.Struct):
    """What orders spans; the rest of the object is skipped."""

    trace_id: str
    span_id: str
    start_unix_ns: int


@dataclass(slots=True)
class CollectedRun:
    """A run; once it ended nothing is added but a compaction between it and the next run."""

    root: ReadableSpan
    encoded: list[bytes] = field(default_factory=list)
    """Ended spans, each as its JSON object, in the order of their ends."""
    kept: list[ReadableSpan] = field(default_factory=list)
    """The same spans themselves, where the collector was asked to keep them for sending."""
    children: dict[int, Span] = field(default_factory=dict)
    """Spans that are still open, by span id; not the run's own."""
    session_errors: list[SessionErrorObject] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """The run's outcome, `open` while it has none."""
        return str((self.root.attributes or {}).get(semconv.OUTCOME, OPEN_OUTCOME)) if self.ended else OPEN_OUTCOME

    @property
    def ended(self) -> bool:
        """Whether the run's own span has ended."""
        return self.root.end_time is not None

    def object(self) -> RunObject:
        """Give the run as the documented JSON values, its own span first."""
        return {**self._facts(), "spans": [msgspec.json.decode(span) for span in self._spans()]}

    def json(self) -> Iterator[bytes]:
        """Give the same as JSON, in pieces, so that a long run is never in memory twice."""
        yield encode_json(self._facts())[: -len(b"]}")]
        for index, span in enumerate(self._spans()):
            yield b"," + span if index else span
        yield b"]}"

    def drawable(self) -> tuple[RunObject, int]:
        """Give what a tree shows of the run, and how many spans that went well are left out of it."""
        spans = self._spans()
        hidden = max(len(spans) - MAX_DRAWN, 0)
        if hidden:
            half = MAX_DRAWN // 2
            middle = [span for span in spans[half:-half] if any(mark in span for mark in _TROUBLE)]
            hidden -= min(len(middle), MAX_DRAWN)
            spans = [*spans[:half], *middle[:MAX_DRAWN], *spans[-half:]]
        decoded: list[SpanObject] = [msgspec.json.decode(span) for span in spans]
        return {**self._facts(), "spans": decoded}, hidden

    def _facts(self) -> RunObject:
        """Give the object without its spans."""
        error_type = (self.root.attributes or {}).get(semconv.ERROR_TYPE)
        context = self.root.get_span_context()
        return {
            "outcome": self.outcome,
            "error_type": str(error_type) if error_type is not None else None,
            "trace_id": f"{context.trace_id:032x}" if context else "",
            "session_errors": list(self.session_errors),
            "spans": [],
        }

    def _spans(self) -> list[bytes]:
        """Give all spans as JSON: the run's own, then the rest by start, those of another trace last."""
        still_open = [span_object(span) for span in self.children.values()]
        if not self.ended:
            still_open.append(span_object(self.root))
        spans = [*self.encoded, *(encode_json(span) for span in still_open)]
        context = self.root.get_span_context()
        own = (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context else ("", "")

        def order(span: bytes) -> tuple[bool, bool, int]:
            head = _HEADS.decode(span)
            return head.trace_id != own[0], head.span_id != own[1], head.start_unix_ns

        return sorted(spans, key=order)


_HEADS: Final = msgspec.json.Decoder(_SpanHead)
