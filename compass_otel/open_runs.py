"""Runs that are open, and the note that tells of each if this process dies before it ends.

The note is the run span as it stands, written as if it had ended now: incomplete, `process_lost`. It is written when
the run starts, again whenever a chat of it starts, and is gone in the transaction that keeps the ended span. No child
is invented: what had ended was exported, what had not is not known.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import Status, StatusCode

from compass_otel import semconv
from compass_otel.encoding import encode_open_span
from compass_otel.notices import Notice, Notices
from compass_otel.priority import Rank
from compass_otel.sdk_private import attributes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.sdk.trace import ReadableSpan, Span  # noqa: TID251 - the types alone
    from opentelemetry.trace import SpanContext
    from opentelemetry.util.types import AnyValue

    from compass_otel.spool_store import SpoolStore

_MAX_RUNS: Final = 4096
_LOST: Final[Mapping[str, AnyValue]] = {
    semconv.OUTCOME: semconv.Outcome.INCOMPLETE.value,
    semconv.ERROR_TYPE: semconv.PROCESS_LOST,
    semconv.ERROR_RETRYABLE: False,
}
_LOST_STATUS: Final = Status(StatusCode.ERROR, "the process ended before the run did")


class OpenRuns:
    """The live run spans of this process. Thread-safe, takes no lock; each call may write to the spool once.

    Args:
        store: Where notes are kept; None = the runs are only known.
        notices: Told when a note can't be made.
        clock_ns: Wall time, nanoseconds.

    """

    def __init__(self, store: SpoolStore | None, notices: Notices, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._notices = notices
        self._clock_ns = clock_ns
        self._runs: OrderedDict[bytes, Span] = OrderedDict()

    def started(self, span: Span) -> None:
        """Note a run that starts, or that a chat of a run does.

        Args:
            span: As a processor gets it in `on_start`.

        """
        attributes = attributes_of(span)
        if semconv.SESSION_STATE in attributes:
            self._runs[key_of(span.get_span_context())] = span
            if len(self._runs) > _MAX_RUNS:
                self._runs.popitem(last=False)
            self._note(span)
        elif self._runs and attributes.get(semconv.GEN_AI_OPERATION_NAME) == semconv.SpanName.CHAT:
            run = self._run_of(span)
            if run is not None:
                self._note(run)

    def ended(self, span: ReadableSpan) -> bytes | None:
        """Forget a run that ended; gives the key of its note, None if the span is no run that was noted."""
        if not self._runs:
            return None
        context = span.get_span_context()
        key = key_of(context) if context is not None else b""
        return key if self._runs.pop(key, None) is not None else None

    def forget_note(self, run: bytes) -> None:
        """Drop the note of a run whose record is not kept in the spool."""
        if self._store is not None:
            self._store.forget_note(run)

    def after_fork_in_child(self) -> None:
        """Forget the parent's runs: they are its to end."""
        self._runs = OrderedDict()

    def _run_of(self, span: Span) -> Span | None:
        """Find the run that a chat belongs to: its parent, else the newest open run of its trace."""
        context, parent = span.get_span_context(), span.parent
        if parent is not None and (run := self._runs.get(key_of(parent))) is not None:
            return run
        for run in reversed(tuple(self._runs.values())):
            if run.get_span_context().trace_id == context.trace_id:
                return run
        return None

    def _note(self, run: Span) -> None:
        if self._store is None or not self._store.is_usable:
            return
        try:
            body = encode_open_span(run, self._clock_ns(), _LOST, status=_LOST_STATUS, lane=semconv.LANE_PRIORITY)
        except Exception as error:  # noqa: BLE001 - boundary: a span that can't be read; counted
            self._notices.add(Notice.NOTE_FAILED, f"{type(error).__name__}: {error}")
            return
        if not self._store.note(key_of(run.get_span_context()), body, Rank.SESSION_ERROR):
            self._notices.add(Notice.NOTE_FAILED, "the note of an open run could not be kept")


def key_of(context: SpanContext) -> bytes:
    """Name a run: its trace id and span id."""
    return context.trace_id.to_bytes(16, "big") + context.span_id.to_bytes(8, "big")
