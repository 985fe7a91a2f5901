"""What a person does with a spool: look at its state, send what waits, close what dead processes left, see each record.

Works beside living processes: an owner's records are sent under its lease, so nobody sends them twice.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from compass_otel import semconv
from compass_otel.encoding import RecordError, decode_record
from compass_otel.priority import Rank
from compass_otel.sending_threads import sending
from compass_otel.splitting import Outcome, send_isolating
from compass_otel.spool import Spool, transaction
from compass_otel.spool_file import FILE_NAME, RANK_STEP, SpoolError, open_database, spool_error, unreadable_files
from compass_otel.spool_owner import Owner, is_alive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from opentelemetry.proto.common.v1.common_pb2 import KeyValue

    from compass_otel.delivery import Delivery, Sender
    from compass_otel.spool import Found

_WAIT_S: Final = 5.0
_BATCH_RECORDS: Final = 256
_BATCH_BYTES: Final = 1 << 20
_PAUSE_S: Final = 0.25
_WAITING: Final = f"id >= {RANK_STEP}"


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """What is in a spool folder."""

    exists: bool = False
    waiting: int = 0
    by_rank: dict[str, int] = field(default_factory=dict)
    """Waiting records: `session_error`, `chosen`, `lifecycle`."""
    set_aside: int = 0
    """Records that a backend refused for good."""
    open_runs: int = 0
    """Runs of living processes, and of dead ones that nobody has closed yet."""
    size_bytes: int = 0
    """Records, counted as the bound counts them."""
    bound_bytes: int = 0
    """The bound that the last process used; 0 = none has appended yet."""
    living_owners: int = 0
    dead_owners: int = 0
    """Owners whose records nobody has taken over yet."""
    oldest_at_ns: int | None = None
    """Wall time of the oldest waiting record."""
    given_up: int = 0
    """Records that were given up at the bound since the file was made: broken promises."""
    given_up_at_s: int | None = None
    """Wall time of the last of them, seconds since the epoch."""
    unreadable: tuple[str, ...] = ()
    """Names of files that were set aside as unreadable."""


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What came of sending what waits."""

    delivered: int = 0
    rejected: int = 0
    left: int = 0
    busy_owners: int = 0
    """Owners that are sending their records themselves right now."""
    reason: str = ""
    """Why there is something left, one line."""


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """One record of a spool, for a person or a script; texts are as they were recorded, scrubbed."""

    number: int
    at_ns: int
    """Wall time when it was spooled."""
    state: str
    """`waiting`, `set aside` or `open run`."""
    rank: str
    reason: str
    """Why it was set aside."""
    size_bytes: int
    span_name: str = ""
    trace_id: str = ""
    span_id: str = ""
    service: str = ""
    conversation: str = ""
    error_type: str = ""
    status: str = ""
    """The status text."""
    unreadable: str = ""
    """Why the record itself can't be read."""


def status(folder: Path) -> SpoolStatus:
    """Look at a spool, changing nothing.

    Raises:
        SpoolError: It can't be read.

    """
    unreadable = tuple(path.name for path in unreadable_files(folder))
    with _connection(folder) as connection:
        if connection is None:
            return SpoolStatus(unreadable=unreadable)
        ranks = {0: "set_aside", **{int(rank): rank.name.lower() for rank in Rank}}
        rows = connection.execute(f"SELECT id / {RANK_STEP}, count(*) FROM record GROUP BY 1").fetchall()  # noqa: S608
        counts = {ranks.get(rank, "unknown"): number for rank, number in rows}
        aside = counts.pop("set_aside", 0)
        keepers = [name for (name,) in connection.execute("SELECT DISTINCT keeper FROM estate")]
        living = sum(is_alive(folder, name) for name in keepers)
        size, bound, given_up, given_up_at_s = connection.execute(
            "SELECT bytes, bound, given_up, given_up_at_s FROM total"
        ).fetchone()
        return SpoolStatus(
            exists=True,
            waiting=sum(counts.values()),
            by_rank=counts,
            set_aside=aside,
            open_runs=connection.execute("SELECT count(*) FROM open_run").fetchone()[0],
            size_bytes=size,
            bound_bytes=bound,
            living_owners=living,
            dead_owners=len(keepers) - living,
            oldest_at_ns=connection.execute(f"SELECT min(at_ns) FROM record WHERE {_WAITING}").fetchone()[0],  # noqa: S608
            given_up=given_up,
            given_up_at_s=given_up_at_s,
            unreadable=unreadable,
        )


def recover(folder: Path) -> Found:
    """Close the runs that dead processes left open, and free their records for whoever comes next. Sends nothing.

    Raises:
        SpoolError: The spool can't work now.

    """
    with contextlib.closing(Spool(folder)) as spool:
        return spool.adopt()


def show(folder: Path, *, set_aside: bool = False) -> Iterator[ShownRecord]:
    """Give the records of a spool, oldest first.

    Args:
        folder: The spool's folder.
        set_aside: Those that a backend refused for good; otherwise those that wait and the open runs.

    Raises:
        SpoolError: The spool can't be read.

    """
    with _connection(folder) as connection:
        if connection is None:
            return
        condition = f"id < {RANK_STEP}" if set_aside else _WAITING
        query = f"SELECT id, at_ns, reason, body FROM record WHERE {condition} ORDER BY id % {RANK_STEP}"  # noqa: S608
        for id_, at_ns, reason, body in connection.execute(query):
            rank = Rank(id_ // RANK_STEP).name.lower() if id_ >= RANK_STEP else ""
            state = "set aside" if set_aside else "waiting"
            yield _shown(body, ShownRecord(id_ % RANK_STEP, at_ns, state, rank, reason or "", len(body)))
        if not set_aside:
            for at_ns, body in connection.execute("SELECT at_ns, body FROM open_run ORDER BY at_ns"):
                yield _shown(body, ShownRecord(0, at_ns, "open run", "", "", len(body)))


def flush(folder: Path, sender: Sender, timeout_s: float) -> FlushResult:
    """Send everything that waits, of dead and living owners, until all is sent or time is up.

    Args:
        folder: The spool's folder.
        sender: Where it goes.
        timeout_s: Longest time, seconds.

    Raises:
        SpoolError: The spool can't work now.

    """
    deadline = time.monotonic() + timeout_s
    with contextlib.closing(Spool(folder)) as spool:
        spool.adopt()
        total = FlushResult()
        with _connection(folder) as connection:
            if connection is None:
                return total
            while True:
                found = _flush_once(folder, connection, sender, deadline)
                total = FlushResult(
                    total.delivered + found.delivered,
                    total.rejected + found.rejected,
                    found.left,
                    found.busy_owners,
                    found.reason,
                )
                if not total.left or time.monotonic() + _PAUSE_S >= deadline:
                    return total
                time.sleep(_PAUSE_S)


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    estate: int
    body: bytes


def _flush_once(folder: Path, connection: sqlite3.Connection, sender: Sender, deadline: float) -> FlushResult:
    """Send for each owner in turn what can be sent now."""
    delivered = rejected = busy = 0
    reason = ""
    for (keeper,) in connection.execute("SELECT DISTINCT keeper FROM estate").fetchall():
        owner = Owner(folder, keeper)
        if not owner.sending.acquire():
            busy += 1
            reason = reason or "their own processes are sending them"
            continue
        try:
            while not reason and (rows := _rows(connection, keeper)):
                outcome = send_isolating(rows, partial(_send, sender, deadline))
                _settle(connection, outcome)
                delivered += len(outcome.delivered)
                rejected += len(outcome.refused)
                reason = outcome.retry.reason if outcome.retry is not None else ""
        finally:
            owner.sending.release()
    left = connection.execute(f"SELECT count(*) FROM record WHERE {_WAITING}").fetchone()[0]  # noqa: S608
    return FlushResult(delivered, rejected, left, busy, reason)


def _rows(connection: sqlite3.Connection, keeper: str) -> list[_Row]:
    query = (
        f"SELECT id, estate, body FROM record WHERE {_WAITING}"  # noqa: S608
        " AND estate IN (SELECT id FROM estate WHERE keeper = ?) ORDER BY id DESC LIMIT ?"
    )
    rows: list[_Row] = []
    room = _BATCH_BYTES
    for id_, estate, body in connection.execute(query, (keeper, _BATCH_RECORDS)):
        room -= len(body)
        if room < 0 and rows:
            break
        rows.append(_Row(id_, estate, body))
    return rows


def _send(sender: Sender, deadline: float, rows: Sequence[_Row]) -> Delivery:
    with sending():
        return sender.send([row.body for row in rows], deadline)


def _settle(connection: sqlite3.Connection, outcome: Outcome[_Row]) -> None:
    """Delete what was delivered; set aside what was refused, and write it down for its owner."""
    with transaction(connection):
        connection.executemany("DELETE FROM record WHERE id = ?", [(row.id,) for row in outcome.delivered])
        for refusal in outcome.refused:
            connection.execute(
                f"UPDATE record SET id = id % {RANK_STEP}, reason = ? WHERE id = ?",  # noqa: S608
                (f"{refusal.loss}: {refusal.reason}", refusal.item.id),
            )
            connection.execute(
                "INSERT INTO loss VALUES (?, ?, 1) ON CONFLICT (estate, reason) DO UPDATE SET records = records + 1",
                (refusal.item.estate, str(refusal.loss)),
            )


@contextlib.contextmanager
def _connection(folder: Path) -> Iterator[sqlite3.Connection | None]:
    """Open the file if there is one; makes none."""
    path = folder / FILE_NAME
    if not path.exists():
        yield None
        return
    connection = open_database(path, fsync=False, busy_timeout_s=_WAIT_S)
    try:
        yield connection
    except (sqlite3.Error, OSError) as error:
        raise spool_error(error) from error
    finally:
        connection.close()


def _shown(body: bytes, shown: ShownRecord) -> ShownRecord:
    """Add what the record itself says."""
    try:
        record = decode_record(body)
    except RecordError as error:
        return replace(shown, unreadable=str(error))
    span = record.span
    return replace(
        shown,
        span_name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        service=_text(record.resource.attributes, semconv.SERVICE_NAME),
        conversation=_text(span.attributes, semconv.GEN_AI_CONVERSATION_ID),
        error_type=_text(span.attributes, semconv.ERROR_TYPE),
        status=span.status.message,
    )


def _text(attributes: Sequence[KeyValue], key: str) -> str:
    return next((pair.value.string_value for pair in attributes if pair.key == key), "")


__all__ = ["FlushResult", "ShownRecord", "SpoolError", "SpoolStatus", "flush", "recover", "show", "status"]
