"""The receiver process: OTLP over HTTP and gRPC on loopback, and a control port.

Run as `python -m receivers.server CONFIG` with CONFIG a JSON object (see `Config`). It prints one JSON line with its
ports when it listens, and ends when its standard input ends, so that it never outlives the test.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
import threading
from dataclasses import dataclass
from typing import Any

from receivers.grpc_port import GrpcPort
from receivers.http_port import HttpConnection
from receivers.modes import IMMEDIATE, Mode
from receivers.store import StoreWriter

HOST = "127.0.0.1"


@dataclass
class Config:
    """Ports (0 = any free one), the file that keeps what arrives, and the certificate for TLS."""

    store: str
    http_port: int = 0
    grpc_port: int = 0
    control_port: int = 0
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None


class State:
    """What both ports share: the mode and the counts."""

    def __init__(self, store: StoreWriter) -> None:
        self.store = store
        self.changed = threading.Condition()
        self._mode = IMMEDIATE
        self.counts: dict[str, int] = dict.fromkeys(
            ("http", "grpc", "http_connections", "grpc_connections", "undecodable"), 0
        )
        self.last_headers: dict[str, dict[str, str]] = {"http": {}, "grpc": {}}
        self.last_path = ""

    def set_mode(self, mode: Mode) -> None:
        """Behave so from now on; whoever hangs is released without an answer."""
        with self.changed:
            self._mode = mode
            self.changed.notify_all()

    @property
    def mode(self) -> Mode:
        """The present mode, looked at without using it up."""
        return self._mode

    def next_mode(self) -> Mode:
        """Give the mode for one request; count `times` down."""
        with self.changed:
            mode = self._mode
            if mode.times is not None:
                left = mode.times - 1
                self._mode = Mode(**{**mode.__dict__, "times": left}) if left > 0 else IMMEDIATE
            return mode

    def count(self, what: str) -> None:
        """Count a request or a connection."""
        with self.changed:
            self.counts[what] += 1

    def snapshot(self) -> dict[str, Any]:
        """Everything a test may ask for."""
        return {**self.counts, "headers": self.last_headers, "path": self.last_path}


async def serve_control(
    state: State, grpc_port: GrpcPort, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer one JSON command per line: a mode, or `{}` for the counts."""
    while line := await reader.readline():
        command = json.loads(line)
        if command:
            state.set_mode(Mode(**command))
            grpc_port.mode_changed()
        writer.write(json.dumps(state.snapshot()).encode() + b"\n")
        await writer.drain()
    writer.close()


def tls_context(config: Config) -> ssl.SSLContext | None:
    """Server side of TLS for the HTTP port."""
    if config.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(config.certificate, config.key)
    if config.client_ca:
        context.load_verify_locations(config.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def run(config: Config) -> None:
    """Listen until the end of standard input."""
    loop = asyncio.get_running_loop()
    state = State(StoreWriter(config.store))
    grpc_port = GrpcPort(state, config)
    front = await asyncio.start_server(grpc_port.serve, HOST, config.grpc_port)
    http = await loop.create_server(lambda: HttpConnection(state), HOST, config.http_port, ssl=tls_context(config))
    control = await asyncio.start_server(lambda r, w: serve_control(state, grpc_port, r, w), HOST, config.control_port)
    ports = {
        "http": http.sockets[0].getsockname()[1],
        "grpc": front.sockets[0].getsockname()[1],
        "grpc_direct": grpc_port.inner_port,
        "control": control.sockets[0].getsockname()[1],
    }
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    os._exit(0)  # a hanging handler must not keep the process


if __name__ == "__main__":
    asyncio.run(run(Config(**json.loads(sys.argv[1]))))
