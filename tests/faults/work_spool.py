"""Work of hosts whose disk, whose spool, whose records or whose exporter is bad."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode

from compass_otel.priority import is_failure
from compass_otel.sink import TwoLaneSpanProcessor
from faults.pipeline import Pipeline
from faults.work_load import close, ready, timing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span

    from faults.pipeline import Setup

_PADDING = "x" * 2000


def fill(setup: Setup) -> dict[str, Any]:
    """End failures of 2 KB, then wait until they are delivered, or be killed.

    Options: `count`; `first` number; `file_bytes`: no file may grow beyond that, until the work is done; `uid`: become
    this user first; `sync_at`: after this number have the kernel write everything to the disk; `hold_s`: do nothing for
    so long once the failures ended; `kill`: end by SIGKILL.
    """
    options = setup.options
    if "uid" in options:
        # What is imported late must be imported now: another user may not read this one's installation.
        close(Pipeline(replace(setup, spool=None)), 10)
        os.setresgid(options["uid"], options["uid"], options["uid"])
        os.setresuid(options["uid"], options["uid"], options["uid"])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if "file_bytes" in options:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options["file_bytes"], hard))
    pipeline = Pipeline(setup)
    sink = pipeline.sink
    assert sink is not None
    first = options.get("first", 0)
    took_s = []
    for number in range(first, first + options["count"]):
        took_s.append(_fail_large(pipeline, f"E{number}"))
        if number == options.get("sync_at"):  # what the kernel does by itself every some seconds
            subprocess.run(["sync", "--file-system", setup.spool or "."], check=True)
    filled = pipeline.stats()
    ready()
    time.sleep(options.get("hold_s", 0.0))
    if options.get("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    deadline = time.monotonic() + options.get("wait_s", 20)
    while sink.stats().priority.undelivered and time.monotonic() < deadline:
        pipeline.work("t")
        time.sleep(0.02)
    return {**close(pipeline), "filled": filled, "ms": timing(took_s)}


def _fail_large(pipeline: Pipeline, name: str) -> float:
    span = pipeline.tracer.start_span(name, attributes={"padding": _PADDING})
    span.set_status(StatusCode.ERROR, "boom")
    begin = time.perf_counter()
    span.end()
    return time.perf_counter() - begin


_BAD = "bad \ud83e text"

POISONS: dict[str, Callable[[Pipeline], Span]] = {
    "surrogate in the name": lambda p: p.tracer.start_span(_BAD),
    "surrogate in the status": lambda p: _with(p, lambda s: s.set_status(Status(StatusCode.ERROR, _BAD))),
    "surrogate in an event's name": lambda p: _with(p, lambda s: s.add_event(_BAD)),
    "surrogate in an attribute's key": lambda p: _with(p, lambda s: s.set_attribute(_BAD, "v")),
    "surrogate in an attribute's value": lambda p: _with(p, lambda s: s.set_attribute("k", _BAD)),
    "int over 64 bit": lambda p: _with(p, lambda s: s.set_attribute("k", 2**80)),
    "span of 10 MB": lambda p: _with(p, lambda s: s.set_attribute("k", "x" * 10_000_000)),
    "10,000 attributes": lambda p: _with(p, lambda s: s.set_attributes({f"k{n}": "v" for n in range(10_000)})),
}


def _with(pipeline: Pipeline, change: Callable[[Span], object]) -> Span:
    span = pipeline.tracer.start_span("poison")
    change(span)
    return span


def poison(setup: Setup) -> dict[str, Any]:
    """For each poison: fifty spans and five failures around one poisoned span of each lane, then a flush."""
    pipeline = Pipeline(setup)
    kind = setup.options["kind"]
    ready()
    for number in range(50):
        if number == 25:
            POISONS[kind](pipeline).end()
            failed = POISONS[kind](pipeline)
            if "status" not in kind:
                failed.set_status(StatusCode.ERROR, "boom")
            failed.end()
        pipeline.work(f"t{number}")
        if not number % 10:
            pipeline.fail(f"E{number}")
    return close(pipeline, 20_000)


class _Bad(SpanExporter):
    """An exporter that raises, hangs or answers nonsense the first times; keeps names of what it took then."""

    def __init__(self, how: str, times: int) -> None:
        self.how = how
        self.left = times
        self.names: list[str] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Misbehave, or take."""
        self.left -= 1
        if self.left >= 0:
            match self.how:
                case "raises":
                    raise MemoryError("of the exporter")
                case "hangs":
                    threading.Event().wait(3600)
                case _:
                    return "nonsense"  # type: ignore[return-value]
        self.names += [span.name for span in spans]
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing to end."""


def bad_exporter(setup: Setup) -> dict[str, Any]:
    """Send to an exporter that misbehaves the first times; for good, where it hangs."""
    how = setup.options["how"]
    exporter = _Bad(how, 10**9 if how == "hangs" else 2)
    pipeline = Pipeline.__new__(Pipeline)
    pipeline.sink = None
    if setup.plain:
        pipeline.attach(BatchSpanProcessor(exporter))
    else:
        pipeline.sink = TwoLaneSpanProcessor(exporter, spool=setup.spool, is_priority=is_failure)
        pipeline.attach(pipeline.sink)
    ready()
    took_s = []
    for number in range(100):
        took_s.append(pipeline.work(f"t{number}"))
        if not number % 10:
            took_s.append(pipeline.fail(f"E{number}"))
    begin = time.monotonic()
    done = threading.Event()

    def flush_twice() -> None:
        pipeline.flush(3000)
        pipeline.flush(3000)
        done.set()

    threading.Thread(target=flush_twice, daemon=True).start()
    done.wait(10)
    result = {
        "names": list(exporter.names),
        "flush_s": time.monotonic() - begin,
        "ms": timing(took_s),
        "stats": pipeline.stats(),
    }
    # The usual way out would hang with the plain SDK.
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(0)


WORK = {"fill": fill, "poison": poison, "bad exporter": bad_exporter}
