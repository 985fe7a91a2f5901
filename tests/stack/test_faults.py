"""Faults in the real programs, with the product's own sink as sender: what must not be lost is not lost."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from compass_otel.sink import TwoLaneSpanProcessor
from receivers import Receiver, wait_until
from stack.faults import Sending, collector_of, killed_after_acknowledging, killed_at_random

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compass_otel.stats import Stats
    from stack.programs import Collector

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

_ARRIVAL_LIMIT_S: Final = 150.0
"""gRPC looks for a backend that was away ever more rarely, in the end every two minutes."""
_CHAOS_S: Final = 25.0
_REFUSED_RUNS: Final = 60
_PATIENCE_S: Final = 1.5
"""A run may wait: at most a second in any ten per thread, and what its own work takes on a busy machine."""


@pytest.mark.parametrize("backend_down", [False, True], ids=["jaeger-up", "jaeger-down"])
def test_a_collector_killed_after_acknowledging_loses_no_failure(backend_down: bool) -> None:
    """200 runs, half of them failed or cancelled, acknowledged, and the Collector SIGKILLed: Jaeger has all of them."""
    loss = killed_after_acknowledging("ours", backend_down=backend_down)
    assert loss.sent >= 400
    assert loss.missing == 0
    assert loss.twice == 0


def test_the_usual_configuration_loses_them() -> None:
    """The same fault on the usual configuration loses failures: the fault is real, and ours is no accident."""
    loss = killed_after_acknowledging("usual", backend_down=False, runs=40)
    assert loss.missing > 0


def test_programs_that_die_at_random_lose_no_failure() -> None:
    """Collector and backend killed and restarted every few seconds, under 20 runs a second: nothing is missing."""
    loss = killed_at_random("ours", _CHAOS_S)
    assert loss.kills >= 3
    assert loss.sent >= 400
    assert loss.missing == 0
    assert loss.longest_run_s < _PATIENCE_S


@pytest.fixture(name="backend")
def recording_backend() -> Iterator[Receiver]:
    """Give a backend that records what the Collector passes on."""
    with Receiver() as receiver:
        yield receiver


def refuse(sending: Sending) -> None:
    """Let agents run against a Collector that refuses; nothing stalls, and all that matters waits in our spool."""
    for _ in range(_REFUSED_RUNS):
        sending.run()
    assert sending.longest_s < _PATIENCE_S
    assert wait_until(lambda: stats(sending).priority.spooled > 0, 10.0)
    assert stats(sending).priority.lost == 0


def stats(sending: Sending) -> Stats:
    """Give the counts of the sink."""
    assert isinstance(sending.processor, TwoLaneSpanProcessor)
    return sending.processor.stats()


def fill_disk(ballast: Path) -> None:
    """Write until there is no room left."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def all_arrive(sending: Sending, backend: Receiver) -> bool:
    """Wait until every priority record is with the backend."""
    assert sending.flush()
    return wait_until(lambda: sending.agents.seen.priority <= set(backend.keys()), _ARRIVAL_LIMIT_S)


def fill_until_refused(collector: Collector, sending: Sending) -> None:
    """Send failures with long texts until the Collector says no."""
    tracer = sending.agents.provider.get_tracer("test")
    deadline_s = time.monotonic() + 60.0
    while not stats(sending).priority.retried:
        with tracer.start_as_current_span("failed") as span:
            span.set_attributes(
                {"compass.session_error.kind": "ERROR", "compass.outcome": "failed", "text": "x" * 50_000}
            )
        assert time.monotonic() < deadline_s, collector.metrics()


def test_a_full_queue_sends_what_it_refuses_back_to_our_spool(backend: Receiver) -> None:
    """Backend away until the Collector's queue is full: what it refuses waits in our spool, and arrives later."""
    small = "yaml:exporters::otlp_grpc/priority::sending_queue::queue_size: 5000000"
    backend.kill()
    with (
        collector_of("ours", f"127.0.0.1:{backend.grpc_port}", small) as collector,
        Sending("ours", collector) as sending,
    ):
        fill_until_refused(collector, sending)
        refuse(sending)
        assert collector.metrics()["otelcol_exporter_enqueue_failed_spans"] > 0
        backend.start()
        assert all_arrive(sending, backend)


def test_a_memory_limiter_that_refuses_loses_no_failure(backend: Receiver) -> None:
    """A Collector short of memory refuses everything: it waits in our spool, and arrives once there is memory."""
    tight = {"MEMORY_LIMIT_MIB": "2", "MEMORY_SPIKE_MIB": "1"}
    traces = f"127.0.0.1:{backend.grpc_port}"
    with (
        collector_of("ours", traces, variables=tight) as collector,
        Sending("ours", collector) as sending,
    ):
        assert wait_until(lambda: "Memory usage is above" in collector.log_text(), 20.0)
        refuse(sending)
        assert collector.metrics()["otelcol_receiver_refused_spans"] > 0
        collector.stop()
        collector.environment |= {"MEMORY_LIMIT_MIB": "512", "MEMORY_SPIKE_MIB": "128"}
        collector.start()
        assert all_arrive(sending, backend)


def test_a_full_disk_loses_no_failure(backend: Receiver, tmp_path: Path) -> None:
    """The Collector's disk is full: it refuses, our spool keeps, and all arrives once there is room again."""
    state = tmp_path / "disk"
    state.mkdir()
    # A disk of its own, in a mount namespace that ends with the process.
    wrap = ("unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=3m tmpfs "{state}" && exec "$@"', "sh")
    traces = f"127.0.0.1:{backend.grpc_port}"
    backend.kill()
    with (
        collector_of("ours", traces, wrap=wrap, variables={"COLLECTOR_STATE": str(state / "state")}) as collector,
        Sending("ours", collector) as sending,
    ):
        ballast = Path(f"/proc/{collector.pid}/root{state}/ballast")
        fill_disk(ballast)
        fill_until_refused(collector, sending)
        refuse(sending)
        assert "no space left on device" in collector.log_text()
        ballast.unlink()
        backend.start()
        assert all_arrive(sending, backend)
