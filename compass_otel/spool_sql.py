"""The statements of a spool, by what they are for. S608: only constants are put into them."""

from typing import Final

from compass_otel.spool_file import RANK_STEP

RANKS: Final = (1, 2, 3)
"""Ranks a record may have; at the bound a higher one wins over a lower one."""

PUT: Final = "INSERT INTO put(estate, seq, rank, at_ns, run, body, bound) VALUES (?, ?, ?, ?, ?, ?, ?)"
NOTE: Final = "INSERT OR REPLACE INTO open_run(estate, run, rank, at_ns, body) VALUES (?, ?, ?, ?, ?)"
FORGET_NOTE: Final = "DELETE FROM open_run WHERE estate = ? AND run = ?"
# Rank by rank, so that each part is one walk along an index.
RANKED: Final = " UNION ALL ".join(
    "SELECT * FROM (SELECT id, length(body) AS size FROM record"  # noqa: S608
    f" WHERE estate = ?1 AND id >= ?{4 + place} AND id < {(rank + 1) * RANK_STEP} ORDER BY id LIMIT ?2)"
    for place, rank in enumerate(reversed(RANKS))
)
# All records as one value: Python gives its lock away at every row that it fetches, and under load each time waits for
# its turn again. So the walk is made in one step, and what it finds is one text: id, number, hex body, id, ...
LEASE: Final = (
    "SELECT group_concat(id || ' ' || seq || ' ' || hex(body), ' ') FROM"  # noqa: S608
    " (SELECT id AS chosen FROM (SELECT id, size, SUM(size) OVER (ROWS UNBOUNDED PRECEDING) AS upto"
    f" FROM (SELECT * FROM ({RANKED}) LIMIT ?2)) WHERE upto <= ?3 OR upto = size) CROSS JOIN record ON id = chosen"
)
BEFORE: Final = " UNION ALL ".join(
    "SELECT * FROM (SELECT 1 FROM record"  # noqa: S608
    f" WHERE estate = ?1 AND id >= {rank * RANK_STEP} AND id < {rank * RANK_STEP} + ?2 LIMIT 1)"
    for rank in RANKS
)
COUNT: Final = f"SELECT count(*) FROM record WHERE estate = ? AND id >= {RANK_STEP}"  # noqa: S608
LOST: Final = "SELECT coalesce(sum(records), 0) FROM loss WHERE estate = ?"
HOLDS: Final = "SELECT 1 FROM record WHERE estate = ? AND seq = ?"
ACKNOWLEDGE: Final = {
    size: f"DELETE FROM record WHERE id IN ({', '.join('?' * size)})"  # noqa: S608
    for size in (512, 64, 8, 1)
}
SET_ASIDE: Final = f"UPDATE record SET id = id % {RANK_STEP}, reason = ? WHERE id = ?"  # noqa: S608
READ_ALL: Final = f"SELECT id / {RANK_STEP}, seq, at_ns, body FROM record WHERE estate = ? AND id >= {RANK_STEP}"  # noqa: S608
READ_NOTES: Final = "SELECT run, rank, at_ns, body FROM open_run WHERE estate = ?"
