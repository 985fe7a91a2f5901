"""The three answers of a delivery, and what gives them.

A backend can say three things about a batch, and each asks for something else of the caller: *delivered* (forget it),
*retry* (keep it, come back later) and *rejected* (this batch will never be taken: split it, set the culprit aside).
The stock exporters fold the three into success or failure; here they are types, so that a caller cannot forget one.

    Delivery = Delivered | Retry | Rejected
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Delivered:
    """The backend acknowledged the batch, or all but `rejected` records of it (OTLP partial success).

    A partial success does not say which records were refused. The caller may send the records again one by one to find
    out; those that had been taken arrive twice then, which is why a lane does it only for its priority records.
    """

    rejected: int = 0
    """Number of records that the backend refused for good, by its own account; 0 = all taken."""
    message: str = ""
    """What the backend said about them, one scrubbed line; may be a warning when nothing was refused."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Nothing is known to be delivered; the same batch may succeed later. Keep it.

    Also the answer to a wrong set-up (refused credentials, wrong port, redirect): the batch is not at fault, and
    the first thing a person does after reading `reason` is to repair it.
    """

    after_s: float | None
    """How long the backend asked us to wait, seconds, already bounded; None = it did not say."""
    reason: str
    """One scrubbed line for a person: endpoint, what is wrong, which setting to change."""
    in_doubt: bool = field(default=True, compare=False)
    """False if the backend surely stored nothing: it was not reached, or it answered with a refusal."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The backend refused this batch for good (malformed, too large): sending it again unchanged is useless."""

    reason: str
    """One scrubbed line: what the backend said."""


Delivery: TypeAlias = Delivered | Retry | Rejected


class Sender(Protocol):
    """Something that takes encoded records and gives a typed answer.

    A *record* is one span with its resource and scope, encoded as one `resource_spans` field of an
    `ExportTraceServiceRequest`, so that `b"".join(records)` is a valid request body (see `encoding.encode_span`).

    Not thread-safe: one thread at a time may be inside `send`, except where a class says otherwise. `send` never raises
    and never outlasts its deadline by more than a scheduling delay.
    """

    @property
    def target(self) -> str:
        """Where records go, without credentials: scheme, host, port, path."""

    def send(self, batch: Sequence[bytes], deadline: float) -> Delivery:
        """Send the records together and wait for the answer.

        Args:
            batch: Encoded records, at least one.
            deadline: Monotonic clock, seconds (`time.monotonic()`): the answer is there by then, whatever happens.

        Returns:
            The answer. Running into the deadline is a `Retry`: the backend may have stored the batch all the same.

        """

    def describe(self) -> str:
        """One line for a person: endpoint and protocol, credentials hidden."""

    def reset_after_fork(self) -> None:
        """Drop, without closing for the parent, whatever the parent's connection left in this child process."""

    def close(self) -> None:
        """Release the connection. Idempotent, never raises; a later `send` answers `Retry`."""
