"""Records say what the official encoder says, cost one span each, and hold whatever a span may hold."""

from __future__ import annotations

import math
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as official_encode
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from compass_otel import sdk_private, semconv
from compass_otel.encoding import RecordError, decode_record, encode_open_span, encode_span, encode_spans
from compass_otel.otlp_wire import read_varint, varint
from compass_otel.record_joining import join_records
from receivers.store import attributes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SAMPLED = TraceFlags(TraceFlags.SAMPLED)
CONTEXT = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=SAMPLED)


class Kept(SpanProcessor):
    """Keeps what ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep it."""
        self.spans.append(span)


def official(*spans: ReadableSpan) -> ExportTraceServiceRequest:
    """Encode officially, with a turn on the wire."""
    return ExportTraceServiceRequest.FromString(official_encode(spans).SerializeToString())


def ours(*records: bytes) -> ExportTraceServiceRequest:
    """Read our records as a backend does."""
    return ExportTraceServiceRequest.FromString(b"".join(records))


def span_with(**fields: Any) -> ReadableSpan:
    """Make a span of these fields."""
    defaults: dict[str, Any] = {"name": "span", "context": CONTEXT, "start_time": 10, "end_time": 20}
    return ReadableSpan(**{**defaults, "resource": Resource({}), **fields})


def attributes(record: bytes) -> dict[str, Any]:
    """Attributes of the record's span."""
    return attributes_of(decode_record(record).span.attributes)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200)
# The SDK itself throws an empty key out of what it copies, so only what was given keys can be compared.
keys = texts.filter(bool)
scalars = st.one_of(
    texts,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=20),
    st.none(),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)
attribute_sets = st.dictionaries(keys, values, max_size=6)
times = st.integers(0, 2**64 - 1)
trace_states = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True), max_size=3
)
contexts = st.builds(
    lambda trace_id, span_id, remote, state: SpanContext(
        trace_id, span_id, remote, SAMPLED, TraceState(list(state.items()))
    ),
    st.integers(1, 2**128 - 1),
    st.integers(1, 2**64 - 1),
    st.booleans(),
    trace_states,
)
statuses = st.one_of(
    st.just(Status(StatusCode.UNSET)),
    st.just(Status(StatusCode.OK)),
    st.builds(lambda text: Status(StatusCode.ERROR, text), texts),
)
scopes = st.one_of(
    st.none(),
    st.builds(InstrumentationScope, texts, st.one_of(st.none(), texts), st.one_of(st.none(), texts), attribute_sets),
)
spans = st.builds(
    ReadableSpan,
    name=texts,
    context=contexts,
    parent=st.one_of(st.none(), contexts),
    resource=st.builds(Resource, attribute_sets, texts),
    attributes=attribute_sets,
    events=st.lists(st.builds(Event, texts, attribute_sets, times), max_size=3),
    links=st.lists(st.builds(Link, contexts, attribute_sets), max_size=3),
    kind=st.sampled_from(SpanKind),
    status=statuses,
    start_time=times,
    end_time=times,
    instrumentation_scope=scopes,
)


class TestEqualToTheOfficialEncoder:
    """For everything that the official encoder can say."""

    @given(spans)
    def test_each_field_of_any_span(self, span: ReadableSpan) -> None:
        """Whatever a span holds that is valid, the record says the same."""
        assert ours(encode_span(span)) == official(span)

    @settings(max_examples=40)
    @given(spans)
    def test_each_field_by_public_means(self, span: ReadableSpan) -> None:
        """The fallback for an SDK whose private fields moved says the same."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sdk_private, "PROBE", sdk_private.Probe(fast=False, reason="test"))
            assert ours(encode_span(span)) == official(span)

    @settings(max_examples=30)
    @given(st.lists(spans, min_size=1, max_size=4))
    def test_joined_records_are_one_valid_request(self, batch: list[ReadableSpan]) -> None:
        """Records joined, as they are or with equal parts written once, hold each span once."""
        expected = {(s.trace_id, s.span_id, s.name) for s in _spans(official(*batch))}
        records = [encode_span(span) for span in batch]
        for body in (b"".join(records), join_records(records), b"".join(encode_spans(batch))):
            request = ExportTraceServiceRequest.FromString(body)
            assert {(s.trace_id, s.span_id, s.name) for s in _spans(request)} == expected
            assert len(_spans(request)) == len(batch)

    def test_a_batch_of_one_pipeline_is_grouped_as_the_official_encoder_groups_it(self) -> None:
        """Spans of one resource and scope leave under one resource and scope."""
        batch = list(sdk_spans(5))
        assert ExportTraceServiceRequest.FromString(join_records([encode_span(s) for s in batch])) == official(*batch)
        assert ours(*encode_spans(batch)) == official(*batch)

    def test_dropped_counts_of_attributes_events_and_links(self) -> None:
        """What the SDK's limits threw out is told, on the span and on its events and links."""
        limits = SpanLimits(
            max_span_attributes=2, max_events=1, max_links=1, max_event_attributes=1, max_link_attributes=1
        )
        (span,) = sdk_spans(1, limits=limits)
        record = decode_record(encode_span(span)).span
        assert (record.dropped_attributes_count, record.dropped_events_count, record.dropped_links_count) == (3, 1, 1)
        assert (record.events[0].dropped_attributes_count, record.links[0].dropped_attributes_count) == (1, 1)
        assert ours(encode_span(span)) == official(span)


class TestPoison:
    """One odd value costs that value its form, nothing else."""

    @pytest.mark.parametrize("bad", ["a\ud800b", "\udfff", "nul\0byte"])
    def test_bad_text_anywhere_is_repaired(self, bad: str) -> None:
        """A lone surrogate or NUL in any text becomes U+FFFD, and the record is valid."""
        span = span_with(
            name=bad,
            attributes={bad: bad, "list": (bad,), "map": {bad: bad}, "good": 1},
            events=[Event(bad, {bad: bad}, 5)],
            links=[Link(CONTEXT, {bad: bad})],
            status=Status(StatusCode.ERROR, bad),
            resource=Resource({bad: bad}),
            instrumentation_scope=InstrumentationScope(bad, bad, bad, {bad: bad}),
        )
        decoded = decode_record(encode_span(span))
        fixed = bad.replace("\0", "�").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        assert "�" in fixed
        assert decoded.span.name == decoded.span.status.message == decoded.span.events[0].name == fixed
        assert attributes_of(decoded.span.attributes) == {
            fixed: fixed,
            "list": (fixed,),
            "map": {fixed: fixed},
            "good": 1,
        }
        assert attributes_of(decoded.resource.attributes) == {fixed: fixed}
        assert decoded.scope.name == decoded.scope_schema_url == fixed

    def test_a_surrogate_pair_becomes_its_character(self) -> None:
        """Text that a JSON reader left as two surrogates is one character again."""
        assert attributes(encode_span(span_with(attributes={"k": "\ud83d\ude00"}))) == {"k": "\U0001f600"}

    @pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**100])
    def test_an_integer_beyond_64_bit_becomes_text(self, number: int) -> None:
        """Its digits are kept."""
        assert attributes(encode_span(span_with(attributes={"k": number, "l": (number, 1)}))) == {
            "k": str(number),
            "l": (str(number), 1),
        }

    def test_values_of_no_otlp_type_become_text(self) -> None:
        """Objects, sets and numbers too long to print are written as something, and their neighbours stay."""

        class Raises:
            def __str__(self) -> str:
                raise ValueError

        odd = {
            "object": Raises(),
            "complex": 1j,
            "set": frozenset({1}),
            "huge": 10**5000,
            "bytes": bytearray(b"x"),
            "good": 1,
        }
        got = attributes(encode_span(span_with(attributes=odd)))
        assert got["object"] == "<unreadable value>"
        assert got["complex"] == "1j"
        assert got["set"] == (1,)
        assert got["huge"].startswith("0x")
        assert got["bytes"] == b"x"
        assert got["good"] == 1

    def test_subclasses_of_plain_types_are_their_plain_value(self) -> None:
        """An enum of text or number is its text or number."""
        number = IntEnum("number", {"ONE": 1})
        text = StrEnum("text", {"A": "a"})
        got = attributes(encode_span(span_with(attributes={"n": number.ONE, "t": text.A, "nan": math.nan})))
        assert (got["n"], got["t"]) == (1, "a")
        assert math.isnan(got["nan"])

    def test_odd_fields_are_made_valid(self) -> None:
        """A name that is no text, a key that is no text, times out of range: written as what comes nearest."""
        record = encode_span(
            span_with(name=7, attributes={5: "five"}, start_time=-5, end_time=2**70, events=[Event("e", None, None)])
        )
        span = decode_record(record).span
        assert (span.name, span.start_time_unix_nano, span.end_time_unix_nano) == ("7", 0, 2**64 - 1)
        assert attributes(record) == {"5": "five"}

    def test_nested_values_have_an_end(self) -> None:
        """A value nested beyond what decoders take is cut to text; the record stays readable."""
        value: Any = "deep"
        for _ in range(80):
            value = (value,)
        assert "k" in attributes(encode_span(span_with(attributes={"k": value})))

    def test_large_spans_are_whole(self) -> None:
        """10 MB of text and 10,000 attributes arrive as they are."""
        many = {f"k{index}": index for index in range(10_000)}
        got = attributes(encode_span(span_with(attributes={**many, "big": "x" * 10_000_000})))
        assert len(got) == 10_001
        assert len(got["big"]) == 10_000_000

    @settings(max_examples=50)
    @given(
        st.dictionaries(
            st.text(max_size=5),
            st.recursive(st.one_of(st.text(), st.integers(), st.floats(), st.none()), st.lists),
            max_size=4,
        )
    )
    def test_any_value_gives_a_record_that_can_be_read(self, odd: Mapping[str, Any]) -> None:
        """Whatever the values, the record is valid and has an attribute for each key."""
        record = encode_span(span_with(attributes=odd))
        assert len(decode_record(record).span.attributes) == len(odd)

    def test_a_key_seen_before_costs_no_memory_forever(self) -> None:
        """A host that makes up attribute keys does not grow the cache without bound."""
        from compass_otel import otlp_wire  # noqa: PLC0415

        for index in range(3 * otlp_wire._MAX_CACHED_KEYS):
            otlp_wire.key_prefix(f"key{index}")
        assert len(otlp_wire._keys) <= otlp_wire._MAX_CACHED_KEYS


class TestLaneAndExtra:
    """What the sink adds."""

    def test_the_lane_is_written_once(self) -> None:
        """`compass.lane` says the lane, whatever the span said."""
        record = encode_span(span_with(attributes={"a": 1, semconv.LANE: "trace"}), lane="priority")
        assert [pair.key for pair in decode_record(record).span.attributes].count(semconv.LANE) == 1
        assert attributes(record) == {"a": 1, semconv.LANE: "priority"}

    def test_extra_fills_only_what_is_missing(self) -> None:
        """An attribute of the span's own wins."""
        record = encode_span(span_with(attributes={"a": 1}), extra={"a": 2, "b": 3})
        assert attributes(record) == {"a": 1, "b": 3}


class TestOpenSpan:
    """The note of a run that is still going on."""

    def test_it_is_the_span_ended_now_with_what_was_overridden(self) -> None:
        """End, attributes, status and events are as told; the live span stays as it was."""
        tracer = TracerProvider(shutdown_on_exit=False).get_tracer("t")
        live = tracer.start_span("invoke_agent pi", attributes={"a": 1, semconv.OUTCOME: "completed"}, start_time=5)
        assert isinstance(live, ReadableSpan)
        live.add_event("first", timestamp=6)
        record = encode_open_span(
            live,
            50,
            {semconv.OUTCOME: "incomplete"},
            status=Status(StatusCode.ERROR, "gone"),
            events=[Event("last", {}, 50)],
            lane="priority",
        )
        span = decode_record(record).span
        assert (span.end_time_unix_nano, span.status.code, span.status.message) == (50, 2, "gone")
        assert [event.name for event in span.events] == ["first", "last"]
        assert attributes(record) == {"a": 1, semconv.OUTCOME: "incomplete", semconv.LANE: "priority"}
        assert live.end_time is None
        live.end(60)
        assert span.span_id == decode_record(encode_span(live)).span.span_id

    def test_it_never_ends_before_it_starts(self) -> None:
        """A clock that was set back gives a span of no length."""
        tracer = TracerProvider(shutdown_on_exit=False).get_tracer("t")
        live = tracer.start_span("run", start_time=100)
        assert isinstance(live, ReadableSpan)
        assert decode_record(encode_open_span(live, 50, {})).span.end_time_unix_nano == 100


class TestRecords:
    """Bytes in, bytes out."""

    @pytest.mark.parametrize("junk", [b"", b"\x00", b"junk", b"\x0a\x05abc", b"\x0a\x00"])
    def test_what_is_no_record_is_said_to_be_none(self, junk: bytes) -> None:
        """A corrupt record is an error of its own type."""
        with pytest.raises(RecordError):
            decode_record(junk)

    def test_records_of_several_pipelines_are_joined_by_resource_and_scope(self) -> None:
        """Interleaved records come together under their own resource and scope, each once, in order."""
        batch = [
            span for pair in zip(sdk_spans(3, service="a"), sdk_spans(3, service="b"), strict=True) for span in pair
        ]
        request = ExportTraceServiceRequest.FromString(join_records([encode_span(span) for span in batch]))
        assert [len(entry.scope_spans[0].spans) for entry in request.resource_spans] == [3, 3]
        assert [s.name for s in request.resource_spans[0].scope_spans[0].spans] == ["span 0", "span 1", "span 2"]

    def test_records_of_another_shape_pass_through(self) -> None:
        """What another encoder wrote is neither lost nor changed."""
        foreign = official_encode(list(sdk_spans(2))).SerializeToString() * 2
        records = [encode_span(span) for span in sdk_spans(2)]
        joined = ExportTraceServiceRequest.FromString(join_records([records[0], foreign, records[1]]))
        assert len(_spans(joined)) == 6

    @given(st.integers(0, 2**64 - 1))
    def test_varints_come_back(self, number: int) -> None:
        """Each number is read as it was written."""
        data = varint(number)
        assert read_varint(data + b"\x00", 0) == (number, len(data))


def _spans(request: ExportTraceServiceRequest) -> list[Any]:
    return [span for entry in request.resource_spans for scope in entry.scope_spans for span in scope.spans]


def sdk_spans(count: int, *, limits: SpanLimits | None = None, service: str = "s") -> tuple[ReadableSpan, ...]:
    """Spans as the SDK itself ends them."""
    kept = Kept()
    provider = TracerProvider(resource=Resource({"service.name": service}), span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(kept)
    tracer = provider.get_tracer("scope", "1", "https://schema")
    for index in range(count):
        parent = trace.set_span_in_context(
            trace.NonRecordingSpan(SpanContext(7, 8, is_remote=True, trace_flags=SAMPLED))
        )
        links = [Link(CONTEXT, {"a": 1, "b": 2}), Link(CONTEXT, {"a": 1, "b": 2})]
        span = tracer.start_span(f"span {index}", parent, SpanKind.CLIENT, {f"k{n}": n for n in range(5)}, links)
        span.add_event("first", {"a": 1, "b": 2})
        span.add_event("second", {"a": 1, "b": 2})
        span.end()
    return tuple(kept.spans)
