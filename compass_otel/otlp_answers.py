"""What a backend's answer over HTTP means: delivered, retry, or rejected; and what a person should do about it.

Rules, by the OTLP specification 1.8 where it speaks, and by "a failure is never lost" where it does not:

| answer | delivery |
|---|---|
| 2xx | delivered, with what `partial_success` says; but a web page, half an answer or garbage is a retry |
| 3xx | retry: a wrong address is repaired by a person, and the records are still there then |
| 400, 413, 422 | rejected: this body will never be taken (413 and 400 also mean "too large": the caller splits) |
| 400 that speaks of HTTPS | retry: the port expects TLS |
| 408, 429, 5xx | retry, after `Retry-After` within bounds |
| other 4xx | retry: credentials, path or method are wrong, the records are not |
"""

from __future__ import annotations

import json
import math
import re
import ssl
import time
import zlib
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from compass_otel.delivery import Delivered, Delivery, Rejected, Retry
from compass_otel.scrubbing import scrub

if TYPE_CHECKING:
    from compass_otel.http_reader import Response
    from compass_otel.otlp_settings import OtlpSettings
    from compass_otel.tcp_connect import ConnectionFailed

MAX_RETRY_AFTER_S: Final = 60.0
"""A backend that asks for more is asked again after a minute: a day's wait would be a loss in all but name."""
CLIENT_CERTIFICATE_HINT: Final = (
    "if it asks for a client certificate, set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY"
)
_MAX_MESSAGE_CHARS: Final = 200
_MAX_DECODED_BYTES: Final = 262_144
_REFUSED: Final = frozenset({400, 413, 422})
_NOT_TAKEN: Final = frozenset({408, 429, 503})
"""Of those that mean "later", the ones that surely took nothing; a server or a gateway that failed may have."""
_NOT_REACHED: Final = frozenset({"resolve", "connect", "proxy", "tls"})
_EXPECTS_TLS: Final = re.compile(rb"https server|https port|ssl-enabled|over tls", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")

_HEALTH_KEYS: Final = frozenset({"status", "upSince"})
"""What the Collector's health check answers, with 200 and on every path, also to a request for another port."""

_REMEDIES: Final = {
    401: "it refused the credentials; check OTEL_EXPORTER_OTLP_HEADERS",
    403: "it refused the credentials; check OTEL_EXPORTER_OTLP_HEADERS",
    404: "it knows no such path, that of OTLP over HTTP ends in /v1/{signal}; check {setting}",
    405: "nothing there takes OTLP; check {setting}",
    406: "it does not speak protobuf; check {setting}",
    407: "the proxy asks for credentials; put them into HTTP_PROXY or HTTPS_PROXY",
    411: "it does not speak OTLP; check {setting}",
    415: "it takes no protobuf, or not compressed so; check {setting} and OTEL_EXPORTER_OTLP_COMPRESSION",
    431: "the headers are too large; check OTEL_EXPORTER_OTLP_HEADERS",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """Who was asked, for the texts: all of it fit for people's eyes."""

    shown_url: str
    setting: str
    """Name of the setting that holds the address, as it stands in a sentence."""
    secure: bool
    signal: str = "traces"

    @classmethod
    def of(cls, settings: OtlpSettings) -> Asked:
        """Take it from the settings."""
        setting = settings.endpoint_setting
        shown = "the endpoint" if setting == "endpoint" else setting
        return cls(settings.shown_url, shown, settings.secure, settings.signal)

    def retry(self, what: str, after_s: float | None = None, *, in_doubt: bool = True) -> Retry:
        """Give a `Retry` whose reason is one scrubbed line."""
        return Retry(after_s, one_line(f"{self.shown_url}: {what}"), in_doubt)

    def remedy(self, text: str) -> str:
        """Fill in what a remedy leaves open."""
        return text.format(setting=self.setting, signal=self.signal)

    def rejected(self, what: str) -> Rejected:
        """Give a `Rejected` whose reason is one scrubbed line."""
        return Rejected(one_line(f"{self.shown_url}: {what}"))


def delivery_of(response: Response, asked: Asked) -> Delivery:
    """Read an answer.

    Args:
        response: The answer.
        asked: Who gave it.

    Returns:
        What it means for the batch.

    """
    status = response.status
    if 200 <= status < 300:  # noqa: PLR2004
        return _success(response, asked)
    said = message_of(response)
    quoted = f"HTTP {status}" + (f' "{said}"' if said else "")
    if 300 <= status < 400:  # noqa: PLR2004
        place = _shown_location(response.headers.get("location", ""))
        text = f"HTTP {status} redirects to {place}; put the right address into {asked.setting}"
        return asked.retry(text, in_doubt=False)
    if status in _REFUSED:
        if not asked.secure and _EXPECTS_TLS.search(response.body):
            return asked.retry(f"{quoted}: the port expects TLS; write https:// in {asked.setting}", in_doubt=False)
        return asked.rejected(f"it refused the records for good: {quoted}")
    after_s = retry_after(response.headers)
    if status >= 500 or status in {408, 429}:  # noqa: PLR2004
        wait = f"; it asks to wait {after_s:g} s" if after_s is not None else ""
        return asked.retry(f"{quoted}: it cannot take records now{wait}", after_s, in_doubt=status not in _NOT_TAKEN)
    remedy = asked.remedy(_REMEDIES.get(status, "it does not take OTLP so; check {setting}"))
    return asked.retry(f"{quoted}: {remedy}", after_s, in_doubt=False)


def failure_of(failure: ConnectionFailed, asked: Asked, waited_s: float) -> Retry:
    """Say why there was no answer.

    Args:
        failure: What happened.
        asked: Who should have answered.
        waited_s: How long it took, seconds.

    Returns:
        The batch may or may not have arrived: retry.

    """
    cause = failure.cause
    match cause:
        case bytes():
            text = _no_http(cause, asked) if failure.stage != "proxy" else _proxy_refused(cause.decode("latin-1"))
        case TimeoutError():
            hint = f"; if the port speaks no TLS, write http:// in {asked.setting}" if failure.stage == "tls" else ""
            text = f"{_TIMED_OUT[failure.stage]} within {waited_s:.1f} s{hint}"
        case ssl.SSLError():
            text = _tls_problem(cause, asked)
        case _:
            text = _broken(failure, _error(cause), asked)
    return asked.retry(text, in_doubt=failure.stage not in _NOT_REACHED)


def _broken(failure: ConnectionFailed, error: str, asked: Asked) -> str:
    setting = asked.setting
    match failure.stage:
        case "resolve":
            text = f"the host's name cannot be resolved ({error}); check {setting}"
        case "connect" if isinstance(failure.cause, ConnectionRefusedError):
            text = f"connection refused: nothing listens there; start the collector or check {setting}"
        case "connect":
            text = f"no connection ({error}); check {setting} and the network"
        case "proxy":
            text = _proxy_refused(error)
        case "tls":
            text = f"it ended the TLS greeting ({error}); if the port speaks no TLS, write http:// in {setting}"
        case _ if failure.answered:
            text = f"the connection broke ({error})"
        case _ if asked.secure:
            text = f"the connection broke ({error}); {CLIENT_CERTIFICATE_HINT}"
        case _:
            text = f"the connection broke ({error}); if the port expects TLS, write https:// in {setting}"
    return text


def message_of(response: Response) -> str:
    """Give what a refusal says, one scrubbed line; empty if it says nothing readable."""
    body = _decoded(response)
    kind = response.headers.get("content-type", "").lower()
    text = ""
    if "protobuf" in kind:
        try:
            text = Status.FromString(body).message
        except DecodeError:
            text = ""
    elif "json" in kind:
        try:
            content = json.loads(body)
        except ValueError:
            content = None
        text = str(content.get("message", "")) if isinstance(content, dict) else ""
    elif kind.startswith("text/") or not kind:
        text = _TAG.sub(" ", body.decode("utf-8", "replace"))
    return one_line(text, _MAX_MESSAGE_CHARS)


def partial_of(body: bytes, asked: Asked) -> Delivery:
    """Read the body of a success, the same over HTTP and gRPC.

    Args:
        body: An `ExportTraceServiceResponse`, encoded.
        asked: Who gave it.

    Returns:
        Delivered, or a retry if the body is garbage.

    """
    if not body:
        return Delivered()
    try:
        partial = ExportTraceServiceResponse.FromString(body).partial_success
    except DecodeError:
        return asked.retry("it answered success with a body that is no OTLP: not believed")
    return Delivered(max(partial.rejected_spans, 0), one_line(partial.error_message, _MAX_MESSAGE_CHARS))


def retry_after(headers: dict[str, str], now_s: float | None = None) -> float | None:
    """Read `Retry-After`: seconds, or a date, which counts from the answer's own `Date` so that no clock is trusted.

    Args:
        headers: Of the answer, names in lower case.
        now_s: Wall time; for tests.

    Returns:
        Seconds from 0 to `MAX_RETRY_AFTER_S`; None if absent or unreadable.

    """
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        until = _date(value)
        if until is None:
            return None
        sent = _date(headers.get("date", ""))
        seconds = until - (sent if sent is not None else time.time() if now_s is None else now_s)
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if not math.isnan(seconds) else None


def one_line(text: str, limit_chars: int = 400) -> str:
    """Scrub, put on one line, and only then cut."""
    line = " ".join(scrub(text).split())
    return line if len(line) <= limit_chars else line[: limit_chars - 1] + "…"


_TIMED_OUT: Final = {
    "resolve": "the host's name was not resolved",
    "connect": "no connection",
    "proxy": "the proxy did not answer",
    "tls": "the TLS greeting did not end",
    "send": "it did not take the request",
    "answer": "no whole answer (it may have taken the records all the same)",
}


def _success(response: Response, asked: Asked) -> Delivery:
    kind = response.headers.get("content-type", "").lower()
    if "html" in kind:
        # A user interface, or a hotel's log-in page: many answer 200 to everything.
        return asked.retry(f"it answered with a web page, so no OTLP is taken there; check {asked.setting}")
    if not response.complete:
        return asked.retry(
            f"it answered success with an endless body, which no OTLP receiver does; check {asked.setting}"
        )
    body = _decoded(response)
    if "protobuf" in kind:
        return partial_of(body, asked)
    if "json" in kind:
        return _partial_of_json(body, asked)
    return Delivered()


def _partial_of_json(body: bytes, asked: Asked) -> Delivery:
    """Read a partial success written in JSON, which some backends send whatever was asked for."""
    try:
        content = json.loads(body or b"{}")
        if isinstance(content, dict) and content.keys() >= _HEALTH_KEYS:
            return asked.retry(f"a health check answered, so no OTLP is taken there; check the port in {asked.setting}")
        partial = (
            (content.get("partialSuccess") or content.get("partial_success") or {}) if isinstance(content, dict) else {}
        )
        rejected = int(partial.get("rejectedSpans") or partial.get("rejected_spans") or 0)
        message = str(partial.get("errorMessage") or partial.get("error_message") or "")
    except (ValueError, TypeError, AttributeError):
        return Delivered()  # it said success in words that we cannot read; the status is what counts
    return Delivered(max(rejected, 0), one_line(message, _MAX_MESSAGE_CHARS))


def _decoded(response: Response) -> bytes:
    """Undo a compression that nobody asked for; bounded."""
    if response.headers.get("content-encoding", "").lower() not in {"gzip", "deflate"}:
        return response.body
    try:
        return zlib.decompressobj(47).decompress(response.body, _MAX_DECODED_BYTES)  # 47: gzip or zlib, by its head
    except zlib.error:
        return response.body


def _date(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def _shown_location(location: str) -> str:
    """Give a redirect's target without credentials and query."""
    scheme, mark, rest = location.partition("?")[0].partition("://")
    if not mark:
        return scheme or "nowhere"
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def _no_http(data: bytes, asked: Asked) -> str:
    """Name what answered instead of HTTP, by its first bytes."""
    if data[3:5] == b"\x04\x00" or data.startswith(b"HTTP/2"):
        return (
            f"it speaks HTTP/2, so this is the port for gRPC; name that for HTTP (4318) in {asked.setting}, "
            "or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
        )
    if data[:2] in {b"\x15\x03", b"\x16\x03"}:
        return f"the port expects TLS; write https:// in {asked.setting}"
    return f"what answered speaks no HTTP ({data[:40]!r}); check {asked.setting}"


def _proxy_refused(what: str) -> str:
    return f"the proxy opened no way there ({what}); check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"


def _tls_problem(error: ssl.SSLError, asked: Asked) -> str:
    text = f"{error.reason or ''} {error}".upper().replace(" ", "_")
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message.rstrip(".")
        if "HOSTNAME" in text or "IP_ADDRESS" in text:
            return f"its certificate is for another host ({why}); check the host in {asked.setting}"
        return f"its certificate is not trusted ({why}); name its authority's file in OTEL_EXPORTER_OTLP_CERTIFICATE"
    if (
        "CERTIFICATE_REQUIRED" in text
        or "HANDSHAKE_FAILURE" in text
        or "BAD_CERTIFICATE" in text
        or "UNKNOWN_CA" in text
    ):
        return CLIENT_CERTIFICATE_HINT
    if any(
        word in text
        for word in ("WRONG_VERSION_NUMBER", "RECORD_LAYER", "UNEXPECTED_MESSAGE", "HTTP_REQUEST", "PACKET_LENGTH")
    ):
        return f"the port speaks no TLS; write http:// in {asked.setting}"
    return f"TLS failed ({error.reason or error}); check {asked.setting} and OTEL_EXPORTER_OTLP_CERTIFICATE"


def _error(cause: BaseException) -> str:
    return (cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)) or type(cause).__name__
