"""Host processes that end, fork, are killed or get signals, each with a processor on a receiver."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PRELUDE = """
import os, sys, signal, threading, time
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode
from compass_otel import semconv
from compass_otel.sink import TwoLaneSpanProcessor
endpoint, spool, protocol = sys.argv[1:4]
sink = TwoLaneSpanProcessor(endpoint=endpoint, spool=spool or None, protocol=protocol)
provider = TracerProvider(); provider.add_span_processor(sink)
tracer = provider.get_tracer("host")
def fail(name):
    span = tracer.start_span(name, attributes={semconv.SESSION_ERROR_KIND: "ERROR"})
    span.set_status(StatusCode.ERROR, "boom"); span.end()
def work(name): tracer.start_span(name).end()
def run(name):
    return tracer.start_span(name, attributes={semconv.SESSION_STATE: "working", "gen_ai.conversation.id": "c"})
"""


@dataclass(frozen=True)
class Ended:
    """How a host process ended."""

    status: int
    took_s: float
    output: str
    errors: str


def start(code: str, endpoint: str, spool: Path | None, protocol: str = "http/protobuf") -> subprocess.Popen[str]:
    """Start a host process."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, endpoint, str(spool or ""), protocol],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "GRPC_VERBOSITY": "NONE"},
    )


def finish(process: subprocess.Popen[str], timeout_s: float = 30.0) -> Ended:
    """Wait for its end; one that does not end is killed and fails the test."""
    begin = time.monotonic()
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(f"the process did not end within {timeout_s} s\n{output}\n{errors}") from None
    return Ended(process.returncode, time.monotonic() - begin, output, errors)


def host(code: str, endpoint: str, spool: Path | None, protocol: str = "http/protobuf") -> Ended:
    """Run a host process to its end."""
    return finish(start(code, endpoint, spool, protocol))
