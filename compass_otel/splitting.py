"""Sends a batch so that a record which the backend refuses for good costs nobody but itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar, assert_never

from compass_otel.delivery import Delivered, Delivery, Rejected, Retry
from compass_otel.stats import Loss

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")

_ONE_BY_ONE_FROM = 32


@dataclass(frozen=True, slots=True)
class Refusal(Generic[Item]):
    """One item that will never be taken, and what the backend said."""

    item: Item
    loss: Loss
    reason: str


@dataclass(slots=True)
class Outcome(Generic[Item]):
    """What became of a batch: every item is in one of the three lists."""

    delivered: list[Item] = field(default_factory=list)
    refused: list[Refusal[Item]] = field(default_factory=list)
    left: list[Item] = field(default_factory=list)
    """Not tried, or to be tried again."""
    retry: Retry | None = None
    """Why there is something left."""


def send_isolating(batch: Sequence[Item], send: Callable[[Sequence[Item]], Delivery]) -> Outcome[Item]:
    """Send a batch; split it where something in it is refused, until the culprits stand alone.

    After a partial success the parts are sent again, since the backend does not say which records it refused: what it
    had taken reaches it twice. Better twice than a failure that nobody can find.

    Args:
        batch: Items, in order.
        send: Sends some of them together.

    Returns:
        What became of each. The first `Retry` ends the attempt.

    """
    outcome: Outcome[Item] = Outcome()
    parts: list[Sequence[Item]] = [batch]
    while parts:
        part = parts.pop()
        answer = send(part)
        match answer:
            case Retry():
                outcome.retry = answer
                outcome.left = [item for rest in (part, *reversed(parts)) for item in rest]
                return outcome
            case Delivered(rejected=refused, message=message) if refused:
                if refused >= len(part):
                    outcome.refused += [Refusal(item, Loss.PARTIAL_SUCCESS, message) for item in part]
                else:
                    parts += reversed(_split(part))
            case Delivered():
                outcome.delivered += part
            case Rejected(reason=reason):
                if len(part) == 1:
                    outcome.refused.append(Refusal(part[0], Loss.REFUSED, reason))
                else:
                    parts += reversed(_split(part))
            case _:
                assert_never(answer)
    return outcome


def _split(part: Sequence[Item]) -> list[Sequence[Item]]:
    """Halve; a small part at once into single items, which costs no more requests and fewer repetitions."""
    if len(part) <= _ONE_BY_ONE_FROM:
        return [[item] for item in part]
    middle = len(part) // 2
    return [part[:middle], part[middle:]]
