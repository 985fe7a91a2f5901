"""What the two-lane processor costs, as ratios to the plain SDK: `python tests/bench/bench_sink.py`.

Every pair is taken in turn in the same run, so that a noisy machine hits both alike; figures are medians, p99 beside
them. Receivers are processes of their own on loopback. "official export" is the stock OTLP/HTTP exporter with its
default transport, exporting one span. Exit status 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)

from bench.figures import Figure, Scale
from compass_otel import semconv
from compass_otel.sink import TwoLaneSpanProcessor
from compass_otel.spool import Spool
from receivers import Receiver
from sink_support import Collecting, provider_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opentelemetry.trace import Tracer

_STORM_S = 3.0
NOWHERE = "http://127.0.0.1:9/v1/traces"
FIVE: dict[str, Any] = {
    "agent.session.attr_00": "value-0-" + "x" * 20,
    "agent.session.attr_01": "value-1-" + "x" * 20,
    "agent.session.attr_02": 2000,
    "agent.session.attr_03": 1.5,
    "agent.session.attr_04": False,
}
FAILED: dict[str, Any] = {**FIVE, semconv.SESSION_ERROR_KIND: "ERROR"}


class Null(SpanExporter):
    """Takes everything at once."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take."""
        del spans
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing to do."""
        return timeout_millis >= 0


class Stuck(Null):
    """Never comes back, so that queues stay full."""

    def __init__(self) -> None:
        self.leave = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Hang."""
        del spans
        self.leave.wait()
        return SpanExportResult.SUCCESS


def p99(values: Iterable[float]) -> float:
    """Give the 99th percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def row(name: str, ours: Sequence[float], theirs: Sequence[float], bar: float, *, less: bool = True) -> dict[str, Any]:
    """Make one line of the result; `less` says which way is better."""
    mine, other = statistics.median(ours), statistics.median(theirs)
    ratio = mine / other
    return {
        "figure": name,
        "ours": round(mine, 2),
        "sdk": round(other, 2),
        "ours_p99": round(p99(ours), 2),
        "sdk_p99": round(p99(theirs), 2),
        "ratio": round(ratio, 3),
        "bar": bar,
        "ok": ratio <= bar if less else ratio >= bar,
    }


def cost_of_ending(make: dict[str, Callable[[], SpanProcessor]], rounds: int, spans: int) -> dict[str, list[float]]:
    """Time `span.end()` alone, microseconds a span, the processors in turn."""
    tracers = {name: provider_of(maker()).get_tracer("bench") for name, maker in make.items()}
    figures: dict[str, list[float]] = {name: [] for name in make}
    for number in range(rounds + 1):
        for name, tracer in tracers.items():
            live = [tracer.start_span("op", attributes=FIVE) for _ in range(spans)]
            gc.collect()
            gc.disable()
            begin = time.thread_time()
            for span in live:
                span.end()
            took = time.thread_time() - begin
            gc.enable()
            if number:  # the first round warms up
                figures[name].append(took / spans * 1e6)
    return figures


def trace_lane(rounds: int, *, full: bool) -> dict[str, Any]:
    """Compare the caller's cost of ending a trace-lane span."""
    size = 2048
    stuck = [Stuck(), Stuck()] if full else [Null(), Null()]
    settings: dict[str, Any] = {"max_queue_size": size if full else 65536, "max_export_batch_size": 512}
    figures = cost_of_ending(
        {
            "ours": lambda: TwoLaneSpanProcessor(stuck[0], schedule_delay_millis=50, exit_timeout_s=0.1, **settings),
            "sdk": lambda: BatchSpanProcessor(stuck[1], schedule_delay_millis=50, **settings),
        },
        rounds,
        3000,
    )
    for exporter in stuck:
        if isinstance(exporter, Stuck):
            exporter.leave.set()
    name = "end of a trace-lane span, us" + (", queue full" if full else "")
    return row(name, figures["ours"], figures["sdk"], 1.1)


def one_span() -> ReadableSpan:
    """Make one ended span."""
    collecting = Collecting()
    provider_of(collecting).get_tracer("bench").start_span("op", attributes=FIVE).end()
    return collecting.ended[0]


def timed(call: Callable[[], object], count: int, pause_s: float = 0.0005) -> list[float]:
    """Time single calls, microseconds, with a pause between them."""
    figures = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        figures.append((time.perf_counter() - begin) * 1e6)
        time.sleep(pause_s)
    return figures


def priority_end(tracer: Tracer) -> Callable[[], object]:
    """Give a call that ends one failure; its start is not timed."""
    waiting = [tracer.start_span("op", attributes=FAILED)]

    def end() -> None:
        waiting.pop().end()
        waiting.append(tracer.start_span("op", attributes=FAILED))

    return end


def priority_lane(receiver: Receiver, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Compare ending a priority span, durable and durable plus delivered, with the official export of one span."""
    down = TwoLaneSpanProcessor(endpoint=NOWHERE, spool=folder / "down", exit_timeout_s=0.1)
    up = TwoLaneSpanProcessor(endpoint=receiver.http_endpoint, spool=folder / "up")
    official = OTLPSpanExporter(endpoint=receiver.http_endpoint)
    span = (one_span(),)
    calls: dict[str, Callable[[], object]] = {
        "down": priority_end(provider_of(down).get_tracer("bench")),
        "up": priority_end(provider_of(up).get_tracer("bench")),
        "official": lambda: official.export(span),
    }
    figures: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        timed(call, 50)
    for _ in range(rounds):
        for name, call in calls.items():
            figures[name] += timed(call, 100)
    undelivered = up.stats().priority.undelivered
    for processor in (up, down):
        processor.shutdown()
    official.shutdown()  # type: ignore[no-untyped-call]
    assert undelivered == 0, "the figure would not be of delivered spans"
    return [
        row("end of a priority span, durable, collector down, us", figures["down"], figures["official"], 0.2),
        row("end of a priority span, durable and delivered, us", figures["up"], figures["official"], 0.7),
    ]


def sixteen_threads(receiver: Receiver, folder: Path, rounds: int) -> dict[str, Any]:
    """Compare priority spans delivered a second while 16 threads end them as fast as they can, for 3 s."""

    def rate(processor: SpanProcessor) -> float:
        tracer = provider_of(processor).get_tracer("bench")
        ended = [0] * 16
        begin = time.perf_counter()

        def work(thread: int) -> None:
            while time.perf_counter() - begin < _STORM_S:
                tracer.start_span("op", attributes=FAILED).end()
                ended[thread] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert processor.force_flush()
        took = time.perf_counter() - begin
        processor.shutdown()
        return sum(ended) / took

    ours, sdk = [], []
    for number in range(rounds):
        ours.append(rate(TwoLaneSpanProcessor(endpoint=receiver.http_endpoint, spool=folder / f"t{number}")))
        sdk.append(rate(SimpleSpanProcessor(OTLPSpanExporter(endpoint=receiver.http_endpoint))))
    return row("priority spans from 16 threads, delivered a second", ours, sdk, 5.0, less=False)


def spool_append(folder: Path) -> dict[str, Any]:
    """Time the append of 1 KB."""
    spool = Spool(folder / "append")
    body = os.urandom(1024)
    for _ in range(200):
        spool.append(body, 3)
    figures = []
    for number in range(5000):
        begin = time.perf_counter()
        spool.append(body, 3)
        figures.append((time.perf_counter() - begin) * 1e6)
        if number % 500 == 0:
            spool.tidy()
    spool.close()
    median, tail = statistics.median(figures), p99(figures)
    return {
        "figure": "spool append of 1 KB, us",
        "ours": round(median, 1),
        "ours_p99": round(tail, 1),
        "bar": "p50 60, p99 1000",
        "ok": median <= 60 and tail < 1000,
    }


MEMORY = """
import gc, sys
sys.path.insert(0, sys.argv[1])
from bench_sink import FIVE, Stuck
from sink_support import provider_of
from compass_otel.sink import TwoLaneSpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
N = 30000
kind = sys.argv[2]
make = TwoLaneSpanProcessor if kind == "ours" else BatchSpanProcessor
processor = make(Stuck(), max_queue_size=N + 5000, max_export_batch_size=N + 5000, schedule_delay_millis=3.6e6)
tracer = provider_of(processor).get_tracer("bench")
rss = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
def go(n):
    for i in range(n):
        tracer.start_span("op", attributes={k: v + str(i) if isinstance(v, str) else v for k, v in FIVE.items()}).end()
go(1000); gc.collect(); before = rss(); go(N); gc.collect()
print((rss() - before) / N, flush=True)
import os; os._exit(0)
"""


def memory(rounds: int) -> dict[str, Any]:
    """Compare resident memory for each queued span, each in a process of its own."""
    figures: dict[str, list[float]] = {"ours": [], "sdk": []}
    tests = str(Path(__file__).resolve().parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), tests])}
    for _ in range(rounds):
        for kind, values in figures.items():
            command = [sys.executable, "-c", MEMORY, tests, kind]
            values.append(float(subprocess.run(command, capture_output=True, check=True, env=env).stdout))
    return row("memory of a queued span, bytes", figures["ours"], figures["sdk"], 1.0)


def measured(rounds: int) -> Iterator[dict[str, Any]]:
    """Measure one figure after the other."""
    with Receiver() as receiver, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield trace_lane(rounds, full=False)
        yield trace_lane(rounds, full=True)
        yield from priority_lane(receiver, folder, rounds)
        yield sixteen_threads(receiver, folder, max(rounds // 3, 1))
        yield spool_append(folder)
        yield memory(max(rounds // 3, 1))


def figures(scale: Scale) -> list[Figure]:
    """Give the ratios for the table of all benches."""
    logging.getLogger().addHandler(logging.NullHandler())  # both warn as they do in a host that logs elsewhere
    found = []
    for line in measured(9 if scale.full else 3):
        if "ratio" in line:
            more = "delivered a second" in line["figure"]
            found.append(Figure(f"{line['figure']} / SDK", line["ratio"], line["bar"], at_least=more))
        else:
            found.append(Figure(f"{line['figure']}, median", line["ours"], 60.0))
            found.append(Figure(f"{line['figure']}, p99", line["ours_p99"], 1000.0))
    return found


def main() -> int:
    """Print a line of JSON for each figure; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    logging.getLogger().addHandler(logging.NullHandler())  # both warn as they do in a host that logs elsewhere
    missed = 0
    for line in measured(rounds):
        missed += not line["ok"]
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
