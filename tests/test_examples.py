"""Every example runs as it says it does, offline."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

PRINTED = {
    "library.py": """\
chat model-x: ERROR 529 Overloaded
told to subscribers: 529 Overloaded
invoke_agent pi: ERROR 529 Overloaded
""",
}


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_prints_what_it_promises(name: str) -> None:
    """The example ends well, warns of nothing, and prints exactly this."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == PRINTED[name]
