"""The soak: minutes of random faults; at its end everything that was ended is delivered, kept, or counted."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from faults.driver import PROTOCOLS, Host, deliver_rest, endpoint_of, names_in
from faults.pipeline import Setup
from faults.report import Report
from faults.row_outages import ANSWERS, DOWN, Fault
from receivers import Receiver

_GROWTH_BYTES: Final = 64 << 20
"""Of resident memory after the first third: what waits in an outage of minutes is bounded by the queue."""
_FAULTS: Final = (DOWN, *(fault for fault in ANSWERS if not fault.refuses))
_FLUSH_MS: Final = 60_000


def measure(seconds: float, seed: int | None = None) -> Report:
    """Hurt two receivers at random, kill hosts beside the one that accounts for everything.

    Args:
        seconds: How long.
        seed: Chooses the course; None = another one each time. It is told.

    """
    chosen = random.SystemRandom().randrange(1 << 30) if seed is None else seed
    report = Report(
        f"Soak of {seconds / 60:g} minutes, seed {chosen}",
        (
            "protocol",
            "ended: trace",
            "priority",
            "stored: trace",
            "priority",
            "trace dropped, counted",
            "priority kept",
            "stored and counted as dropped",
            "unexplained",
            "arrived twice",
            "longest call ms",
            "memory MB, first third/end",
            "kills: ended/delivered",
        ),
    )
    chance = random.Random(chosen)  # noqa: S311 - a test's course, to be repeated
    with tempfile.TemporaryDirectory() as folder:
        courses = [_Course(protocol, Path(folder), seconds, chance) for protocol in PROTOCOLS]
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                for course in courses:
                    course.step(end)
                time.sleep(0.05)
            for course in courses:
                course.judge(report)
        finally:
            for course in courses:
                course.stop()
    return report


class _Course:
    """One protocol: a receiver that is hurt, a host that lives, and one that is killed again and again."""

    def __init__(self, protocol: str, folder: Path, seconds: float, chance: random.Random) -> None:
        name = protocol.replace("/", "-")
        self.protocol = protocol
        self.chance = chance
        self.receiver = Receiver().start()
        self.log = folder / f"{name}.log"
        self.spool = folder / name
        self.happened: list[str] = []
        self._fault: Fault | None = None
        self._next_at = time.monotonic() + 2
        self._kill_at = time.monotonic() + 3
        endpoint = endpoint_of(self.receiver, protocol)
        options = {"seconds": seconds, "seed": chance.randrange(1 << 30), "flush_ms": _FLUSH_MS}
        self.host = Host(Setup("soak", endpoint, protocol, spool=str(self.spool), options=options))
        self._mortal_setup = Setup("mortal", endpoint, protocol, spool=str(self.spool), options={"log": str(self.log)})
        self.mortal = Host(self._mortal_setup)
        self.host.wait_ready()
        self.mortal.wait_ready()
        self.kills = 0

    def step(self, end: float) -> None:
        """Let happen what is due."""
        now = time.monotonic()
        if now >= self._next_at:
            if self._fault is not None:
                self._fault.end(self.receiver)
                self._fault = None
                self._next_at = now + self.chance.uniform(0.5, 6)
            elif now < end - 1:
                self._fault = self.chance.choice(_FAULTS)
                self._fault.begin(self.receiver)
                self.happened.append(self._fault.name)
                self._next_at = now + self.chance.uniform(0.5, 12)
        if now >= self._kill_at and now < end - 1:
            self.mortal.kill()
            self.kills += 1
            self.mortal = Host(self._mortal_setup)
            self.mortal.wait_ready()
            self._kill_at = now + self.chance.uniform(1, 8)

    def judge(self, report: Report) -> None:
        """Bring everything to rest and hold what was ended against what arrived."""
        if self._fault is not None:
            self._fault.end(self.receiver)
            self._fault = None
        self.mortal.kill()
        result = self.host.result(_FLUSH_MS / 1000 + 60)
        deliver_rest(self.receiver, self.spool)
        stored = names_in(self.receiver)
        logged = self.log.read_text(encoding="ascii").split()
        missing = [name for name in logged if name not in stored]
        self._tell(report, result, stored, len(logged), missing)

    def _tell(
        self, report: Report, result: dict[str, Any], stored: dict[str, int], logged: int, missing: list[str]
    ) -> None:
        trace = sum(name.startswith("st") for name in stored)
        priority = sum(name.startswith(("sE", "warm")) for name in stored)
        stats = result["stats"]
        dropped = stats["trace"]["lost"]
        # What a receiver stored and did not acknowledge may be dropped at our end all the same.
        both = trace + dropped - result["trace"]
        unexplained = max(-both, 0) + result["priority"] - priority
        memory = result["memory"]
        early, late = max(memory[: max(len(memory) // 3, 1)]), max(memory[-max(len(memory) // 10, 1) :])
        report.add(
            self.protocol,
            f"{result['trace']:,}",
            f"{result['priority']:,}",
            f"{trace:,}",
            f"{priority:,}",
            f"{dropped:,}",
            stats["priority"]["undelivered"],
            max(both, 0),
            unexplained,
            sum(stored.values()) - len(stored),
            f"{result['ms']['max_ms']:.0f}",
            f"{early / 1e6:.0f}/{late / 1e6:.0f}",
            f"{self.kills}: {logged:,}/{logged - len(missing):,}",
        )
        report.notes.append(f"{self.protocol}: {len(self.happened)} faults, of {len(set(self.happened))} kinds")
        where = self.protocol
        report.expect(unexplained == 0, f"{where}: {unexplained} unexplained")
        report.expect(not missing, f"{where}: {len(missing)} of killed processes missing: {missing[:5]}")
        report.expect(not stats["priority"]["lost"], f"{where}: priority lost: {stats['priority']}")
        report.expect(stats["trace"]["accepted"] == result["trace"], f"{where}: {stats['trace']}")
        report.expect(not stats["trace"]["waiting"], f"{where}: {stats['trace']} not settled")
        report.expect(not result["unbalanced"], f"{where}: the numbers did not add up {result['unbalanced']} times")
        report.expect(late - early < _GROWTH_BYTES, f"{where}: memory grew from {early:,} to {late:,} bytes")

    def stop(self) -> None:
        """End what is left."""
        for host in (self.host, self.mortal):
            if host.process.poll() is None:
                host.kill()
        self.receiver.stop()
