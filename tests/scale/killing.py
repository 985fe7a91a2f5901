"""Each of the four parts SIGKILLed and started again, under load: `python tests/scale/killing.py` prints it."""

from __future__ import annotations

import itertools
import json
import re
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

# As a script it is no part of a package.
sys.path.insert(0, str(Path(__file__).parent.parent))

from receivers import wait_until
from scale.build import HERE
from scale.load import CANCELLED, FAILED, GOOD, RETRIED, Fate, Load, Outcome, outcome_of
from scale.parts import PARTITIONS, Parts
from stack.jaeger_api import JaegerApi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compass_otel.stats import Stats
    from scale.parts import Consumer
    from stack.programs import RunningProgram

RATE_PER_S: Final = 10.0
SESSION_S: Final = 20.0
VARIABLES: Final = {"KEEP_PERCENT": "0", "DECISION_GRACE": "1s", "SESSION_TIMEOUT": f"{SESSION_S:g}s"}
CONSUMER: Final = "consumer"
MARK: Final = HERE / "mark.yaml"
_BEFORE_S: Final = 3.0
_DOWN_S: Final = 2.0
_RECOVERY_LIMIT_S: Final = 45.0
IN_MEMORY_S: Final = 10.0
"""How long after its end the spans of a run may still come in: a sender's trace lane waits 5 s, the batches of the host
Collector 1 s, the decision 1 s, offsets are kept each second; the rest is a busy machine's."""


@dataclass(frozen=True, slots=True)
class Outage:
    """One part that was away, or two at once; seconds of the monotonic clock, of the last kill and the last start."""

    part: str
    killed_s: float
    started_s: float
    recovered_s: float


@dataclass(frozen=True, slots=True)
class Story:
    """What was done, and what came of it."""

    outages: list[Outage]
    stats: Stats
    outcome: Outcome
    longest_run_s: float

    moves_s: list[float]
    """When a consumer was given other partitions of the spans than it had."""

    def explained(self, ended_s: float) -> bool:
        """Whether a run ended when a consumer that died may have held it, or when its partition may have moved."""
        kills_s = [outage.killed_s for outage in self.outages if CONSUMER in outage.part]
        return any(moment - IN_MEMORY_S <= ended_s <= moment + IN_MEMORY_S for moment in (*kills_s, *self.moves_s))

    def unprovoked_moves_s(self) -> list[float]:
        """Give the moves that no consumer's death or return brought about."""
        times = [(each.killed_s, each.recovered_s + SESSION_S) for each in self.outages if CONSUMER in each.part]
        return [moment for moment in self.moves_s if not any(first <= moment <= last for first, last in times)]


def shares(consumer: Consumer) -> list[tuple[float, str]]:
    """Read from the log of a consumer which partitions of the spans it was given, and when by the monotonic clock."""
    ahead_s = time.time() - time.monotonic()
    given = []
    for line in consumer.log_text().splitlines():
        if "new group session begun" in line and '"kafka/spans"' in line:
            facts = json.loads(line[line.index("{") :])
            given.append((datetime.fromisoformat(line.split("\t", 1)[0]).timestamp() - ahead_s, str(facts["added"])))
    return given


def is_shared_out(consumers: Sequence[Consumer]) -> bool:
    """Whether every consumer has its part of the partitions, and no more."""
    given = [shares(each) for each in consumers]
    fair = PARTITIONS // len(consumers)
    return all(each and len(re.findall(r"\d+", each[-1][1])) == fair for each in given)


def moves_s(consumer: Consumer) -> list[float]:
    """Tell when a consumer was given other partitions than it had before."""
    return [moment for (_, before), (moment, after) in itertools.pairwise(shares(consumer)) if before != after]


def kill_each_in_turn() -> Story:
    """Kill and restart host Collector, Kafka, a consumer and the storage under load; blocks for about two minutes."""
    with ExitStack() as stack:
        parts = stack.enter_context(Parts(MARK, variables=VARIABLES))
        assert wait_until(lambda: is_shared_out(parts.consumers), _RECOVERY_LIMIT_S), "one consumer has all"
        load = stack.enter_context(Load(parts.host, RATE_PER_S))
        api = JaegerApi(parts.storage.query_url)
        victims: tuple[tuple[str, tuple[RunningProgram, ...]], ...] = (
            ("host Collector", (parts.host,)),
            ("Kafka", (parts.kafka,)),
            (CONSUMER, (parts.consumers[0],)),
            ("storage", (parts.storage,)),
            # What a consumer had read while it could pass nothing on.
            ("storage, then a consumer", (parts.storage, parts.consumers[1])),
        )
        outages = [_outage(name, programs, load, api) for name, programs in victims]
        stats = load.stop()
        outcome = outcome_of(load, api, _RECOVERY_LIMIT_S)
        moves = [moment for each in parts.consumers for moment in moves_s(each) if moment > load.began_s]
        return Story(outages, stats, outcome, load.longest_s, sorted(moves))


def _outage(name: str, victims: tuple[RunningProgram, ...], load: Load, api: JaegerApi) -> Outage:
    pause = threading.Event()
    pause.wait(_BEFORE_S)
    for victim in victims:
        victim.kill()
        killed_s = time.monotonic()
        pause.wait(_DOWN_S)
    if name == CONSUMER:
        # The other consumer takes its partitions over.
        _arrived(name, load, api, time.monotonic())
    for victim in victims:
        victim.start()
    started_s = time.monotonic()
    _arrived(name, load, api, started_s)
    return Outage(name, killed_s, started_s, time.monotonic())


def _arrived(name: str, load: Load, api: JaegerApi, until_s: float) -> None:
    missing = api.wait_for(load.priority(until_s), _RECOVERY_LIMIT_S)
    assert not missing, f"{name}: {len(missing)} priority records have not arrived"


def main() -> int:
    """Tell the story."""
    began_s = time.monotonic()
    story = kill_each_in_turn()
    outcome = story.outcome
    print(f"{len(outcome.traces)} runs at {RATE_PER_S:g}/s, slowest {story.longest_run_s:.2f} s")
    for outage in story.outages:
        killed_s, down_s = outage.killed_s - began_s, outage.started_s - outage.killed_s
        recovery_s = outage.recovered_s - outage.started_s
        print(f"{outage.part}: killed at {killed_s:.1f} s, down for {down_s:.1f} s, all there {recovery_s:.1f} s later")
    sent = sum(len(trace.priority) for trace in outcome.traces.values())
    print(f"priority records: {len(outcome.missing_priority)} of {sent} missing; {outcome.twice()} spans shown twice")
    fates = outcome.fates((FAILED, CANCELLED, RETRIED))
    print("runs to be kept:", ", ".join(f"{fates[fate]} {fate}" for fate in Fate))
    print("good runs:", ", ".join(f"{outcome.fates((GOOD,))[fate]} {fate}" for fate in Fate))
    unexplained = [trace for trace in outcome.not_whole().values() if not story.explained(trace.ended_s)]
    ends = ", ".join(f"{trace.ended_s - began_s:.1f} s" for trace in unexplained)
    print(f"not whole though no consumer died and no partition moved near them: {len(unexplained)}; ended at {ends}")
    print("partitions moved at:", ", ".join(f"{moment - began_s:.1f} s" for moment in story.moves_s))
    print(f"decided by more than one consumer: {sum(len(names) > 1 for names in outcome.deciders().values())}")
    print(f"dropped by the sender: {dict(story.stats.trace.dropped)}")
    print(f"took {time.monotonic() - began_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
