"""RunCollector: gathers the spans of a command's own provider into run objects, open ones included.

It sees every span, whatever sampler and switches say about sending: those belong to what sends.
"""

from collections import deque
from typing import TypeVar

import msgspec
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor  # noqa: TID251  # the commands' own provider

from compass_otel import semconv
from compass_otel.collected_run import CollectedRun
from compass_otel.jsonout import SpanObject, encode_json, span_object

_T = TypeVar("_T")


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

    @property
    def has_finished(self) -> bool:
        """Whether `take_finished` has anything to give."""
        return bool(self._finished)

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
