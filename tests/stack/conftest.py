"""What the tests in the real programs stand on: they are there, or the tests say what is missing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from stack.build import missing
from stack.jaeger_api import JaegerApi
from stack.programs import Stack

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIRED = "COMPASS_STACK_REQUIRED"
"""Set by `.ci/run`: a missing program is then a failure, not a reason to leave tests out."""


@pytest.fixture(scope="session", autouse=True)
def real_programs() -> None:
    """Leave the tests out, or fail where they are required, unless all programs are there."""
    lacking = missing()
    if lacking and _required:
        pytest.fail("; ".join(lacking), pytrace=False)
    elif lacking:
        pytest.skip("; ".join(lacking))


_required = bool(os.environ.get(REQUIRED))  # read before `clean_environment` hides it


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where the programs are required, a test that was left out is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _required and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="module", name="stack")
def running_stack() -> Iterator[Stack]:
    """Give the three programs, which keep every span and decide quickly."""
    with Stack(variables={"KEEP_PERCENT": "100", "DECISION_GRACE": "1s"}) as stack:
        yield stack


@pytest.fixture(name="jaeger")
def jaeger_api(stack: Stack) -> JaegerApi:
    """Give the query API of the stack's Jaeger."""
    return JaegerApi(stack.jaeger.query_url)
