"""CommandOutput: which of a command's streams gets what: the tree, JSON objects, frames, notes and summaries.

Standard output has one reader at a time: the tree, or `--json`, or `--frames -`, or what `--tee` passes through. The
tree moves to standard error under `--tee`; summaries stand with the tree, and on standard error where there is none.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TextIO

from compass_otel.collected_run import CollectedRun
from compass_otel.command_options import STDIO, ShowOptions
from compass_otel.exits import complain, end_stdout
from compass_otel.growing import GrowingTree
from compass_otel.jsonout import InputJsonWriter, RecordsObject
from compass_otel.scrubbing import scrub
from compass_otel.summary import Tally, Useless
from compass_otel.unmapped import Malformed, Unmapped
from compass_otel.view import draw_run
from compass_otel.view_terminal import Screen
from compass_otel.view_text import Line, harmless, one_line, wrap

FAILING: Final = frozenset({"failed", "cancelled", "incomplete"})
"""What `--failures` shows."""


class RunPage(Protocol):
    """A page that collects runs and is written at the end (`compass_otel.html_page`)."""

    def add_run(self, run: CollectedRun, source: str) -> None:
        """Add a run that was read from *source*. Raises OSError."""

    def finish(self, closing: Sequence[str]) -> None:
        """Write the page, *closing* lines at its foot. Raises OSError."""


class CommandOutput:
    """Everything that a command writes. Not thread-safe; blocks as its streams do.

    A standard output that was closed at its other end, or that takes no more, sets `gone` and swallows the rest; all
    but the former is complained of. Trouble with the page raises OSError.
    """

    def __init__(self, show: ShowOptions, *, tee: bool = False, page: RunPage | None = None) -> None:
        """Open the frames' file, if one is asked for; a *page* takes the place of the tree. Raises OSError."""
        self.show = show
        self._page = page
        self.tally = Tally()
        self.gone = False
        self._tee = tee
        self.notes = Screen(sys.stderr)
        self._stdout_taken = show.as_json or show.frames == STDIO or page is not None
        self.screen = self._tree_screen()
        self._frames: TextIO | None = self._open_frames()
        self._json: InputJsonWriter | None = None
        self._title: str | None = None
        self._drawn = 0
        self._source = STDIO
        self._useless = Useless()

    def _tree_screen(self) -> Screen | None:
        if self._stdout_taken:
            return None
        return self.notes if self._tee else Screen(sys.stdout)

    def _open_frames(self) -> TextIO | None:
        if self.show.frames is None:
            return None
        if self.show.frames == STDIO:
            sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]  # a text file
            return sys.stdout
        return open(self.show.frames, "w", encoding="utf-8", errors="replace")  # noqa: PTH123  # closed in close

    @property
    def wants_frames(self) -> bool:
        """Whether frames go anywhere."""
        return self._frames is not None

    def write_frame(self, line: str) -> None:
        """Write one frame, a line of JSON."""
        if self._frames is not None and not self.gone:
            with self._writing_frames():
                self._frames.write(line + "\n")

    def flush(self) -> None:
        """Let readers of the frames see what there is."""
        if self._frames is not None and not self.gone:
            with self._writing_frames():
                self._frames.flush()

    def pass_through(self, chunk: bytes) -> None:
        """Write what `--tee` passes through."""
        if self._tee and not self.gone:
            with self._writing():
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()

    def begin_input(self, source: str, title: str | None) -> None:
        """Begin an input: *source* is its path as given, *title* stands above its first run, None for none."""
        self._source = source
        self._title = title
        self._useless = Useless()
        if self.show.as_json:
            self._json = InputJsonWriter(source)

    def add_run(self, run: CollectedRun) -> None:
        """Count a run, and write it unless `--failures` leaves it out."""
        self.tally.outcomes[run.outcome] += 1
        if self.show.failures_only and run.outcome not in FAILING:
            return
        if self._page is not None:
            self._page.add_run(run, self._source)
        if self._json is not None:
            self._json.add_run(run.json())
        elif self.screen is not None and not self.gone:
            self._draw(run)

    def grow(self, tree: GrowingTree, finished: list[CollectedRun]) -> None:
        """Let a growing tree show what is new, and count the runs that ended in it."""
        for run in finished:
            self.tally.outcomes[run.outcome] += 1
        if not self.gone:
            with self._writing():
                self._drawn += tree.grow(finished)

    def _draw(self, run: CollectedRun) -> None:
        if self.screen is None:
            return
        canvas = self.screen.canvas
        lines = draw_run(*run.drawable(), canvas)
        if self._drawn:
            lines.insert(0, [])
        if self._title is not None:
            title: Line = [(harmless(one_line(self._title), canvas.encoding), "dim")]
            lines[bool(self._drawn) : bool(self._drawn)] = wrap(title, canvas.columns)
            self._title = None
        self._drawn += 1
        with self._writing():
            self.screen.show(lines)

    def note_useless(self, useless: Sequence[Malformed | Unmapped]) -> None:
        """Remember, up to a bound, lines of this input that could not be read, and types that nobody knows."""
        for each in useless:
            self._useless.add(each)

    def end_input(self, records: RecordsObject, *, tell_lines: bool = True) -> None:
        """End an input: its records are counted, its unreadable lines named, its JSON object is written."""
        self.tally.add_records(records)
        if tell_lines:
            for line in self._useless.lines(self._source):
                self.say(line)
        if self._json is not None:
            writer, self._json = self._json, None
            if self.gone:
                writer.discard()
                return
            with self._writing():
                writer.finish(records, sys.stdout.buffer)

    def skip_input(self) -> None:
        """Forget the input: it is nothing that anybody asked for."""
        self.tally.skipped_files += 1
        if self._json is not None:
            self._json.discard()
            self._json = None

    def complain(self, text: str) -> None:
        """Say in one line what could not be done; the exit status will be 1."""
        self.tally.trouble = True
        self.say(text)

    def say(self, text: str) -> None:
        """Write one line to standard error."""
        self.notes.status([])
        complain(harmless(one_line(scrub(text)), sys.stderr.encoding or "ascii"))

    def finish_page(self) -> None:
        """Write the page, if there is one. Raises OSError."""
        if self._page is not None:
            try:
                self._page.finish(self.tally.lines())
            except BrokenPipeError as error:
                self._end_stdout(error)

    def close(self) -> None:
        """Write the summary and close the frames' file."""
        if self._frames is not None and self._frames is not sys.stdout:
            with self._writing_frames():
                self._frames.close()
        screen = self.screen or self.notes
        if not (self.gone and screen is self.screen):
            width = screen.canvas.columns
            lines: list[Line] = [row for line in self.tally.lines() for row in wrap([(line, "dim")], width)]
            with self._writing():
                screen.show([[], *lines] if self._drawn else lines)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Note a standard output that nobody reads any more, or that takes no more."""
        try:
            yield
        except OSError as error:
            self._end_stdout(error)

    @contextlib.contextmanager
    def _writing_frames(self) -> Iterator[None]:
        """Go on without frames when their file takes no more; standard output is not concerned."""
        try:
            yield
        except OSError as error:
            if self._frames is sys.stdout:
                self._end_stdout(error)
            else:
                self._frames = None
                self.complain(f"{self.show.frames}: cannot be written: {error.strerror}")

    def _end_stdout(self, error: OSError) -> None:
        self.gone = True
        trouble = end_stdout(error)
        if trouble is not None:
            self.complain(trouble)
