"""Flushes: a caller asks, the worker answers when everything accepted before is settled, the caller waits that long."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compass_otel.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class FlushRequest:
    """The question of one caller: was everything that had been accepted by now delivered."""

    deadline: float
    """Monotonic seconds; after it nobody waits any more."""
    goal: int
    """Number of the last record that the question is about."""
    lost_before: int
    """Losses that had been counted when it was asked."""
    position: int | None = None
    """Where the spool was when the worker saw the request."""
    tried: bool = False
    """An attempt was made for its sake, without the delay that a failure had earned."""
    delivered: bool = False
    answered: Wakeup = field(default_factory=Wakeup)

    def answer(self, *, delivered: bool) -> None:
        """Tell the caller."""
        self.delivered = delivered
        self.answered.set()

    def wait(self) -> bool:
        """Wait for the answer until the deadline; False if there is none by then."""
        return self.answered.wait(self.deadline - time.monotonic()) and self.delivered


class Flushes:
    """Requests that are waiting for their answer. Adding is safe in signal handlers; the rest is the worker's."""

    def __init__(self) -> None:
        self._requests: deque[FlushRequest] = deque()

    def __bool__(self) -> bool:
        """Whether somebody waits."""
        return bool(self._requests)

    def add(self, request: FlushRequest) -> FlushRequest:
        """Put a request in line."""
        self._requests.append(request)
        return request

    def first_try(self) -> bool:
        """Whether somebody waits for whom nothing has been tried yet; they all count as tried from now on."""
        waiting = [request for request in tuple(self._requests) if not request.tried]
        for request in waiting:
            request.tried = True
        return bool(waiting)

    def unplaced(self) -> list[FlushRequest]:
        """Give the requests that have no position in the spool yet."""
        return [request for request in tuple(self._requests) if request.position is None]

    def settle(self, now: float, is_settled: Callable[[FlushRequest], bool], lost: int) -> None:
        """Answer what can be answered.

        Args:
            now: Monotonic seconds.
            is_settled: Whether everything that a request is about was delivered or lost.
            lost: Losses counted by now.

        """
        for _ in range(len(self._requests)):
            try:
                request = self._requests.popleft()
            except IndexError:  # the lane ends at the same time
                break
            if is_settled(request):
                request.answer(delivered=lost == request.lost_before)
            elif now < request.deadline:
                self._requests.append(request)

    def refuse(self) -> None:
        """Answer whoever still waits: not delivered. For a lane that ends."""
        for _ in range(len(self._requests)):
            try:
                self._requests.popleft().answer(delivered=False)
            except IndexError:  # the worker answers at the same time
                break

    def clear(self) -> None:
        """Forget all, in a forked child."""
        self._requests.clear()
