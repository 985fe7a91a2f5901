"""Priority records in memory, bounded in bytes: without a spool, or while it can't write."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compass_otel.priority import Rank
from compass_otel.stats import courtesy

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRY_OVERHEAD_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class Entry:
    """A record that waits in memory."""

    body: bytes
    rank: Rank
    seq: int
    run: bytes | None = None

    @property
    def size(self) -> int:
        """Bytes counted against the bound."""
        return len(self.body) + ENTRY_OVERHEAD_BYTES


class MemoryStore:
    """Records by rank, the oldest first; at the bound the lowest rank, there the oldest, is given up.

    Thread-safe and safe in signal handlers: each step on a queue is one uninterruptible operation, and the lock that
    makes several of them one is a courtesy, taken if it can be had soon.

    Args:
        max_bytes: The bound.

    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.reset()

    def reset(self) -> None:
        """Begin anew, in a forked child."""
        self._lock = threading.RLock()
        self._queues: dict[Rank, deque[Entry]] = {rank: deque() for rank in sorted(Rank)}
        self._bytes = 0

    def put(self, entry: Entry) -> list[Entry]:
        """Keep a record.

        Returns:
            What had to be given up for it; it may be the record itself.

        """
        with courtesy(self._lock):
            self._queues[entry.rank].append(entry)
            self._bytes += entry.size
            return self._keep_bound()

    def _keep_bound(self) -> list[Entry]:
        evicted: list[Entry] = []
        for queue in self._queues.values():
            while queue and self._bytes > self._max_bytes:
                victim = queue.popleft()
                self._bytes -= victim.size
                evicted.append(victim)
        return evicted

    def take(self, limit: int, max_bytes: int) -> list[Entry]:
        """Take records out, the highest rank first, within a rank the oldest; at least one if there is any."""
        taken: list[Entry] = []
        room = max_bytes
        with courtesy(self._lock):
            for rank in sorted(Rank, reverse=True):
                queue = self._queues[rank]
                while queue and len(taken) < limit:
                    room -= len(queue[0].body)
                    if room < 0 and taken:
                        return taken
                    entry = queue.popleft()
                    self._bytes -= entry.size
                    taken.append(entry)
        return taken

    def put_back(self, entries: Sequence[Entry]) -> list[Entry]:
        """Keep records again that were taken, in front; returns what had to be given up."""
        with courtesy(self._lock):
            for entry in reversed(entries):
                self._queues[entry.rank].appendleft(entry)
                self._bytes += entry.size
            return self._keep_bound()

    def holds_up_to(self, seq: int) -> bool:
        """Whether a record with this number or a lower one waits."""
        return any(entry.seq <= seq for queue in self._queues.values() for entry in tuple(queue))

    def __len__(self) -> int:
        """How many records wait."""
        return sum(map(len, self._queues.values()))
