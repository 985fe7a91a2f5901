"""What a receiver took, in a file that outlives its process: one framed request after the other."""

from __future__ import annotations

import os
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

_HEAD = struct.Struct("<IBd")
_TRANSPORTS = ("http", "grpc")


@dataclass(frozen=True)
class ReceivedSpan:
    """One span as it arrived."""

    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    status_code: int
    status_message: str
    events: tuple[tuple[str, dict[str, Any]], ...]
    links: tuple[tuple[str, str], ...]
    flags: int
    resource: dict[str, Any]
    scope: str
    transport: str
    request: int
    """Which request brought it: spans with the same number came together."""
    received_at_s: float

    @property
    def key(self) -> tuple[str, str]:
        """Trace id and span id: two spans with the same key are duplicates."""
        return self.trace_id, self.span_id


class StoreWriter:
    """Appends requests; one `write` each, so that a SIGKILL leaves whole requests or none."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._lock = threading.Lock()

    def append(self, body: bytes, transport: str) -> None:
        """Keep a request."""
        with self._lock:
            os.write(self._fd, _HEAD.pack(len(body), _TRANSPORTS.index(transport), time.time()) + body)


class StoreReader:
    """Reads the requests from the start each time it is asked."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def requests(self) -> Iterator[tuple[int, str, float, ExportTraceServiceRequest]]:
        """Yield number, transport, wall time and content of each request."""
        data = self._path.read_bytes() if self._path.exists() else b""
        offset, number = 0, 0
        while offset + _HEAD.size <= len(data):
            size, transport, at_s = _HEAD.unpack_from(data, offset)
            offset += _HEAD.size
            if offset + size > len(data):
                return
            body = data[offset : offset + size]
            yield number, _TRANSPORTS[transport], at_s, ExportTraceServiceRequest.FromString(body)
            offset, number = offset + size, number + 1

    def keys(self) -> list[tuple[str, str]]:
        """Trace id and span id of everything that arrived, duplicates included: cheap, for load tests."""
        return [
            (span.trace_id.hex(), span.span_id.hex())
            for _, _, _, request in self.requests()
            for resource_spans in request.resource_spans
            for scope_spans in resource_spans.scope_spans
            for span in scope_spans.spans
        ]

    def spans(self) -> list[ReceivedSpan]:
        """Everything that arrived, duplicates included, in order of arrival."""
        return [
            span
            for number, transport, at_s, request in self.requests()
            for span in _spans(number, transport, at_s, request)
        ]


def _spans(number: int, transport: str, at_s: float, request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for resource_spans in request.resource_spans:
        resource = attributes_of(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                yield ReceivedSpan(
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_span_id=span.parent_span_id.hex(),
                    name=span.name,
                    kind=span.kind,
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    attributes=attributes_of(span.attributes),
                    status_code=span.status.code,
                    status_message=span.status.message,
                    events=tuple((event.name, attributes_of(event.attributes)) for event in span.events),
                    links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
                    flags=span.flags,
                    resource=resource,
                    scope=scope_spans.scope.name,
                    transport=transport,
                    request=number,
                    received_at_s=at_s,
                )


def attributes_of(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    """Give OTLP attributes as a plain dict."""
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    field = value.WhichOneof("value")
    if field is None:
        return None
    if field == "array_value":
        return tuple(_value(item) for item in value.array_value.values)
    if field == "kvlist_value":
        return attributes_of(value.kvlist_value.values)
    return getattr(value, field)
