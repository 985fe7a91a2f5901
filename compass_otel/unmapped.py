"""Values for input that became nothing else: counted and reported, never raised, never dropped in silence."""

from msgspec import Struct


class Unmapped(Struct, frozen=True):
    """A record or event of a type that nobody maps; `reason` is a short stable word, `line` counts from 1."""

    type: str
    reason: str
    line: int | None = None


class Malformed(Struct, frozen=True):
    """Input that is no record at all; `reason` is a short stable word, `line` counts from 1."""

    reason: str
    line: int | None = None
