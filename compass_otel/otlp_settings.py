"""Where OTLP goes and how: from arguments, then the standard `OTEL_EXPORTER_OTLP_*` variables, then their defaults.

Of two variables the one for the signal counts (`OTEL_EXPORTER_OTLP_TRACES_…` before `OTEL_EXPORTER_OTLP_…`; for metrics
`METRICS` stands in its place), and an empty one counts as unset:

- `PROTOCOL` (`http/protobuf`): or `grpc`.
- `ENDPOINT` (`http://localhost:4318`, gRPC `http://localhost:4317`): over HTTP the traces one is the whole URL, the
  general one gets `/v1/traces`. For gRPC the scheme decides about TLS, `INSECURE` only where there is none.
- `HEADERS`: `name=value,…`, percent-encoded; an argument's headers come on top.
- `TIMEOUT` (10): seconds, as the Python SDK reads it.
- `COMPRESSION` (`none`): `gzip`, over HTTP also `deflate`.
- `CERTIFICATE` (the system's, over HTTP `REQUESTS_CA_BUNDLE` and `CURL_CA_BUNDLE` before those), `CLIENT_CERTIFICATE`,
  `CLIENT_KEY`: PEM files.

An argument that cannot work raises `ConfigError`. So does an endpoint or a file that a variable names; any other bad
variable is reported in the log and its default used, as the OpenTelemetry specification asks.
"""

from __future__ import annotations

import base64
import logging
import math
import os
import re
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from compass_otel.errors import ConfigError
from compass_otel.scrubbing import scrub

if TYPE_CHECKING:
    from collections.abc import Mapping

_logger = logging.getLogger(__name__)

_PREFIX: Final = "OTEL_EXPORTER_OTLP_"
_DEFAULT_TIMEOUT_S: Final = 10.0
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CA_BUNDLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # what the stock HTTP exporter listens to
# Written by the sender itself, or fatal to the framing of the request.
_OWN_HEADERS: Final = frozenset({"content-length", "transfer-encoding", "connection", "host", "content-encoding"})

_Choice = TypeVar("_Choice", bound=StrEnum)


class Protocol(StrEnum):
    """How OTLP is spoken."""

    HTTP = "http/protobuf"
    GRPC = "grpc"


class Signal(StrEnum):
    """What is sent; the value is the last part of the path over HTTP."""

    TRACES = "traces"
    METRICS = "metrics"

    @property
    def path(self) -> str:
        """Path of OTLP over HTTP."""
        return f"/v1/{self.value}"


class Compression(StrEnum):
    """How a request body is compressed."""

    NONE = "none"
    GZIP = "gzip"
    DEFLATE = "deflate"


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """A checked set of settings; `repr` shows no credential. Make one with `load_settings`."""

    protocol: Protocol
    secure: bool
    """Whether TLS is spoken."""
    host: str
    port: int | None
    """None only for gRPC targets that are no host, such as `unix:/run/otel.sock`: then `host` is the whole target."""
    path: str = field(repr=False)
    """Path and query of the HTTP request; empty for gRPC. May hold a token, so it is not shown as it is."""
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    """Lower-case names."""
    timeout_s: float
    compression: Compression
    certificate_file: str | None
    client_key_file: str | None
    client_certificate_file: str | None
    endpoint_setting: str
    """Name of the variable or argument that gave the endpoint: what a person has to change."""
    signal: Signal = Signal.TRACES

    @property
    def authority(self) -> str:
        """Host and port, as a URL and a `Host` header write them."""
        host = f"[{self.host}]" if ":" in self.host and self.port is not None else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The endpoint to request; may hold a token in its query."""
        return (
            self.authority
            if self.port is None
            else f"{'https' if self.secure else 'http'}://{self.authority}{self.path}"
        )

    @property
    def shown_url(self) -> str:
        """The endpoint for people: without query, scrubbed."""
        return scrub(self.url.partition("?")[0])

    def describe(self) -> str:
        """One line for people."""
        return f"OTLP {self.protocol} to {self.shown_url}"


def load_settings(  # noqa: PLR0913 - one argument for each standard variable
    *,
    endpoint: str | None = None,
    protocol: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    compression: str | None = None,
    certificate_file: str | os.PathLike[str] | None = None,
    client_key_file: str | os.PathLike[str] | None = None,
    client_certificate_file: str | os.PathLike[str] | None = None,
    insecure: bool | None = None,
    environ: Mapping[str, str] | None = None,
    signal: Signal = Signal.TRACES,
) -> OtlpSettings:
    """Read the settings: arguments first, then variables, then defaults (see the table above).

    Args:
        endpoint: URL. Over HTTP the whole one; a URL without any path gets `/v1/traces`, or what the signal has.
        protocol: `http/protobuf` or `grpc`.
        headers: Added to those of the variables; an equal name replaces.
        timeout_s: Longest time for one request, seconds.
        compression: `none`, `gzip` or (HTTP) `deflate`.
        certificate_file: PEM file of the authorities to trust, instead of the system's.
        client_key_file: PEM file of our own key.
        client_certificate_file: PEM file of our own certificate.
        insecure: Plain text for a gRPC endpoint without a scheme.
        environ: The variables; None = the process's.
        signal: What is to be sent.

    Returns:
        The settings.

    Raises:
        ConfigError: A value cannot work; it names the setting, and no credential.

    """
    env = _Environment(os.environ if environ is None else environ, signal)
    chosen = env.choice(Protocol, "protocol", protocol, "PROTOCOL", Protocol.HTTP)
    raw, setting, has_path = _raw_endpoint(env, endpoint, chosen)
    all_headers = {**env.headers(), **_checked_headers(headers)}
    url, secure = _http_url(raw, setting) if chosen is Protocol.HTTP else _grpc_target(raw, setting, env, insecure)
    host, port, path = _parts(url, setting, chosen, secure=secure, path="/" if has_path else signal.path)
    if isinstance(url, SplitResult) and url.username is not None and "authorization" not in all_headers:
        pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
        all_headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return OtlpSettings(
        protocol=chosen,
        secure=secure,
        host=host,
        port=port,
        path=path,
        headers=tuple(all_headers.items()),
        timeout_s=env.timeout(timeout_s),
        compression=_compression(env, compression, chosen),
        certificate_file=env.file("certificate_file", certificate_file, "CERTIFICATE", chosen is Protocol.HTTP),
        client_key_file=env.file("client_key_file", client_key_file, "CLIENT_KEY"),
        client_certificate_file=env.file("client_certificate_file", client_certificate_file, "CLIENT_CERTIFICATE"),
        endpoint_setting=setting,
        signal=signal,
    )


def endpoint_is_set(environ: Mapping[str, str] | None = None, signal: Signal = Signal.TRACES) -> bool:
    """Whether a person named an endpoint in the standard variables; without one, commands send nothing."""
    env = _Environment(os.environ if environ is None else environ, signal)
    return env.get("ENDPOINT") is not None


def user_agent() -> str:
    """Give the `User-Agent` that the OTLP specification asks for, ours behind it."""
    try:
        own = version("compass-otel")
    except PackageNotFoundError:  # run from a source tree that was never installed
        own = "0"
    return f"OTel-OTLP-Exporter-Python/{version('opentelemetry-sdk')} compass-otel/{own}"


class _Environment:
    """The standard variables, the signal's before the general ones; empty is unset, as the specification says."""

    def __init__(self, environ: Mapping[str, str], signal: Signal) -> None:
        self._environ = environ
        self.signal = signal

    def get(self, name: str) -> tuple[str, str] | None:
        """Give value and name of the variable that is set."""
        for variable in (f"{_PREFIX}{self.signal.name}_{name}", _PREFIX + name):
            if value := self._environ.get(variable, "").strip():
                return value, variable
        return None

    def choice(self, kind: type[_Choice], argument: str, value: str | None, name: str, default: _Choice) -> _Choice:
        """Give one of several words."""
        allowed = " or ".join(kind)
        if value is not None:
            try:
                return kind(value.lower())
            except ValueError:
                raise ConfigError(argument, value, allowed) from None
        if (found := self.get(name)) is None:
            return default
        try:
            return kind(found[0].lower())
        except ValueError:
            _logger.warning("%s; %s is used", scrub(str(ConfigError(found[1], found[0], allowed))), default)
            return default

    def timeout(self, value: float | None) -> float:
        """Give the time-out in seconds."""
        allowed = "a number of seconds above 0"
        if value is not None:
            if not (math.isfinite(value) and value > 0):
                raise ConfigError("timeout_s", value, allowed)
            return value
        if (found := self.get("TIMEOUT")) is None:
            return _DEFAULT_TIMEOUT_S
        try:
            seconds = float(found[0])
        except ValueError:
            seconds = math.nan
        if math.isfinite(seconds) and seconds > 0:
            return seconds
        _logger.warning("%s; %s s is used", scrub(str(ConfigError(found[1], found[0], allowed))), _DEFAULT_TIMEOUT_S)
        return _DEFAULT_TIMEOUT_S

    def file(self, argument: str, value: str | os.PathLike[str] | None, name: str, bundles: bool = False) -> str | None:
        """Give the path of a file that is there."""
        setting, path = argument, value
        if path is None:
            found = self.get(name)
            if found is None and bundles:
                found = next(((self._environ[key], key) for key in _CA_BUNDLES if self._environ.get(key)), None)
            if found is None:
                return None
            path, setting = found
        if not Path(path).exists():
            raise ConfigError(setting, os.fspath(path), "the path of a PEM file that exists")
        return os.fspath(path)

    def headers(self) -> dict[str, str]:
        """Read the headers: `name=value,…`, percent-encoded; what is unusable is left out with a warning."""
        found = self.get("HEADERS")
        headers: dict[str, str] = {}
        for number, item in enumerate(found[0].split(",") if found else (), 1):
            name, equals, value = item.partition("=")
            try:
                headers |= _checked_headers({unquote(name).strip(): unquote(value).strip()} if equals else {})
            except ConfigError:
                equals = ""
            if item.strip() and not equals:
                _logger.warning("item %d of %s is no usable name=value and is left out", number, found and found[1])
        return headers

    def flag(self, name: str) -> bool:
        """Give a boolean; only `true` is true."""
        found = self.get(name)
        return found is not None and found[0].lower() == "true"


def _checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    checked: dict[str, str] = {}
    for name, value in (headers or {}).items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise ConfigError(
                "headers", name, "header names of letters, digits and dashes that the sender does not set itself"
            )
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(f"headers[{name}]", "<hidden>", "printable ASCII characters")
        checked[name.lower()] = value
    return checked


def _compression(env: _Environment, value: str | None, protocol: Protocol) -> Compression:
    compression = env.choice(Compression, "compression", value, "COMPRESSION", Compression.NONE)
    if protocol is Protocol.GRPC and compression is Compression.DEFLATE:
        if value is not None:
            raise ConfigError("compression", value, "none or gzip over gRPC")
        _logger.warning("deflate is not used over gRPC; sent without compression")
        return Compression.NONE
    return compression


def _raw_endpoint(env: _Environment, endpoint: str | None, protocol: Protocol) -> tuple[str, str, bool]:
    """Give endpoint, the setting's name, and whether the path is final."""
    if endpoint is not None:
        return endpoint.strip(), "endpoint", False
    found = env.get("ENDPOINT")
    if found is None:
        port = "4318" if protocol is Protocol.HTTP else "4317"
        return f"http://localhost:{port}", f"{_PREFIX}ENDPOINT", False
    value, variable = found
    is_base = variable == f"{_PREFIX}ENDPOINT" and protocol is Protocol.HTTP
    return (value.rstrip("/") + env.signal.path if is_base else value), variable, True


def _http_url(raw: str, setting: str) -> tuple[SplitResult, bool]:
    url = _split_url(raw if "://" in raw else f"http://{raw}", setting)
    if url.scheme not in {"http", "https"}:
        raise ConfigError(setting, url.scheme + "://", "a URL that begins with http:// or https://")
    return url, url.scheme == "https"


def _grpc_target(raw: str, setting: str, env: _Environment, insecure: bool | None) -> tuple[SplitResult | str, bool]:
    scheme = raw.partition("://")[0].lower() if "://" in raw else ""
    if scheme in {"http", "https"}:
        return _split_url(raw, setting), scheme == "https"
    plain = env.flag("INSECURE") if insecure is None else insecure
    if scheme or raw.startswith(("unix:", "dns:", "ipv4:", "ipv6:")):
        return raw, not plain
    if not raw:
        raise ConfigError(setting, raw, "host:port or a URL")
    return _split_url(f"//{raw}", setting), not plain


def _split_url(url: str, setting: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise ConfigError(setting, scrub(url.rpartition("@")[2]), f"a URL ({error})") from None


def _parts(
    url: SplitResult | str, setting: str, protocol: Protocol, *, secure: bool, path: str
) -> tuple[str, int | None, str]:
    if isinstance(url, str):
        return url, None, ""
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if not host or not _is_plain(url):
        raise ConfigError(
            setting, scrub(f"{url.scheme}://{url.netloc.rpartition('@')[2]}"), "a URL with a host and a valid port"
        )
    if protocol is Protocol.GRPC:
        return host, port or 4317, ""
    return host, port or (443 if secure else 80), (url.path or path) + (f"?{url.query}" if url.query else "")


def _is_plain(url: SplitResult) -> bool:
    """Whether the URL can stand in a request line: no spaces, no control or other characters."""
    text = url.geturl()
    return text.isascii() and text.isprintable() and " " not in text
