"""Faults in the real programs, and what is lost to them: ours beside what most people run.

`python tests/stack/faults.py` prints the figures of both; the tests hold ours to zero, with short cuts.

- ours: `collector-config.yaml`, and the product's two-lane processor with a spool;
- usual: tail sampling and a queue in memory, and the SDK's BatchSpanProcessor with the stock OTLP exporter.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self

# As a script it is no part of a package.
sys.path.insert(0, str(Path(__file__).parent.parent))

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from compass_otel.sink import TwoLaneSpanProcessor
from receivers import Receiver, wait_until
from stack.build import HERE
from stack.jaeger_api import JaegerApi
from stack.programs import CONFIG, Collector, Jaeger
from stack.runs import Agents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.sdk.trace import SpanProcessor

    from stack.runs import Key

Setup = Literal["ours", "usual"]
RUNS: Final = 200
RATE_PER_S: Final = 20
SOAK_S: Final = 300.0
_ARRIVAL_LIMIT_S: Final = 150.0
_USUAL_LIMIT_S: Final = 20.0
_FLUSH_MS: Final = 60_000


class Restartable(Protocol):
    """Something that can be killed and started again."""

    def kill(self) -> None:
        """End it at once."""

    def start(self) -> object:
        """Start it, again on the same ports."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What became of the priority records of a scenario."""

    sent: int
    missing: int
    twice: int
    longest_run_s: float = 0.0
    """How long the slowest run kept its caller, all its records together."""
    kills: int = 0

    def line(self) -> str:
        """Say it in the words of the table."""
        kills = f", {self.kills} kills" if self.kills else ""
        return (
            f"{self.missing} of {self.sent} missing, {self.twice} twice{kills}, slowest run {self.longest_run_s:.2f} s"
        )


class Sending:
    """Agents whose spans go to a Collector in one of the two ways."""

    def __init__(self, setup: Setup, collector: Collector, **settings: object) -> None:
        self._spool = tempfile.TemporaryDirectory(prefix="spool-")
        endpoint = f"{collector.http_endpoint}/v1/traces"
        self.processor: SpanProcessor = (
            TwoLaneSpanProcessor(endpoint=endpoint, spool=self._spool.name, **settings)  # type: ignore[arg-type]
            if setup == "ours"
            else BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint))
        )
        self.agents = Agents(self.processor)
        self.longest_s = 0.0

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Shut down, and forget the spool."""
        self.processor.shutdown()
        self._spool.cleanup()

    def run(self, kind: str | None = None) -> None:
        """Let one agent run, and time it."""
        began_s = time.monotonic()
        self.agents.run(kind)
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)

    def flush(self) -> bool:
        """Wait until all was acknowledged."""
        return self.processor.force_flush(_FLUSH_MS)

    def loss(self, found: Iterable[Key], kills: int = 0) -> Loss:
        """Compare what was recorded with what was found at the end."""
        priority = self.agents.seen.priority
        counts = Counter(key for key in found if key in priority)
        twice = sum(1 for count in counts.values() if count > 1)
        return Loss(len(priority), len(priority - counts.keys()), twice, self.longest_s, kills)


def collector_of(setup: Setup, traces: str, *overlays: str, **more: object) -> Collector:
    """Make the Collector of a setup, towards a backend."""
    config = CONFIG if setup == "ours" else HERE / "usual.yaml"
    return Collector(*overlays, config=config, traces=traces, **more)  # type: ignore[arg-type]


def killed_after_acknowledging(setup: Setup, *, backend_down: bool, runs: int = RUNS) -> Loss:
    """SIGKILL the Collector right after it acknowledged everything; it, and Jaeger if it was down, start again."""
    with ExitStack() as stack:
        jaeger = Jaeger()
        stack.callback(jaeger.__exit__)
        if not backend_down:
            jaeger.start()
        collector = stack.enter_context(collector_of(setup, jaeger.otlp_endpoint))
        sending = stack.enter_context(Sending(setup, collector))
        for _ in range(runs):
            sending.run()
        assert sending.flush(), "the Collector did not acknowledge"
        collector.kill()
        if backend_down:
            jaeger.start()
        collector.start()
        api = JaegerApi(jaeger.query_url)
        priority = sending.agents.seen.priority
        api.wait_for(priority, _ARRIVAL_LIMIT_S if setup == "ours" else _USUAL_LIMIT_S)
        return sending.loss(span.key for span in api.traces({trace_id for trace_id, _ in priority}))


def killed_at_random(setup: Setup, duration_s: float, seed: int = 1) -> Loss:
    """Kill and restart the Collector and what stands behind it at random, under 20 runs a second."""
    with ExitStack() as stack:
        backend = stack.enter_context(Receiver())
        collector = stack.enter_context(collector_of(setup, f"127.0.0.1:{backend.grpc_port}"))
        sending = stack.enter_context(Sending(setup, collector))
        over = threading.Event()
        chaos = Chaos((collector, backend), over, random.Random(seed))  # noqa: S311 - no secret
        chaos.start()
        _run_at_rate(sending, duration_s)
        over.set()
        chaos.join()
        sending.flush()
        priority = sending.agents.seen.priority
        limit_s = _ARRIVAL_LIMIT_S if setup == "ours" else _USUAL_LIMIT_S
        wait_until(lambda: priority <= set(backend.keys()), limit_s)
        return sending.loss(backend.keys(), chaos.kills)


def _run_at_rate(sending: Sending, duration_s: float) -> None:
    began_s = time.monotonic()
    number = 0
    pause = threading.Event()
    while (due_s := number / RATE_PER_S) < duration_s:
        pause.wait(max(began_s + due_s - time.monotonic(), 0))
        sending.run()
        number += 1


class Chaos(threading.Thread):
    """Kills one of the programs every few seconds, and starts it again a moment later."""

    def __init__(self, victims: tuple[Restartable, ...], over: threading.Event, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.kills = 0
        self._victims = victims
        self._over = over
        self._chance = chance

    def run(self) -> None:
        """Go on until it is over; everything runs then."""
        while not self._over.wait(self._chance.uniform(0.5, 4.0)):
            victim = self._chance.choice(self._victims)
            victim.kill()
            self.kills += 1
            self._over.wait(self._chance.uniform(0.0, 3.0))
            victim.start()


def main() -> int:
    """Print the figures of both setups; takes about fifteen minutes."""
    soak_s = float(sys.argv[1]) if len(sys.argv) > 1 else SOAK_S
    scenarios: list[tuple[str, Callable[[Setup], Loss]]] = [
        (
            f"Collector SIGKILLed right after it acknowledged {RUNS} runs, Jaeger up",
            lambda setup: killed_after_acknowledging(setup, backend_down=False),
        ),
        (
            "the same, Jaeger down until later",
            lambda setup: killed_after_acknowledging(setup, backend_down=True),
        ),
        (
            f"Collector and backend killed at random for {soak_s:g} s under {RATE_PER_S} runs/s",
            lambda setup: killed_at_random(setup, soak_s),
        ),
    ]
    print("| priority records | usual | ours |\n|---|---|---|")
    for name, scenario in scenarios:
        usual, ours = scenario("usual"), scenario("ours")
        print(f"| {name} | {usual.line()} | {ours.line()} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
