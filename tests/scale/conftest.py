"""What the tests of `examples/scale` in the real programs stand on: all is there, or they say what is missing."""

from __future__ import annotations

import os
from typing import Final

import pytest

from scale.build import missing

_REQUIRED: Final = bool(os.environ.get("COMPASS_STACK_REQUIRED"))  # read before `clean_environment` hides it


@pytest.fixture(scope="session", name="real_parts")
def parts_are_there() -> None:
    """Leave the test out, or fail where it is required, unless Kafka and the Collectors are there."""
    lacking = missing()
    if lacking and _REQUIRED:
        pytest.fail(lacking, pytrace=False)
    elif lacking:
        pytest.skip(lacking)
