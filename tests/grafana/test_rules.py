"""The alert rules in promtool: each fires where it should, and keeps silent where it should."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from grafana.yaml_files import RULES, read, rules_in

TESTS = ("rules_test.yaml", "rules_days_test.yaml")
ALERTS = {rule["alert"] for rule in rules_in("compass.yaml")}


def cases() -> list[dict[str, Any]]:
    """Give what is asked in all tests of all files."""
    return [
        asked for name in TESTS for test in read(RULES / name)["tests"] for asked in test.get("alert_rule_test", [])
    ]


@pytest.mark.stack
@pytest.mark.parametrize("name", TESTS)
def test_the_rules_do_what_their_tests_say(name: str) -> None:
    """The tests of the rules hold, in promtool."""
    done = subprocess.run(
        ["promtool", "test", "rules", str(RULES / name)], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_seen_to_fire_and_to_keep_silent() -> None:
    """No rule is without a case in which it fires, and one in which it does not."""
    fires = {case["alertname"] for case in cases() if case.get("exp_alerts")}
    silent = {case["alertname"] for case in cases() if not case.get("exp_alerts")}
    assert (fires, silent) == (ALERTS, ALERTS)


def test_no_alert_fires_on_cancels_and_on_runs_that_a_retry_saved() -> None:
    """The first test asks every rule about them, but the one that a list of agents decides."""
    first = read(RULES / TESTS[0])["tests"][0]
    series = [each["series"] for each in first["input_series"]]
    assert any('compass_outcome="cancelled"' in each for each in series)
    assert any('compass_retry_recovered="true"' in each for each in series)
    assert not any('compass_outcome="failed"' in each for each in series)
    asked = {case["alertname"] for case in first["alert_rule_test"] if not case.get("exp_alerts")}
    assert asked == ALERTS - {"CompassExpectedAgentSilent"}


@pytest.mark.stack
@pytest.mark.parametrize("name", ["compass.yaml", "expected-agents.yaml"])
def test_prometheus_takes_the_rules(name: str) -> None:
    """`promtool check rules` has nothing to say against them."""
    done = subprocess.run(
        ["promtool", "check", "rules", "--lint-fatal", str(RULES / name)],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
