"""RunCollector: gathers the spans of a command's own provider into run objects, open ones included.

It sees every span, whatever sampler and switches say about sending: those belong to what sends. Spans are kept as
compact JSON and not as objects, so that a run of many thousand spans needs about a kilobyte each.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor  # noqa: TID251  # the commands' own provider

from compass_otel import semconv
from compass_otel.jsonout import (
    OPEN_OUTCOME,
    RunObject,
    SessionErrorObject,
    SpanObject,
    encode_json,
    span_object,
)

_T = TypeVar("_T")


@dataclass(slots=True)
class CollectedRun:
    """A run and its spans; once it ended nothing is added but a compaction between it and the next run."""

    root: ReadableSpan
    encoded: list[bytes] = field(default_factory=list)
    """Ended spans, each as its JSON object, in the order of their ends."""
    kept: list[ReadableSpan] = field(default_factory=list)
    """The same spans themselves, where the collector was asked to keep them for sending."""
    children: dict[int, Span] = field(default_factory=dict)
    """Spans that are still open, by span id; not the run's own."""
    session_errors: list[SessionErrorObject] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """The run's outcome, `open` while it has none."""
        return str((self.root.attributes or {}).get(semconv.OUTCOME, OPEN_OUTCOME)) if self.ended else OPEN_OUTCOME

    @property
    def ended(self) -> bool:
        """Whether the run's own span has ended."""
        return self.root.end_time is not None

    def object(self) -> RunObject:
        """Give the run as the documented JSON values."""
        spans = [*self._ended_spans(), *(span_object(span) for span in self.children.values())]
        root = span_object(self.root)
        if not self.ended:
            spans.append(root)
        trace_id, root_id = root["trace_id"], root["span_id"]
        spans.sort(key=lambda span: (span["trace_id"] != trace_id, span["span_id"] != root_id, span["start_unix_ns"]))
        attributes = self.root.attributes or {}
        error_type = attributes.get(semconv.ERROR_TYPE)
        return {
            "outcome": self.outcome,
            "error_type": str(error_type) if error_type is not None else None,
            "trace_id": trace_id,
            "session_errors": list(self.session_errors),
            "spans": spans,
        }

    def _ended_spans(self) -> Iterator[SpanObject]:
        for encoded in self.encoded:
            yield msgspec.json.decode(encoded)


class RunCollector(SpanProcessor):
    """Collects what one input's recorder starts and ends, run by run.

    Pull what is new with `take_finished`, `take_opened` and `take_rows`; nothing is drawn or written inside a span's
    end. Not thread-safe: the recorder of a command runs on one thread.
    """

    def __init__(self, *, keep_spans: bool = False, keep_rows: bool = False) -> None:
        """Start empty.

        Args:
            keep_spans: Keep the spans themselves, for a sender that takes a run as a whole.
            keep_rows: Hand out each span as it ends (`take_rows`), for a tree that grows.

        """
        self._keep_spans = keep_spans
        self._keep_rows = keep_rows
        self._runs: dict[int, CollectedRun] = {}
        self._owners: dict[int, CollectedRun] = {}
        self._finished: deque[CollectedRun] = deque()
        self._opened: deque[CollectedRun] = deque()
        self._rows: deque[tuple[CollectedRun, SpanObject]] = deque()
        self._last: CollectedRun | None = None
        self._before_any_run: list[ReadableSpan] = []

    @property
    def open_runs(self) -> list[CollectedRun]:
        """Runs that have not ended, oldest first."""
        return list(self._runs.values())

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002  # the SDK's
        """Note a run that began, or a span of one."""
        span_id = _span_id(span)
        if semconv.SESSION_STATE in (span.attributes or {}):
            run = CollectedRun(root=span)
            self._runs[span_id] = self._owners[span_id] = run
            self._opened.append(run)
            for early in self._before_any_run:
                self._keep(run, early)
            self._before_any_run.clear()
            return
        owner = self._owners.get(span.parent.span_id) if span.parent else None
        if owner is not None:
            self._owners[span_id] = owner
            owner.children[span_id] = span

    def on_end(self, span: ReadableSpan) -> None:
        """Keep the span with its run; a run whose own span ends is finished."""
        span_id = _span_id(span)
        run = self._owners.get(span_id) or self._last
        if run is None:
            self._before_any_run.append(span)
            return
        run.children.pop(span_id, None)
        self._keep(run, span)
        if self._runs.pop(span_id, None) is not None:
            run.root = span
            self._last = run
            self._finished.append(run)
            self._owners = {key: owner for key, owner in self._owners.items() if owner is not run}
        elif self._keep_rows:
            self._rows.append((run, msgspec.json.decode(run.encoded[-1])))

    def _keep(self, run: CollectedRun, span: ReadableSpan) -> None:
        run.encoded.append(encode_json(span_object(span)))
        if self._keep_spans:
            run.kept.append(span)

    def take_finished(self) -> list[CollectedRun]:
        """Give the runs that ended since the last call."""
        return _drain(self._finished)

    def take_opened(self) -> list[CollectedRun]:
        """Give the runs that began since the last call."""
        return _drain(self._opened)

    def take_rows(self) -> list[tuple[CollectedRun, SpanObject]]:
        """Give the spans, runs' own excepted, that ended since the last call; empty unless asked for at the start.

        A span outside any run, such as a compaction between two, comes with the run before it.
        """
        return _drain(self._rows)

    def shutdown(self) -> None:
        """Do nothing: what was collected stays."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002  # the SDK's own signature
        """Do nothing: nothing waits here."""
        return True


def _span_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    return context.span_id if context else 0


def _drain(queue: deque[_T]) -> list[_T]:
    taken = list(queue)
    queue.clear()
    return taken
