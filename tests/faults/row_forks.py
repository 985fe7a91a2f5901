"""Row: forks, children of `multiprocessing`, a server that preloads, many threads, an event loop."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import Any, Final

from faults.driver import PROTOCOLS, Host, endpoint_of, names_in
from faults.pipeline import Setup
from faults.report import OURS, PLAIN, Report
from receivers import Receiver

_DEADLOCK_S: Final = 60.0
_LONGEST_LOOP_MS: Final = 200.0
COLUMNS = (
    "case",
    "protocol",
    "processor",
    "children ended well",
    "failures delivered",
    "other spans",
    "arrived twice",
    "refused as garbage",
    "took s",
    "loop stood still ms",
)


@dataclass(frozen=True)
class Case:
    """One way to work in several processes, threads or tasks."""

    name: str
    work: str
    options: dict[str, Any] = field(default_factory=dict)


def cases(size: int) -> tuple[Case, ...]:
    """Give the cases; `size` is the number of forks, a twentieth of the spans of the others."""
    return (
        Case("fork in the middle of load", "fork under load", {"children": size}),
        Case("multiprocessing, fork", "multiprocessing", {"method": "fork"}),
        Case("multiprocessing, spawn", "multiprocessing", {"method": "spawn"}),
        Case("preload, 4 workers, SIGTERM", "preload"),
        Case("16 threads", "16 threads", {"count": size * 20}),
        Case("asyncio", "asyncio", {"count": size * 20}),
    )


def measure(size: int = 50, *, plain: bool = True) -> Report:
    """Run each case over both protocols, with the plain SDK and with ours."""
    report = Report("Forks, threads, event loop", COLUMNS)
    for case in cases(size):
        for protocol in PROTOCOLS:
            for is_plain in (True, False) if plain else (False,):
                _run(report, case, protocol, plain=is_plain)
    return report


def _run(report: Report, case: Case, protocol: str, *, plain: bool) -> None:
    with Receiver() as receiver, tempfile.TemporaryDirectory() as folder:
        endpoint = endpoint_of(receiver, protocol)
        host = Host(Setup(case.work, endpoint, protocol, plain, None if plain else folder, options=case.options))
        host.wait_ready()
        try:
            result = host.result(_DEADLOCK_S)
        except AssertionError as error:
            report.add(case.name, protocol, PLAIN if plain else OURS, f"did not end within {_DEADLOCK_S:g} s")
            report.expect(plain, f"{case.name}, {protocol}: {error}")
            return
        stored, garbage = names_in(receiver), receiver.counts()["undecodable"]
    failures = sum(f"E {name}" in stored for name in result["names"])
    others = sum(f"t {name}" in stored for name in result["names"])
    twice, wanted = sum(stored.values()) - len(stored), len(result["names"])
    well = sum(status == 0 for status in result["statuses"])
    loop_ms = result.get("longest_ms")
    report.add(
        case.name,
        protocol,
        PLAIN if plain else OURS,
        f"{well} of {len(result['statuses'])}",
        f"{failures} of {wanted}",
        f"{others} of {wanted}",
        twice,
        garbage,
        f"{host.took_s:.1f}",
        "-" if loop_ms is None else f"{loop_ms:.0f}",
    )

    if not plain:
        where = f"{case.name}, {protocol}"
        report.expect(well == len(result["statuses"]), f"{where}: children ended with {result['statuses']}")
        report.expect(failures == wanted, f"{where}: {failures} of {wanted} failures arrived")
        report.expect(others == wanted, f"{where}: {others} of {wanted} other spans arrived")
        report.expect(not twice, f"{where}: {twice} arrived twice")
        report.expect(not garbage, f"{where}: {garbage} requests were garbage: a socket was shared")
        report.expect_in_time(
            loop_ms is None or loop_ms < _LONGEST_LOOP_MS, f"{where}: the loop stood still for {loop_ms} ms"
        )
