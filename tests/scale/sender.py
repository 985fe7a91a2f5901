"""Many senders in one process, for measuring: recorded runs as OTLP over HTTP, what is refused is kept and sent again.

`python tests/scale/sender.py JSON` with the fields of `Order`; prints one JSON line, see `Report`. Each sender has a
connection of its own and sends a run as the product does: first its priority spans, then the rest.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

# As a script it is no part of a package.
sys.path.insert(0, str(Path(__file__).parent.parent))

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from scale.load import KINDS, RecordedKinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

_OK: Final = 200
_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 0.2
_LAST_TRIES_S: Final = 60.0
_PROSE: Final = "The tool read src/server/handlers.py, found 3 matches for `retry_after`, and changed 12 lines of it. "
_HEADERS: Final = {"content-type": "application/x-protobuf"}


@dataclass(frozen=True, slots=True)
class Order:
    """What to send: *runs_per_s* of each sender, 0 = as fast as answers come; each run with *padding_bytes* of text."""

    port: int
    senders: int
    runs_per_s: float
    duration_s: float
    padding_bytes: int = 0
    with_run_span: bool = True


@dataclass(slots=True)
class Report:
    """What was acknowledged; answers in milliseconds."""

    runs: int = 0
    spans: int = 0
    body_bytes: int = 0
    refused: int = 0
    failed: int = 0
    given_up: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    priority: list[str] = field(default_factory=list)
    """Trace id and span id of every priority span."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded run, as two requests; its trace id is replaced for every new run."""

    trace_id: bytes
    priority_ids: tuple[str, ...]
    bodies: tuple[bytes, ...]
    spans: int

    def renewed(self, trace_id: bytes) -> list[bytes]:
        """Give the requests of another run like it."""
        return [body.replace(self.trace_id, trace_id) for body in self.bodies]


def record(kind: str, padding_bytes: int, *, with_run_span: bool) -> Recorded:
    """Run an agent once, and encode what it recorded."""
    memory = InMemorySpanExporter()
    agents = RecordedKinds(SimpleSpanProcessor(memory))
    agents.run(kind)
    spans = memory.get_finished_spans()
    ids = {span_id for _, span_id in agents.seen.priority}
    priority = [span for span in spans if _span_id(span) in ids]
    rest = [span for span in spans if _span_id(span) not in ids]
    context = spans[0].get_span_context()
    assert context is not None
    bodies = [_encoded(priority, 0)] if with_run_span else []
    if rest:
        bodies.append(_encoded(rest, padding_bytes))
    sent = len(spans) if with_run_span else len(rest)
    return Recorded(
        context.trace_id.to_bytes(16, "big"), tuple(sorted(ids)) if with_run_span else (), tuple(bodies), sent
    )


def _span_id(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return f"{context.span_id:016x}"


def _encoded(spans: Sequence[ReadableSpan], padding_bytes: int) -> bytes:
    request = encode_spans(spans)
    if padding_bytes:
        attribute = request.resource_spans[0].scope_spans[0].spans[0].attributes.add()
        attribute.key = "padding"
        attribute.value.string_value = (_PROSE * (padding_bytes // len(_PROSE) + 1))[:padding_bytes]
    return request.SerializeToString()


class Sender(threading.Thread):
    """One agent host's connection."""

    def __init__(self, order: Order, recorded: Sequence[Recorded], offset_s: float) -> None:
        super().__init__(daemon=True)
        self.report = Report()
        self.answers_ms: list[float] = []
        self._order = order
        self._recorded = recorded
        self._offset_s = offset_s
        self._connection = http.client.HTTPConnection("127.0.0.1", order.port, timeout=_TIMEOUT_S)
        self._pause = threading.Event()

    def run(self) -> None:
        """Send until the time is over, then repeat what was refused until it is taken."""
        began_s = time.monotonic()
        self._end_s = began_s + self._order.duration_s
        for number, recorded in enumerate(itertools.cycle(self._recorded)):
            if self._order.runs_per_s:
                due_s = began_s + self._offset_s + number / self._order.runs_per_s
                self._pause.wait(max(due_s - time.monotonic(), 0))
            if time.monotonic() >= self._end_s:
                return
            self._send_run(recorded)

    def _send_run(self, recorded: Recorded) -> None:
        trace_id = os.urandom(16)
        # Noted before it is taken: what a sender has recorded must arrive.
        self.report.priority += [f"{trace_id.hex()}{span_id}" for span_id in recorded.priority_ids]
        for body in recorded.renewed(trace_id):
            while not self._post(body):
                if time.monotonic() > self._end_s + _LAST_TRIES_S:
                    self.report.given_up += 1
                    return
                self._pause.wait(_PAUSE_S)
            self.report.body_bytes += len(body)
        self.report.runs += 1
        self.report.spans += recorded.spans

    def _post(self, body: bytes) -> bool:
        began_s = time.monotonic()
        try:
            self._connection.request("POST", "/v1/traces", body, _HEADERS)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self.report.failed += 1
            return False
        self.answers_ms.append((time.monotonic() - began_s) * 1000)
        if answer.status != _OK:
            self.report.refused += 1
        return answer.status == _OK


def total(senders: Sequence[Sender]) -> Report:
    """Add up what all senders report."""
    report = Report()
    for sender in senders:
        own = sender.report
        report.runs += own.runs
        report.spans += own.spans
        report.body_bytes += own.body_bytes
        report.refused += own.refused
        report.failed += own.failed
        report.given_up += own.given_up
        report.priority += own.priority
    answers_ms = sorted(answer for sender in senders for answer in sender.answers_ms)
    if answers_ms:
        report.p50_ms = answers_ms[len(answers_ms) // 2]
        report.p99_ms = answers_ms[len(answers_ms) * 99 // 100]
    return report


def main() -> int:
    """Send what the order says, and report."""
    order = Order(**json.loads(sys.argv[1]))
    recorded = [record(kind, order.padding_bytes, with_run_span=order.with_run_span) for kind in KINDS]
    step_s = 1 / order.runs_per_s / order.senders if order.runs_per_s else 0.0
    senders = [Sender(order, recorded, number * step_s) for number in range(order.senders)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    print(json.dumps(asdict(total(senders))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
