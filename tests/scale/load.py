"""Agents under load on one host, and what the storage has of their runs in the end."""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from opentelemetry.sdk.trace import SpanProcessor

from command_support import CAPTURES
from compass_otel.sink import TwoLaneSpanProcessor
from receivers import wait_until
from stack.runs import Agents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.sdk.trace import ReadableSpan

    from compass_otel.stats import Stats
    from stack.jaeger_api import JaegerApi, Shown
    from stack.programs import Collector
    from stack.runs import Key

_FOLDER: Final = CAPTURES / "pi-1.6"
FAILED: Final = "q2_tool_then_401"
GOOD: Final = "b_tool_success"
CANCELLED: Final = "i2_abort_during_tool"
RETRIED: Final = "q_tool_then_429_then_success"
KINDS: Final = (FAILED, GOOD, CANCELLED, RETRIED)
"""Each with spans of both ways; all but the good ones are kept whole when no good run is."""
MARK: Final = "test.consumer"
_FLUSH_MS: Final = 60_000
_QUIET_S: Final = 8.0


class Fate(StrEnum):
    """What the storage has of a run."""

    WHOLE = "whole"
    LEAN = "priority only"
    TORN = "torn"
    LOST = "priority missing"


@dataclass(slots=True)
class Trace:
    """One run as it was recorded."""

    kind: str
    priority: set[Key] = field(default_factory=set)
    rest: set[Key] = field(default_factory=set)
    ended_s: float = 0.0

    def fate(self, found: Mapping[Key, int]) -> Fate:
        """Compare with what was found."""
        if not self.priority <= found.keys():
            return Fate.LOST
        if self.rest <= found.keys():
            return Fate.WHOLE
        return Fate.TORN if self.rest & found.keys() else Fate.LEAN


class _Ends(SpanProcessor):
    """Notes which traces ended spans since it was last asked."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def on_end(self, span: ReadableSpan) -> None:
        """Note one."""
        context = span.get_span_context()
        assert context is not None
        self._seen.add(f"{context.trace_id:032x}")

    def take(self) -> str:
        """Give the one trace of the run that just ended."""
        (trace_id,) = self._seen
        self._seen.clear()
        return trace_id


class RecordedKinds(Agents):
    """Agents that run the recorded streams of `KINDS`."""

    def __init__(self, *processors: SpanProcessor) -> None:
        super().__init__(*processors)
        self._lines = {kind: (_FOLDER / f"{kind}.events.jsonl").read_bytes().splitlines() for kind in KINDS}


class Load:
    """Runs agents at a rate on a thread of its own, through the product's sink to a Collector."""

    def __init__(self, collector: Collector, rate_per_s: float) -> None:
        self._spool = tempfile.TemporaryDirectory(prefix="spool-")
        self.sink = TwoLaneSpanProcessor(endpoint=f"{collector.http_endpoint}/v1/traces", spool=self._spool.name)
        self._ends = _Ends()
        self._agents = RecordedKinds(self.sink, self._ends)
        self._rate_per_s = rate_per_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self.traces: dict[str, Trace] = {}
        self.longest_s = 0.0
        self.began_s = 0.0

    def __enter__(self) -> Self:
        """Begin."""
        self.began_s = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and forget the spool."""
        self._over.set()
        self._thread.join()
        self.sink.shutdown()
        self._spool.cleanup()

    def stop(self) -> Stats:
        """Run no more agents, deliver all, and give the counts."""
        self._over.set()
        self._thread.join()
        assert self.sink.force_flush(_FLUSH_MS), self.sink.stats()
        return self.sink.stats()

    def _go_on(self) -> None:
        began_s = time.monotonic()
        for number, kind in enumerate(itertools.cycle(KINDS)):
            if self._over.wait(max(began_s + number / self._rate_per_s - time.monotonic(), 0)):
                return
            self._run(kind)

    def _run(self, kind: str) -> None:
        began_s = time.monotonic()
        self._agents.run(kind)
        ended_s = time.monotonic()
        self.longest_s = max(self.longest_s, ended_s - began_s)
        trace_id = self._ends.take()
        seen = self._agents.seen
        trace = Trace(kind, ended_s=ended_s)
        trace.priority = {key for key in seen.priority if key[0] == trace_id}
        trace.rest = {key for key in seen.rest if key[0] == trace_id}
        seen.priority.clear()
        seen.rest.clear()
        self.traces[trace_id] = trace

    def priority(self, until_s: float | None = None) -> set[Key]:
        """Give the priority records of all runs, or of those that had ended by then."""
        runs = [trace for trace in self.traces.copy().values() if until_s is None or trace.ended_s <= until_s]
        return {key for trace in runs for key in trace.priority}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the storage has in the end."""

    spans: list[Shown]
    traces: Mapping[str, Trace]

    @property
    def found(self) -> Counter[Key]:
        """How often each span is there."""
        return Counter(span.key for span in self.spans)

    @property
    def missing_priority(self) -> set[Key]:
        """Priority records that are not there."""
        return {key for trace in self.traces.values() for key in trace.priority} - self.found.keys()

    def twice(self) -> int:
        """How many spans are there more than once."""
        return sum(1 for count in self.found.values() if count > 1)

    def deciders(self) -> dict[str, set[str]]:
        """Tell for each trace which consumers decided about spans of it."""
        names: dict[str, set[str]] = {}
        for span in self.spans:
            if MARK in span.attributes:
                names.setdefault(span.trace_id, set()).add(span.attributes[MARK])
        return names

    def not_whole(self, kinds: Iterable[str] = (FAILED, CANCELLED, RETRIED)) -> dict[str, Trace]:
        """Give the runs that should be there whole, and are not."""
        found = self.found
        return {
            trace_id: trace
            for trace_id, trace in self.traces.items()
            if trace.kind in kinds and trace.fate(found) is not Fate.WHOLE
        }

    def fates(self, kinds: Iterable[str]) -> Counter[Fate]:
        """Count what became of the runs of these kinds."""
        found = self.found
        return Counter(trace.fate(found) for trace in self.traces.values() if trace.kind in kinds)


def outcome_of(load: Load, api: JaegerApi, limit_s: float) -> Outcome:
    """Wait until the storage has what it should have, at most *limit_s*; give what it has."""
    traces = load.traces
    api.wait_for(load.priority(), limit_s)
    missing = {key for trace in traces.values() if trace.kind != GOOD for key in trace.rest}
    changed_s = time.monotonic()

    def nothing_more_comes() -> bool:
        nonlocal missing, changed_s
        before = len(missing)
        missing = api.wait_for(missing, 0.0)
        if len(missing) < before:
            changed_s = time.monotonic()
        return not missing or time.monotonic() - changed_s > _QUIET_S

    wait_until(nothing_more_comes, limit_s)
    return Outcome(api.traces(traces), traces)
