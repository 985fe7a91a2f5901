"""The other side of a host process: start it, read what it says, and hold that against what the receiver took."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faults.pipeline import Setup

if TYPE_CHECKING:
    from receivers import Receiver

PROTOCOLS = ("http/protobuf", "grpc")
TESTS = Path(__file__).parent.parent


def endpoint_of(receiver: Receiver, protocol: str) -> str:
    """Where that protocol is spoken."""
    return receiver.http_endpoint if protocol.startswith("http") else receiver.grpc_endpoint


class Host:
    """A running host process.

    Args:
        setup: What it does.
        prefix: A command that starts it, such as one that makes a file system of its own first.

    """

    def __init__(self, setup: Setup, prefix: tuple[str, ...] = ()) -> None:
        self.setup = setup
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the host
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "faults.host", json.dumps(asdict(setup))],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**_clean_environment(), "PYTHONPATH": str(TESTS), "GRPC_VERBOSITY": "NONE"},
        )
        self.took_s = 0.0
        self.errors = ""
        """The end of what it wrote to standard error; known after its end."""

    def wait_ready(self) -> float:
        """Wait until the work begins; returns when that was, by the monotonic clock."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready"):
            self.wait_end(10)
            raise AssertionError(f"{self.setup} did not begin:\n{line}{self.errors}")
        return float(line.split()[1])

    def wait_end(self, timeout_s: float) -> tuple[int, str]:
        """Wait for its end; gives status and output. One that does not end is killed, status -SIGKILL."""
        begin = time.monotonic()
        try:
            output, _ = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            output, _ = self.process.communicate()
        self.took_s = time.monotonic() - begin
        self._errors.seek(0)
        self.errors = self._errors.read()[-4000:]
        self._errors.close()
        return self.process.returncode, output

    def result(self, timeout_s: float = 120.0) -> dict[str, Any]:
        """Wait for its end and give what it said; anything but an orderly end is an error of the test."""
        status, output = self.wait_end(timeout_s)
        if status or not output.strip():
            raise AssertionError(f"{self.setup} ended with {status}:\n{output}\n{self.errors}")
        answer: dict[str, Any] = json.loads(output.splitlines()[-1])
        return answer

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.process.send_signal(signal.SIGKILL)
        self.wait_end(10)


def _clean_environment() -> dict[str, str]:
    """Leave out what would change the pipeline, a proxy of the machine included."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "COMPASS_"))}
    return {**kept, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def names_in(receiver: Receiver) -> Counter[str]:
    """Count what was stored by name: cheaper than whole spans."""
    return Counter(
        span.name
        for _, _, _, request in receiver._store.requests()
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    )


def set_aside_in(folder: Path) -> set[str]:
    """Names of the records that the backend refused for good, as the command shows them to a person."""
    command = [sys.executable, "-m", "compass_otel", "spool", "show", "--json", "--set-aside", str(folder)]
    shown = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    return {json.loads(line)["span_name"] for line in shown.stdout.splitlines()}


def deliver_rest(receiver: Receiver, folder: Path, timeout_s: float = 20.0) -> dict[str, Any]:
    """Start the next process on a spool and let it deliver what is there."""
    setup = Setup("rest", receiver.http_endpoint, spool=str(folder), options={"timeout_s": timeout_s})
    return Host(setup).result(timeout_s + 30)
