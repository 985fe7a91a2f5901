"""Sources: records of an agent, untrusted, turned into `AgentEvent`s, each with a time.

A source never raises on input. What it cannot use becomes a counted value, and reading goes on. The set is open: one
module for each family of agents and each kind of record (`pi_stream`, `pi_session`), one line in `reading` to find it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from compass_otel.events import AgentEvent
from compass_otel.unmapped import Malformed, Unmapped

Line = bytes | str | Mapping[str, Any]
"""A record as it comes: one line of JSON, or an object that somebody parsed already."""

Decoded = AgentEvent | Unmapped | Malformed
"""What one record can become."""


class Format(StrEnum):
    """The kinds of input that are told apart by content; the value is what a person types to override."""

    PI_STREAM = "pi-stream"
    """Standard output of Pi or oh-my-pi, json mode or rpc mode."""
    PI_SESSION = "pi-session"
    """A session file of Pi or oh-my-pi."""
    EXTENSION_DUMP = "extension-dump"
    """What an extension wrote down (`on` instead of `type`); recognised so that it can be refused by name."""


class Counts(Struct, frozen=True):
    """How many records were read and what became of them; `read` is the sum of the other four, always."""

    mapped: int = 0
    ignored: int = 0
    unmapped: int = 0
    malformed: int = 0

    @property
    def read(self) -> int:
        """All records read; blank lines are none."""
        return self.mapped + self.ignored + self.unmapped + self.malformed

    def __add__(self, other: "Counts") -> "Counts":
        """Sum over several inputs."""
        return Counts(
            self.mapped + other.mapped,
            self.ignored + other.ignored,
            self.unmapped + other.unmapped,
            self.malformed + other.malformed,
        )


class Source(Protocol):
    """One input's decoder. Not thread-safe; never blocks, never raises on input."""

    @property
    def format(self) -> Format:
        """The kind of input."""

    @property
    def agent(self) -> str:
        """Name of the agent, as far as the content told: `pi`, `omp`."""

    @property
    def counts(self) -> Counts:
        """What became of the records so far."""

    def decode(self, line: Line, at_ns: int | None = None) -> tuple[Decoded, ...]:
        """Decode one record.

        Args:
            line: one line, with or without its end, or an object that was parsed already (never changed).
            at_ns: arrival time, nanoseconds since the epoch, of a live record; None for a stored one, which then
                gets the best time that the input itself knows, never the present.

        Returns:
            Events in order; their times never go back, but for `PromptSettled`, whose time is when the prompt ended,
            known only later. One `Unmapped` or `Malformed` for a record that is of no use; nothing for one that is
            known and carries nothing for us, or for a blank line.

        """

    def reject(self, reason: str) -> tuple[Malformed]:
        """Count a line that was not even read, such as one that is too long."""

    def tick(self, now_ns: int) -> tuple[AgentEvent, ...]:
        """Tell a live source the time, so that it can see that a prompt is over because nothing follows."""

    def end(
        self,
        at_ns: int | None = None,
        *,
        exit_status: int | None = None,
        signal: int | None = None,
        requested: bool = False,
    ) -> tuple[AgentEvent, ...]:
        """Say that nothing more comes. A second call returns nothing.

        Args:
            at_ns: when, of a live source; None for a stored one.
            exit_status: of the agent's process, if known.
            signal: that ended the agent's process, if known.
            requested: the end was a person's wish.

        """
