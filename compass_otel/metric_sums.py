"""The commands' sums in the state folder: many short processes, one cumulative series.

    Increments of a process ──add──> sums ──unsent──> what is to be sent ──told──> sums that need not be sent again

All series share one start time. A series gets its 0 once: with its first value, stamped before it, because
`increase()` sees only what grows between two samples, and the first failure of a kind must be seen. Whether a 0
arrived is not always known; then it counts as told, since a second one would look like a reset and count everything
twice.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from compass_otel.summed_metrics import MAX_SERIES, OVERFLOW_ATTRIBUTES, Growth, Instrument, Kind

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Mapping, Sequence

    from compass_otel.state_store import StateStore
    from compass_otel.summed_metrics import Increments

MAX_SERVICES: Final = 64
"""Services that one state folder counts for; what another one measures is not counted, and that is."""
_NS_PER_MS: Final = 1_000_000
_ZERO_BEFORE_NS: Final = 1_000_000_000
_MAX_AHEAD_NS: Final = 60_000_000_000
_START: Final = "start_ns"
_LAST: Final = "last_sent_ns"
_BEYOND: Final = "beyond_limits"
_SELECT: Final = (
    "SELECT series.id, service, instrument, kind, unit, description, bounds, attributes, value, count, buckets,"
    " zero_told, revision FROM series JOIN instrument ON instrument.name = series.instrument"
    " WHERE told < revision OR service IN (SELECT value FROM json_each(?)) ORDER BY service, instrument, attributes"
)


@dataclass(frozen=True, slots=True)
class Service:
    """Whose series these are: `service.name`, with its namespace if it has one, and the resource to send."""

    name: str
    resource: str
    """Attributes as JSON."""

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> Service:
        """Take it from a provider's resource."""
        name, namespace = str(resource.get("service.name", "")), resource.get("service.namespace")
        text = json.dumps(dict(resource), sort_keys=True, separators=(",", ":"), default=str)
        return cls(f"{namespace}/{name}" if namespace else name, text)


@dataclass(frozen=True, slots=True)
class Series:
    """One series as it is to be sent."""

    id: int
    service: str
    instrument: Instrument
    attributes: dict[str, Any]
    total: Growth
    zero_told: bool
    revision: int


@dataclass(frozen=True, slots=True)
class Unsent:
    """What is to be sent now."""

    series: Sequence[Series]
    resources: Mapping[str, dict[str, Any]]
    """By service."""
    start_ns: int
    zero_ns: int
    """When those that have no 0 yet get it; before `at_ns` and never before `start_ns`."""
    at_ns: int


class MetricSums:
    """The sums. Thread-safe as the store is.

    Args:
        store: The database of the state folder.
        max_series: Bound of series; beyond it measurements go to one series for each instrument.
        clock_ns: Wall time, nanoseconds.

    """

    def __init__(
        self, store: StateStore, *, max_series: int = MAX_SERIES, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._store = store
        self._max_series = max_series
        self._clock_ns = clock_ns

    def add(self, connection: sqlite3.Connection, service: Service, grown: Increments) -> None:
        """Add to the sums, inside a transaction of the store."""
        if not grown:
            return
        # A moment back, so that even what is sent at once has room for its 0 between the start and the value.
        connection.execute("INSERT OR IGNORE INTO fact VALUES (?, ?)", (_START, self._clock_ns() - _NS_PER_MS))
        if not _admit(connection, service):
            _note(connection, _BEYOND, sum(growth.count for _, _, growth in grown))
            return
        for instrument, attributes, growth in grown:
            _describe(connection, instrument)
            if not self._add_to(connection, service.name, instrument, attributes, growth):
                _note(connection, _BEYOND, growth.count)
                self._add_to(connection, service.name, instrument, OVERFLOW_ATTRIBUTES, growth)

    def beyond_limits(self) -> int:
        """Tell how many measurements were counted without their attributes, or not at all, since the sums began."""
        return self._store.change(lambda connection: _fact(connection, _BEYOND)) or 0

    def unsent(self, services: Collection[str]) -> Unsent | None:
        """Give what is to be sent: all series of these services, and what others left unsent.

        Series of a service that nobody measures any more are not sent again and again: whoever watches for silence
        must hear it. For one caller at a time over all processes, since the times that it gives out only go up.

        Returns:
            None if there is nothing, or the sums can't be read.

        """
        return self._store.change(lambda connection: self._unsent(connection, services))

    def begin(self, unsent: Unsent) -> None:
        """Note, before they are sent, that the series get their 0 now: from here on a second one is the worse evil."""
        ids = [(each.id,) for each in unsent.series if not each.zero_told]
        self._store.change(
            lambda connection: connection.executemany("UPDATE series SET zero_told = 1 WHERE id = ?", ids)
        )

    def told(self, unsent: Unsent) -> None:
        """Note that they arrived; what grew since is unsent again."""
        ids = [(each.revision, each.id) for each in unsent.series]
        self._store.change(lambda connection: connection.executemany("UPDATE series SET told = ? WHERE id = ?", ids))

    def refused(self, unsent: Unsent) -> None:
        """Note that they surely did not arrive: those that had no 0 get it with the next attempt."""
        ids = [(each.id,) for each in unsent.series if not each.zero_told]
        self._store.change(
            lambda connection: connection.executemany("UPDATE series SET zero_told = 0 WHERE id = ?", ids)
        )

    def _add_to(
        self, connection: sqlite3.Connection, service: str, instrument: Instrument, attributes: str, growth: Growth
    ) -> bool:
        """Add to one series; False if it would be one too many."""
        key = (service, instrument.name, attributes)
        row = connection.execute(
            "SELECT value, count, buckets FROM series WHERE service = ? AND instrument = ? AND attributes = ?", key
        ).fetchone()
        if row is None:
            full = connection.execute("SELECT count(*) FROM series").fetchone()[0] >= self._max_series
            if full and attributes != OVERFLOW_ATTRIBUTES:
                return False
            connection.execute(
                "INSERT INTO series(service, instrument, attributes, value, count, buckets, zero_told, revision, told)"
                " VALUES (?, ?, ?, ?, ?, ?, 0, 1, 0)",
                (*key, growth.value, growth.count, json.dumps(growth.buckets)),
            )
            return True
        total = Growth(row[0], row[1], json.loads(row[2]))
        total.add(growth)
        connection.execute(
            "UPDATE series SET value = ?, count = ?, buckets = ?, revision = revision + 1"
            " WHERE service = ? AND instrument = ? AND attributes = ?",
            (total.value, total.count, json.dumps(total.buckets), *key),
        )
        return True

    def _unsent(self, connection: sqlite3.Connection, services: Collection[str]) -> Unsent | None:
        series = [_series(row) for row in connection.execute(_SELECT, (json.dumps(list(services)),))]
        if not series:
            return None
        rows = connection.execute("SELECT name, resource FROM service").fetchall()
        resources = {name: json.loads(text) for name, text in rows}
        start_ns = _fact(connection, _START) or self._clock_ns()
        at_ns = self._next_time(connection)
        zero_ns = max(at_ns - _ZERO_BEFORE_NS, min(start_ns, at_ns - _NS_PER_MS))
        return Unsent(series, resources, min(start_ns, zero_ns), zero_ns, at_ns)

    def _next_time(self, connection: sqlite3.Connection) -> int:
        """Give a time later than the last one, whatever the clock does: a store refuses samples that go back.

        A last one that lies far ahead was a clock's mistake, and waiting for it would be silence.
        """
        now, last = self._clock_ns(), _fact(connection, _LAST)
        at_ns = max(now, last + _NS_PER_MS) if last < now + _MAX_AHEAD_NS else now
        connection.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (_LAST, at_ns))
        return at_ns


def _series(row: tuple[Any, ...]) -> Series:
    id_, service, name, kind, unit, description, bounds, attributes, value, count, buckets, zero_told, revision = row
    instrument = Instrument(name, Kind(kind), unit, description, tuple(json.loads(bounds)))
    total = Growth(value, count, json.loads(buckets))
    return Series(id_, service, instrument, json.loads(attributes), total, bool(zero_told), revision)


def _admit(connection: sqlite3.Connection, service: Service) -> bool:
    """Know the service, by its latest resource; False if it would be one too many."""
    known = connection.execute("SELECT 1 FROM service WHERE name = ?", (service.name,)).fetchone()
    if known is None and connection.execute("SELECT count(*) FROM service").fetchone()[0] >= MAX_SERVICES:
        return False
    connection.execute("INSERT OR REPLACE INTO service VALUES (?, ?)", (service.name, service.resource))
    return True


def _describe(connection: sqlite3.Connection, instrument: Instrument) -> None:
    """Know the instrument. Another release may have other buckets, and sums over both mean nothing: they begin anew."""
    bounds = json.dumps(instrument.bounds)
    row = connection.execute("SELECT kind, bounds FROM instrument WHERE name = ?", (instrument.name,)).fetchone()
    if row is not None and row != (instrument.kind, bounds):
        connection.execute("DELETE FROM series WHERE instrument = ?", (instrument.name,))
    connection.execute(
        "INSERT OR REPLACE INTO instrument VALUES (?, ?, ?, ?, ?)",
        (instrument.name, instrument.kind, instrument.unit, instrument.description, bounds),
    )


def _fact(connection: sqlite3.Connection, name: str) -> int:
    row = connection.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
    return int(row[0]) if row is not None else 0


def _note(connection: sqlite3.Connection, name: str, more: int) -> None:
    connection.execute(
        "INSERT INTO fact VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value", (name, more)
    )
