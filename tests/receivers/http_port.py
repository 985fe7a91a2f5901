"""The HTTP side of the receiver: a small HTTP/1.1 server that can misbehave at each byte."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import zlib
from typing import TYPE_CHECKING, assert_never

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

if TYPE_CHECKING:
    from receivers.modes import Mode
    from receivers.server import State

PATH = "/v1/traces"
GARBAGE = b"\x99\x98\x97 this is no protocol \x00\x01\x02\r\n\r\n"


class HttpConnection(asyncio.Protocol):
    """One connection; answers requests in order."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._buffer = bytearray()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._state.count("http_connections")

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._buffer += data
        if self._buffer[:2] == b"\x16\x03":  # TLS where none is spoken: answered in plain text, as Go's server does
            self._transport.write(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent TLS to a plain HTTP port.\n")
            self._transport.close()
            return
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end]).decode("latin-1")
            request_line, *lines = head.split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            size = int(headers.get("content-length", "0"))
            if len(self._buffer) < end + 4 + size:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + size])
            del self._buffer[: end + 4 + size]
            self._take(request_line, headers, body)

    def eof_received(self) -> bool:
        """Close when the client is done."""
        return False

    def _take(self, request_line: str, headers: dict[str, str], body: bytes) -> None:
        method, _, rest = request_line.partition(" ")
        path = rest.partition(" ")[0]
        if method == "PRI":
            self._transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self._transport.close()
            return
        self._state.count("http")
        self._state.last_headers["http"] = headers
        self._state.last_path = path
        if not path.split("?")[0].endswith(PATH):
            self._state.count("undecodable")
            self._transport.write(answer(404, b"404 page not found\n", {"content-type": "text/plain"}))
            return
        try:
            plain = decompress(headers.get("content-encoding", ""), body)
            request = ExportTraceServiceRequest.FromString(plain)
        except (DecodeError, zlib.error, OSError) as error:
            self._state.count("undecodable")
            self._transport.write(error_answer(400, f"cannot decode: {error}", {}))
            return
        self._behave(mode_for(self._state.next_mode(), request, plain), plain, request)

    def _behave(self, mode: Mode, body: bytes, request: ExportTraceServiceRequest) -> None:
        if kept := kept_of(mode, body):
            self._state.store.append(kept, "http")
        loop = asyncio.get_running_loop()
        match mode.kind:
            case "answer":
                wire = http_answer(mode, request)
                if mode.delay_s:
                    loop.call_later(mode.delay_s, self._transport.write, wire)
                else:
                    self._transport.write(wire)
            case "hang" | "silent":
                return
            case "reset":
                reset(self._transport)
            case "half_close":
                self._transport.write_eof() if self._transport.can_write_eof() else self._transport.close()
            case "cut":
                self._transport.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 99\r\n\r\n\x0a"
                )
                self._transport.close()
            case "garbage":
                self._transport.write(GARBAGE)
            case "drip":
                self._drip(http_answer(mode, request))
            case _:
                assert_never(mode.kind)

    def _drip(self, wire: bytes) -> None:
        if wire and not self._transport.is_closing():
            self._transport.write(wire[:1])
            asyncio.get_running_loop().call_later(1.0, self._drip, wire[1:])


def reset(transport: asyncio.BaseTransport) -> None:
    """Close with RST instead of FIN."""
    plain: socket.socket = transport.get_extra_info("socket")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert isinstance(transport, asyncio.Transport)
    transport.abort()


def decompress(encoding: str, body: bytes) -> bytes:
    """Undo the content encoding."""
    match encoding:
        case "gzip":
            return gzip.decompress(body)
        case "deflate":
            return zlib.decompress(body)
        case _:
            return body


def marked(request: ExportTraceServiceRequest, marker: str) -> int:
    """How many spans carry the marker."""
    return sum(
        any(pair.key == marker for pair in span.attributes)
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    )


def mode_for(mode: Mode, request: ExportTraceServiceRequest, body: bytes) -> Mode:
    """Give the mode for this very request: by marker and size."""
    from receivers.modes import IMMEDIATE  # noqa: PLC0415 - the type alone is wanted at the top

    if mode.marker is not None and not marked(request, mode.marker):
        return IMMEDIATE
    if mode.limit_bytes is not None and len(body) <= mode.limit_bytes:
        return IMMEDIATE
    return mode


def kept_of(mode: Mode, body: bytes) -> bytes:
    """Give what of a request is stored; a partial success leaves out what it refuses."""
    if not (mode.succeeds if mode.store is None else mode.store):
        return b""
    if not mode.rejected:
        return body
    kept = ExportTraceServiceRequest.FromString(body)
    left = mode.rejected
    for resource_spans in kept.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in list(scope_spans.spans):
                refused = any(pair.key == mode.marker for pair in span.attributes) if mode.marker else left > 0
                if refused:
                    scope_spans.spans.remove(span)
                    left -= 1
    return kept.SerializeToString()


def response_of(mode: Mode, request: ExportTraceServiceRequest) -> bytes:
    """Body of a success."""
    response = ExportTraceServiceResponse()
    if mode.rejected or mode.message:
        rejected = marked(request, mode.marker) if mode.marker and mode.rejected else mode.rejected
        response.partial_success.rejected_spans = rejected
        response.partial_success.error_message = mode.message
    return response.SerializeToString()


def http_answer(mode: Mode, request: ExportTraceServiceRequest) -> bytes:
    """Give the whole answer as bytes."""
    if mode.body is not None:
        return answer(mode.http_status, mode.body.encode("latin-1"), mode.headers)
    if 200 <= mode.http_status < 300:
        return answer(
            mode.http_status, response_of(mode, request), {"content-type": "application/x-protobuf", **mode.headers}
        )
    return error_answer(mode.http_status, mode.message, mode.headers)


def error_answer(status: int, message: str, headers: dict[str, str]) -> bytes:
    """Give a refusal, its body a `google.rpc.Status` as the specification asks."""
    return answer(
        status, Status(message=message).SerializeToString(), {"content-type": "application/x-protobuf", **headers}
    )


def answer(status: int, body: bytes, headers: dict[str, str]) -> bytes:
    """Put an answer together."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Answer\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body
