"""Reads what can still be read of a spool file that was set aside as damaged."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Final

from compass_otel.spool_file import RANK_STEP
from compass_otel.spool_owner import is_alive

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_RECORDS: Final = f"SELECT id, estate, at_ns, body FROM record NOT INDEXED WHERE id >= {RANK_STEP} ORDER BY id"  # noqa: S608 - constants
_NOTES: Final = "SELECT estate, rank, at_ns, body FROM open_run"


def rescue(folder: Path, damaged: Path, known: Collection[int]) -> list[tuple[int, int, bytes]]:
    """Read the records and open runs of dead owners, row by row until the damage, from both ends.

    Living owners take their own along when they notice.

    Args:
        folder: The spool's folder.
        damaged: The file that was set aside.
        known: Estates whose records are saved already.

    Returns:
        Rank, wall time in nanoseconds and body of each, oldest first.

    """
    records: dict[int, tuple[int, int, bytes]] = {}
    place = f"{damaged.absolute().as_uri()}?mode=rw"  # made by nobody, if it is gone by now
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(place, uri=True)) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # or a file that is shorter than it says is not read at all
        keepers: dict[int, str] = {}
        with contextlib.suppress(sqlite3.Error):
            keepers.update(connection.execute("SELECT id, keeper FROM estate"))
        living = {estate for estate, name in keepers.items() if is_alive(folder, name)}
        skipped = living | set(known)
        for query in (_RECORDS, f"{_RECORDS} DESC"):
            with contextlib.suppress(sqlite3.Error):
                for id_, estate, at_ns, body in connection.execute(query):
                    if id_ in records:
                        break
                    if estate not in skipped and isinstance(body, bytes) and isinstance(at_ns, int):
                        records[id_] = (min(id_ // RANK_STEP, 3), at_ns, body)
        with contextlib.suppress(sqlite3.Error):
            for number, (estate, rank, at_ns, body) in enumerate(connection.execute(_NOTES)):
                if estate not in skipped:
                    records[-number - 1] = (rank, at_ns, body)
    return sorted(records.values(), key=lambda record: record[1])
