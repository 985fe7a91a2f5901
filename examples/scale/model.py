"""How large `examples/scale` becomes for so many agents: an extrapolation of what was measured on one small machine.

    python examples/scale/model.py                        # 10,000 agents
    python examples/scale/model.py --agents 500 --runs-per-hour 30

The figures it starts from stand in `measured.json` beside it; `tests/scale/sizing.py` measures them. What it assumes:

1. Cost grows in a straight line: with spans, and with the bytes of text in them (the second scrub reads all of it). The
   line goes through two measured loads: the small spans of recorded runs, and the same with long texts.
2. The busiest minute has `--peak` times the spans of the average, and parts are sized for it, at half of what they can
   take at most: the other half is for catching up after an outage, and for what this model does not know.
3. A core is a core of the measured machine. Kafka's cost per span is that of one node; three replicas cost three times.
4. A consumer holds every span from its arrival until the grace after the end of its run, half a run on average. Runs
   whose end never comes, held for DECISION_WAIT, are rare.
5. Kafka compresses spans to a third. The measured ones repeat themselves and became far smaller.
6. The backend answers a consumer within `--backend-ms`, a partition has one request on its way at a time, and each
   priority record comes alone.
7. A failed run's share is kept whole, KEEP_PERCENT of the others too; of every run its priority records.

It does not model networks, what Kafka and the storage need to read old data, nor the storage itself.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass, fields
from pathlib import Path

MEASURED = Path(__file__).parent / "measured.json"
TRACES_PER_CONSUMER = 20_000
"""`num_traces` of consumer.yaml: runs that a consumer follows at once."""
_MIB = 1 << 20
_GIB = 1 << 30
_HALF = 0.5
_COMPRESSION = 3
_REPLICAS = 3
_HOUR_S = 3_600


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one machine: memory and bytes per span; CPU seconds per span, and per MiB beyond `span_bytes`."""

    host_cpu_s: float
    kafka_cpu_s: float
    consumer_cpu_s: float
    host_cpu_s_per_mib: float
    kafka_cpu_s_per_mib: float
    consumer_cpu_s_per_mib: float
    host_rss_mib: float
    host_spans_per_s: float
    """What one host Collector took at most, each request written through to its disk."""
    held_bytes: float
    span_bytes: float


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is to be served; every field is an option of the command."""

    agents: int = 10_000
    agents_per_host: int = 20
    runs_per_hour: float = 20.0
    run_s: float = 120.0
    spans_per_run: int = 40
    priority_per_run: float = 1.5
    failed_share: float = 0.1
    keep_percent: float = 10.0
    peak: float = 3.0
    span_bytes: int = 1_500
    grace_s: float = 10.0
    retention_hours: float = 24.0
    backend_ms: float = 20.0
    consumer_memory_mib: int = 2_048


@dataclass(frozen=True, slots=True)
class Sizes:
    """What that takes, at the peak."""

    spans_per_s: float
    priority_per_s: float
    hosts: int
    host_share: float
    """Of what one host Collector can take, part of one."""
    host_cores: float
    host_memory_mib: int
    host_disk_mib_per_hour: float
    kafka_mib_per_s: float
    kafka_cores: float
    kafka_disk_gib: float
    partitions: int
    consumers: int
    consumers_because: str
    stored_spans_per_s: float
    spool_mib_per_agent_hour: float


def load_measured(path: Path = MEASURED) -> Measured:
    """Read the figures: of the load with most spans, where least is idle, and of the largest that none refused."""
    data = json.loads(path.read_text(encoding="utf-8"))
    rows = [row for row in data["rows"] if not row["refused_requests"]]
    many = max(rows, key=lambda row: row["spans_per_s"])
    large = max(rows, key=_mib_per_span)
    more_mib = _mib_per_span(large) - _mib_per_span(many)

    def costs(name: str) -> tuple[float, float]:
        per_span = many[name] / 1000
        return per_span, max(large[name] / 1000 - per_span, 0) / more_mib

    host, kafka, consumer = (costs(f"{part}_cpu_s") for part in ("host", "kafka", "consumers"))
    return Measured(
        host_cpu_s=host[0],
        kafka_cpu_s=kafka[0],
        consumer_cpu_s=consumer[0],
        host_cpu_s_per_mib=host[1],
        kafka_cpu_s_per_mib=kafka[1],
        consumer_cpu_s_per_mib=consumer[1],
        host_rss_mib=large["host_rss_mib"],
        host_spans_per_s=many["spans_per_s"],
        held_bytes=data["held"]["consumer_bytes_per_span"],
        span_bytes=data["held"]["body_bytes_per_span"],
    )


def _mib_per_span(row: dict[str, float]) -> float:
    return row["mib_per_s"] / row["spans_per_s"]


def size(fleet: Fleet, measured: Measured) -> Sizes:
    """Extrapolate; see the head of this file for what is assumed."""
    runs_per_s = fleet.agents * fleet.runs_per_hour / _HOUR_S * fleet.peak
    spans_per_s = runs_per_s * fleet.spans_per_run
    priority_per_s = runs_per_s * fleet.priority_per_run
    hosts = math.ceil(fleet.agents / fleet.agents_per_host)
    # The topic of all spans, and once more the priority ones.
    through_kafka_per_s = spans_per_s + priority_per_s
    bytes_per_s = through_kafka_per_s * fleet.span_bytes / _COMPRESSION
    average_bytes_per_s = bytes_per_s / fleet.peak
    more_mib = max(fleet.span_bytes - measured.span_bytes, 0) / _MIB
    host_cpu_s = measured.host_cpu_s + more_mib * measured.host_cpu_s_per_mib
    kafka_cpu_s = measured.kafka_cpu_s + more_mib * measured.kafka_cpu_s_per_mib
    partitions_for_priority = priority_per_s * fleet.backend_ms / 1000 / _HALF
    consumers, because = _consumers(fleet, measured, runs_per_s)
    kept = fleet.failed_share + (1 - fleet.failed_share) * fleet.keep_percent / 100
    rest_per_s = spans_per_s - priority_per_s
    return Sizes(
        spans_per_s=spans_per_s,
        priority_per_s=priority_per_s,
        hosts=hosts,
        host_share=spans_per_s / hosts / measured.host_spans_per_s,
        host_cores=spans_per_s / hosts * host_cpu_s / _HALF,
        host_memory_mib=max(512, math.ceil(measured.host_rss_mib / _HALF)),
        host_disk_mib_per_hour=through_kafka_per_s / fleet.peak / hosts * fleet.span_bytes * _HOUR_S / _MIB,
        kafka_mib_per_s=bytes_per_s / _MIB,
        kafka_cores=through_kafka_per_s * kafka_cpu_s * _REPLICAS / _HALF,
        kafka_disk_gib=average_bytes_per_s * fleet.retention_hours * _HOUR_S * _REPLICAS / _GIB,
        partitions=_round_up(max(partitions_for_priority, 2 * consumers)),
        consumers=consumers,
        consumers_because=because,
        stored_spans_per_s=priority_per_s + rest_per_s * kept,
        spool_mib_per_agent_hour=fleet.runs_per_hour * fleet.priority_per_run * fleet.span_bytes / _MIB,
    )


def _consumers(fleet: Fleet, measured: Measured, runs_per_s: float) -> tuple[int, str]:
    """Tell how many, and which need is the largest; at least two, so that one can die."""
    held_s = fleet.run_s / 2 + fleet.grace_s
    more_bytes = max(fleet.span_bytes - measured.span_bytes, 0)
    held_bytes = measured.held_bytes + more_bytes
    cpu_s = measured.consumer_cpu_s + more_bytes / _MIB * measured.consumer_cpu_s_per_mib
    spans_per_s = runs_per_s * fleet.spans_per_run
    needs = {
        "CPU": spans_per_s * cpu_s / _HALF,
        "memory": spans_per_s * held_s * held_bytes / (fleet.consumer_memory_mib * _MIB * _HALF),
        "runs at once": runs_per_s * (fleet.run_s + fleet.grace_s) / (TRACES_PER_CONSUMER * _HALF),
        "one may die": 2.0,
    }
    because = max(needs, key=lambda need: needs[need])
    return math.ceil(needs[because]), because


def _round_up(partitions: float) -> int:
    """Give the next power of two: partitions can't be taken back, and then divide evenly."""
    return 1 << max(math.ceil(partitions) - 1, 1).bit_length()


def table(fleet: Fleet, sizes: Sizes) -> str:
    """Say it as a table."""
    rows = (
        ("spans at the peak", f"{sizes.spans_per_s:,.0f}/s, of them {sizes.priority_per_s:,.0f}/s priority"),
        (f"hosts ({fleet.agents_per_host} agents each)", f"{sizes.hosts:,}"),
        ("Collector of a host", f"{sizes.host_cores:.2f} cores, {sizes.host_memory_mib:,} MiB"),
        ("its load, of what one can take", f"{sizes.host_share:.1%}"),
        ("its disk, for an hour without Kafka", f"{sizes.host_disk_mib_per_hour:,.0f} MiB"),
        ("spool of an agent, for an hour without Collector", f"{sizes.spool_mib_per_agent_hour:.2f} MiB"),
        ("Kafka, three brokers together", f"{sizes.kafka_cores:.1f} cores, {sizes.kafka_mib_per_s:.1f} MiB/s in"),
        (f"Kafka's disks, {fleet.retention_hours:g} h kept", f"{sizes.kafka_disk_gib:,.0f} GiB"),
        ("partitions of each topic", f"{sizes.partitions:,}"),
        (f"consumers ({fleet.consumer_memory_mib:,} MiB each)", f"{sizes.consumers} ({sizes.consumers_because})"),
        ("spans that the storage takes", f"{sizes.stored_spans_per_s:,.0f}/s"),
    )
    lines = ["| part | size |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    return "\n".join(lines)


def parse(arguments: list[str]) -> Fleet:
    """Read the options: one for each field of `Fleet`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for each in fields(Fleet):
        kind = int if each.type == "int" else float
        parser.add_argument(f"--{each.name.replace('_', '-')}", type=kind, default=each.default, help="%(default)s")
    return Fleet(**vars(parser.parse_args(arguments)))


def main() -> int:
    """Print the table."""
    fleet = parse(sys.argv[1:])
    print(table(fleet, size(fleet, load_measured())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
