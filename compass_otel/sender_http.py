"""OTLP over HTTP/protobuf with a typed answer for each batch."""

from __future__ import annotations

import base64
import gzip
import os
import ssl
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never
from urllib.parse import unquote, urlsplit

from compass_otel.errors import ConfigError
from compass_otel.http_connection import Address, HttpConnection
from compass_otel.otlp_answers import Asked, delivery_of, failure_of
from compass_otel.otlp_settings import Compression, OtlpSettings, user_agent
from compass_otel.record_joining import join_records
from compass_otel.scrubbing import scrub
from compass_otel.tcp_connect import ConnectionFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compass_otel.delivery import Delivery, Retry

_GZIP_LEVEL: Final = 6  # 9, the library's default, costs three times as much for two per cent
_DEFAULT_PROXY_PORT: Final = 80


class HttpSender:
    """Sends records as OTLP over HTTP/protobuf, over one kept-alive connection.

    One thread at a time. Blocks until the answer or the deadline. Makes no span of its own: it goes to the socket, past
    every library that is instrumented.

    Args:
        settings: What `load_settings` gave, protocol `http/protobuf`.

    Raises:
        ConfigError: A certificate file cannot be used, or the proxy is of a kind that is not spoken.

    """

    def __init__(self, settings: OtlpSettings) -> None:
        self._settings = settings
        self._asked = Asked.of(settings)
        self._proxy = _Proxy.of(settings)
        self._head = self._request_head()
        self._address = self._target_address()
        self._connection = HttpConnection(self._address)
        self._closed = False

    @property
    def target(self) -> str:
        """Where records go, without credentials."""
        return self._settings.shown_url

    def describe(self) -> str:
        """One line for a person."""
        way = f" through the proxy {self._proxy.shown}" if self._proxy else ""
        return self._settings.describe() + way

    def __repr__(self) -> str:
        """Show no credentials."""
        return f"<HttpSender {self.describe()}>"

    def send(self, batch: Sequence[bytes], deadline: float) -> Delivery:
        """Send records in one request; see `delivery.Sender`."""
        started = time.monotonic()
        if self._closed:
            return self._asked.retry("the sender is closed")
        body = compress(join_records(batch), self._settings.compression)
        request = b"%b%d\r\n\r\n%b" % (self._head, len(body), body)
        until = min(deadline, started + self._settings.timeout_s)
        try:
            response = self._connection.exchange(request, until)
        except ConnectionFailed as failure:
            return self._failed(failure, started)
        return delivery_of(response, self._asked)

    def reset_after_fork(self) -> None:
        """Close the child's copy of the parent's socket; the parent's connection stays as it is."""
        self._connection.close()

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._connection.close()

    def _failed(self, failure: ConnectionFailed, started: float) -> Retry:
        return failure_of(failure, self._asked, time.monotonic() - started)

    def _request_head(self) -> bytes:
        """Give the request up to the number in `Content-Length`: the same for each."""
        settings = self._settings
        proxied = self._proxy is not None and not settings.secure
        headers = {
            "host": settings.authority,
            "user-agent": user_agent(),
            "content-type": "application/x-protobuf",
            **dict(settings.headers),
        }
        if settings.compression is not Compression.NONE:
            headers["content-encoding"] = settings.compression.value
        if proxied and self._proxy and self._proxy.credentials:
            headers["proxy-authorization"] = self._proxy.credentials
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        target = settings.url if proxied else settings.path
        return f"POST {target} HTTP/1.1\r\n{lines}content-length: ".encode("ascii")

    def _target_address(self) -> Address:
        settings = self._settings
        assert settings.port is not None  # noqa: S101 - HTTP endpoints have one
        if settings.secure:
            tls_context(settings)  # a file that is no certificate is told now, not at the first failure
        tunnel = b""
        if self._proxy and settings.secure:
            place = settings.authority
            credentials = f"proxy-authorization: {self._proxy.credentials}\r\n" if self._proxy.credentials else ""
            tunnel = f"CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n{credentials}\r\n".encode("ascii")
        return Address(
            host=settings.host,
            port=settings.port,
            tls=(lambda: tls_context(settings)) if settings.secure else None,
            proxy=self._proxy.address if self._proxy else None,
            tunnel=tunnel,
        )


def compress(body: bytes, compression: Compression) -> bytes:
    """Compress a request body."""
    match compression:
        case Compression.NONE:
            return body
        case Compression.GZIP:
            return gzip.compress(body, _GZIP_LEVEL, mtime=0)
        case Compression.DEFLATE:
            return zlib.compress(body)
        case _:
            assert_never(compression)


def tls_context(settings: OtlpSettings) -> ssl.SSLContext:
    """Make the TLS context that the settings ask for.

    Raises:
        ConfigError: A file is no certificate, or no key that fits it.

    """
    authority = settings.certificate_file
    is_folder = authority is not None and Path(authority).is_dir()
    try:
        context = ssl.create_default_context(
            cafile=None if is_folder else authority, capath=authority if is_folder else None
        )
    except OSError as error:
        raise ConfigError("certificate_file", authority, f"a PEM file of certificates ({error})") from error
    if authority is None:
        _load_bundled_authorities(context)
    if settings.client_certificate_file:
        try:
            context.load_cert_chain(settings.client_certificate_file, settings.client_key_file)
        except OSError as error:
            shown = settings.client_certificate_file
            raise ConfigError("client_certificate_file", shown, f"a PEM certificate with its key ({error})") from error
    return context


def _load_bundled_authorities(context: ssl.SSLContext) -> None:
    """Also trust what the stock exporter trusts by default: container images often have no system store."""
    try:
        import certifi  # noqa: PLC0415 - wanted for TLS alone
    except ImportError:
        return
    context.load_verify_locations(certifi.where())


class _Proxy:
    """The proxy that the variables name for an endpoint, chosen as the stock HTTP exporter chooses it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme != "http" or not parts.hostname:
            raise ConfigError(
                "the proxy variable",
                f"{parts.scheme}://…",
                "an http:// proxy; for others pass exporter=OTLPSpanExporter()",
            )
        self.address = (parts.hostname, parts.port or _DEFAULT_PROXY_PORT)
        self.shown = scrub(f"http://{parts.hostname}:{self.address[1]}")
        self.credentials = ""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.credentials = "Basic " + base64.b64encode(pair.encode()).decode()

    @classmethod
    def of(cls, settings: OtlpSettings) -> _Proxy | None:
        """Give the proxy for an endpoint, if one is meant for it."""
        names = {name.lower() for name, value in os.environ.items() if value}
        named = any(name.endswith("_proxy") for name in names - {"no_proxy"})
        if not named and sys.platform.startswith("linux"):
            return None  # without loading `requests` for the common case
        import requests.utils  # noqa: PLC0415 - only where there may be a proxy

        url = settings.url
        found = requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url))
        return cls(found) if found else None
