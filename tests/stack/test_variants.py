"""The configuration and its variants are accepted, start, and do what their heads say, in the real Collector."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import trustme

from command_support import CAPTURES, compass
from receivers import Receiver, wait_until
from stack.build import HERE
from stack.exports import sent_as
from stack.programs import CONFIG, EXAMPLES, Collector, fetch, validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stack.exports import Sent

pytestmark = pytest.mark.stack

_RUNS: Final = [CAPTURES / "pi-1.6" / f"{name}.events.jsonl" for name in ("f_http_503_exhausted", "b_tool_success")]
_TOKEN: Final = "0123456789-a-token-for-tests"  # noqa: S105 - an invented one
_EVERY_VARIABLE: Final = {
    "OTLP_TLS_CERT": "tls.crt",
    "OTLP_TLS_KEY": "tls.key",
    "OTLP_TOKEN_FILE": "tokens",
    "GATEWAY_ENDPOINT": "http://127.0.0.1:1",
    "GATEWAY_TOKEN": _TOKEN,
    "OTLP_GRPC_ENDPOINT": "127.0.0.1:1",
    "OTLP_HTTP_ENDPOINT": "127.0.0.1:2",
    "HEALTH_ENDPOINT": "127.0.0.1:3",
    "TRACES_ENDPOINT": "127.0.0.1:4",
    "COLLECTOR_METRICS_PORT": "5",
}


@pytest.fixture(scope="module", name="backend")
def recording_backend() -> Iterator[Receiver]:
    """Give a backend that records what the Collector passes on."""
    with Receiver() as receiver:
        yield receiver


def exported(endpoint: str, **env: str) -> Sent:
    """Send a failed and a good run, and give what was sent."""
    done = compass("replay", "--json", "--export", "--timeout", "10", "--endpoint", endpoint, *_RUNS, env=env)
    assert done.returncode == 0, done.stderr
    return sent_as(done.stdout)


def arrived(backend: Receiver, sent: Sent) -> bool:
    """Wait until all of it has arrived."""
    return wait_until(lambda: sent.spans.keys() <= set(backend.keys()), 20.0)


@pytest.mark.parametrize(
    "configs",
    [(CONFIG,), *((CONFIG, path) for path in sorted(EXAMPLES.glob("*.yaml"))), (HERE / "usual.yaml",)],
    ids=lambda configs: configs[-1].name,
)
def test_every_file_is_valid_without_a_warning(configs: tuple[Path, ...]) -> None:
    """`validate` accepts the configuration and each variant, and says nothing."""
    done = validate(*configs, environment=_EVERY_VARIABLE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_starts_and_stops_without_a_warning(backend: Receiver) -> None:
    """With a backend that is there, start, health and stop log nothing of level warn or above."""
    with Collector(traces=f"127.0.0.1:{backend.grpc_port}") as collector:
        assert fetch(f"http://{collector.environment['HEALTH_ENDPOINT']}/") is not None
        collector.stop()
        assert collector.warnings() == []
        assert "deprecat" not in collector.log_text().lower()


class Authority:
    """An authority, a certificate for loopback, and a file of tokens."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.file = folder / "authority.pem"
        authority.cert_pem.write_to_path(str(self.file))
        issued = authority.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(str(folder / "tls.crt"))
        issued.private_key_pem.write_to_path(str(folder / "tls.key"))
        tokens = folder / "tokens"
        tokens.write_text(f"an-older-token\n{_TOKEN}\n", encoding="ascii")
        self.variables = {
            "OTLP_TLS_CERT": str(folder / "tls.crt"),
            "OTLP_TLS_KEY": str(folder / "tls.key"),
            "OTLP_TOKEN_FILE": str(tokens),
        }
        self.settings = {
            "OTEL_EXPORTER_OTLP_CERTIFICATE": str(self.file),
            "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{_TOKEN}",
        }


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_tls_and_a_token(backend: Receiver, tmp_path: Path, protocol: str) -> None:
    """With the authority and the token set by the standard variables, a sender gets through, over both protocols."""
    authority = Authority(tmp_path)
    traces = f"127.0.0.1:{backend.grpc_port}"
    variables = {**authority.variables, "KEEP_PERCENT": "100", "DECISION_GRACE": "1s"}
    with Collector(EXAMPLES / "tls-and-token.yaml", traces=traces, variables=variables) as collector:
        endpoint = collector.grpc_endpoint if protocol == "grpc" else collector.http_endpoint
        settings = {**authority.settings, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
        sent = exported(endpoint.replace("http:", "https:"), **settings)
        assert arrived(backend, sent)


def test_without_sampling_every_span_of_good_runs_arrives(backend: Receiver) -> None:
    """With the variant nothing is thinned and nothing waits for a decision."""
    traces = f"127.0.0.1:{backend.grpc_port}"
    variables = {"KEEP_PERCENT": "0", "DECISION_GRACE": "10m"}
    with Collector(EXAMPLES / "no-sampling.yaml", traces=traces, variables=variables) as collector:
        sent = exported(collector.http_endpoint)
        assert arrived(backend, sent)


def test_behind_a_gateway(tmp_path: Path) -> None:
    """Everything leaves over HTTP with the gateway's token, and waits on disk while the gateway is away."""
    with Receiver() as gateway:
        variables = {
            "GATEWAY_ENDPOINT": f"http://127.0.0.1:{gateway.http_port}",
            "GATEWAY_TOKEN": _TOKEN,
            "KEEP_PERCENT": "100",
            "DECISION_GRACE": "1s",
            "COLLECTOR_STATE": str(tmp_path / "state"),
        }
        with Collector(EXAMPLES / "behind-a-gateway.yaml", variables=variables) as collector:
            gateway.kill()
            sent = exported(collector.http_endpoint)
            collector.kill()
            gateway.start()
            collector.start()
            priority = {key for key, span in sent.spans.items() if is_priority(span)}
            assert wait_until(lambda: priority <= set(gateway.keys()), 20.0)
            again = exported(collector.http_endpoint, COMPASS_OTEL_STATE=str(tmp_path / "another"))
            assert arrived(gateway, again)
            assert gateway.counts()["headers"]["http"]["authorization"] == f"Bearer {_TOKEN}"


def is_priority(span: dict[str, Any]) -> bool:
    """Whether a span, as `--json` tells it, must not be lost."""
    return span["status"] == "ERROR" or "compass.outcome" in span["attributes"]
