"""A snapshot of the lanes is a plain value: it can be copied, pickled and written down, and not changed."""

import copy
import dataclasses
import json
import pickle

import pytest

from compass_otel import LaneStats, Stats
from compass_otel.stats import LossCounts

STATS = Stats(LaneStats(accepted=3, delivered=1, failed=LossCounts(spool_full=2)), LaneStats())


def test_a_snapshot_can_be_written_down_copied_and_pickled() -> None:
    """`asdict`, JSON, copies and pickles of a snapshot hold the same numbers."""
    assert json.loads(json.dumps(dataclasses.asdict(STATS)))["priority"]["failed"] == {"spool_full": 2}
    assert copy.deepcopy(STATS) == STATS
    assert pickle.loads(pickle.dumps(STATS)) == STATS  # noqa: S301 - our own bytes


def test_a_snapshot_cannot_be_changed() -> None:
    """Whoever gets a snapshot cannot write into it."""
    with pytest.raises(TypeError):
        STATS.priority.failed["spool_full"] = 0  # type: ignore[index]
    with pytest.raises(TypeError):
        LossCounts(a=1).update(b=2)
