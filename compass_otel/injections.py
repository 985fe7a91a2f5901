"""InjectionQueue: remembers which user messages wait to be injected, to tell a steer from a queued follow-up."""

from collections import deque

from compass_otel.events import InjectionQueued

_MAX_QUEUED = 256
"""People fill this queue by hand; beyond it the oldest announcement is forgotten, its message counts as a steer."""


class InjectionQueue:
    """Announced injections of one session, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[InjectionQueued] = deque(maxlen=_MAX_QUEUED)

    def queued(self, event: InjectionQueued) -> None:
        """Note an announced injection."""
        self._waiting.append(event)

    def delivered(self, text: str) -> str:
        """Return `steer` or `follow_up` for a user message that entered the running run.

        The announcement with the same text wins, then the oldest one without a text (omp names none); a message that
        nobody announced is a steer.
        """
        for wanted in (text, None):
            for event in self._waiting:
                if event.text == wanted:
                    self._waiting.remove(event)
                    return event.kind
        return "steer"

    def clear(self) -> None:
        """Forget what was announced for a run that is over."""
        self._waiting.clear()
