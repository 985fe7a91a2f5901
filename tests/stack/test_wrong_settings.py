"""Every wrong setting against the real Collector: one line that helps, and nothing is lost by it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from command_support import CAPTURES, compass
from receivers import Receiver, wait_until
from stack.exports import sent_as
from stack.programs import EXAMPLES, Collector
from stack.test_variants import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stack.exports import Sent

pytestmark = pytest.mark.stack

_FAILED: Final = CAPTURES / "pi-1.6" / "f_http_503_exhausted.events.jsonl"
_GRPC: Final = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}


class Place:
    """A plain Collector, one with TLS and a token, and a recording backend behind both."""

    def __init__(self, backend: Receiver, plain: Collector, secure: Collector, authority: Authority) -> None:
        self.backend = backend
        self.plain = plain
        self.secure = secure
        self.authority = authority
        trusted = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(authority.file)}
        self.wrongs = {
            "nothing listens": Wrong("http://127.0.0.1:9", "start the collector or check the endpoint"),
            "gRPC's port": Wrong(
                plain.grpc_endpoint, "name that for HTTP (4318) in the endpoint, or set OTEL_EXPORTER"
            ),
            "HTTP's port": Wrong(plain.http_endpoint, "set OTEL_EXPORTER_OTLP_PROTOCOL or the endpoint", _GRPC),
            "health's port": Wrong(f"http://{plain.environment['HEALTH_ENDPOINT']}", "check the port in the endpoint"),
            "own metrics' port": Wrong(f"http://127.0.0.1:{plain.metrics_port}", "check the endpoint"),
            "TLS to a plain port": Wrong(tls(plain.http_endpoint), "write http:// in the endpoint"),
            "TLS to a plain port, gRPC": Wrong(tls(plain.grpc_endpoint), "write http:// in the endpoint", _GRPC),
            "plain to a TLS port": Wrong(secure.http_endpoint, "write https:// in the endpoint"),
            "plain to a TLS port, gRPC": Wrong(secure.grpc_endpoint, "write https:// in the endpoint", _GRPC),
            "unknown certificate": Wrong(tls(secure.http_endpoint), "OTEL_EXPORTER_OTLP_CERTIFICATE"),
            "unknown certificate, gRPC": Wrong(tls(secure.grpc_endpoint), "OTEL_EXPORTER_OTLP_CERTIFICATE", _GRPC),
            "no token (401)": Wrong(tls(secure.http_endpoint), "check OTEL_EXPORTER_OTLP_HEADERS", trusted),
            "no token, gRPC": Wrong(tls(secure.grpc_endpoint), "check OTEL_EXPORTER_OTLP_HEADERS", trusted | _GRPC),
            "wrong path (404)": Wrong(
                f"{plain.http_endpoint}/wrong/path",
                "that of OTLP over HTTP ends in /v1/traces; check OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{plain.http_endpoint}/wrong/path"},
            ),
        }


@dataclass(frozen=True, slots=True)
class Wrong:
    """An endpoint with settings that cannot work, and what the line must say about it."""

    endpoint: str
    remedy: str
    settings: dict[str, str] = field(default_factory=dict)

    def options(self) -> list[str]:
        """Give the options of a command: the endpoint, unless a variable holds it."""
        return [] if "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" in self.settings else ["--endpoint", self.endpoint]


NAMES: Final = (
    "nothing listens",
    "gRPC's port",
    "HTTP's port",
    "health's port",
    "own metrics' port",
    "TLS to a plain port",
    "TLS to a plain port, gRPC",
    "plain to a TLS port",
    "plain to a TLS port, gRPC",
    "unknown certificate",
    "unknown certificate, gRPC",
    "no token (401)",
    "no token, gRPC",
    "wrong path (404)",
)


def tls(endpoint: str) -> str:
    """Give the endpoint as one of TLS."""
    return endpoint.replace("http:", "https:")


@pytest.fixture(scope="module", name="place")
def both_collectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Give the programs that settings can be wrong about."""
    authority = Authority(tmp_path_factory.mktemp("tls"))
    with Receiver() as backend:
        traces = f"127.0.0.1:{backend.grpc_port}"
        variant = EXAMPLES / "tls-and-token.yaml"
        with (
            Collector(traces=traces) as plain,
            Collector(variant, traces=traces, variables=authority.variables) as secure,
        ):
            yield Place(backend, plain, secure, authority)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_setting_is_said_in_one_line_and_loses_nothing(place: Place, name: str) -> None:
    """One line names endpoint, setting and remedy; the records wait, `spool show` tells, and arrive in the end."""
    wrong = place.wrongs[name]
    done = compass("ingest", "--json", *wrong.options(), stdin=_FAILED.read_bytes(), env=wrong.settings)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "metrics were" not in line]  # a signal of its own
    (line,) = [line for line in lines if wrong.endpoint in line and wrong.remedy in line]
    assert len(line) < 400
    assert "Traceback" not in done.stderr
    sent = sent_as(done.stdout)
    assert f"{len(sent.spans)} waiting in the spool" in done.stderr
    shown = re.findall(r"waiting .*trace ([0-9a-f]{32})", compass("spool", "show").stdout)
    assert sorted(shown) == sorted(trace_id for trace_id, _ in sent.spans)
    assert_kept(place, sent)
    assert compass("spool", "show").stdout.strip() == "nothing waits"


def assert_kept(place: Place, sent: Sent) -> None:
    """Send something else with the right settings: what waited arrives with it."""
    good = CAPTURES / "pi-1.6" / "d_http_401.events.jsonl"
    done = compass("ingest", "--endpoint", place.plain.http_endpoint, stdin=good.read_bytes())
    assert done.returncode == 0, done.stderr
    assert wait_until(lambda: sent.spans.keys() <= set(place.backend.keys()), 20.0)


def test_every_wrong_setting_has_its_test(place: Place) -> None:
    """The names above are all there are."""
    assert tuple(place.wrongs) == NAMES
