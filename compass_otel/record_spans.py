"""A span object out of a record, for exporters that take nothing else.

A record survives the process that made it, a span object does not: what was spooled before a restart is rebuilt here.
Encoding the rebuilt span gives the record again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from compass_otel.encoding import DecodedRecord, decode_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1 import trace_pb2

_REMOTE: Final = 0x200
_KINDS: Final = {kind.value + 1: kind for kind in SpanKind}
_CODES: Final = {code.value: code for code in StatusCode}
# What was given to an exporter was meant to be exported, whatever a sampler had said.
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


def rebuild_spans(record: bytes) -> list[ReadableSpan]:
    """Rebuild the span of a record, or the spans of a fragment.

    Args:
        record: What `encoding.encode_span` gave, or one of what `encoding.encode_spans` gave.

    Returns:
        Spans with everything that the record says, their ids included.

    Raises:
        RecordError: The bytes are neither.

    """
    return [_rebuild(decoded) for decoded in decode_records(record)]


def _rebuild(decoded: DecodedRecord) -> ReadableSpan:
    span, scope = decoded.span, decoded.scope
    remote = bool(span.flags & _REMOTE)
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id, remote=False, state=span.trace_state),
        parent=_context(span.trace_id, span.parent_span_id, remote=remote) if span.parent_span_id else None,
        resource=Resource(_plain(decoded.resource.attributes), decoded.resource_schema_url),
        attributes=_bounded(span.attributes, span.dropped_attributes_count),
        events=_listed([_event(event) for event in span.events], span.dropped_events_count),
        links=_listed([_link(link) for link in span.links], span.dropped_links_count),
        kind=_KINDS.get(span.kind, SpanKind.INTERNAL),
        status=_status(span.status),
        start_time=span.start_time_unix_nano,
        end_time=span.end_time_unix_nano,
        instrumentation_scope=InstrumentationScope(
            scope.name, scope.version or None, decoded.scope_schema_url, _plain(scope.attributes)
        ),
    )


def _context(trace_id: bytes, span_id: bytes, *, remote: bool, state: str = "") -> SpanContext:
    pairs = [(key, value) for key, _, value in (item.partition("=") for item in state.split(",") if item)]
    return SpanContext(
        int.from_bytes(trace_id, "big"), int.from_bytes(span_id, "big"), remote, _SAMPLED, TraceState(pairs)
    )


def _status(status: trace_pb2.Status) -> Status:
    code = _CODES.get(status.code, StatusCode.UNSET)
    return Status(code, status.message if code is StatusCode.ERROR else None)


def _event(event: trace_pb2.Span.Event) -> Event:
    return Event(event.name, _bounded(event.attributes, event.dropped_attributes_count), event.time_unix_nano)


def _link(link: trace_pb2.Span.Link) -> Link:
    context = _context(link.trace_id, link.span_id, remote=bool(link.flags & _REMOTE), state=link.trace_state)
    return Link(context, _bounded(link.attributes, link.dropped_attributes_count))


def _bounded(pairs: Iterable[KeyValue], dropped: int) -> BoundedAttributes:
    attributes = BoundedAttributes(attributes=_plain(pairs))
    attributes.dropped = dropped
    return attributes


def _listed(items: list[Any], dropped: int) -> BoundedList[Any]:
    listed = BoundedList.from_seq(None, items)
    listed.dropped = dropped
    return listed


def _plain(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    match kind:
        case None:
            return None
        case "array_value":
            return tuple(_value(item) for item in value.array_value.values)
        case "kvlist_value":
            return _plain(value.kvlist_value.values)
        case _:
            return getattr(value, kind)
