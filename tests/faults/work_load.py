"""Work of hosts under load: as fast as it goes, or at a steady rate while something happens to the receiver."""

from __future__ import annotations

import itertools
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import StatusCode

from faults.pipeline import Pipeline, ended, memory_bytes
from faults.report import percentile

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Span

    from faults.pipeline import Setup

_SAMPLE_EVERY = 16


def ready() -> float:
    """Tell the other side that the work begins; returns when that was."""
    now = time.monotonic()
    sys.stdout.write(f"ready {now}\n")
    sys.stdout.flush()
    return now


def timing(took_s: list[float]) -> dict[str, float]:
    """Sum durations up, in milliseconds."""
    return {
        "count": len(took_s),
        "p50_ms": percentile(took_s, 50) * 1e3,
        "p99_ms": percentile(took_s, 99) * 1e3,
        "max_ms": max(took_s, default=0.0) * 1e3,
    }


def close(pipeline: Pipeline, timeout_ms: int = 30_000) -> dict[str, Any]:
    """Flush, shut down, and tell both and the numbers."""
    begin = time.monotonic()
    delivered = pipeline.flush(timeout_ms)
    flush_s = time.monotonic() - begin
    pipeline.provider.shutdown()
    return {
        "flushed": delivered,
        "flush_s": flush_s,
        "shutdown_s": time.monotonic() - begin - flush_s,
        "stats": pipeline.stats(),
        "rss_bytes": memory_bytes(),
    }


def overload(setup: Setup) -> dict[str, Any]:
    """Seven threads end trace spans as fast as they can, one ends failures at 100 a second."""
    pipeline = Pipeline(setup)
    pipeline.fail("warm")
    begin = ready()
    end = begin + setup.options["seconds"]
    numbers = itertools.count()
    made: list[int] = []
    trace_s: list[float] = []
    failure_s: list[float] = []

    def produce() -> None:
        count = 0
        while time.monotonic() < end:
            took = pipeline.work(f"t{next(numbers)}")
            count += 1
            if not count % _SAMPLE_EVERY:
                trace_s.append(took)
        made.append(count)

    def fail() -> None:
        for number in itertools.count():
            at = begin + number / 100
            if at >= end:
                return
            time.sleep(max(at - time.monotonic(), 0.0))
            failure_s.append(pipeline.fail(f"E{number}"))

    _in_threads([produce] * 7 + [fail])
    load_s = time.monotonic() - begin
    rest = close(pipeline)
    return {
        **rest,
        "trace": sum(made),
        "failures": len(failure_s) + 1,
        "load_s": load_s,
        "busy_s": load_s + rest["flush_s"],
        "trace_ms": timing(trace_s),
        "failure_ms": timing(failure_s),
    }


def paced(setup: Setup) -> dict[str, Any]:
    """End spans at a steady rate, some of them failures, for some seconds."""
    options = setup.options
    rate, seconds, failing = options["rate"], options["seconds"], options.get("failing", 10)
    pipeline = Pipeline(setup)
    if options.get("clock"):
        _upset_the_clock()
    pipeline.fail("warm")
    floor = _Floor()
    times: dict[str, list[float]] = {"all": [], "open": [], "failures_open": [], "failures": [], "bare": []}
    marked = 0
    begin = ready()
    for number in range(int(rate * seconds)):
        time.sleep(max(begin + number / rate - time.monotonic(), 0.0))
        is_open, is_failure = pipeline.is_circuit_open, not number % failing
        if options.get("marker") and not number % options["marker"]:
            span = pipeline.tracer.start_span(f"{'E' if is_failure else 't'}{number}", attributes={"test.poison": 1})
            marked += 1
            took = _end_marked(span, is_failure=is_failure)
        else:
            took = pipeline.fail(f"E{number}") if is_failure else pipeline.work(f"t{number}")
        times["all"].append(took)
        times["bare"].append(floor.take(durable=is_failure))
        if is_failure:
            times["failures"].append(took)
        if is_open:
            times["open"].append(took)
            if is_failure:
                times["failures_open"].append(took)
    floor.close()
    numbers = range(int(rate * seconds))
    failures = len(range(0, len(numbers), failing))
    return {
        **close(pipeline, options.get("flush_ms", 30_000)),
        "trace": len(numbers) - failures,
        "failures": failures + 1,
        "marked": marked,
        **{f"{name}_ms": timing(took_s) for name, took_s in times.items()},
    }


class _Floor:
    """What the machine takes at that moment for the least that can be done: beside each span one that nobody processes.

    Beside a failure also one insert of 1 KB into a database of its own, with the settings of the spool: what keeping a
    failure through the death of the process costs at the least.
    """

    def __init__(self) -> None:
        self._tracer = TracerProvider(shutdown_on_exit=False).get_tracer("bare")
        self._folder = tempfile.TemporaryDirectory()
        self._database = sqlite3.connect(Path(self._folder.name) / "floor.sqlite3", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL").fetchall()
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute("CREATE TABLE record(id INTEGER PRIMARY KEY, body BLOB)")

    def take(self, *, durable: bool) -> float:
        """Do it; returns how long it took, seconds."""
        took = ended(self._tracer.start_span("bare"))
        if durable:
            begin = time.perf_counter()
            self._database.execute("INSERT INTO record(body) VALUES (?)", (b"x" * 1024,))
            took += time.perf_counter() - begin
        return took

    def close(self) -> None:
        """Remove it."""
        self._database.close()
        self._folder.cleanup()


def _end_marked(span: Span, *, is_failure: bool) -> float:
    if is_failure:
        span.set_status(StatusCode.ERROR, "boom")
    return ended(span)


def _upset_the_clock() -> None:
    """Set the wall clock a day back and forth at every look, as seen from this process."""
    offsets = itertools.cycle((0.0, 86_400.0, -86_400.0, 3.0))
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + next(offsets)
    time.time_ns = lambda: real_ns() + int(next(offsets) * 1e9)


def rest(setup: Setup) -> dict[str, Any]:
    """Be the next process on a spool: deliver what is there."""
    pipeline = Pipeline(setup)
    sink = pipeline.sink
    assert sink is not None
    ready()
    deadline = time.monotonic() + setup.options["timeout_s"]
    # Records of others than this process are no part of a flush's question.
    while sink.stats().priority.undelivered and time.monotonic() < deadline:
        time.sleep(0.01)
    return close(pipeline)


def _in_threads(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


WORK = {"overload": overload, "paced": paced, "rest": rest}
