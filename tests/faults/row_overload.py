"""Row: eight threads end more spans than any queue holds."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from faults.driver import PROTOCOLS, Host, endpoint_of, names_in
from faults.pipeline import Setup
from faults.report import OURS, PLAIN, Report
from receivers import IMMEDIATE, Mode, Receiver

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

_NEWEST = 2000
"""Of the queue's 2,048: a few spans are between their number and the queue."""
COLUMNS = (
    "processor",
    "protocol",
    "receiver",
    "ended/s",
    "trace delivered/s",
    "trace lost",
    "drops counted",
    "failures lost",
    f"newest {_NEWEST:,} kept",
    "end of a trace span p50/p99 ms",
    "end of a failure p50/p99/max ms",
)


def measure(
    seconds: float = 60.0, protocols: Sequence[str] = PROTOCOLS, delays_s: Sequence[float] = (0.0, 0.05)
) -> Report:
    """Run each case with the plain SDK and with ours, one after the other."""
    report = Report(f"Overload: 8 threads for {seconds:g} s, queue 2,048", COLUMNS)
    for delay_s in delays_s:
        for protocol in protocols:
            plain = _run(report, protocol, delay_s, seconds, plain=True)
            ours = _run(report, protocol, delay_s, seconds, plain=False)
            report.expect_in_time(
                ours >= plain, f"{protocol}, {delay_s:g} s: ours delivered {ours:,.0f}/s, the plain SDK {plain:,.0f}/s"
            )
    return report


def _run(report: Report, protocol: str, delay_s: float, seconds: float, *, plain: bool) -> float:
    """Run one case; returns trace spans delivered per second."""
    with Receiver() as receiver, tempfile.TemporaryDirectory() as folder:
        receiver.behave(Mode(delay_s=delay_s) if delay_s else IMMEDIATE)
        endpoint = endpoint_of(receiver, protocol)
        setup = Setup("overload", endpoint, protocol, plain, None if plain else folder, options={"seconds": seconds})
        host = Host(setup)
        host.wait_ready()
        result = host.result(seconds + 120)
        stored = names_in(receiver)
    return _judge(report, setup, result, stored, delay_s)


def _judge(report: Report, setup: Setup, result: dict[str, Any], stored: Counter[str], delay_s: float) -> float:
    produced, failures = result["trace"], result["failures"]
    arrived = sum(name.startswith("t") for name in stored)
    failures_lost = failures - sum(name.startswith(("E", "warm")) for name in stored)
    kept = sum(f"t{number}" in stored for number in range(produced - _NEWEST, produced))
    counted = result["stats"]["trace"]["losses"].get("queue_full", 0) if result["stats"] else None
    rate: float = arrived / result["busy_s"]
    report.add(
        PLAIN if setup.plain else OURS,
        setup.protocol,
        f"{delay_s * 1e3:.0f} ms",
        f"{produced / result['load_s']:,.0f}",
        f"{rate:,.0f}",
        f"{100 * (1 - arrived / produced):.0f} % ({produced - arrived:,})",
        "no" if counted is None else f"{counted:,}",
        f"{failures_lost} of {failures:,}",
        f"{kept:,}",
        "{p50_ms:.3f}/{p99_ms:.3f}".format(**result["trace_ms"]),
        "{p50_ms:.3f}/{p99_ms:.1f}/{max_ms:.0f}".format(**result["failure_ms"]),
    )
    if not setup.plain:
        where = f"{setup.protocol}, {delay_s:g} s"
        report.expect(failures_lost == 0, f"{where}: {failures_lost} failures lost")
        report.expect(counted, f"{where}: no drop happened, so nothing was tested")
        report.expect(counted == produced - arrived, f"{where}: {counted} drops counted, {produced - arrived} happened")
        report.expect(kept == _NEWEST, f"{where}: of the newest {_NEWEST} only {kept} were kept")
        report.expect(max(stored.values()) == 1, f"{where}: something arrived twice")
        report.expect(result["flushed"], f"{where}: flush said False though all that was not dropped was delivered")
    return rate
