"""From a path or standard input to decoded records: one line in memory at a time, the kind of input told by content."""

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

from msgspec.structs import replace

from compass_otel.events import AgentEvent
from compass_otel.sources import Counts, Decoded, Format, Source
from compass_otel.sources.arrival import Arrivals, read_arrivals
from compass_otel.sources.detection import Detector
from compass_otel.sources.lines import MAX_LINE_BYTES, TimedLine, live_lines, stored_lines
from compass_otel.sources.pi_session import History, PiSession
from compass_otel.sources.pi_stream import PiStream
from compass_otel.sources.records import NOT_JSON
from compass_otel.unmapped import Malformed

_PEEK_LINES = 64
_PEEK_BYTES = 4 * 1024 * 1024


class NotReadableError(ValueError):
    """The input is there, but of a kind that is not read; the message says which, for a person."""


class Reading:
    """One opened input: its decoder, its lines, and how far they were read. Not thread-safe. Use as a context manager.

    Attributes:
        name: the path as given, `-` for standard input.
        source: decodes the lines.
        size_bytes: of a regular file, for progress; else None.
        bytes_read: so far.
        notes: what a person should know of this input, one line each.

    """

    def __init__(  # noqa: PLR0913 - the parts of one input; made by `open_source` alone
        self,
        name: str,
        file: BinaryIO,
        lines: Iterator[TimedLine],
        source: Source,
        *,
        clock: Callable[[], int] | None,
        size_bytes: int | None,
        notes: tuple[str, ...],
    ) -> None:
        self.name = name
        self.source = source
        self.size_bytes = size_bytes
        self.bytes_read = 0
        self.notes = notes
        self._file = file
        self._lines = lines
        self._clock = clock

    @property
    def format(self) -> Format:
        """The kind of input."""
        return self.source.format

    @property
    def counts(self) -> Counts:
        """What became of the records so far."""
        return self.source.counts

    def lines(self) -> Iterator[TimedLine]:
        """Give each line as it is, with its arrival time if there is one.

        Blocks for the next line. A live input gives `(None, now)` in between when nothing comes for a while: pass that
        time to `source.tick`. A line longer than `MAX_LINE_BYTES` comes as its first bytes, longer than that by one.
        """
        for line, at_ns in self._lines:
            if line is not None:
                self.bytes_read += len(line)
            yield line, at_ns

    def decode(self, line: bytes | None, at_ns: int | None) -> tuple[Decoded, ...]:
        """Decode what `lines` gave, quiet included."""
        if line is None:
            return self.source.tick(at_ns or 0)
        if len(line) > MAX_LINE_BYTES:
            return self.source.reject("line too long")
        decoded = self.source.decode(line, at_ns)
        first = decoded[0] if decoded and not line.endswith(b"\n") else None
        if isinstance(first, Malformed) and first.reason == NOT_JSON:
            return (replace(first, reason="cut short"),)
        return decoded

    def __iter__(self) -> Iterator[tuple[Decoded, ...]]:
        """Decode every line in turn; lines that give nothing are skipped. `end` is not called."""
        for line, at_ns in self.lines():
            decoded = self.decode(line, at_ns)
            if decoded:
                yield decoded

    def end(
        self, *, exit_status: int | None = None, signal: int | None = None, requested: bool = False
    ) -> tuple[AgentEvent, ...]:
        """Say that the input is over, at its own time; see `Source.end`.

        Only a live input, and the judgement whether an open session file will grow again, look at the clock.
        """
        now = self._clock() if self._clock is not None else None
        if now is None and self.format is Format.PI_SESSION:
            now = time.time_ns()
        return self.source.end(now, exit_status=exit_status, signal=signal, requested=requested)

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self.name != "-":
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def open_source(  # noqa: PLR0913 - all but the path optional
    path: str | Path | BinaryIO,
    *,
    format: Format | str | None = None,  # noqa: A002 - the name a person types on the command line
    live: bool = False,
    history: History | None = None,
    clock: Callable[[], int] = time.time_ns,
    tap: Callable[[bytes], object] | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Reading:
    """Open an input and find out what it is. Blocks until enough lines are there to tell.

    Args:
        path: of a file, `-` for standard input, or an open binary file.
        format: overrides what the content says.
        live: lines are stamped with `clock` as they come; without it the input's own times count.
        history: what other files of the same replay showed already.
        clock: gives the present, nanoseconds since the epoch.
        tap: gets the bytes of a live input as they come.
        stopped: ends a live input where it says True; asked at least twice a second.

    Raises:
        OSError: the file can't be opened.
        ValueError: `format` is no format.
        NotReadableError: a folder, or the notes of an extension, which are no stream of an agent.

    """
    wanted = None if format is None else Format(format)
    name, file = _open(path)
    lines = live_lines(file, clock, tap=tap, stopped=stopped) if live else stored_lines(file)
    try:
        return _opened(name, file, lines, wanted, history, clock if live else None)
    except BaseException:
        if name != "-":
            file.close()
        raise


def _opened(  # noqa: PLR0913 - what `open_source` found out
    name: str,
    file: BinaryIO,
    lines: Iterator[TimedLine],
    wanted: Format | None,
    history: History | None,
    clock: Callable[[], int] | None,
) -> Reading:
    detector = Detector()
    peeked = [] if wanted is not None else list(_peek(lines, detector))
    kind = detector.format if wanted is None else wanted
    if kind is Format.EXTENSION_DUMP:
        raise NotReadableError(f"{name}: these are the notes of an extension, not a stream or a session file")
    status = _status(file)
    modified_ns = status.st_mtime_ns if status is not None and clock is None else None
    every = _chained(peeked, lines)
    notes: tuple[str, ...] = ()
    source: Source
    if kind is Format.PI_SESSION:
        source = PiSession(history=history, last_change_ns=modified_ns)
    else:
        source = PiStream(fallback_ns=modified_ns)
        if clock is None:
            arrivals = read_arrivals(name)
            notes = arrivals.notes
            every = _timed(every, arrivals) if arrivals.offsets_ns else every
    size = status.st_size if status is not None else None
    return Reading(name, file, every, source, clock=clock, size_bytes=size, notes=notes)


def _open(path: str | Path | BinaryIO) -> tuple[str, BinaryIO]:
    if not isinstance(path, str | Path):
        return str(getattr(path, "name", "-")), path
    if str(path) == "-":
        return "-", sys.stdin.buffer
    if Path(path).is_dir():
        raise NotReadableError(f"{path}: a folder; name the files in it, or walk it with `session_files`")
    return str(path), Path(path).open("rb")


def _status(file: BinaryIO) -> os.stat_result | None:
    """Give size and times of a regular file; None for a pipe or a file in memory."""
    try:
        status = os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _peek(lines: Iterator[TimedLine], detector: Detector) -> Iterator[TimedLine]:
    """Read lines until it is known what they are, or there is no hope."""
    seen_lines = seen_bytes = 0
    for line, at_ns in lines:
        if line is None:
            continue
        yield line, at_ns
        seen_lines += 1
        seen_bytes += len(line)
        if detector.sees(line) or seen_lines >= _PEEK_LINES or seen_bytes >= _PEEK_BYTES:
            return


def _chained(peeked: list[TimedLine], rest: Iterator[TimedLine]) -> Iterator[TimedLine]:
    while peeked:
        yield peeked.pop(0)
    yield from rest


def _timed(lines: Iterator[TimedLine], arrivals: Arrivals) -> Iterator[TimedLine]:
    for index, (line, _) in enumerate(lines):
        yield line, arrivals.at_ns(index)
