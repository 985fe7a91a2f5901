"""The gRPC side: a real gRPC server behind a small TCP front, which can misbehave below the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from receivers.http_port import GARBAGE, kept_of, mode_for, reset, response_of
from receivers.modes import RAW_KINDS

if TYPE_CHECKING:
    from receivers.server import Config, State

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_SETTINGS_FRAME = struct.pack(">I", 0)[1:] + b"\x04\x00\x00\x00\x00\x00"
_THREADS = 32


class Handler(grpc.GenericRpcHandler):
    """Answers `Export`, body as bytes."""

    def __init__(self, state: State) -> None:
        self._state = state

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """Give the handler of the one method there is."""
        if handler_call_details.method == METHOD:
            return grpc.unary_unary_rpc_method_handler(self._export)
        return None

    def _export(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        state = self._state
        state.count("grpc")
        state.last_headers["grpc"] = {key: str(value) for key, value in context.invocation_metadata()}
        request = ExportTraceServiceRequest.FromString(body)
        mode = mode_for(state.next_mode(), request, body)
        if kept := kept_of(mode, body):
            state.store.append(kept, "grpc")
        if mode.kind == "hang":
            self._wait(context, state, None)
        elif mode.delay_s:
            self._wait(context, state, mode.delay_s)
        if mode.grpc_status != "OK":
            if "retry-after" in mode.headers:
                info = RetryInfo(retry_delay=Duration(seconds=int(mode.headers["retry-after"])))
                context.set_trailing_metadata((("google.rpc.retryinfo-bin", info.SerializeToString()),))
            context.abort(getattr(grpc.StatusCode, mode.grpc_status), mode.message)
        return response_of(mode, request)

    def _wait(self, context: grpc.ServicerContext, state: State, delay_s: float | None) -> None:
        """Hold the answer back for `delay_s`, or (None) until the mode changes; not longer than the caller waits."""
        mode = state.mode
        gone = False

        def on_gone() -> None:
            nonlocal gone
            with state.changed:
                gone = True
                state.changed.notify_all()

        context.add_callback(on_gone)
        with state.changed:
            state.changed.wait_for(lambda: gone or (delay_s is None and state.mode is not mode), delay_s)


class GrpcPort:
    """Front of the gRPC port: hands connections through, or misbehaves on them."""

    def __init__(self, state: State, config: Config) -> None:
        self._state = state
        self._open: set[asyncio.StreamWriter] = set()
        self._server = grpc.server(ThreadPoolExecutor(_THREADS), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((Handler(state),))
        address = "127.0.0.1:0"
        if config.certificate and config.key:
            self.inner_port = self._server.add_secure_port(
                address, _credentials(config, config.certificate, config.key)
            )
        else:
            self.inner_port = self._server.add_insecure_port(address)
        self._server.start()

    def mode_changed(self) -> None:
        """End connections that were opened under another mode, where the mode lives below the protocol."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self._state.count("grpc_connections")
        self._open.add(writer)
        try:
            with contextlib.suppress(ConnectionError):
                if self._state.mode.kind in RAW_KINDS:
                    await self._misbehave(self._state.next_mode().kind, reader, writer)
                else:
                    await self._hand_through(reader, writer)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _misbehave(self, kind: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        match kind:
            case "reset":
                reset(writer.transport)
            case "half_close" | "cut":
                writer.write(_SETTINGS_FRAME[:4] if kind == "cut" else b"")
                writer.write_eof() if kind == "half_close" else writer.close()
                await _read_on(reader)
            case "garbage":
                writer.write(GARBAGE * 4)
                await _read_on(reader)
            case "drip":
                for index in range(len(_SETTINGS_FRAME)):
                    writer.write(_SETTINGS_FRAME[index : index + 1])
                    await asyncio.sleep(1.0)
                await _read_on(reader)
            case _:
                await _read_on(reader)

    async def _hand_through(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.inner_port)
        try:
            await asyncio.gather(_pipe(reader, inner_writer), _pipe(inner_reader, writer))
        finally:
            inner_writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 18):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _read_on(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        continue


def _credentials(config: Config, certificate: str, key: str) -> Any:
    pair = (Path(key).read_bytes(), Path(certificate).read_bytes())
    client_ca = Path(config.client_ca).read_bytes() if config.client_ca else None
    return grpc.ssl_server_credentials([pair], root_certificates=client_ca, require_client_auth=client_ca is not None)
