"""Real OTLP receivers, each in a process of its own, that misbehave on request.

    with Receiver() as receiver:
        receiver.behave(Mode(http_status=503, grpc_status="UNAVAILABLE"))
        ...                                  # send to receiver.http_endpoint or receiver.grpc_endpoint
        receiver.behave(IMMEDIATE)
        receiver.wait_for(3)
        assert [span.name for span in receiver.spans()] == [...]

What arrives is kept in a file, so it outlives `kill` (SIGKILL) and `restart` (same ports).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from receivers.modes import IMMEDIATE, Mode, refusal
from receivers.store import ReceivedSpan, StoreReader

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["IMMEDIATE", "Mode", "ReceivedSpan", "Receiver", "TlsFiles", "refusal", "wait_until"]

_START_TIMEOUT_S = 20.0


class TlsFiles(NamedTuple):
    """Certificate and key of the receiver; with `client_ca` it asks the client for a certificate."""

    certificate: str
    key: str
    client_ca: str | None = None


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Look until the condition holds; False if it did not within the time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class Receiver:
    """A receiver process: start, change its behaviour, read what it took, kill, restart, stop."""

    def __init__(self, tls: TlsFiles | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="receiver-"))
        self._tls = tls
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: dict[str, int] = {}
        self._control: socket.socket | None = None
        self._store = StoreReader(self._folder / "requests")

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def start(self) -> Self:
        """Start the process, on the ports it had before if it ran before."""
        config: dict[str, Any] = {"store": str(self._folder / "requests")}
        config |= {f"{name}_port": self._ports[name] for name in ("http", "grpc", "control") if name in self._ports}
        if self._tls:
            config |= self._tls._asdict()
        tests = str(Path(__file__).parent.parent)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "receivers.server", json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": tests, "GRPC_VERBOSITY": "NONE"},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the receiver did not start"
        self._ports = json.loads(line)
        return self

    def stop(self) -> None:
        """End the process and forget what it took."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """SIGKILL: connections break, the ports refuse; what was taken stays readable."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process = None

    def restart(self) -> Self:
        """Start again on the same ports, well-behaved."""
        self.kill()
        return self.start()

    def freeze(self) -> None:
        """Stop the process (SIGSTOP): the kernel still accepts connections, nobody answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @property
    def http_port(self) -> int:
        """The OTLP/HTTP port."""
        return self._ports["http"]

    @property
    def grpc_port(self) -> int:
        """The OTLP/gRPC port."""
        return self._ports["grpc"]

    @property
    def http_endpoint(self) -> str:
        """The whole URL for OTLP/HTTP."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.http_port}/v1/traces"

    @property
    def grpc_endpoint(self) -> str:
        """The URL for OTLP/gRPC."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.grpc_port}"

    @property
    def grpc_direct_endpoint(self) -> str:
        """OTLP/gRPC without the front that misbehaves: for measurements; another port after a restart."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._ports['grpc_direct']}"

    def behave(self, mode: Mode) -> None:
        """Treat requests so from now on."""
        self._command(asdict(mode))

    def counts(self) -> dict[str, Any]:
        """Ask for requests by transport (`http`, `grpc`), `undecodable` ones, connections, last headers and path."""
        return self._command({})

    def spans(self) -> list[ReceivedSpan]:
        """Everything that was stored, duplicates included."""
        return self._store.spans()

    def keys(self) -> list[tuple[str, str]]:
        """Trace id and span id of everything that was stored: cheaper than `spans`."""
        return self._store.keys()

    def wait_for(self, spans: int, timeout_s: float = 10.0) -> bool:
        """Wait until so many different spans were stored."""
        return wait_until(lambda: len(set(self._store.keys())) >= spans, timeout_s)

    def _command(self, command: dict[str, Any]) -> dict[str, Any]:
        if self._control is None:
            self._control = socket.create_connection(("127.0.0.1", self._ports["control"]), _START_TIMEOUT_S)
        self._control.sendall(json.dumps(command).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            data = self._control.recv(65536)
            assert data, "the receiver is gone"
            answer += data
        result: dict[str, Any] = json.loads(answer)
        return result
