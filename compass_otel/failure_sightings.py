"""FailureSightings: decides whether a failed message was reported before.

Agents tell one failure up to four times: an inner `error` event, `message_end`, `turn_end` and `agent_end`. Whichever
comes first reports it. What marks a *new* message is a record that can only stand before one (`message_start`,
`agent_start`, `auto_retry_start`), never the text: two attempts often fail with the same words.
"""

from collections import OrderedDict

from compass_otel.classification import render_message
from compass_otel.events import AssistantMessage

_MAX_REMEMBERED = 4096
"""Sightings remembered per session; the oldest go first. `agent_end` lists one run's messages, far fewer than this."""


class FailureSightings:
    """Which failures of this session were seen already; memory is bounded."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[int | None, int], None] = OrderedDict()
        self._reported = False
        self._reported_ms: int | None = None
        self._retry_open = False
        self.any_in_prompt = False
        self.repeated = 0

    def new_prompt(self) -> None:
        """Note that another prompt begins."""
        self.any_in_prompt = False
        self._retry_open = False
        self._reported = False

    def expect_new(self) -> None:
        """Note a record that only comes before a new message."""
        self._reported = False

    def retry_announced(self) -> None:
        """Note an announced retry, whose own failure has not been seen yet."""
        self._reported = False
        self._retry_open = True

    def retry_error_unseen(self) -> bool:
        """Whether retrying ended in a failure that no message carried; asked once."""
        unseen, self._retry_open = self._retry_open, False
        if unseen:
            self.any_in_prompt = True
        return unseen

    def counted(self) -> None:
        """Note that a failure without a message was reported."""
        self.any_in_prompt = True

    def is_new(self, message: AssistantMessage) -> bool:
        """Whether an inner `error` or a `message_end` tells a failure not reported yet; remembers it."""
        if self._reported and not self._is_other(message):
            self.repeated += 1
            return False
        self._remember(message)
        return True

    def is_unseen(self, message: AssistantMessage) -> bool:
        """Whether `turn_end` or `agent_end` tells a failure that nothing told before; remembers it."""
        if _key(message) in self._seen:
            self.repeated += 1
            return False
        self._remember(message)
        return True

    def _remember(self, message: AssistantMessage) -> None:
        self._reported, self._reported_ms = True, message.timestamp_ms
        self._seen[_key(message)] = None
        self._retry_open = False
        self.any_in_prompt = True
        if len(self._seen) > _MAX_REMEMBERED:
            self._seen.popitem(last=False)

    def _is_other(self, message: AssistantMessage) -> bool:
        """Two known timestamps that differ are two messages, even where the agent sent no `message_start` between."""
        known = message.timestamp_ms is not None and self._reported_ms is not None
        return known and message.timestamp_ms != self._reported_ms


def _key(message: AssistantMessage) -> tuple[int | None, int]:
    # The hash and not the text: an error text can be a megabyte, and a session can hold thousands of them.
    return message.timestamp_ms, hash(render_message(message.error_message))
