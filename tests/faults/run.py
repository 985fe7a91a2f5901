"""Run rows of the fault table at length: `python -m faults.run [ROW ...]`, all of them without a name.

Prints a table and a verdict for each; ends with status 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from faults import row_ends, row_forks, row_outages, row_overload, row_poison, row_power, row_soak, row_spool

if TYPE_CHECKING:
    from collections.abc import Callable

    from faults.report import Report

ROWS: dict[str, Callable[[], Report]] = {
    "overload": row_overload.measure,
    "outages": row_outages.outages,
    "answers": row_outages.answers,
    "kills": row_ends.kills,
    "runs": row_ends.runs,
    "ends": row_ends.ends,
    "handlers": row_ends.handlers,
    "forks": row_forks.measure,
    "spool": row_spool.measure,
    "power": row_power.measure,
    "poison": row_poison.poisons,
    "exporters": row_poison.exporters,
    "clock": row_poison.clock,
}
_MINUTES = 20.0


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of: {', '.join([*ROWS, 'soak'])}")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="length of the soak (20)")
    parser.add_argument("--seed", type=int, default=None, help="of the soak; without it another course each time")
    arguments = parser.parse_args()
    rows: dict[str, Callable[[], Report]] = {
        **ROWS,
        "soak": partial(row_soak.measure, arguments.minutes * 60, arguments.seed),
    }
    unknown = [name for name in arguments.rows if name not in rows]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}")
    broken = 0
    for name in arguments.rows or ROWS:
        begin = time.monotonic()
        report = rows[name]()
        broken += bool(report.broken)
        print(f"{report.text()}- row `{name}` took {time.monotonic() - begin:.0f} s\n", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
