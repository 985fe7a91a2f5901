"""The documented, stable `--json` shape: one compact object per input, runs and their spans inside.

    {"source", "records": {"read", "mapped", "ignored", "unmapped", "malformed"},
     "runs": [{"outcome", "error_type", "trace_id",
               "session_errors": [{"kind", "message", "status"}],
               "spans": [{"name", "kind", "status", "status_message", "trace_id", "span_id", "parent_span_id",
                          "start_unix_ns", "end_unix_ns", "attributes",
                          "events": [{"name", "time_unix_ns", "attributes"}]}]}]}

Additions come at the end of an object; nothing is renamed or removed. A run that a session file leaves open has the
outcome `open`, and `end_unix_ns` is null on what has not ended. `spans` begins with the run's own span; a compaction
between two runs has a trace of its own and stands last among the spans of the run before it.
"""

import base64
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, TypedDict

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Event, ReadableSpan  # noqa: TID251  # the spans of the commands' own provider

OPEN_OUTCOME: Final = "open"
"""The outcome of a run that has not ended; only here and on the terminal, never exported."""
_SPOOL_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024


class EventObject(TypedDict):
    """One event of a span."""

    name: str
    time_unix_ns: int
    attributes: dict[str, Any]


class SpanObject(TypedDict):
    """One span; ids are lower-case hex, `status` is `UNSET`, `OK` or `ERROR`."""

    name: str
    kind: str
    status: str
    status_message: str | None
    trace_id: str
    span_id: str
    parent_span_id: str | None
    start_unix_ns: int
    end_unix_ns: int | None
    attributes: dict[str, Any]
    events: list[EventObject]


class SessionErrorObject(TypedDict):
    """One session error: `kind` is `ERROR` or `ABORTED`, `message` scrubbed and not cut, `status` the HTTP status."""

    kind: str
    message: str
    status: int | None


class RunObject(TypedDict):
    """One prompt run; `outcome` is `completed`, `failed`, `cancelled`, `incomplete` or `open`."""

    outcome: str
    error_type: str | None
    trace_id: str
    session_errors: list[SessionErrorObject]
    spans: list[SpanObject]


class RecordsObject(TypedDict):
    """What became of the records of one input: read = mapped + ignored + unmapped + malformed."""

    read: int
    mapped: int
    ignored: int
    unmapped: int
    malformed: int


def span_object(span: "ReadableSpan") -> SpanObject:
    """Give the span as plain JSON values; works on a span that is still open."""
    context = span.get_span_context()
    parent = span.parent
    return {
        "name": span.name,
        "kind": span.kind.name,
        "status": span.status.status_code.name,
        "status_message": span.status.description,
        "trace_id": f"{context.trace_id:032x}" if context else "",
        "span_id": f"{context.span_id:016x}" if context else "",
        "parent_span_id": f"{parent.span_id:016x}" if parent and parent.span_id else None,
        "start_unix_ns": span.start_time or 0,
        "end_unix_ns": span.end_time,
        "attributes": plain_attributes(span.attributes),
        "events": [_event_object(event) for event in span.events],
    }


def _event_object(event: "Event") -> EventObject:
    return {
        "name": event.name,
        "time_unix_ns": event.timestamp,
        "attributes": plain_attributes(event.attributes),
    }


def plain_attributes(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Give attributes as JSON values: sequences become lists, bytes base64 text, not-a-number and infinity text."""
    return {key: _plain(value) for key, value in (attributes or {}).items()}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)  # noqa: PLR0124  # NaN test
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_plain(inner) for inner in value]
    return str(value)


def encode_json(value: Any) -> bytes:
    """Encode compactly as UTF-8; a lone surrogate, which UTF-8 cannot hold, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class InputJsonWriter:
    """Collects the runs of one input and writes its object in one go, without holding the runs in memory.

    `records` comes before `runs` in the object and is known only at the end of the input; so runs wait in a temporary
    file as soon as they exceed a few megabytes, and a stream of any length needs little memory. Not thread-safe.
    """

    def __init__(self, source: str) -> None:
        """Start the object of the input *source*, the path as the person gave it or `-`."""
        self._source = source
        # The file's life is that of this object: `finish` or `discard` closes it.
        self._runs: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_SPOOL_IN_MEMORY_BYTES)  # noqa: SIM115
        self._empty = True

    def add_run(self, pieces: Iterable[bytes]) -> None:
        """Append one run, a `RunObject` as JSON in pieces. Raises OSError when the temporary folder is full."""
        if not self._empty:
            self._runs.write(b",")
        self._empty = False
        self._runs.writelines(pieces)

    def finish(self, records: RecordsObject, out: IO[bytes]) -> None:
        """Write the whole object as one line to *out*. Raises OSError (a closed pipe among them) from writing."""
        out.write(b'{"source":' + encode_json(self._source) + b',"records":' + encode_json(records) + b',"runs":[')
        self._runs.seek(0)
        shutil.copyfileobj(self._runs, out)
        out.write(b"]}\n")
        out.flush()
        self.discard()

    def discard(self) -> None:
        """Forget what was collected. Idempotent."""
        self._runs.close()
