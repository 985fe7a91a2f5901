"""When things happened: times that never go back, from clocks that do, and from records that have no time at all.

Most records carry no time; messages (epoch milliseconds) and session entries (ISO strings) do, and any of them can be
missing, absurd, or out of order. Live records have their arrival time. A stored record never gets the present.
"""

from datetime import UTC, datetime
from typing import Any

UNKNOWN_NS = 0
"""Stands in an event until a time becomes known; see `Timeline.known`."""

_NS_PER_MS = 1_000_000
_EARLIEST_MS = 978_307_200_000
"""2001-01-01: anything earlier is a counter, seconds taken for milliseconds, or zero."""
_LATEST_MS = 4_102_444_800_000
"""2100-01-01: anything later is a broken clock; no comparison with the present, which a replay must not know."""


def plausible_ms(value: Any) -> int | None:
    """Give a message's `timestamp` as epoch milliseconds, or None if it is missing or absurd (0, a string, 2286)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if _EARLIEST_MS <= value < _LATEST_MS else None


def ms_to_ns(value: Any) -> int | None:
    """Give a message's `timestamp` as epoch nanoseconds, or None if it is missing or absurd."""
    stamp = plausible_ms(value)
    return None if stamp is None else stamp * _NS_PER_MS


def iso_to_ns(value: Any) -> int | None:
    """Give a session entry's ISO time as epoch nanoseconds, or None if it is missing or absurd."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return ms_to_ns(round(moment.timestamp() * 1000))
    except (OverflowError, ValueError):
        return None


class Timeline:
    """One source's times: each at least as late as the one before."""

    __slots__ = ("last_ns",)

    def __init__(self) -> None:
        self.last_ns = UNKNOWN_NS

    @property
    def known(self) -> bool:
        """Whether any time has been learnt yet."""
        return self.last_ns != UNKNOWN_NS

    def at(self, arrival_ns: int | None, known_ns: int | None = None) -> int:
        """Time of a record: its arrival if it is live, else what it says itself, else that of the record before.

        Args:
            arrival_ns: arrival time of a live record.
            known_ns: the time that a stored record states.

        Returns:
            Nanoseconds since the epoch, never before an earlier answer; `UNKNOWN_NS` until the first time is learnt.

        """
        best = known_ns if arrival_ns is None else arrival_ns
        if best is not None and best > self.last_ns:
            self.last_ns = best
        return self.last_ns
