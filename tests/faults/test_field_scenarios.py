"""Failures from public reports (FC-B, those given as scenarios) that speak of exporters, exits, forks and texts."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

import compass_otel
from compass_otel import SessionBridge, TwoLaneSpanProcessor
from compass_otel.errors import ConfigError
from compass_otel.otlp_settings import load_settings
from compass_otel.sender import make_sender
from compass_otel.testing import CollectingProvider
from faults.agent_host import ANSWER, BEGIN, SETTLED
from receivers import Receiver, wait_until
from sink_support import provider_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

SECRET = "sk-ant-api03-EXAMPLEfake0EXAMPLEfake0EXAMPLEfake0EXAMPLEfake0EXAMPLEfake0EXAMPLEfaAA"  # noqa: S105 - made up


@pytest.fixture(name="receiver")
def _receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def start(case: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start the host of a case."""
    tests = str(Path(__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, "-m", "faults.agent_host", case, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": tests, **variables},
    )


def run(case: str, *arguments: str, **variables: str) -> list[str]:
    """Run the host of a case to its end; returns what it said."""
    process = start(case, *arguments, **variables)
    try:
        output, errors = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 0, errors
    return output.splitlines()


@pytest.mark.parametrize("case", ["terminated", "terminated with handler"])
def test_sigterm_in_the_middle_of_a_run(receiver: Receiver, tmp_path: Path, case: str) -> None:
    """FC-B036: closed by the host's handler all open spans arrive as cancelled; without one the run as incomplete."""
    process = start(case, receiver.http_endpoint, str(tmp_path / "spool"))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready True\n", "the host's own handler was replaced"
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=20)
    with_handler = "handler" in case
    assert (process.returncode, output) == ((0, "flushed True\n") if with_handler else (-signal.SIGTERM, "")), errors
    sink = TwoLaneSpanProcessor(endpoint=receiver.http_endpoint, spool=tmp_path / "spool")
    assert wait_until(lambda: not sink.stats().priority.spooled)
    assert sink.shutdown()
    outcomes = {span.name.partition(" ")[0]: span.attributes.get("compass.outcome") for span in receiver.spans()}
    if with_handler:
        assert outcomes == {"chat": "failed", "execute_tool": "cancelled", "invoke_agent": "cancelled"}
    else:
        assert outcomes == {"chat": "failed", "invoke_agent": "incomplete"}


def test_a_prompt_in_a_forked_child_arrives(receiver: Receiver, tmp_path: Path) -> None:
    """FC-B037: a bridge made before a fork works in the child, which ends soon and by itself."""
    assert run("forked", receiver.http_endpoint, str(tmp_path / "spool")) == ["child 0 True"]
    assert [span.name for span in receiver.spans() if span.name.startswith("invoke_agent")] != []


def test_without_an_endpoint_nothing_is_opened_and_the_frames_are_the_same() -> None:
    """FC-B039: offline, and with the SDK switched off, no socket, no wait, the same frames."""
    plain = run("offline")
    (line,) = plain
    assert " sockets 0 quick True" in line
    assert int(line.split()[1]) > 1000
    assert run("offline", OTEL_SDK_DISABLED="true") == plain


class Refusing(SpanExporter):
    """Answers FAILURE, and raises nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Fail."""
        del spans
        return SpanExportResult.FAILURE


def test_a_flush_that_delivered_nothing_says_so() -> None:
    """FC-B040: an exporter that fails in silence makes flush and shutdown False, and the numbers say what is lost."""
    sink = TwoLaneSpanProcessor(Refusing(), priority_wait_s=0)
    bridge = SessionBridge(tracer_provider=provider_of(sink))
    for record in [*BEGIN, *ANSWER, *SETTLED]:
        bridge.feed(record)
    bridge.close()
    assert not sink.force_flush(300)
    assert not sink.shutdown(300)
    stats = sink.stats()
    assert stats.priority.delivered == stats.trace.delivered == 0
    assert stats.priority.accepted == stats.priority.lost > 0


@pytest.mark.parametrize("error", [TimeoutError, asyncio.CancelledError])
def test_a_run_that_a_timeout_cancels_arrives_whole(error: type[BaseException]) -> None:
    """FC-B004: `wait_for` around a run: root and children are there, without an error status; the error goes on."""
    provider = CollectingProvider()

    async def agent() -> None:
        with SessionBridge(tracer_provider=provider.tracer_provider) as bridge:
            for record in [*BEGIN, ANSWER[0]]:
                bridge.feed(record)
            await asyncio.sleep(30)

    async def host() -> None:
        if error is TimeoutError:
            await asyncio.wait_for(agent(), 0.05)
        task = asyncio.create_task(agent())
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(error):
        asyncio.run(host())
    (root,) = provider.trees()
    assert (root["status"], root["attributes"]["compass.outcome"], len(root["children"])) == ("UNSET", "cancelled", 1)


def test_a_consumer_that_breaks_off_is_no_error() -> None:
    """FC-B003: a generator of frames that is closed after the first leaves no error and no exception event."""
    provider = CollectingProvider()

    def follow() -> Generator[Any]:
        with SessionBridge(tracer_provider=provider.tracer_provider) as bridge:
            for record in [*BEGIN, ANSWER[0]]:
                yield bridge.feed(record)

    generator = follow()
    for _ in BEGIN:
        next(generator)
    generator.close()
    assert provider.spans
    assert all(span.status.is_unset for span in provider.spans)
    assert "exception" not in {event.name for span in provider.spans for event in span.events}


def test_no_public_object_shows_a_key_in_any_form() -> None:
    """FC-B046: neither `repr`, `str`, `vars`, `asdict` nor a pickle of what holds a key shows it."""
    sink = TwoLaneSpanProcessor(
        endpoint=f"http://user:{SECRET}@127.0.0.1:1/v1/traces", headers={"authorization": f"Bearer {SECRET}"}
    )
    settings = load_settings(endpoint="http://127.0.0.1:1/v1/traces", headers={"x-api-key": SECRET})
    grpc = make_sender(load_settings(endpoint="http://127.0.0.1:1", protocol="grpc", headers={"x-api-key": SECRET}))
    bridge = SessionBridge(tracer_provider=provider_of(sink))
    for record in [*BEGIN, {**ANSWER[1], "message": {**ANSWER[1]["message"], "errorMessage": f"bad key {SECRET}"}}]:
        bridge.feed(record)
    shown = [sink, sink.stats(), sink.notices(), sink.describe(), settings, make_sender(settings), grpc, bridge]
    shown += [
        vars(sink),
        vars(bridge),
        *map(str, shown),
        *(getattr(compass_otel, name) for name in compass_otel.__all__),
    ]
    assert SECRET not in "".join(map(repr, shown))
    for holder in (sink, sink.stats(), bridge):
        assert SECRET not in _pickled(holder)
    with pytest.raises(ConfigError) as wrong:
        TwoLaneSpanProcessor(endpoint=f"ftp://user:{SECRET}@127.0.0.1/v1/traces")
    assert SECRET not in repr(wrong.value) + str(wrong.value)
    bridge.close()
    sink.shutdown(10)


def _pickled(holder: object) -> str:
    """Give a pickle as text; what can't be pickled gives the refusal."""
    try:
        return pickle.dumps(holder).decode("latin-1")
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        return repr(error)


@pytest.mark.faults
def test_a_flood_of_one_failure_costs_no_memory_and_no_log(receiver: Receiver, tmp_path: Path) -> None:
    """FC-B030: two hundred thousand repetitions: bounded memory, few log lines, few spans."""
    flushed, numbers = run("flood", receiver.http_endpoint, str(tmp_path / "spool"))
    assert flushed == "flushed True"
    _, grown_bytes, _, lines = numbers.split()
    assert int(grown_bytes) < 50 << 20
    assert int(lines) < 50
    spans = receiver.spans()
    assert 0 < len(spans) < 5
    assert all(len(span.events) <= 128 for span in spans)
