"""The host process: `python -m faults.host SETUP` does one kind of work over one pipeline and tells what came of it.

It prints a line `ready` when the work begins, and at the end one line of JSON. Being a process of its own, what it
measures is not disturbed by whoever hurts it.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from faults import work_ends, work_forks, work_load, work_soak, work_spool
from faults.pipeline import Setup

if TYPE_CHECKING:
    from collections.abc import Callable

WORK: dict[str, Callable[[Setup], dict[str, Any]]] = {
    **work_ends.WORK,
    **work_forks.WORK,
    **work_load.WORK,
    **work_soak.WORK,
    **work_spool.WORK,
}


def main() -> None:
    """Do the work."""
    setup = Setup(**json.loads(sys.argv[1]))
    result = WORK[setup.work](setup)
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
