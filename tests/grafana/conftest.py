"""The stack of these tests: the programs of `examples/stack`, filled by the product."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from command_support import CAPTURES, compass
from grafana.filling import Service
from grafana.prometheus_api import PrometheusApi
from grafana.yaml_files import RULES, STACK
from receivers import wait_until
from stack.build import missing
from stack.exports import sent_as
from stack.jaeger_api import JaegerApi
from stack.programs import Collector, Jaeger, Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stack.exports import Sent

_STORM: Final = ("f_http_503_exhausted", "e_http_429_then_success", "an_f_http_529_exhausted")
_REQUIRED: Final = bool(os.environ.get("COMPASS_STACK_REQUIRED"))  # read before `clean_environment` hides it


@pytest.fixture(scope="session", name="real_programs")
def programs_are_there() -> None:
    """Leave the test out, or fail where it is required, unless all programs are there."""
    lacking = missing()
    if lacking and _REQUIRED:
        pytest.fail("; ".join(lacking), pytrace=False)
    elif lacking:
        pytest.skip("; ".join(lacking))


@dataclass(frozen=True, slots=True)
class Counting:
    """A Collector and a Prometheus with the alert rules, for tests that hurt them."""

    collector: Collector
    prometheus: PrometheusApi


@pytest.fixture(name="counting")
def counting_stack(real_programs: None) -> Iterator[Counting]:  # noqa: ARG001
    """Give a Collector and a Prometheus of the test's own; nothing takes the traces."""
    collector = Collector()
    prometheus = ExamplePrometheus(collector)
    collector.environment["METRICS_ENDPOINT"] = f"{prometheus.url}/api/v1/write"
    with prometheus, collector:
        yield Counting(collector, PrometheusApi(prometheus.url))


class ExampleJaeger(Jaeger):
    """Jaeger with the configuration of the example."""

    def __init__(self) -> None:
        super().__init__()
        self.command[1:] = [f"--config={STACK / 'jaeger.yaml'}"]


class ExamplePrometheus(Prometheus):
    """Prometheus with the configuration of the example, which reads these Collectors; it evaluates rules at once."""

    def __init__(self, *collectors: Collector) -> None:
        super().__init__(0)
        rules = self.folder / "rules"
        rules.mkdir()
        for name in ("compass.yaml", "expected-agents.yaml"):
            text = (RULES / name).read_text(encoding="utf-8")
            (rules / name).write_text(text.replace("interval: 1m", "interval: 2s").replace('"1m"', '"2s"'), "utf-8")
        targets = ", ".join(f'"127.0.0.1:{collector.metrics_port}"' for collector in collectors)
        text = (STACK / "prometheus.yaml").read_text(encoding="utf-8")
        text = text.replace('"collector:18888"', targets).replace("/etc/prometheus/rules", str(rules))
        (self.folder / "prometheus.yml").write_text(text.replace("15s", "2s"), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Filled:
    """The programs, and what they were filled with."""

    collector: Collector
    jaeger: JaegerApi
    prometheus: PrometheusApi
    sent: Sent
    """By the command."""


@pytest.fixture(scope="package", name="filled")
def filled_stack(real_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:  # noqa: ARG001
    """Give the stack, filled by the command and by services, one of which has a Collector that takes nothing."""
    jaeger = ExampleJaeger()
    collector = Collector(traces=jaeger.otlp_endpoint, variables={"KEEP_PERCENT": "100", "DECISION_GRACE": "1s"})
    broken = Collector(_broken(jaeger.environment["JAEGER_QUERY_GRPC_ENDPOINT"]), variables={"DECISION_GRACE": "1s"})
    prometheus = ExamplePrometheus(collector, broken)
    for each in (collector, broken):
        each.environment["METRICS_ENDPOINT"] = f"{prometheus.url}/api/v1/write"
    with jaeger, prometheus, collector, broken:
        sent = _fill_by_command(collector, tmp_path_factory.mktemp("state"))
        filled = Filled(collector, JaegerApi(jaeger.query_url), PrometheusApi(prometheus.url), sent)
        with _services(filled, broken, tmp_path_factory.mktemp("spool")):
            assert wait_until(lambda: bool(filled.prometheus.at("traces_span_metrics_calls_total")), 60)
            yield filled


def _broken(no_traces_here: str) -> str:
    """Give what makes a Collector take next to nothing: one way leads nowhere, the other to a port that refuses."""
    return (
        "yaml:exporters: {otlp_grpc/priority: {endpoint: '127.0.0.1:1', sending_queue: {queue_size: 40000}},"
        f" otlp_grpc/rest: {{endpoint: '{no_traces_here}', sending_queue: {{batch: {{min_size: 0}}}}}}}}"
    )


def _fill_by_command(collector: Collector, state: Path) -> Sent:
    """Send every recorded stream, as a person would."""
    done = compass(
        "replay", "--json", "--export", "--endpoint", collector.http_endpoint,
        *(path for agent in ("pi-1.6", "omp-18") for path in sorted((CAPTURES / agent).glob("*.events.jsonl"))),
        env={"COMPASS_OTEL_STATE": str(state)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return sent_as(done.stdout)


@contextlib.contextmanager
def _services(filled: Filled, broken: Collector, spool: Path) -> Iterator[None]:
    """Run services: one whose way is open, and two whose way is not, with a spool and without."""
    metrics = filled.collector.http_endpoint
    closed = {"endpoint": f"{broken.http_endpoint}/v1/traces"}
    with (
        Service("svc", metrics, endpoint=f"{metrics}/v1/traces") as svc,
        Service("spooling", metrics, spool=spool, **closed) as spooling,
        Service("losing", metrics, memory_max_bytes=65_536, max_queue_size=2, priority_wait_s=0.0, **closed) as losing,
    ):
        # One small request after the other, until the queue of the broken Collector is full.
        while not spooling.sink.stats().priority.spooled:
            spooling.run("d_http_401")
        spooling.tell()
        svc.run(*(path.name.partition(".")[0] for path in sorted((CAPTURES / "pi-1.6").glob("*.events.jsonl"))))
        svc.run(*_STORM * 3)
        losing.run(*_STORM * 20, "b2_two_tools_parallel", "b2_two_tools_parallel")
        for service in (svc, losing):
            service.tell()
        for _ in range(3):
            spooling.run(*_STORM)
            spooling.tell()
        yield
