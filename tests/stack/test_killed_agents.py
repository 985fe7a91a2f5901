"""Agents that are SIGKILLed in a run, with everything up: the real Jaeger shows what became of the run."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from command_support import CAPTURES, COMMAND, compass
from compass_otel import semconv
from compass_otel.sink import TwoLaneSpanProcessor
from receivers import wait_until
from stack.runs import GOOD, Agents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stack.jaeger_api import JaegerApi, Shown
    from stack.programs import Stack

pytestmark = pytest.mark.stack

_STREAMS: Final = {agent: CAPTURES / agent / "b_tool_success.events.jsonl" for agent in ("pi-1.6", "pi-0.73", "omp-18")}
"""One for each test: the same input has the same ids."""
_SOURCE: Final = """
import sys
from compass_otel.bridge import SessionBridge
from compass_otel.sink import TwoLaneSpanProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

endpoint, spool, service = sys.argv[1:]
provider = TracerProvider(resource=Resource({"service.name": service}))
provider.add_span_processor(TwoLaneSpanProcessor(endpoint=endpoint, spool=spool))
bridge = SessionBridge(tracer_provider=provider)
for line in sys.stdin.buffer:
    bridge.feed(line)
    print(bridge.open_spans, flush=True)
"""


def lines_of_an_open_run(agent: str) -> list[bytes]:
    """Give a stream of the agent up to the point where a tool runs."""
    lines = _STREAMS[agent].read_bytes().splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines) if b'"tool_execution_start"' in line)
    return lines[: end + 1]


def incomplete(jaeger: JaegerApi, service: str) -> list[Shown]:
    """Search for incomplete runs as a person does."""
    traces = jaeger.search(service, {semconv.OUTCOME: "incomplete"})
    spans = [span for span in jaeger.traces(traces) if span.resource["service.name"] == service]
    return [span for span in spans if semconv.SESSION_STATE in span.attributes]


def the_one(look: Callable[[], list[Shown]]) -> Shown:
    """Wait until there is one such run; there must be no other."""
    assert wait_until(lambda: bool(look()), 20.0)
    (run,) = look()
    return run


def assert_lost(run: Shown) -> None:
    """Check that the run says that its process was lost."""
    assert run.attributes[semconv.OUTCOME] == "incomplete"
    assert run.attributes[semconv.ERROR_TYPE] == semconv.PROCESS_LOST
    assert run.status == "ERROR"
    assert run.marked_as_error


def test_a_service_killed_in_a_run_is_seen_after_its_next_start(
    stack: Stack, jaeger: JaegerApi, tmp_path: Path
) -> None:
    """A service that records its agent, SIGKILLed: its next process sends the run as incomplete, process lost."""
    endpoint = f"{stack.collector.http_endpoint}/v1/traces"
    spool = tmp_path / "spool"
    command = [sys.executable, "-c", _SOURCE, endpoint, str(spool), "killed-service"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        for line in lines_of_an_open_run("pi-1.6"):
            service.stdin.write(line)
            service.stdin.flush()
            service.stdout.readline()
        service.kill()
    assert incomplete(jaeger, "killed-service") == []
    following = TwoLaneSpanProcessor(endpoint=endpoint, spool=spool)
    Agents(following, service="killed-service").run(GOOD)
    run = the_one(lambda: incomplete(jaeger, "killed-service"))
    following.shutdown()
    assert_lost(run)


@pytest.fixture(name="service")
def name_of_the_service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give each test a service of its own, so that it finds its own runs."""
    name = str(request.node.name).replace("_", "-")
    monkeypatch.setenv("OTEL_SERVICE_NAME", name)
    return name


def start_ingest(stack: Stack) -> subprocess.Popen[bytes]:
    """Start `ingest`, which passes through what it has read."""
    command = [*COMMAND, "ingest", "--tee", "--endpoint", stack.collector.http_endpoint]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def read_through(ingest: subprocess.Popen[bytes], lines: list[bytes]) -> None:
    """Wait until `ingest` has passed through all these lines."""
    assert ingest.stdout is not None
    assert [ingest.stdout.readline() for _ in lines] == lines


def accepted(stack: Stack) -> float:
    """How many spans the Collector has taken."""
    return stack.collector.metrics().get("otelcol_receiver_accepted_spans", 0.0)


def test_an_agent_killed_in_a_run_is_seen_at_once(stack: Stack, jaeger: JaegerApi, service: str) -> None:
    """The agent behind `ingest` is SIGKILLed: the stream ends with the run open, and that is what is sent."""
    lines = lines_of_an_open_run("pi-0.73")
    script = "import sys, signal; sys.stdout.write(sys.argv[1]); sys.stdout.flush(); signal.pause()"
    with start_ingest(stack) as ingest:
        assert ingest.stdin is not None
        agent = [sys.executable, "-c", script, b"".join(lines).decode()]
        with subprocess.Popen(agent, stdout=ingest.stdin) as killed:
            ingest.stdin.close()
            read_through(ingest, lines)
            killed.kill()
    run = the_one(lambda: incomplete(jaeger, service))
    assert_lost(run)
    tools = [span.name for span in jaeger.trace(run.trace_id) if span.name.startswith("execute_tool")]
    assert len(tools) == 1


def test_an_ingest_killed_in_a_run_is_seen_after_the_next_one(stack: Stack, jaeger: JaegerApi, service: str) -> None:
    """`ingest` itself is SIGKILLed: the next command sends the run as incomplete."""
    lines = lines_of_an_open_run("omp-18")
    before = accepted(stack)
    with start_ingest(stack) as ingest:
        assert ingest.stdin is not None
        ingest.stdin.write(b"".join(lines))
        ingest.stdin.flush()
        # The first request of the model was recorded and has left, and the run is still open.
        assert wait_until(lambda: accepted(stack) > before, 20.0)
        ingest.kill()
    assert incomplete(jaeger, service) == []
    other = CAPTURES / "pi-1.6" / "a_success_text.events.jsonl"
    done = compass("ingest", "--endpoint", stack.collector.http_endpoint, stdin=other.read_bytes())
    assert done.returncode == 0, done.stderr
    assert_lost(the_one(lambda: incomplete(jaeger, service)))
