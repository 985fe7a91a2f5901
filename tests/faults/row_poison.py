"""Rows: records that no encoding takes, exporters that misbehave, a wall clock that jumps."""

from __future__ import annotations

import tempfile
from collections import Counter

from faults.driver import PROTOCOLS, Host, endpoint_of, names_in
from faults.pipeline import Setup
from faults.report import OURS, PLAIN, Report
from faults.row_outages import LONGEST_CALL_MS
from faults.work_spool import POISONS
from receivers import Receiver


def poisons(*, plain: bool = True) -> Report:
    """One poisoned span of each lane among fifty-five good ones."""
    report = Report(
        "Poison: two records among fifty-five",
        ("poison", "protocol", "processor", "neighbours delivered", "poisoned ones delivered", "counted"),
    )
    for kind in POISONS:
        for protocol in PROTOCOLS:
            for is_plain in (True, False) if plain else (False,):
                _poison(report, kind, protocol, plain=is_plain)
    return report


def _poison(report: Report, kind: str, protocol: str, *, plain: bool) -> None:
    with Receiver() as receiver, tempfile.TemporaryDirectory() as folder:
        endpoint = endpoint_of(receiver, protocol)
        setup = Setup("poison", endpoint, protocol, plain, None if plain else folder, options={"kind": kind})
        host = Host(setup)
        host.wait_ready()
        result = host.result()
        stored = names_in(receiver)
    good = sum(name[0] in "tE" and name[1:].isdigit() for name in stored)
    bad = sum(stored.values()) - good
    losses: Counter[str] = Counter()
    for lane in () if plain else ("priority", "trace"):
        losses.update(result["stats"][lane]["losses"])
    counted = "no" if plain else ", ".join(f"{key} {number}" for key, number in losses.items()) or "0"
    report.add(kind, protocol, PLAIN if plain else OURS, f"{good} of 55", f"{bad} of 2", counted)
    if not plain:
        where = f"{kind}, {protocol}"
        report.expect(good == 55, f"{where}: {good} of 55 neighbours arrived")
        report.expect(bad + losses.total() == 2, f"{where}: {bad} of 2 arrived, {losses} counted")
        is_text = kind.startswith(("surrogate", "int", "10,000"))
        report.expect(bad == 2 or not is_text, f"{where}: not made valid: {bad} of 2 arrived")


def exporters() -> Report:
    """Send to exporters of others that raise, hang, or answer nonsense."""
    report = Report(
        "An exporter that misbehaves: 110 spans, 10 of them failures",
        ("exporter", "processor", "spans delivered", "failures delivered or kept", "longest call ms", "flush s"),
    )
    for how in ("raises", "answers nonsense", "hangs"):
        for plain in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                spool = None if plain else folder
                host = Host(Setup("bad exporter", "", plain=plain, spool=spool, options={"how": how}))
                host.wait_ready()
                result = host.result()
            names = set(result["names"])
            failures = sum(name.startswith("E") for name in names)
            kept = 0 if plain else result["stats"]["priority"]["undelivered"]
            figures = (len(names), f"{failures} + {kept} of 10", f"{result['ms']['max_ms']:.1f}")
            report.add(how, PLAIN if plain else OURS, *figures, f"{result['flush_s']:.1f}")
            if not plain:
                longest = result["ms"]["max_ms"]
                report.expect_in_time(longest <= LONGEST_CALL_MS, f"{how}: a caller waited {longest:.0f} ms")
                report.expect(failures + kept == 10, f"{how}: {failures} + {kept} of 10 failures")
                report.expect(how == "hangs" or len(names) == 110, f"{how}: {len(names)} of 110")
                report.expect_in_time(
                    result["flush_s"] < 8, f"{how}: two flushes of 3 s took {result['flush_s']:.1f} s"
                )
    return report


def clock(seconds: float = 10.0) -> Report:
    """Let the wall clock jump a day back and forth at every look."""
    report = Report(
        f"Wall clock set back and forth for {seconds:g} s at 100 spans/s",
        ("processor", "protocol", "failures delivered", "other spans", "longest call ms", "flush s"),
    )
    for protocol in PROTOCOLS:
        for plain in (True, False):
            with Receiver() as receiver, tempfile.TemporaryDirectory() as folder:
                options = {"rate": 100, "seconds": seconds, "clock": True}
                endpoint = endpoint_of(receiver, protocol)
                host = Host(Setup("paced", endpoint, protocol, plain, None if plain else folder, options=options))
                host.wait_ready()
                result = host.result()
                stored = names_in(receiver)
            failures = sum(name.startswith(("E", "warm")) for name in stored)
            others = sum(name.startswith("t") for name in stored)
            longest = result["all_ms"]["max_ms"]
            figures = (f"{failures} of {result['failures']}", f"{others} of {result['trace']}")
            report.add(PLAIN if plain else OURS, protocol, *figures, f"{longest:.1f}", f"{result['flush_s']:.2f}")
            if not plain:
                held = (failures, others) == (result["failures"], result["trace"])
                report.expect(held, f"{protocol}: {failures} failures and {others} others arrived of {result}")
                report.expect_in_time(longest <= LONGEST_CALL_MS, f"{protocol}: a caller waited {longest:.0f} ms")
                report.expect_in_time(result["flush_s"] < 5, f"{protocol}: the flush took {result['flush_s']:.1f} s")
    return report
