"""Measures what `examples/scale` costs on this machine: `python tests/scale/sizing.py [FILE]` prints the table.

With FILE it also writes the figures that `examples/scale/model.py` starts from. Takes about seven minutes. CPU times
are those of the measured processes alone; rates and answers also tell what else the machine was doing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

# As a script it is no part of a package.
sys.path.insert(0, str(Path(__file__).parent.parent))

from receivers import Receiver, wait_until
from scale.build import HERE
from scale.parts import Consumer, HostCollector, Kafka

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stack.programs import Collector, RunningProgram

_DURATION_S: Final = 20.0
_RUNS_PER_S: Final = 5.0
_SENDERS: Final = (1, 10, 100)
_ARRIVAL_LIMIT_S: Final = 120.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_MIB: Final = 1 << 20
_LONG_TEXTS: Final = ((16, 512), (128, 512), (128, 40), (1024, 512))
"""KiB of text in each run, and the limit of the host Collector's memory in MiB: the last two are more than it bears."""
_HELD_DURATION_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Row:
    """One load, and what it took; CPU in seconds per 1,000 spans."""

    load: str
    senders: int
    spans_per_s: float
    mib_per_s: float
    answer_p50_ms: float
    answer_p99_ms: float
    host_cpu_s: float
    kafka_cpu_s: float
    consumers_cpu_s: float
    host_rss_mib: float
    refused_requests: int
    priority_sent: int
    priority_missing: int

    def line(self) -> str:
        """Say it as a row of the table; what hardly anything got through has no price."""
        prices = (self.host_cpu_s, self.kafka_cpu_s, self.consumers_cpu_s)
        cpu = " | ".join(f"{price:.2f}" if self.spans_per_s >= 1 else "-" for price in prices)
        return (
            f"| {self.load} | {self.spans_per_s:,.0f} | {self.mib_per_s:.1f} | {self.answer_p50_ms:,.0f} / "
            f"{self.answer_p99_ms:,.0f} | {cpu} | {self.host_rss_mib:.0f} | {self.refused_requests:,} | "
            f"{self.priority_missing} of {self.priority_sent:,} |"
        )


HEAD: Final = """\
| senders | spans/s | MiB/s | answer p50 / p99, ms | CPU s per 1,000 spans: host Collector | Kafka | consumers \
| host Collector RSS, MiB | requests refused | priority missing |
|---|---|---|---|---|---|---|---|---|---|"""


def cpu_s(program: RunningProgram) -> float:
    """Give the CPU time that a program has used, seconds; Linux only."""
    fields = Path(f"/proc/{program.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Peak(threading.Thread):
    """Looks at the memory of a program all the time."""

    def __init__(self, program: RunningProgram) -> None:
        super().__init__(daemon=True)
        self.rss_bytes = program.rss_bytes()
        self._program = program
        self._over = threading.Event()

    def run(self) -> None:
        """Note the highest."""
        while not self._over.wait(0.1):
            self.rss_bytes = max(self.rss_bytes, self._program.rss_bytes())

    def stop(self) -> float:
        """Give the highest, MiB."""
        self._over.set()
        self.join()
        return self.rss_bytes / _MIB


def send(host: Collector, senders: int, runs_per_s: float, duration_s: float, **more: object) -> dict[str, Any]:
    """Let senders send; give their report."""
    port = int(host.environment["OTLP_HTTP_ENDPOINT"].rpartition(":")[2])
    order = {"port": port, "senders": senders, "runs_per_s": runs_per_s, "duration_s": duration_s, **more}
    done = subprocess.run(
        [sys.executable, str(HERE / "sender.py"), json.dumps(order)],
        capture_output=True,
        text=True,
        check=True,
        timeout=duration_s + 180,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


class Bench:
    """All parts but the storage, which only records what arrives."""

    def __init__(self, stack: ExitStack, **variables: str) -> None:
        self.kafka = stack.enter_context(Kafka())
        self.storage = stack.enter_context(Receiver())
        traces = f"127.0.0.1:{self.storage.grpc_port}"
        values: Mapping[str, str] = {"KEEP_PERCENT": "10", "DECISION_GRACE": "2s", **variables}
        names = ("consumer-0", "consumer-1")
        self.consumers = [stack.enter_context(Consumer(name, self.kafka, traces, variables=values)) for name in names]
        self.host = stack.enter_context(HostCollector(self.kafka, variables=values))

    def _cpu_s(self) -> tuple[float, float, float]:
        return cpu_s(self.host), cpu_s(self.kafka), sum(cpu_s(each) for each in self.consumers)

    def row(self, load: str, senders: int, runs_per_s: float, **more: object) -> Row:
        """Put a load on it, and wait until every priority record has arrived."""
        before, peak = self._cpu_s(), Peak(self.host)
        peak.start()
        report = send(self.host, senders, runs_per_s, _DURATION_S, **more)
        priority = {(key[:32], key[32:]) for key in report["priority"]}
        wait_until(lambda: priority <= set(self.storage.keys()), _ARRIVAL_LIMIT_S)
        host, kafka, consumers = (
            (after - earlier) * 1000 / max(report["spans"], 1)
            for after, earlier in zip(self._cpu_s(), before, strict=True)
        )
        return Row(
            load,
            senders,
            report["spans"] / _DURATION_S,
            report["body_bytes"] / _DURATION_S / _MIB,
            report["p50_ms"],
            report["p99_ms"],
            host,
            kafka,
            consumers,
            peak.stop(),
            report["refused"],
            len(priority),
            len(priority - set(self.storage.keys())),
        )


@dataclass(frozen=True, slots=True)
class Held:
    """What spans cost that wait: in the memory of a consumer for the end of their run, and in Kafka's log."""

    spans: int
    consumer_bytes_per_span: float
    kafka_bytes_per_span: float
    body_bytes_per_span: float


def held(bench: Bench) -> Held:
    """Send runs that never end, so that consumers hold them; see what memory and log grew by."""
    before = sum(each.rss_bytes() for each in bench.consumers)
    log_before = _size(bench.kafka.folder)
    report = send(bench.host, 10, 0, _HELD_DURATION_S, with_run_span=False)
    spans = report["spans"]

    def received() -> bool:
        name = "otelcol_receiver_accepted_spans"
        return sum(each.metrics().get(name, 0) for each in bench.consumers) >= float(spans)

    assert wait_until(received, _ARRIVAL_LIMIT_S), "the consumers have not read everything"
    grown = sum(each.rss_bytes() for each in bench.consumers) - before
    log = _size(bench.kafka.folder) - log_before
    return Held(spans, grown / spans, log / spans, report["body_bytes"] / spans)


def _size(folder: Path) -> int:
    # Segments have room to grow into: what counts is what is written.
    return sum(path.stat().st_size for path in folder.rglob("agent-*/*.log"))


def main() -> int:
    """Measure, print, write."""
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    began_s = time.monotonic()
    print(HEAD)
    rows: list[Row] = []
    with ExitStack() as stack:
        bench = Bench(stack)
        for senders in _SENDERS:
            rows.append(bench.row(f"{senders}, {_RUNS_PER_S:g} runs/s each", senders, _RUNS_PER_S))
            print(rows[-1].line(), flush=True)
        rows.append(bench.row("100, as fast as they can", 100, 0))
        print(rows[-1].line(), flush=True)
    for text_kib, limit_mib in _LONG_TEXTS:
        with ExitStack() as stack:
            bench = Bench(stack, MEMORY_LIMIT_MIB=str(limit_mib), MEMORY_SPIKE_MIB=str(limit_mib // 4))
            load = f"100, as fast as they can, {text_kib:,} KiB of text in each run, limit {limit_mib} MiB"
            rows.append(bench.row(load, 100, 0, padding_bytes=text_kib << 10))
            print(rows[-1].line(), flush=True)
    with ExitStack() as stack:
        waiting = held(Bench(stack, MEMORY_LIMIT_MIB="4096", MEMORY_SPIKE_MIB="512"))
    print(
        f"\n{waiting.spans:,} spans held: {waiting.consumer_bytes_per_span:,.0f} bytes each in a consumer, "
        f"{waiting.kafka_bytes_per_span:,.0f} in Kafka's log, {waiting.body_bytes_per_span:,.0f} as sent"
    )
    print(f"took {time.monotonic() - began_s:.0f} s; load of the machine after: {os.getloadavg()[0]:.1f}")
    if len(sys.argv) > 1:
        figures = {"rows": [asdict(row) for row in rows], "held": asdict(waiting)}
        Path(sys.argv[1]).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
