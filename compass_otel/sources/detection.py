"""What an input is, told from its first records, never from its name."""

from compass_otel.sources import Format
from compass_otel.sources.pi_entries import HANDLERS, IGNORED_ENTRIES
from compass_otel.sources.records import parse


class Detector:
    """Looks at one line after another until the kind of input is known.

    The header says nothing: a stream in json mode and a session file begin with the same one. The record after it does.
    """

    def __init__(self) -> None:
        self._found: Format | None = None

    @property
    def format(self) -> Format:
        """What the input is; a stream, if nothing told: then every odd line is counted and shown."""
        return Format.PI_STREAM if self._found is None else self._found

    def sees(self, line: bytes) -> bool:
        """Take the next line; returns whether the kind is known now."""
        record = parse(line)
        if not isinstance(record, dict):
            return False
        kind = record.get("type")
        if not isinstance(kind, str):
            self._found = Format.EXTENSION_DUMP if isinstance(record.get("on"), str) else None
        elif kind in HANDLERS or kind in IGNORED_ENTRIES:
            self._found = Format.PI_SESSION
        elif kind != "session":
            self._found = Format.PI_STREAM
        return self._found is not None


def detect(first_lines: list[bytes]) -> Format | None:
    """Tell the kind of input from its first lines; None if they do not tell."""
    detector = Detector()
    return detector.format if any(detector.sees(line) for line in first_lines) else None
