"""Rows: a receiver that is down, that answers wrongly, or not at all, under a steady load."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from faults.driver import PROTOCOLS, Host, endpoint_of, names_in, set_aside_in
from faults.pipeline import Setup
from faults.report import OURS, PLAIN, Report
from receivers import IMMEDIATE, Mode, Receiver, refusal
from receivers.records import MARKER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONGEST_CALL_MS: Final = 300.0
LONGEST_P99_MS: Final = 1.0
_BEFORE_S: Final = 1.0
COLUMNS = (
    "fault",
    "processor",
    "protocol",
    "ended",
    "failures lost",
    "trace lost",
    "counted",
    "set aside",
    "twice",
    "longest call ms",
    "circuit open p99 ms",
    "the machine's own p99 ms",
    "flush",
)


@dataclass(frozen=True)
class Fault:
    """What happens to the receiver, and what of the promises it touches."""

    name: str
    begin: Callable[[Receiver], object]
    end: Callable[[Receiver], object]
    twice: bool = False
    """It may have stored what it did not acknowledge: then records arrive twice."""
    refuses: bool = False
    """It refuses for good: what was refused is set aside."""
    marker: bool = False
    """Only records with a marker are refused."""


def _mode(name: str, mode: Mode, **more: bool) -> Fault:
    return Fault(name, lambda r: r.behave(mode), lambda r: r.behave(IMMEDIATE), **more)


DOWN = Fault("down", lambda r: r.kill(), lambda r: r.start())
ANSWERS: tuple[Fault, ...] = (
    _mode("never answers", Mode("hang")),
    _mode("not a byte", Mode("silent")),
    Fault("frozen (SIGSTOP)", lambda r: r.freeze(), lambda r: r.thaw(), twice=True),
    _mode("302", refusal(302, "UNKNOWN")),
    _mode("400 for one record", refusal(400, "INVALID_ARGUMENT", "bad", marker=MARKER), refuses=True, marker=True),
    _mode("400 for all", refusal(400, "INVALID_ARGUMENT", "bad"), refuses=True),
    _mode(
        "413 over 20 KB", refusal(413, "RESOURCE_EXHAUSTED", "message larger than max (9 vs. 4)", limit_bytes=20_000)
    ),
    _mode("429, Retry-After 2", refusal(429, "RESOURCE_EXHAUSTED", "slow", headers={"retry-after": "2"})),
    _mode("500", refusal(500, "INTERNAL", "oops")),
    _mode("503", refusal(503, "UNAVAILABLE", "full")),
    _mode("partial success", Mode(rejected=1, marker=MARKER, message="no"), refuses=True, marker=True, twice=True),
    _mode("stores, answers late", Mode(delay_s=3.0), twice=True),
    _mode("stores, answers 503", refusal(503, "UNAVAILABLE", "but kept", store=True), twice=True),
    _mode("resets", Mode("reset")),
    _mode("half-closes", Mode("half_close")),
    _mode("garbage", Mode("garbage")),
    _mode("a byte a second", Mode("drip"), twice=True),
)


@dataclass(frozen=True)
class Load:
    """How long and how fast."""

    rate: int = 100
    fault_s: float = 10.0
    after_s: float = 2.0

    @property
    def seconds(self) -> float:
        """The whole."""
        return _BEFORE_S + self.fault_s + self.after_s


def outages(downs_s: Sequence[float] = (10.0, 60.0), rates: Sequence[int] = (100, 500), after_s: float = 8.0) -> Report:
    """Take the receiver down and bring it back."""
    report = Report("Receiver down, then back", COLUMNS)
    for fault_s in downs_s:
        for rate in rates:
            load = Load(rate, fault_s, after_s)
            for protocol in PROTOCOLS:  # two processes at a time: what is measured is not how busy the machine is
                _hurt(report, DOWN, load, (protocol,), f"down {fault_s:g} s at {rate}/s")
    return report


def answers(fault_s: float = 10.0, faults: Sequence[Fault] = ANSWERS, *, plain: bool = True) -> Report:
    """Let the receiver answer wrongly, or not at all."""
    report = Report(f"Receiver that misbehaves for {fault_s:g} s at 100 spans/s", COLUMNS)
    for fault in faults:
        _hurt(report, fault, Load(100, fault_s), PROTOCOLS, fault.name, plain=plain)
    return report


def _hurt(report: Report, fault: Fault, load: Load, protocols: Sequence[str], name: str, *, plain: bool = True) -> None:
    """Run all hosts of one fault at once, each with a receiver of its own."""
    with ExitStack() as stack:
        hosts = []
        for protocol in protocols:
            for is_plain in (False, True) if plain else (False,):
                receiver = stack.enter_context(Receiver())
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                options: dict[str, Any] = {"rate": load.rate, "seconds": load.seconds, "flush_ms": 60_000}
                options |= {"marker": 7} if fault.marker else {}
                endpoint = endpoint_of(receiver, protocol)
                setup = Setup("paced", endpoint, protocol, is_plain, None if is_plain else str(folder), options=options)
                hosts.append((receiver, folder, Host(setup)))
        began = max(host.wait_ready() for _, _, host in hosts)
        _wait_until(began + _BEFORE_S)
        for receiver, _, _ in hosts:
            fault.begin(receiver)
        _wait_until(began + _BEFORE_S + load.fault_s)
        for receiver, _, _ in hosts:
            fault.end(receiver)
        for receiver, folder, host in hosts:
            _judge(report, fault, name, host, receiver, folder)


def _judge(report: Report, fault: Fault, name: str, host: Host, receiver: Receiver, folder: Path) -> None:
    setup, result, stored = host.setup, host.result(180), names_in(receiver)
    aside = set() if setup.plain else set_aside_in(folder)
    failures = {name for name in stored if name.startswith(("E", "warm"))}
    lost = result["failures"] - len(failures | {name for name in aside if not name.startswith("t")})
    trace_lost = result["trace"] - sum(name.startswith("t") for name in stored)
    losses = result["stats"]["trace"]["losses"] if result["stats"] else {}
    twice = sum(number > 1 for number in stored.values())
    report.add(
        name,
        PLAIN if setup.plain else OURS,
        setup.protocol,
        f"{result['trace'] + result['failures']:,}",
        f"{lost} of {result['failures']:,}",
        trace_lost,
        "no" if setup.plain else ", ".join(f"{key} {number:,}" for key, number in losses.items()) or "0",
        "-" if setup.plain else len(aside),
        twice,
        f"{result['all_ms']['max_ms']:.1f}",
        "-" if setup.plain else f"{result['open_ms']['p99_ms']:.3f} of {result['open_ms']['count']:,}",
        f"{result['bare_ms']['p99_ms']:.3f}",
        f"{result['flushed']} in {result['flush_s']:.1f} s",
    )
    if not setup.plain:
        where = f"{name}, {setup.protocol}"
        report.expect(lost == 0, f"{where}: {lost} failures lost")
        _promises_on_time(report, where, result)
        _promises_on_numbers(report, fault, where, result, len(aside))
        report.expect(trace_lost <= sum(losses.values()), f"{where}: {trace_lost} trace spans lost, {losses} counted")
        doubt = sum(losses.values()) - trace_lost
        # The gRPC port breaks its connections where the fault begins and ends, with requests on them.
        may_be_twice = fault.twice or setup.protocol == "grpc"
        report.expect(not doubt or may_be_twice, f"{where}: {losses} counted, {trace_lost} lost")
        report.expect(not twice or may_be_twice, f"{where}: {twice} arrived twice")


def _promises_on_time(report: Report, where: str, result: dict[str, Any]) -> None:
    longest = result["all_ms"]["max_ms"]
    report.expect_in_time(longest <= LONGEST_CALL_MS, f"{where}: a caller waited {longest:.0f} ms")
    is_open = result["open_ms"]
    slow = is_open["p99_ms"] - result["bare_ms"]["p99_ms"]
    report.expect_in_time(slow < LONGEST_P99_MS, f"{where}: with the circuit open the p99 of `end` was {slow:.2f} ms")


def _promises_on_numbers(report: Report, fault: Fault, where: str, result: dict[str, Any], aside: int) -> None:
    priority, trace = result["stats"]["priority"], result["stats"]["trace"]
    report.expect(priority["accepted"] == result["failures"], f"{where}: {priority}, ended {result['failures']}")
    report.expect(trace["accepted"] == result["trace"], f"{where}: {trace}, ended {result['trace']}")
    report.expect(
        not priority["undelivered"] and not trace["waiting"], f"{where}: not all settled at the end: {priority}"
    )
    report.expect(priority["lost"] == aside, f"{where}: {priority['losses']} counted, {aside} set aside")
    report.expect(not aside or fault.refuses, f"{where}: {aside} set aside though nothing was refused for good")
    report.expect(not fault.refuses or aside, f"{where}: nothing was refused, so nothing was tested")
    queue_bound = 2048
    if result["trace"] < queue_bound and not fault.refuses:
        report.expect(not trace["lost"], f"{where}: {trace['losses']} though the queue had room for a failed batch")
    is_truthful = result["flushed"] == (not priority["lost"] and not trace["lost"]) or result["flushed"]
    report.expect(is_truthful, f"{where}: flush said {result['flushed']} though all was delivered")


def _wait_until(moment_s: float) -> None:
    time.sleep(max(moment_s - time.monotonic(), 0.0))
