"""Whose a span is survives the SDK's limit on attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from compass_otel import identity, semconv
from compass_otel.encoding import decode_record, encode_span
from compass_otel.identity import IdentityKeeper
from receivers.store import attributes_of

if TYPE_CHECKING:
    from opentelemetry.context import Context


class Encoding(SpanProcessor):
    """Uses the keeper as its documentation says."""

    def __init__(self) -> None:
        self.keeper = IdentityKeeper()
        self.records: list[bytes] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's form
        """Note it."""
        self.keeper.note(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Encode it."""
        self.records.append(encode_span(span, extra=self.keeper.lost(span)))


def ended(start: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """Give the attributes that arrive of a span with these at its start, and these set later."""
    processor = Encoding()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    span = provider.get_tracer("t").start_span("chat", attributes=start)
    span.set_attributes(then)
    span.end()
    assert not processor.keeper._noted
    return attributes_of(decode_record(processor.records[0]).span.attributes)


def test_an_identity_set_first_is_not_the_attribute_that_the_limit_throws_out() -> None:
    """With 200 later attributes the conversation and the state are there, with their values from the start."""
    got = ended(
        {semconv.GEN_AI_CONVERSATION_ID: "c1", semconv.SESSION_STATE: "working", "plain": 1},
        {f"k{index}": index for index in range(200)},
    )
    assert (got[semconv.GEN_AI_CONVERSATION_ID], got[semconv.SESSION_STATE]) == ("c1", "working")
    assert "plain" not in got


def test_a_later_value_of_an_identity_wins() -> None:
    """The state set last is the one that arrives, once."""
    got = ended(
        {semconv.SESSION_STATE: "working"},
        {f"k{index}": index for index in range(200)} | {semconv.SESSION_STATE: "ready"},
    )
    assert got[semconv.SESSION_STATE] == "ready"


def test_spans_without_identity_or_within_the_limit_get_nothing() -> None:
    """The common case adds nothing."""
    assert ended({"http.method": "GET"}, {"a": 1}) == {"http.method": "GET", "a": 1}
    assert ended({}, {"a": 1}) == {"a": 1}
    assert ended({semconv.GEN_AI_CONVERSATION_ID: "c"}, {"a": 1}) == {semconv.GEN_AI_CONVERSATION_ID: "c", "a": 1}


def test_spans_that_never_end_are_forgotten_in_the_end() -> None:
    """Memory has a bound; the oldest are forgotten first."""
    keeper = IdentityKeeper()
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("t")
    for _ in range(identity._MAX_OPEN_SPANS + 10):
        span = tracer.start_span("s", attributes={"session.id": "s"})
        assert isinstance(span, ReadableSpan)
        keeper.note(span)
    assert len(keeper._noted) == identity._MAX_OPEN_SPANS
