"""How the trace lane's worker turns spans into requests: bounded in bytes, and nobody's neighbour at risk.

Not thread-safe but for `keep_extra`, `forget_extra` and `forget_extras`; it belongs to one worker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from compass_otel.delivery import Delivery, Retry
from compass_otel.encoding import encode_span, encode_spans
from compass_otel.sending_threads import sending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan  # noqa: TID251 - the type alone

    from compass_otel.delivery import Sender

_MAX_REQUEST_BYTES: Final = 2 << 20  # collectors take 4 MiB over gRPC by default
_ENCODE_AT_ONCE: Final = 64  # spans between two looks at the size
_MAX_EXTRAS: Final = 4096
_FAILURES_BEFORE_RECORDS: Final = 2


@dataclass(slots=True)
class TraceRequest:
    """Spans that go out together."""

    end: int
    """Where in the batch the next request begins."""
    spans: list[ReadableSpan] = field(default_factory=list)
    fragments: list[bytes] = field(default_factory=list)
    """The spans, encoded; empty where the sender takes spans."""
    unencodable: list[str] = field(default_factory=list)
    """For each object of the batch that is no span: what it said when it was read."""


class TraceSending:
    """Encodes and sends spans.

    Args:
        sender: Where they go. One with a method `send_spans` (an exporter) gets the spans themselves, as long as it
            takes them; if it keeps failing it gets records, which it can try one by one.

    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._send_spans: Callable[[Sequence[ReadableSpan], float], Delivery] | None = getattr(
            sender, "send_spans", None
        )
        self._failures = 0
        self._extras: dict[int, Mapping[str, Any]] = {}

    def keep_extra(self, span: ReadableSpan, extra: Mapping[str, Any]) -> None:
        """Remember attributes to write besides a span's own, until it is forgotten."""
        if len(self._extras) < _MAX_EXTRAS:
            self._extras[id(span)] = extra

    def forget_extra(self, span: ReadableSpan) -> None:
        """Forget what was remembered of a span."""
        if self._extras:
            self._extras.pop(id(span), None)

    def forget_extras(self, spans: Iterable[ReadableSpan]) -> None:
        """Forget what was remembered of spans that are settled."""
        if self._extras:
            for span in spans:
                self._extras.pop(id(span), None)

    def encode_request(self, batch: Sequence[ReadableSpan], start: int) -> TraceRequest:
        """Take as many spans of a batch as one request should hold.

        Args:
            batch: The batch.
            start: Where to begin in it.

        """
        if self._takes_spans():
            return TraceRequest(len(batch), list(batch[start:]))
        request = TraceRequest(start)
        size = 0
        while request.end < len(batch) and size < _MAX_REQUEST_BYTES:
            more = list(batch[request.end : request.end + _ENCODE_AT_ONCE])
            request.end += len(more)
            try:
                encoded = self._encode(more)
            except Exception:  # noqa: BLE001 - boundary: an object that is no span; it is found and counted
                more = [span for span in more if self._is_encodable(span, request.unencodable)]
                encoded = self._encode(more)
            request.spans += more
            request.fragments += encoded
            size += sum(map(len, encoded))
        return request

    def send(self, request: TraceRequest, spans: Sequence[ReadableSpan], deadline: float) -> Delivery:
        """Send all spans of a request, or some of them.

        Args:
            request: From `encode_request`.
            spans: Its spans, or a part of them.
            deadline: Monotonic seconds.

        """
        with sending():
            if self._send_spans is not None and not request.fragments:
                answer = self._send_spans(spans, deadline)
            else:
                answer = self._sender.send(
                    request.fragments if spans is request.spans else self._encode(spans), deadline
                )
        self._failures = self._failures + 1 if isinstance(answer, Retry) else 0
        return answer

    def reset_after_fork(self) -> None:
        """Forget the parent's spans and its connection."""
        self._extras = {}
        self._failures = 0
        self._sender.reset_after_fork()

    def _takes_spans(self) -> bool:
        return self._send_spans is not None and self._failures < _FAILURES_BEFORE_RECORDS and not self._extras

    def _encode(self, spans: Sequence[ReadableSpan]) -> list[bytes]:
        extras = self._extras
        if self._send_spans is not None:  # an exporter looks for the culprit among records of one span each
            return [encode_span(span, extra=extras.get(id(span))) for span in spans]
        return encode_spans(spans, extra=(lambda span: extras.get(id(span))) if extras else None)

    def _is_encodable(self, span: ReadableSpan, errors: list[str]) -> bool:
        try:
            self._encode([span])
        except Exception as error:  # noqa: BLE001 - boundary: counted, and its neighbours go on
            errors.append(f"{type(error).__name__}: {error}")
            return False
        return True
