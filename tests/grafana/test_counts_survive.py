"""Counts of failures outlive the Collector and short processes: one failure among twenty runs calls somebody."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from command_support import CAPTURES, compass
from grafana.panels import DASHBOARDS, WINDOWS, panels, put_in
from receivers import wait_until

if TYPE_CHECKING:
    from grafana.conftest import Counting

pytestmark = pytest.mark.stack

_FOLDER = CAPTURES / "pi-1.6"
_GOOD = "a_success_text"
_CANCELLED = "i_abort_mid_stream"
_SAVED = "e_http_429_then_success"
_BILLING = "d4_http_402_billing"
_DEADLINE_S = 40.0
_ALL = dict.fromkeys(("service", "host", "provider", "model"), ".*")


def ingest(counting: Counting, capture: str) -> None:
    """Let one agent run, and one `ingest` with it, which ends when the agent does."""
    stream = (_FOLDER / f"{capture}.events.jsonl").read_bytes()
    done = compass("ingest", "--endpoint", counting.collector.http_endpoint, stdin=stream)
    assert done.returncode in (0, 1), done.stderr


def shown(counting: Counting, title: str) -> float:
    """Give the number that a panel of the dashboard of runs shows."""
    (panel,) = (panel for panel in panels(*DASHBOARDS) if panel.name == f"runs.json: {title}")
    found = counting.prometheus.at(put_in(panel.targets[0]["expr"], {**WINDOWS, **_ALL}))
    return sum(value for each in found for value in each.values)


def firing(counting: Counting) -> set[str]:
    """Name the alerts that fire, but for the one that a list of agents decides."""
    return counting.prometheus.firing() - {"CompassExpectedAgentSilent"}


@pytest.mark.parametrize("killed", ["while it failed", "right after it took the failure"])
def test_one_billing_failure_among_twenty_short_processes_makes_the_alert_fire(counting: Counting, killed: str) -> None:
    """Though the Collector is killed around it; cancels and runs that a retry saved made no alert fire before."""
    for capture in (_CANCELLED, _SAVED, *(_GOOD,) * 8):
        ingest(counting, capture)
    assert wait_until(lambda: shown(counting, "Runs") == 10, _DEADLINE_S)
    seen_s = time.time()
    assert wait_until(lambda: counting.prometheus.evaluated_since(seen_s), _DEADLINE_S)
    assert (shown(counting, "Failed"), firing(counting)) == (0, set())
    if killed == "while it failed":
        counting.collector.kill()
        ingest(counting, _BILLING)
        counting.collector.start()
    else:
        ingest(counting, _BILLING)
        counting.collector.kill()
        counting.collector.start()
    for _ in range(9):
        ingest(counting, _GOOD)
    assert wait_until(lambda: "CompassBillingFailure" in firing(counting), _DEADLINE_S)
    assert wait_until(lambda: shown(counting, "Runs") == 20, _DEADLINE_S)
    assert [shown(counting, title) for title in ("Failed", "Cancelled", "Saved by a retry")] == [1, 1, 1]
    assert firing(counting) <= {"CompassBillingFailure", "CompassNewFailureKind"}
