"""What every test stands on: an environment without the person's own settings, and one hypothesis profile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pathlib import Path

# Settings of the product, of OpenTelemetry, of the agents and of the terminal: each changes what a test sees.
_LEAKING_PREFIXES = ("OTEL_", "COMPASS_", "PI_", "OMP_")
_LEAKING_NAMES = (
    "BAGGAGE",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "FORCE_COLOR",
    "LINES",
    "NO_COLOR",
    "TRACEPARENT",
    "TRACESTATE",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
)

# A shared machine pauses at will, so a deadline per example would fail by chance. With CI set the examples are the same
# in every run: a red run there can be repeated at a desk.
settings.register_profile(
    "compass",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("compass")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the person's settings, and put the state folder where this test alone sees it."""
    for name in tuple(os.environ):
        if name.startswith(_LEAKING_PREFIXES) or name in _LEAKING_NAMES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("COMPASS_OTEL_STATE", str(tmp_path / "state"))
    # A proxy of the machine must not stand between a test and its own receiver.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost,::1")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost,::1")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is left out, so that nobody takes silence for a test that passed."""
    if "not stack" not in str(config.option.markexpr):
        return []
    return ["left out unless asked for: slow, npm, faults (`make faults-short`), the real stack (`make stack-test`)"]
