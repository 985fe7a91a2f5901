"""Spans to OTLP bytes, one self-contained record per span, and back.

A record is one `resource_spans` field of an `ExportTraceServiceRequest` that holds one span: records joined are a valid
request body, a spool can keep each alone, and one odd span costs nobody else anything.

    0a L  resource: [0a ..] [1a schema_url]   12 M  scope: [0a ..] [1a schema_url]   12 N span
          the same bytes for every span of        the same bytes for every span of
          one resource                            one scope

`record_joining.join_records` finds the equal parts again and writes them once. What is decoded equals what the official
encoder says, except where that one refuses or drops a value (see `otlp_wire`).

Thread-safe; nothing here blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from compass_otel import sdk_private, semconv
from compass_otel.otlp_wire import (
    append_attributes,
    attribute,
    field,
    pack_fixed32,
    text,
    time_ns,
    varint,
)
from compass_otel.record_joining import wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opentelemetry.proto.common.v1 import common_pb2
    from opentelemetry.proto.resource.v1 import resource_pb2
    from opentelemetry.proto.trace.v1 import trace_pb2
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, Status, TraceState
    from opentelemetry.util.types import AnyValue

    from compass_otel.sdk_private import Attributes, SpanFields

    Extra = Mapping[str, AnyValue] | None
    Counts = tuple[int, int, int] | None

_SPAN_ATTRIBUTE: Final = b"\x4a"
_EVENT_ATTRIBUTE: Final = b"\x1a"
_LINK_ATTRIBUTE: Final = b"\x22"
_SCOPE_ATTRIBUTE: Final = b"\x1a"
_RESOURCE_ATTRIBUTE: Final = b"\x0a"
_KINDS: Final = tuple(b"\x30" + varint(kind + 1) for kind in range(5))
_UNSET: Final = b"\x7a\x00"
_FLAGS_LOCAL: Final = b"\x85\x01" + pack_fixed32(0x100)
_FLAGS_REMOTE: Final = b"\x85\x01" + pack_fixed32(0x300)
_LINK_FLAGS_LOCAL: Final = b"\x35" + pack_fixed32(0x100)
_LINK_FLAGS_REMOTE: Final = b"\x35" + pack_fixed32(0x300)
_PRIORITY: Final = attribute(_SPAN_ATTRIBUTE, semconv.LANE, semconv.LANE_PRIORITY)
_MAX_UINT32: Final = 0xFFFFFFFF
_MAX_PREFIXES: Final = 256  # pairs of resource and scope; a host that makes a resource per span must not grow us

# Kept with the objects themselves, so that no other object can get an id that stands here.
_prefixes: dict[tuple[int, int], tuple[Resource, InstrumentationScope | None, bytes, bytes]] = {}


class RecordError(ValueError):
    """Bytes that are no record: what a spool sets aside as corrupt."""


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record taken apart, as protobuf messages."""

    span: trace_pb2.Span
    resource: resource_pb2.Resource
    scope: common_pb2.InstrumentationScope
    resource_schema_url: str
    scope_schema_url: str


def encode_span(span: ReadableSpan, *, lane: str | None = None, extra: Extra = None) -> bytes:
    """Encode an ended span as one record.

    Args:
        span: The span as a processor gets it in `on_end`.
        lane: Written as `compass.lane`, instead of what the span may say under that name.
        extra: Attributes to add where the span does not carry the key: an identity that the SDK's limit threw out
            (`identity.IdentityKeeper`), or what the sink knows about the trace. Not counted against any limit.

    Returns:
        The record. Values that OTLP cannot hold were made valid.

    Raises:
        AttributeError, TypeError: The object is no span at all.

    """
    resource, scope, body = _span_parts(span, lane, extra)
    return wrap(resource, scope, b"\x12" + varint(len(body)) + body)


def encode_spans(spans: Iterable[ReadableSpan], *, extra: Callable[[ReadableSpan], Extra] | None = None) -> list[bytes]:
    """Encode ended spans as few fragments, one for each resource and scope: what a trace lane sends.

    Args:
        spans: The batch.
        extra: Gives the attributes to add to a span, as in `encode_span`.

    Returns:
        Fragments, in order of first appearance, that `Sender.send` takes like records. Not for a spool: a fragment
        holds many spans.

    """
    groups: dict[tuple[bytes, bytes], list[bytes]] = {}
    for span in spans:
        resource, scope, body = _span_parts(span, None, extra(span) if extra else None)
        group = groups.get((resource, scope))
        if group is None:
            group = groups[resource, scope] = []
        group += (b"\x12", varint(len(body)), body)
    return [wrap(resource, scope, b"".join(bodies)) for (resource, scope), bodies in groups.items()]


def encode_open_span(  # noqa: PLR0913 - all but the first three are rare
    span: ReadableSpan,
    end_time_ns: int,
    attributes_override: Mapping[str, AnyValue],
    *,
    status: Status | None = None,
    events: Sequence[Event] = (),
    lane: str | None = None,
) -> bytes:
    """Encode a span that is still open as if it had ended: the note a spool keeps of a live run.

    Reads a consistent copy, so other threads may go on changing the span.

    Args:
        span: The live span, as a processor gets it in `on_start`.
        end_time_ns: The end to write, wall time in nanoseconds; a start after it wins.
        attributes_override: Attributes to write instead of or besides the span's own, such as
            `compass.outcome=incomplete` and `error.type=process_lost`.
        status: The status to write; None = the span's own.
        events: Events to add behind the span's own.
        lane: As in `encode_span`.

    Returns:
        The record.

    """
    context, parent, name, kind, start, _, attributes, own_events, links, own_status, resource, scope = (
        sdk_private.fields_public(span)
    )
    plain, _ = sdk_private.plain_public(attributes)
    merged = {**plain, **attributes_override}
    end = max(end_time_ns, start or 0)
    all_events = (*own_events, *events)
    final = status or own_status
    fields: SpanFields = (
        *(context, parent, name, kind, start, end),
        *(merged, all_events, links, final, resource, scope),
    )
    body = _span(fields, sdk_private.plain_public, lane, None, sdk_private.dropped_of(span))
    return wrap(*_prefix(resource, scope), b"\x12" + varint(len(body)) + body)


def record_size(record: bytes) -> int:
    """How many bytes of a request body the record takes, at most."""
    return len(record)


def decode_record(record: bytes) -> DecodedRecord:
    """Take a record apart, for people and for a rebuilt span.

    Args:
        record: What `encode_span` or `encode_open_span` gave.

    Returns:
        The messages.

    Raises:
        RecordError: The bytes are no record, or hold another number of spans than one.

    """
    found = decode_records(record)
    if len(found) != 1:
        raise RecordError(f"{len(found)} spans instead of one")
    return found[0]


def decode_records(records: bytes) -> list[DecodedRecord]:
    """Take several records apart, joined or grouped or not.

    Args:
        records: Body of an `ExportTraceServiceRequest`.

    Returns:
        Each span with its resource and scope.

    Raises:
        RecordError: The bytes are no such body.

    """
    try:
        request = ExportTraceServiceRequest.FromString(records)
    except DecodeError as error:
        raise RecordError(f"no encoded span: {error}") from error
    return [
        DecodedRecord(
            span=span,
            resource=resource_spans.resource,
            scope=scope_spans.scope,
            resource_schema_url=resource_spans.schema_url,
            scope_schema_url=scope_spans.schema_url,
        )
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


def _span_parts(span: ReadableSpan, lane: str | None, extra: Extra) -> tuple[bytes, bytes, bytes]:
    """Give the bytes of resource, scope and span."""
    if not sdk_private.PROBE.fast:
        return _copied_parts(span, lane, extra)
    fields = sdk_private.fields(span)
    try:
        return *_prefix(fields[10], fields[11]), _span(fields, sdk_private.plain, lane, extra, None)
    except RuntimeError:  # another thread changed the attributes in this moment
        return _copied_parts(span, lane, extra)


def _copied_parts(span: ReadableSpan, lane: str | None, extra: Extra) -> tuple[bytes, bytes, bytes]:
    """Do the same by public means, on copies."""
    fields = sdk_private.fields_public(span)
    body = _span(fields, sdk_private.plain_public, lane, extra, sdk_private.dropped_of(span))
    return *_prefix(fields[10], fields[11]), body


def _span(
    fields: SpanFields,
    plain: Callable[[Attributes | None], tuple[Attributes, int]],
    lane: str | None,
    extra: Extra,
    counts: Counts,
) -> bytes:
    context, parent, name, kind, start, end, bounded, events, links, status, _, _ = fields
    attributes, dropped = plain(bounded)
    if counts is None:
        counts = (dropped, getattr(events, "dropped", 0), getattr(links, "dropped", 0))
    data = text(name)
    out: list[bytes] = _identity(context, parent) if context is not None else []
    out += (b"\x2a", varint(len(data)), data, _KINDS[kind.value], b"\x39", time_ns(start), b"\x41", time_ns(end))
    if lane is not None or extra:
        attributes = _with_extra(out, attributes, lane, extra)
    if attributes:
        append_attributes(out, _SPAN_ATTRIBUTE, attributes)
    if counts[0]:
        out += (b"\x50", _uint32(counts[0]))
    if events:
        _append_events(out, events, plain)
    if counts[1]:
        out += (b"\x60", _uint32(counts[1]))
    if links:
        _append_links(out, links, plain)
    if counts[2]:
        out += (b"\x70", _uint32(counts[2]))
    if status is not None:
        out.append(_status(status))
    out.append(_FLAGS_REMOTE if parent is not None and parent.is_remote else _FLAGS_LOCAL)
    return b"".join(out)


def _identity(context: SpanContext, parent: SpanContext | None) -> list[bytes]:
    out = [b"\x0a\x10", context.trace_id.to_bytes(16, "big"), b"\x12\x08", context.span_id.to_bytes(8, "big")]
    if context.trace_state:
        out.append(field(b"\x1a", _trace_state(context.trace_state)))
    if parent is not None:
        out += (b"\x22\x08", parent.span_id.to_bytes(8, "big"))
    return out


def _trace_state(state: TraceState) -> bytes:
    return text(",".join(f"{key}={value}" for key, value in state.items()))


def _with_extra(out: list[bytes], attributes: Attributes, lane: str | None, extra: Extra) -> Attributes:
    if lane is not None:
        own = _PRIORITY if lane == semconv.LANE_PRIORITY else attribute(_SPAN_ATTRIBUTE, semconv.LANE, lane)
        out.append(own)
        if semconv.LANE in attributes:
            attributes = {key: value for key, value in attributes.items() if key != semconv.LANE}
    if extra:
        missing = {key: value for key, value in extra.items() if key not in attributes and key != semconv.LANE}
        append_attributes(out, _SPAN_ATTRIBUTE, missing)
    return attributes


def _append_events(
    out: list[bytes], events: Sequence[Event], plain: Callable[[Attributes | None], tuple[Attributes, int]]
) -> None:
    for event in events:
        inner = [b"\x09", time_ns(event.timestamp), field(b"\x12", text(event.name))]
        attributes, dropped = plain(event.attributes)
        append_attributes(inner, _EVENT_ATTRIBUTE, attributes)
        if dropped:
            inner += (b"\x20", _uint32(dropped))
        out.append(field(b"\x5a", b"".join(inner)))


def _append_links(
    out: list[bytes], links: Sequence[Link], plain: Callable[[Attributes | None], tuple[Attributes, int]]
) -> None:
    for link in links:
        context = link.context
        inner = [b"\x0a\x10", context.trace_id.to_bytes(16, "big"), b"\x12\x08", context.span_id.to_bytes(8, "big")]
        attributes, dropped = plain(link.attributes)
        append_attributes(inner, _LINK_ATTRIBUTE, attributes)
        if dropped:
            inner += (b"\x28", _uint32(dropped))
        inner.append(_LINK_FLAGS_REMOTE if context.is_remote else _LINK_FLAGS_LOCAL)
        out.append(field(b"\x6a", b"".join(inner)))


def _status(status: Status) -> bytes:
    code, description = status.status_code.value, status.description
    if not description:
        return b"\x7a\x02\x18" + varint(code) if code else _UNSET
    return field(b"\x7a", field(b"\x12", text(description)) + (b"\x18" + varint(code) if code else b""))


def _uint32(count: int) -> bytes:
    return varint(min(count, _MAX_UINT32))


def _prefix(resource: Resource, scope: InstrumentationScope | None) -> tuple[bytes, bytes]:
    """Give the bytes of resource and scope, cached by identity: both are immutable and outlive their spans."""
    key = (id(resource), id(scope))
    entry = _prefixes.get(key)
    if entry is None:
        if len(_prefixes) >= _MAX_PREFIXES:
            _prefixes.clear()
        entry = _prefixes[key] = (resource, scope, _resource_bytes(resource), _scope_bytes(scope))
    return entry[2], entry[3]


def _resource_bytes(resource: Resource) -> bytes:
    out: list[bytes] = []
    append_attributes(out, _RESOURCE_ATTRIBUTE, resource.attributes)
    url = text(resource.schema_url or "")
    return field(b"\x0a", b"".join(out)) + (field(b"\x1a", url) if url else b"")


def _scope_bytes(scope: InstrumentationScope | None) -> bytes:
    if scope is None:
        return field(b"\x0a", b"")
    name, version, url = text(scope.name or ""), text(scope.version or ""), text(scope.schema_url or "")
    out = [field(b"\x0a", name) if name else b"", field(b"\x12", version) if version else b""]
    append_attributes(out, _SCOPE_ATTRIBUTE, scope.attributes or {})
    return field(b"\x0a", b"".join(out)) + (field(b"\x1a", url) if url else b"")
