"""Runs of an agent under load: recorded streams through the product's bridge, as often as wanted, each a new trace."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode

from command_support import CAPTURES
from compass_otel import semconv
from compass_otel.bridge import SessionBridge
from compass_otel.priority import is_lifecycle, is_session_error

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOLDER: Final = CAPTURES / "pi-1.6"
FAILED: Final = "f_http_503_exhausted"
CANCELLED: Final = "i_abort_mid_stream"
GOOD: Final = "b_tool_success"
MIXED: Final = (FAILED, GOOD, CANCELLED, GOOD)
"""Half of the runs failed or were cancelled."""

Key = tuple[str, str]


class Seen(SpanProcessor):
    """Notes the ids of all spans that ended, apart by lane."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.priority: set[Key] = set()
        self.rest: set[Key] = set()

    def on_end(self, span: ReadableSpan) -> None:
        """Note one."""
        context = span.get_span_context()
        assert context is not None
        key = (f"{context.trace_id:032x}", f"{context.span_id:016x}")
        attributes = span.attributes or {}
        urgent = is_lifecycle(span) or is_session_error(span) or semconv.OUTCOME in attributes
        failed = span.status.status_code is StatusCode.ERROR
        with self._lock:
            (self.priority if urgent or failed else self.rest).add(key)


class Agents:
    """Runs agents on a provider with the processors of the test; what they recorded is in `seen`."""

    def __init__(self, *processors: SpanProcessor, service: str = "pi") -> None:
        self.seen = Seen()
        self.provider = TracerProvider(resource=Resource({"service.name": service}), shutdown_on_exit=False)
        for processor in (self.seen, *processors):
            self.provider.add_span_processor(processor)
        self._kinds = itertools.cycle(MIXED)
        self._lines = {kind: _lines(kind) for kind in set(MIXED)}

    def run(self, kind: str | None = None) -> None:
        """Let one agent run, of the next kind if none is given; ends when its last span did."""
        bridge = SessionBridge(tracer_provider=self.provider)
        for line in self._lines[kind or next(self._kinds)]:
            bridge.feed(line)
        bridge.close()
        assert bridge.internal_errors == 0

    def run_many(self, count: int) -> None:
        """Let so many run, one after the other."""
        for _ in range(count):
            self.run()


def _lines(kind: str) -> Sequence[bytes]:
    return (_FOLDER / f"{kind}.events.jsonl").read_bytes().splitlines()
