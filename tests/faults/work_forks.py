"""Work of hosts that fork, run many threads or an event loop. Every span's name is used once in all processes."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from faults.pipeline import Pipeline
from faults.work_load import close, ready

if TYPE_CHECKING:
    from collections.abc import Iterable

    from faults.pipeline import Setup

_FLUSH_MS = 10_000


def _pair(pipeline: Pipeline, name: str) -> None:
    """End a span of each lane."""
    pipeline.work(f"t {name}")
    pipeline.fail(f"E {name}")


def _told(pipeline: Pipeline, names: Iterable[str], statuses: list[int]) -> dict[str, Any]:
    return {**close(pipeline, _FLUSH_MS), "names": list(names), "statuses": statuses}


def fork_under_load(setup: Setup) -> dict[str, Any]:
    """Fork again and again while another thread ends spans; each child ends some of its own."""
    pipeline = Pipeline(setup)
    children = setup.options["children"]
    stop = threading.Event()
    made: list[str] = []

    def load() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            _pair(pipeline, f"p{number}")
            made.append(f"p{number}")
            time.sleep(0.002)

    ready()
    thread = threading.Thread(target=load)
    thread.start()
    pids = []
    for child in range(children):
        time.sleep(0.02)
        pid = os.fork()
        if not pid:
            for number in range(5):
                _pair(pipeline, f"c{child}-{number}")
            os._exit(0 if pipeline.flush(_FLUSH_MS) else 1)
        pids.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    stop.set()
    thread.join()
    return _told(pipeline, made + [f"c{child}-{number}" for child in range(children) for number in range(5)], statuses)


def _process_child(setup: Setup, number: int) -> None:
    pipeline = _preloaded or Pipeline(setup)
    _pair(pipeline, f"c{number}")


_preloaded: Pipeline | None = None


def multiprocessing_children(setup: Setup) -> dict[str, Any]:
    """Children of `multiprocessing` that just return; no exit hook of the interpreter runs in them."""
    global _preloaded  # noqa: PLW0603 - as a server that preloads its application has it
    pipeline = Pipeline(setup)
    method = setup.options["method"]
    _pair(pipeline, "parent")
    if method == "fork":
        _preloaded = pipeline
    ready()
    context: Any = multiprocessing.get_context(method)
    processes = [context.Process(target=_process_child, args=(setup, number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    names = ["parent", *(f"c{number}" for number in range(4))]
    return _told(pipeline, names, [process.exitcode for process in processes])


def preload(setup: Setup) -> dict[str, Any]:
    """As a preloading server does: made and used before the fork, workers with threads, ended by SIGTERM."""
    pipeline = Pipeline(setup)
    _pair(pipeline, "master")
    pipeline.flush(_FLUSH_MS)
    ready()
    pids = []
    for worker in range(4):
        pid = os.fork()
        if not pid:
            _serve(pipeline, worker)
        pids.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    names = ["master", *(f"w{worker}-{number}" for worker in range(4) for number in range(40))]
    return _told(pipeline, names, statuses)


def _serve(pipeline: Pipeline, worker: int) -> None:
    """Answer forty requests in four threads, then end as the server's workers do when they are told to."""

    def on_term(*_: object) -> None:
        pipeline.processor.shutdown()
        os._exit(0)

    signal.signal(signal.SIGTERM, on_term)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: _pair(pipeline, f"w{worker}-{number}"), range(40)))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
    os._exit(1)


def threads(setup: Setup) -> dict[str, Any]:
    """Sixteen threads end spans of both lanes at once."""
    pipeline = Pipeline(setup)
    ready()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: _pair(pipeline, str(number)), range(setup.options["count"])))
    return _told(pipeline, map(str, range(setup.options["count"])), [])


def event_loop(setup: Setup) -> dict[str, Any]:
    """End failures on an event loop and see how long it stood still."""
    pipeline = Pipeline(setup)
    longest = 0.0

    async def task(number: int) -> None:
        await asyncio.sleep(0)
        _pair(pipeline, str(number))

    async def watch(stop: asyncio.Event) -> None:
        nonlocal longest
        while not stop.is_set():
            begin = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - begin)

    async def main() -> None:
        stop = asyncio.Event()
        watcher = asyncio.create_task(watch(stop))
        for start in range(0, setup.options["count"], 20):
            await asyncio.gather(*(task(number) for number in range(start, start + 20)))
        stop.set()
        await watcher

    ready()
    asyncio.run(main())
    return {**_told(pipeline, map(str, range(setup.options["count"])), []), "longest_ms": longest * 1e3}


WORK = {
    "fork under load": fork_under_load,
    "multiprocessing": multiprocessing_children,
    "preload": preload,
    "16 threads": threads,
    "asyncio": event_loop,
}
