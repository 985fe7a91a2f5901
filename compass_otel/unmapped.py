"""What reading could not use, as values: they are counted and shown, never raised."""

from msgspec import Struct


class Unmapped(Struct, frozen=True):
    """A whole record, or an event, that means nothing to us.

    `type` is the record's own type (empty if it has none), `reason` a word for a person and a counter
    (`unknown_type`, `no_type`, `wrong_fields`, …), `line` the line of its input, counted from 1, if known.
    """

    type: str
    reason: str
    line: int | None = None


class Malformed(Struct, frozen=True):
    """A line that is no record: not JSON, not an object, or nested beyond the parser's depth."""

    reason: str
    line: int | None = None
