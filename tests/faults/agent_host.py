"""A host of an agent's session, as a process: `python -m faults.agent_host CASE [ENDPOINT [SPOOL]]`.

Prints `ready` when the case has begun, and what it has to say, a line each.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider

from compass_otel import SessionBridge, TwoLaneSpanProcessor
from faults.pipeline import memory_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_MS = 1_790_000_000_000
_USER = {"role": "user", "content": [{"type": "text", "text": "do it"}], "timestamp": _AT_MS}
BEGIN: list[dict[str, Any]] = [
    {"type": "session", "id": "s-1", "version": 3, "timestamp": "2026-09-21T14:13:20.000Z", "cwd": "/p"},
    {"type": "agent_start"},
    {"type": "message_start", "message": _USER},
    {"type": "message_end", "message": _USER},
]
FAILED: dict[str, Any] = {
    "role": "assistant",
    "content": [],
    "provider": "anthropic",
    "model": "model-x",
    "stopReason": "error",
    "errorMessage": "usage_limit_reached: try again later",
    "timestamp": _AT_MS + 10,
    "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0}},
}
ANSWER: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**FAILED, "stopReason": "pending"}},
    {"type": "message_end", "message": FAILED},
]
TOOL = {"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash", "args": {"command": "sleep"}}
SETTLED: list[dict[str, Any]] = [
    {"type": "agent_end", "messages": [], "willRetry": False},
    {"type": "agent_settled", "aborted": False},
]


def say(*words: object) -> None:
    """Print a line at once."""
    print(*words, flush=True)


def _session() -> tuple[SessionBridge, TwoLaneSpanProcessor]:
    sink = TwoLaneSpanProcessor(endpoint=sys.argv[2], spool=sys.argv[3])
    provider = TracerProvider()
    provider.add_span_processor(sink)
    return SessionBridge(tracer_provider=provider), sink


def terminated() -> None:
    """Stand in the middle of a tool call until SIGTERM comes, without a handler of the host's."""
    bridge, _ = _session()
    for record in [*BEGIN, *ANSWER, TOOL]:
        bridge.feed(record)
    say("ready", signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    time.sleep(30)


def terminated_with_handler() -> None:
    """Do the same with a handler of the host's that closes the bridge."""
    bridge, sink = _session()

    def handler(*_: object) -> None:
        bridge.close("SIGTERM")
        say("flushed", sink.shutdown())
        sys.exit(0)

    signal.signal(signal.SIGTERM, handler)
    for record in [*BEGIN, *ANSWER, TOOL]:
        bridge.feed(record)
    say("ready", signal.getsignal(signal.SIGTERM) is handler)
    time.sleep(30)


def forked() -> None:
    """Make the bridge, then run a prompt in a child of `multiprocessing`."""
    bridge, _ = _session()
    for record in BEGIN[:1]:
        bridge.feed(record)

    def run() -> None:
        for record in [*BEGIN[1:], *ANSWER, *SETTLED]:
            bridge.feed(record)

    child = multiprocessing.get_context("fork").Process(target=run)
    begin = time.monotonic()
    child.start()
    child.join(20)
    say("child", child.exitcode, time.monotonic() - begin < 5)


def offline() -> None:
    """Feed a thousand records without an endpoint; tell which sockets were opened and what frames came."""
    opened: list[str] = []
    sys.addaudithook(lambda event, _: opened.append(event) if event.startswith("socket.") else None)
    begin = time.monotonic()
    bridge = SessionBridge()
    frames = sum(len(bridge.feed(record)) for record in [*BEGIN, *ANSWER * 500, *SETTLED])
    bridge.close()
    say("frames", frames, "sockets", len(opened), "quick", time.monotonic() - begin < 5)


def _peak_bytes() -> int:
    """Return the peak of memory so far; Linux begins it with the parent's at the time of the fork, so only compare."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def flood() -> None:
    """Feed two hundred thousand records of one failure; tell what that did to memory and log."""

    class Counting(logging.Handler):
        lines = 0

        def emit(self, record: logging.LogRecord) -> None:
            del record
            Counting.lines += 1

    logging.getLogger().addHandler(Counting())
    bridge, sink = _session()
    update = {"type": "message_update", "assistantMessageEvent": {"type": "error", "reason": "error", "error": FAILED}}
    for record in [*BEGIN, ANSWER[0], *[update] * 1000]:
        bridge.feed(record)
    before, peak_before = memory_bytes(), _peak_bytes()
    for _ in range(200_000):
        bridge.feed(update)
    grown = max(memory_bytes() - before, _peak_bytes() - peak_before)
    for record in [ANSWER[1], *SETTLED]:
        bridge.feed(record)
    bridge.close()
    say("flushed", sink.force_flush(10_000))
    say("grown", grown, "lines", Counting.lines)
    os._exit(0 if sink.shutdown() else 1)


CASES: dict[str, Callable[[], None]] = {
    "terminated": terminated,
    "terminated with handler": terminated_with_handler,
    "forked": forked,
    "offline": offline,
    "flood": flood,
}

if __name__ == "__main__":
    CASES[sys.argv[1]]()
