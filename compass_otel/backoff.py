"""When to try again: growing delays with jitter, and never sooner than the backend asked."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from compass_otel.delivery import Retry

SHORTEST_ATTEMPT_S: Final = 0.02
"""At the end no attempt begins with less: it could not succeed, and what it says would hide why the others failed."""
_FIRST_S: Final = 0.1
_LONGEST_S: Final = 5.0
_LONGEST_ASKED_S: Final = 30.0
_MAX_DOUBLINGS: Final = 12
_JITTER: Final = 0.2


class Backoff:
    """The delay before the next attempt. For one worker; readable by any thread.

    Delays double from 0.1 s to 5 s: short enough that a collector that came back is noticed soon, long enough that a
    dead one costs nothing. A delay that the backend asks for is kept up to 30 s.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._asked = False
        self.until = 0.0
        """Monotonic seconds; not before that."""

    @property
    def is_open(self) -> bool:
        """The last attempt failed: the backend is down or busy as far as we know."""
        return self._failures > 0

    @property
    def is_asked(self) -> bool:
        """The backend itself asked for the present delay, so no flush cuts it short."""
        return self._asked

    def failed(self, answer: Retry, now: float) -> None:
        """Note a failed attempt."""
        delay = min(_FIRST_S * 2.0 ** min(self._failures, _MAX_DOUBLINGS), _LONGEST_S)
        delay *= 1.0 + random.uniform(-_JITTER, _JITTER)  # noqa: S311 - spreads attempts, guards no secret
        self._asked = answer.after_s is not None and answer.after_s > 0
        if answer.after_s is not None:
            delay = max(delay, min(answer.after_s, _LONGEST_ASKED_S))
        self._failures += 1
        self.until = now + delay

    def succeeded(self) -> None:
        """Note that the backend answered."""
        self._failures, self._asked, self.until = 0, False, 0.0
