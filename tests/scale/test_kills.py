"""Many hosts, Kafka, consumers, storage: each part SIGKILLed in turn under load, in the real programs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from scale.build import COLLECTOR
from scale.killing import kill_each_in_turn
from scale.load import CANCELLED, FAILED, GOOD, RETRIED, Fate
from scale.parts import CONSUMER, HOST
from stack.programs import CONFIG

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.stack

_PATIENCE_S = 2.5
"""Longest that a run kept its caller: a second of waiting in any ten, and its own work on a busy machine."""


@pytest.mark.timeout(360)
@pytest.mark.usefixtures("real_parts")
def test_parts_that_die_in_turn_lose_no_failure_and_tear_no_run() -> None:
    """Each part dies once, in turn: no failure is missing, and no run is there in part."""
    story = kill_each_in_turn()
    outcome = story.outcome
    parts = ["host Collector", "Kafka", "consumer", "storage", "storage, then a consumer"]
    assert [outage.part for outage in story.outages] == parts
    assert sum(len(trace.priority) for trace in outcome.traces.values()) >= 400
    assert outcome.missing_priority == set()
    assert story.stats.priority.lost == 0
    assert story.stats.trace.dropped == {}
    assert story.longest_run_s < _PATIENCE_S
    # All spans of a run met in one consumer, and both took part.
    deciders = outcome.deciders()
    assert all(len(names) == 1 for names in deciders.values())
    assert {name for names in deciders.values() for name in names} == {"consumer-0", "consumer-1"}
    # Whole or only what is priority, never a part; and the children of a failed run are missing only where a consumer
    # died with them, or its partitions went to another one.
    kept = outcome.fates((FAILED, CANCELLED, RETRIED))
    assert kept[Fate.TORN] == 0
    assert story.unprovoked_moves_s() == []
    assert [run for run in outcome.not_whole().values() if not story.explained(run.ended_s)] == []
    assert kept[Fate.WHOLE] > 5 * kept[Fate.LEAN]
    assert set(outcome.fates((GOOD,))) == {Fate.LEAN}


@pytest.mark.parametrize("files", [(CONFIG, HOST), (CONSUMER,)], ids=["host", "consumer"])
@pytest.mark.usefixtures("real_parts")
def test_the_configurations_are_accepted_without_a_word(files: tuple[Path, ...]) -> None:
    """The real Collector takes both configurations as they are, with no warning."""
    command = [str(COLLECTOR.target), "validate", *(f"--config={file}" for file in files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
