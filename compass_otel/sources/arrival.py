"""Arrival times that somebody kept beside a stored stream: `X.arrival.json` for `X.events.jsonl` or `X.jsonl`.

The file is a list of numbers, milliseconds since the agent's process began, one for each line of the stream.
"""

import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from compass_otel.sources.records import parse
from compass_otel.sources.timing import iso_to_ns, ms_to_ns

_ANCHOR_LINES = 200
_NS_PER_MS = 1_000_000
_LONGEST_MS = 366 * 86_400_000


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When each line of a stored stream came, as far as that is known."""

    offsets_ns: tuple[int, ...] = ()
    start_ns: int = 0
    notes: tuple[str, ...] = ()

    def at_ns(self, index: int) -> int | None:
        """Give the arrival of the line with this index, from 0, nanoseconds since the epoch; None if unknown."""
        return self.start_ns + self.offsets_ns[index] if index < len(self.offsets_ns) else None


def read_arrivals(name: str) -> Arrivals:
    """Find and read the arrival times beside a stream; none if there are none or they are of no use, with a note."""
    path = Path(name)
    if path.suffix != ".jsonl":
        return Arrivals()
    sidecar = path.with_name(path.name.removesuffix(".jsonl").removesuffix(".events") + ".arrival.json")
    try:
        raw = json.loads(sidecar.read_bytes())
    except FileNotFoundError:
        return Arrivals()
    except (OSError, ValueError, RecursionError) as problem:
        return Arrivals(notes=(f"{sidecar}: not used, {type(problem).__name__}",))
    offsets = _offsets(raw)
    start = _start(path, offsets) if offsets else None
    if start is None:
        return Arrivals(notes=(f"{sidecar}: not used, it holds no arrival times that fit the stream",))
    return Arrivals(offsets, start)


def _offsets(raw: Any) -> tuple[int, ...]:
    if not isinstance(raw, list):
        return ()
    if not all(isinstance(item, int | float) and 0 <= item < _LONGEST_MS for item in raw):
        return ()
    return tuple(int(item * _NS_PER_MS) for item in raw)


def _start(path: Path, offsets: tuple[int, ...]) -> int | None:
    """Find when the process began: the earliest moment at which no line came before the time that it states itself."""
    with path.open("rb") as file:
        stated = [_stated_ns(line) for line in islice(file, _ANCHOR_LINES)]
    starts = [known - offset for known, offset in zip(stated, offsets, strict=False) if known is not None]
    return max(starts, default=None)


def _stated_ns(line: bytes) -> int | None:
    record = parse(line)
    if not isinstance(record, dict):
        return None
    if record.get("type") == "session":
        return iso_to_ns(record.get("timestamp"))
    message = record.get("message")
    starts = record.get("type") == "message_start" and isinstance(message, dict)
    return ms_to_ns(message.get("timestamp")) if starts and isinstance(message, dict) else None
