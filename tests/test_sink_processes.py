"""Processes that end in every way, fork, and get signals in the middle of a flush lose nothing of the priority lane."""

from __future__ import annotations

import signal
import socket
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from compass_otel.sink import TwoLaneSpanProcessor
from process_support import finish, host, start
from receivers import Mode, Receiver, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROTOCOLS = ("http/protobuf", "grpc")


@pytest.fixture(name="receiver")
def _receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(name="nobody", scope="module")
def _nobody() -> Iterator[str]:
    """Give an address that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1/traces"


def endpoint_of(receiver: Receiver, protocol: str) -> str:
    """Where that protocol is spoken."""
    return receiver.http_endpoint if protocol.startswith("http") else receiver.grpc_endpoint


def deliver_rest(receiver: Receiver, spool: Path) -> TwoLaneSpanProcessor:
    """Start a processor on the spool, as the next process would, and deliver what is there."""
    sink = TwoLaneSpanProcessor(endpoint=receiver.http_endpoint, spool=spool)
    assert wait_until(lambda: not sink.stats().priority.spooled, 20)
    assert sink.shutdown(5000)
    return sink


def arrived(receiver: Receiver) -> Counter[str]:
    """Names of the spans that were stored, with their number."""
    return Counter(span.name for span in receiver.spans())


ENDS = {
    "normal": "",
    "sys.exit": "sys.exit(3)",
    "sys.exit in a thread": "t = threading.Thread(target=lambda: sys.exit(3)); t.start(); t.join()",
    "exception": "raise RuntimeError('unhandled')",
    "os._exit": "os._exit(7)",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM); time.sleep(20)",
    "SIGINT": "signal.signal(signal.SIGINT, signal.default_int_handler); os.kill(os.getpid(), signal.SIGINT)",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
}


@pytest.mark.parametrize("up", [True, False], ids=["up", "down"])
def test_no_end_of_a_process_loses_a_failure_or_hangs(
    receiver: Receiver, nobody: str, tmp_path: Path, *, up: bool
) -> None:
    """However a process ends, it ends soon, and every failure it ended is there after the next start, once."""
    processes = {
        name: start(
            f"work('trace {name}')\nfail('{name}')\nsys.stdout.write('x'); sys.stdout.flush()\n{code}",
            receiver.http_endpoint if up else nobody,
            tmp_path / "spool",
        )
        for name, code in ENDS.items()
    }
    for name, process in processes.items():
        ended = finish(process)
        assert ended.output == "x", (name, ended.errors)
    deliver_rest(receiver, tmp_path / "spool")
    stored = arrived(receiver)
    assert {name: stored[name] for name in ENDS} == dict.fromkeys(ENDS, 1)
    if up:
        orderly = ("normal", "sys.exit", "sys.exit in a thread", "exception", "SIGINT")
        assert [stored[f"trace {name}"] for name in orderly] == [1] * len(orderly)


@pytest.mark.parametrize("how", ["silent", "refused"])
def test_the_exit_is_bounded_whatever_the_backend_does(receiver: Receiver, nobody: str, how: str) -> None:
    """A backend that hangs or is gone costs the exit at most two seconds, without a spool too."""
    receiver.behave(Mode(kind="silent"))
    endpoint = receiver.http_endpoint if how == "silent" else nobody
    ended = host("fail('e'); work('t'); print(time.monotonic(), flush=True)", endpoint, None)
    assert ended.status == 0, ended.errors
    import time  # noqa: PLC0415 - the same clock as the child's

    assert time.monotonic() - float(ended.output) < 2.8


@pytest.mark.parametrize(
    ("what", "during"),
    [
        ("force_flush(300)", "force_flush(1200)"),
        ("shutdown(300)", "force_flush(1200)"),
        ("force_flush(300)", "shutdown(1200)"),
        ("shutdown(300)", "stats()"),
    ],
)
def test_a_handler_may_flush_or_shut_down_in_the_middle_of_anything(
    receiver: Receiver, tmp_path: Path, what: str, during: str
) -> None:
    """A handler that flushes neither deadlocks nor waits longer than it allowed; nor does what it interrupted."""
    receiver.behave(Mode(kind="hang"))
    code = f"""
took = []
def handler(*_):
    t = time.monotonic(); sink.{what}; took.append(time.monotonic() - t)
signal.signal(signal.SIGTERM, handler)
for n in range(20): work("t"); fail("e%d" % n)
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
begin = time.monotonic()
while not took: sink.{during}
assert time.monotonic() - begin < 2.5, time.monotonic() - begin
assert took[0] < 1.2, took
print("ok", flush=True)
os._exit(0)
"""
    ended = host(code, receiver.http_endpoint, tmp_path / "spool")
    assert ended.output == "ok\n", ended.errors


def test_handlers_that_end_spans_and_flush_at_any_moment_lose_nothing(receiver: Receiver, tmp_path: Path) -> None:
    """Signals every millisecond that end failures, flush and read the numbers: no deadlock, exact numbers."""
    code = """
import itertools
numbers = itertools.count()
calls = [0]
def handler(*_):
    calls[0] += 1
    fail("h%d" % next(numbers)); work("t")
    if calls[0] % 10 == 0: sink.force_flush(200)
    stats = sink.stats()
    for lane in (stats.priority, stats.trace):
        assert lane.accepted + lane.recovered == lane.delivered + lane.waiting + lane.spooled + lane.lost
    signal.setitimer(signal.ITIMER_REAL, 0.002)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.002)
end = time.monotonic() + 1
made = 0
while time.monotonic() < end:
    fail("m%d" % made); work("t"); made += 1
    if made % 100 == 0: sink.force_flush(200)
signal.setitimer(signal.ITIMER_REAL, 0)
assert sink.force_flush(10000)
stats = sink.stats()
assert stats.priority.accepted == stats.priority.delivered == made + calls[0], (stats, made, calls)
assert stats.trace.accepted == made + calls[0], (stats, made, calls)
print(made + calls[0], calls[0] > 20, flush=True)
"""
    ended = host(code, receiver.http_endpoint, tmp_path / "spool")
    count, often = ended.output.split()
    assert often == "True", ended
    failures = Counter(span.name for span in receiver.spans() if span.name != "t")
    assert len(failures) == int(count)
    assert max(failures.values()) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_forked_children_deliver_their_own_spans_and_none_of_the_parents(
    receiver: Receiver, tmp_path: Path, protocol: str
) -> None:
    """A fork in the middle of load: no deadlock, no shared socket, no duplicate, nothing of either lost."""
    code = """
stop = threading.Event(); made = [0]
def load():
    while not stop.is_set():
        fail("p%d" % made[0]); made[0] += 1; work("pt"); time.sleep(0.001)
thread = threading.Thread(target=load); thread.start()
pids = []
for child in range(6):
    time.sleep(0.05)
    pid = os.fork()
    if pid == 0:
        for n in range(10): fail("c%d-%d" % (child, n)); work("ct%d-%d" % (child, n))
        ok = sink.force_flush(10000)
        stats = sink.stats()
        good = ok and stats.priority.accepted == stats.priority.delivered == 10 and stats.trace.delivered == 10
        if not good: sys.stderr.write(repr((ok, stats)))
        os._exit(0 if good else 1)
    pids.append(pid)
statuses = [os.waitpid(pid, 0)[1] for pid in pids]
stop.set(); thread.join()
assert statuses == [0] * 6, statuses
assert sink.force_flush(10000)
print(made[0], flush=True)
"""
    ended = host(code, endpoint_of(receiver, protocol), tmp_path / "spool", protocol)
    assert ended.status == 0, ended
    stored = arrived(receiver)
    expected = {f"p{n}" for n in range(int(ended.output))} | {f"c{c}-{n}" for c in range(6) for n in range(10)}
    expected |= {f"ct{c}-{n}" for c in range(6) for n in range(10)}
    assert expected <= set(stored)
    assert {name: stored[name] for name in expected if stored[name] != 1} == {}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_children_deliver_without_being_told(receiver: Receiver, tmp_path: Path, method: str) -> None:
    """A child that just returns from its function delivers both lanes, though no exit hook of the interpreter runs."""
    script = tmp_path / "preload.py"
    script.write_text(
        f"""
import multiprocessing, sys
from opentelemetry.sdk.trace import TracerProvider
from compass_otel import semconv
from compass_otel.sink import TwoLaneSpanProcessor
def make():
    provider = TracerProvider()
    provider.add_span_processor(TwoLaneSpanProcessor(endpoint=sys.argv[1], spool=sys.argv[2]))
    return provider.get_tracer("x")
def child(tracer, number):
    tracer = tracer or make()
    tracer.start_span("t%d" % number).end()
    tracer.start_span("e%d" % number, attributes={{semconv.SESSION_ERROR_KIND: "ERROR"}}).end()
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    tracer = make()
    tracer.start_span("parent").end()
    children = [context.Process(target=child, args=(tracer if {method!r} == "fork" else None, n)) for n in range(3)]
    for c in children: c.start()
    for c in children: c.join(20)
    print([c.exitcode for c in children])
"""
    )
    import subprocess  # noqa: PLC0415 - the one test that runs a file, which spawn needs
    import sys  # noqa: PLC0415

    result = subprocess.run(
        [sys.executable, str(script), receiver.http_endpoint, str(tmp_path / "spool")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stdout == "[0, 0, 0]\n", result.stderr
    assert arrived(receiver) == dict.fromkeys(("parent", "t0", "t1", "t2", "e0", "e1", "e2"), 1)


def test_a_living_process_delivers_what_its_dead_children_left(receiver: Receiver, tmp_path: Path) -> None:
    """A child killed right after a failure leaves it in the spool; its parent takes it over while it runs."""
    code = """
from compass_otel import priority_lane
priority_lane._HOUSEKEEPING_S = 0.2
sink.force_flush(); fail("parent")
pid = os.fork()
if pid == 0:
    sink._priority.worker.wake = lambda: None
    fail("child"); os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(pid, 0)
end = time.monotonic() + 10
while sink.stats().priority.recovered < 1 and time.monotonic() < end: time.sleep(0.01)
assert sink.force_flush()
while sink.stats().priority.spooled and time.monotonic() < end: time.sleep(0.01)
print(sink.stats().priority.recovered, flush=True)
"""
    ended = host(code, receiver.http_endpoint, tmp_path / "spool")
    assert ended.output == "1\n", ended.errors
    assert arrived(receiver) == {"parent": 1, "child": 1}


def test_a_run_that_was_open_at_sigkill_arrives_as_incomplete_once(
    receiver: Receiver, nobody: str, tmp_path: Path
) -> None:
    """The next start closes the dead process's run: incomplete, process_lost, at the time of its last note, once."""
    code = """
span = run("invoke_agent pi"); context = trace.set_span_in_context(span)
tracer.start_span("chat m", context, attributes={"gen_ai.operation.name": "chat"})
run("closed").end()
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert host(code, nobody, tmp_path / "spool").status == -signal.SIGKILL
    sink = deliver_rest(receiver, tmp_path / "spool")
    assert sink.stats().priority.recovered == 2
    deliver_rest(receiver, tmp_path / "spool")
    assert arrived(receiver) == {"invoke_agent pi": 1, "closed": 1}
    (lost,) = [span for span in receiver.spans() if span.name == "invoke_agent pi"]
    assert lost.attributes["compass.outcome"] == "incomplete"
    assert lost.attributes["error.type"] == "process_lost"
    assert lost.attributes["gen_ai.conversation.id"] == "c"
    (closed,) = [span for span in receiver.spans() if span.name == "closed"]
    assert "compass.outcome" not in closed.attributes


def test_two_processes_share_a_spool_and_each_delivers_its_own(receiver: Receiver, tmp_path: Path) -> None:
    """Nothing is delivered twice and nothing waits for the other."""
    code = """
for n in range(50): fail('%d-%d' % (os.getpid(), n))
assert sink.force_flush()
print(sink.stats().priority.delivered)
"""
    processes = [start(code, receiver.http_endpoint, tmp_path / "spool") for _ in range(3)]
    assert [finish(process).output for process in processes] == ["50\n"] * 3
    stored = arrived(receiver)
    assert (len(stored), max(stored.values())) == (150, 1)


def test_asyncio_failures_do_not_stall_the_loop_and_arrive(receiver: Receiver, tmp_path: Path) -> None:
    """Twenty failures at once on an event loop cost it milliseconds while the backend takes its time."""
    receiver.behave(Mode(delay_s=0.3))
    code = """
import asyncio
async def main():
    fail("warm"); await asyncio.sleep(0.05)
    begin = time.monotonic()
    await asyncio.gather(*(asyncio.sleep(0, fail("a%d" % n)) for n in range(20)))
    return time.monotonic() - begin
print(asyncio.run(main()) < 0.2, flush=True)
assert sink.force_flush(10000)
"""
    ended = host(code, receiver.http_endpoint, tmp_path / "spool")
    assert (ended.output, ended.status) == ("True\n", 0), ended.errors
    assert len(arrived(receiver)) == 21
