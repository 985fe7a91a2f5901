"""OTLP over gRPC with a typed answer for each batch.

Rules as over HTTP (`otlp_answers`): a status that speaks of the records is a rejection, every other one a retry, and
one that speaks of the set-up says what to change.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from grpc import StatusCode
from opentelemetry import context as context_api

from compass_otel.errors import ConfigError
from compass_otel.grpc_fork import OutsideForks
from compass_otel.otlp_answers import CLIENT_CERTIFICATE_HINT, MAX_RETRY_AFTER_S, Asked, one_line, partial_of
from compass_otel.otlp_settings import Compression, OtlpSettings, Signal, user_agent
from compass_otel.record_joining import join_records
from compass_otel.sdk_private import suppressed_context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compass_otel.delivery import Delivery

_METHODS: Final = {
    Signal.TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    Signal.METRICS: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
_MAX_DETAILS_CHARS: Final = 200
_TOO_LARGE: Final = re.compile(r"larger than max", re.IGNORECASE)
_BROKEN: Final = frozenset(
    {StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.UNKNOWN, StatusCode.INTERNAL}
)
"""After these the channel is made anew: an old one waits up to two minutes before it connects again."""

_OF_GRPC_ITSELF: Final = re.compile(
    "failed to connect|errors? resolving|DNS resolution|socket closed|connection reset|http1", re.IGNORECASE
)
"""Tells the library's own words from what a backend says, which may speak of its own connections."""

_NOT_REACHED: Final = re.compile("connection refused|resolving|resolution", re.IGNORECASE)
"""Tells, of the library's own words, those that mean that there was no connection."""

_PROBLEMS: Final = (
    (r"connection refused", "connection refused: nothing listens there; start the collector or check {setting}"),
    (
        r"parsing HTTP/2|http1\.x|frame type|Missing :status|settings frame",
        "what answered speaks no HTTP/2: if this is the port for HTTP, set OTEL_EXPORTER_OTLP_PROTOCOL or {setting}",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|Peer name|certificate verify",
        "its certificate is not trusted; set OTEL_EXPORTER_OTLP_CERTIFICATE to its authority, or check {setting}",
    ),
    (r"WRONG_VERSION_NUMBER|PACKET_LENGTH|RECORD_LAYER", "the port speaks no TLS; write http:// in {setting}"),
    (r"CERTIFICATE.REQUIRED|HANDSHAKE_FAILURE", CLIENT_CERTIFICATE_HINT),
    (r"resolving|resolution|lookup", "the host's name cannot be resolved; check {setting}"),
)
"""What gRPC's own words mean, by the first pattern that fits."""

_REMEDIES: Final = {
    StatusCode.UNAUTHENTICATED: "it refused the credentials; check OTEL_EXPORTER_OTLP_HEADERS",
    StatusCode.PERMISSION_DENIED: "it refused the credentials; check OTEL_EXPORTER_OTLP_HEADERS",
    StatusCode.UNIMPLEMENTED: "nothing there takes {signal} over gRPC; check {setting} and OTEL_EXPORTER_OTLP_PROTOCOL",
    StatusCode.NOT_FOUND: "nothing there takes {signal} over gRPC; check {setting} and OTEL_EXPORTER_OTLP_PROTOCOL",
}


class GrpcSender:
    """Sends records as OTLP over gRPC, already encoded: nothing is encoded twice, whatever is retried.

    One thread at a time. Blocks until the answer or the deadline. Instrumentation of gRPC is kept silent meanwhile.

    Args:
        settings: What `load_settings` gave, protocol `grpc`.

    Raises:
        ConfigError: A certificate file cannot be read.

    """

    def __init__(self, settings: OtlpSettings) -> None:
        self._settings = settings
        self._asked = Asked.of(settings)
        self._credentials = _credentials(settings) if settings.secure else None
        self._channel: grpc.Channel | None = None
        self._call: Any = None
        self._pid = os.getpid()
        self._outside_forks = OutsideForks(self)
        self._closed = False

    @property
    def target(self) -> str:
        """Where records go, without credentials."""
        return self._settings.shown_url

    def describe(self) -> str:
        """One line for a person."""
        return self._settings.describe()

    def __repr__(self) -> str:
        """Show no credentials."""
        return f"<GrpcSender {self.describe()}>"

    def send(self, batch: Sequence[bytes], deadline: float) -> Delivery:
        """Send records in one call; see `delivery.Sender`."""
        started = time.monotonic()
        if self._closed:
            return self._asked.retry("the sender is closed")
        if self._pid != os.getpid():
            self.reset_after_fork()
        timeout_s = min(deadline - started, self._settings.timeout_s)
        if timeout_s <= 0:
            return self._asked.retry("no time was left to ask")
        token = context_api.attach(suppressed_context())
        try:
            body = join_records(batch)
            with self._outside_forks:
                call = self._call or self._open()
                answer: bytes = call(body, timeout=timeout_s, metadata=self._settings.headers)
        except grpc.RpcError as error:
            return self._failed(error, time.monotonic() - started)
        except ValueError as error:  # closed by another thread just now
            self._drop()
            return self._asked.retry(f"gRPC could not send ({error})")
        finally:
            context_api.detach(token)
        return partial_of(answer, self._asked)

    def reset_after_fork(self) -> None:
        """Leave the parent's channel alone: closing it here would end the parent's connection, or hang."""
        if self._channel is not None:
            _inherited.append(self._channel)
        self._channel = self._call = None
        self._pid = os.getpid()

    def end_call(self) -> None:
        """End the call in flight, for a fork: it is answered `Retry`."""
        self._drop()

    def close(self) -> None:
        """Close the channel."""
        self._closed = True
        self._drop()

    def _open(self) -> Any:
        options = (
            ("grpc.primary_user_agent", user_agent()),
            # Without a pool of its own, a new channel would inherit the old one's wait before it connects again.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.max_send_message_length", -1),
        )
        target = self._settings.authority
        zipped = (
            grpc.Compression.Gzip if self._settings.compression is Compression.GZIP else grpc.Compression.NoCompression
        )
        if self._credentials is not None:
            self._channel = grpc.secure_channel(target, self._credentials, options, zipped)
        else:
            self._channel = grpc.insecure_channel(target, options, zipped)
        self._call = self._channel.unary_unary(_METHODS[self._settings.signal])
        return self._call

    def _drop(self) -> None:
        channel, self._channel, self._call = self._channel, None, None
        if channel is not None and self._pid == os.getpid():
            channel.close()

    def _failed(self, error: grpc.RpcError, waited_s: float) -> Delivery:
        code, details = error.code(), error.details() or ""
        if code in _BROKEN:
            self._drop()
        said = f"gRPC {code.name}" + (f' "{one_line(details, _MAX_DETAILS_CHARS)}"' if details else "")
        if code is StatusCode.INVALID_ARGUMENT or (
            code is StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE.search(details)
        ):
            return self._asked.rejected(f"it refused the records for good: {said}")
        after_s = _retry_after(error)
        if code is StatusCode.DEADLINE_EXCEEDED:
            return self._asked.retry(
                f"no whole answer within {waited_s:.1f} s (it may have taken the records all the same)", after_s
            )
        if code is StatusCode.UNAVAILABLE:
            refused = not _OF_GRPC_ITSELF.search(details) or _NOT_REACHED.search(details) is not None
            return self._asked.retry(self._unavailable(details, said), after_s, in_doubt=not refused)
        remedy = self._asked.remedy(_REMEDIES.get(code, "it cannot take records now"))
        return self._asked.retry(f"{said}: {remedy}", after_s, in_doubt=code in _BROKEN)

    def _unavailable(self, details: str, said: str) -> str:
        setting = self._asked.setting
        if not _OF_GRPC_ITSELF.search(details):
            return f"{said}: it cannot take records now"
        for pattern, problem in _PROBLEMS:
            if re.search(pattern, details, re.IGNORECASE):
                return problem.format(setting=setting)
        hint = (
            CLIENT_CERTIFICATE_HINT
            if self._settings.secure
            else f"if the port expects TLS, write https:// in {setting}"
        )
        return f"the connection broke ({said}); {hint}"


_inherited: list[grpc.Channel] = []
"""Channels of the parent process, kept for ever: even forgetting one would close it."""


def _retry_after(error: Any) -> float | None:
    """Read the delay that a `RetryInfo` asks for; None without one."""
    for key, value in error.trailing_metadata() or ():
        if key == "google.rpc.retryinfo-bin":
            try:
                delay = RetryInfo.FromString(value).retry_delay
            except (DecodeError, TypeError):
                return None
            return float(min(max(delay.seconds + delay.nanos / 1e9, 0.0), MAX_RETRY_AFTER_S))
    return None


def _credentials(settings: OtlpSettings) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=_read("certificate_file", settings.certificate_file),
        private_key=_read("client_key_file", settings.client_key_file),
        certificate_chain=_read("client_certificate_file", settings.client_certificate_file),
    )


def _read(setting: str, path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(setting, path, f"a PEM file that can be read ({error.strerror})") from error
