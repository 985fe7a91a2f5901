"""Work of the soak's hosts: one lives as long as the soak and accounts for everything, others are killed on the way."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from faults.pipeline import Pipeline, memory_bytes
from faults.work_load import close, ready, timing

if TYPE_CHECKING:
    from faults.pipeline import Setup

_MEMORY_EVERY_S = 5.0


class _Made:
    """What was ended, and how long that took."""

    def __init__(self, pipeline: Pipeline, prefix: str) -> None:
        self._pipeline = pipeline
        self._prefix = prefix
        self.trace = 0
        self.priority = 0
        self.took_s: list[float] = []

    def work(self, context: Any = None) -> None:
        """End a span of the trace lane."""
        span = self._pipeline.tracer.start_span(f"{self._prefix}t{self.trace}", context)
        self.trace += 1
        begin = time.perf_counter()
        span.end()
        self.took_s.append(time.perf_counter() - begin)

    def fail(self) -> str:
        """End a failure; returns its name."""
        name = f"{self._prefix}E{self.priority}"
        self.priority += 1
        self.took_s.append(self._pipeline.fail(name))
        return name

    def run(self) -> str:
        """Start a run, end a step of it and then the run; returns the run's name."""
        name = f"{self._prefix}E{self.priority}"
        self.priority += 1
        run = self._pipeline.run(name)
        self.work(trace.set_span_in_context(run))
        run.end()
        return name


def soak(setup: Setup) -> dict[str, Any]:
    """End spans at random rates with bursts; look at the numbers all the time: they must always add up."""
    pipeline = Pipeline(setup)
    chance = random.Random(setup.options["seed"])  # noqa: S311 - a test's course, to be repeated
    made = _Made(pipeline, "s")
    memory: list[int] = []
    unbalanced = 0
    begin = ready()
    end, look_at = begin + setup.options["seconds"], begin
    while (now := time.monotonic()) < end:
        match chance.choices(("work", "fail", "run", "burst", "pause"), (80, 10, 5, 0.05, 5))[0]:
            case "work":
                made.work()
            case "fail":
                made.fail()
            case "run":
                made.run()
            case "burst":
                for _ in range(3000):
                    made.work()
            case _:
                time.sleep(chance.random() / 10)
        time.sleep(0.001)
        if now >= look_at:
            look_at = now + _MEMORY_EVERY_S
            memory.append(memory_bytes())
            unbalanced += not _adds_up(pipeline.stats())
    return {
        **close(pipeline, setup.options.get("flush_ms", 60_000)),
        "trace": made.trace,
        "priority": made.priority,
        "ms": timing(made.took_s),
        "memory": memory,
        "unbalanced": unbalanced,
        "waiting_at_end": pipeline.stats(),
    }


def mortal(setup: Setup) -> dict[str, Any]:
    """End failures and runs, write down each that ended, until somebody kills this process."""
    pipeline = Pipeline(setup)
    made = _Made(pipeline, f"m{os.getpid()}-{time.time_ns()}-")
    ready()
    with Path(setup.options["log"]).open("a", encoding="ascii") as log:
        while True:
            name = made.run() if made.priority % 3 == 0 else made.fail()
            log.write(name + "\n")
            log.flush()
            sys.stdout.flush()
            time.sleep(0.02)


def _adds_up(stats: dict[str, Any]) -> bool:
    return all(
        lane["accepted"] + lane["recovered"] == lane["delivered"] + lane["waiting"] + lane["spooled"] + lane["lost"]
        for lane in (stats["priority"], stats["trace"])
    )


WORK = {"soak": soak, "mortal": mortal}
