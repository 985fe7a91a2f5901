"""Work of hosts that end: killed right after a failure or in the middle of a run, by signals, by themselves."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from faults.pipeline import Pipeline
from faults.work_load import ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from faults.pipeline import Setup


def kills(setup: Setup) -> dict[str, Any]:
    """Fork child after child; each makes a pipeline of its own, does its part and is killed at once.

    Forking saves the start of an interpreter each time; the pipeline is made in the child, so nothing is inherited.
    """
    ready()
    statuses = []
    for number in range(setup.options["times"]):
        pid = os.fork()
        if not pid:
            _die(setup, number)
        statuses.append(os.waitpid(pid, 0)[1])
    return {"killed": sum(status == signal.SIGKILL for status in statuses)}


def _die(setup: Setup, number: int) -> None:
    pipeline = Pipeline(setup)
    if setup.options.get("run"):
        run = pipeline.run(f"run{number}")
        from opentelemetry import trace  # noqa: PLC0415 - in the child alone

        context = trace.set_span_in_context(run)
        pipeline.tracer.start_span("chat", context, attributes={"gen_ai.operation.name": "chat"}).end()
        pipeline.tracer.start_span("chat open", context, attributes={"gen_ai.operation.name": "chat"})
    else:
        pipeline.fail(f"E{number}")
    os.kill(os.getpid(), signal.SIGKILL)


def _sys_exit_in_a_thread() -> None:
    thread = threading.Thread(target=lambda: sys.exit(3))
    thread.start()
    thread.join()


def _signalled(number: signal.Signals) -> None:
    if number is signal.SIGINT:  # a shell has its background jobs ignore it
        signal.signal(number, signal.default_int_handler)
    os.kill(os.getpid(), number)
    time.sleep(20)


def _raise() -> None:
    raise RuntimeError("unhandled")


ENDS: dict[str, Callable[[], object]] = {
    "normal exit": lambda: None,
    "sys.exit": lambda: sys.exit(3),
    "sys.exit in a thread": _sys_exit_in_a_thread,
    "unhandled exception": _raise,
    "os._exit": lambda: os._exit(7),
    "SIGTERM": lambda: _signalled(signal.SIGTERM),
    "SIGINT": lambda: _signalled(signal.SIGINT),
}


def ends(setup: Setup) -> dict[str, Any]:
    """End some spans, some of them failures, then end in the way that is asked for."""
    pipeline = Pipeline(setup)
    for number in range(20):
        pipeline.work(f"t{number}")
        if not number % 4:
            pipeline.fail(f"E{number}")
    ready()
    ENDS[setup.options["end"]]()
    return {}


def handlers(setup: Setup) -> dict[str, Any]:
    """Flush or shut down while a signal handler does the same in the middle of it."""
    pipeline = Pipeline(setup)
    took: list[float] = []
    processor = pipeline.processor

    def call(what: str, timeout_ms: int) -> None:
        if what == "shutdown":
            processor.shutdown(*([timeout_ms] if pipeline.sink else []))
        else:
            processor.force_flush(timeout_ms)

    def handler(*_: object) -> None:
        begin = time.monotonic()
        call(setup.options["handler"], 400)
        took.append(time.monotonic() - begin)

    signal.signal(signal.SIGTERM, handler)
    for number in range(20):
        pipeline.work(f"t{number}")
        pipeline.fail(f"E{number}")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM))
    ready()
    timer.start()
    begin = time.monotonic()
    while not took and time.monotonic() - begin < 10:
        call(setup.options["during"], 3000)
    sys.stdout.write(f'{{"handler_s": {took[0]}, "whole_s": {time.monotonic() - begin}}}\n')
    sys.stdout.flush()
    os._exit(0)


WORK = {"kills": kills, "ends": ends, "handlers": handlers}
