"""Screen: writes lines to a terminal, a pipe or a file; colour and moving text only where they can be seen.

Blocks as its stream does. Not thread-safe.
"""

import os
from collections.abc import Iterable
from typing import Final, TextIO

from rich.cells import set_cell_size
from rich.color import ColorSystem
from rich.style import Style

from compass_otel.view import MIN_WIDTH, Canvas
from compass_otel.view_text import Line, width_of

PIPE_WIDTH: Final = 100
"""Cells for a pipe or a file, which have no width of their own; `COLUMNS` says otherwise."""
_ERASE_LINE: Final = "\r\x1b[2K"


class Screen:
    """One output stream of a command, as a place to draw on."""

    def __init__(self, stream: TextIO) -> None:
        """Look at the stream: is it a terminal, what can it show. `NO_COLOR` and `TERM=dumb` are honoured."""
        self._stream = stream
        self._terminal = stream.isatty()
        dumb = os.environ.get("TERM", "") in ("dumb", "unknown")
        coloured = self._terminal and not dumb and not os.environ.get("NO_COLOR")
        self.moving = self._terminal and not dumb
        """Whether a line may be rewritten in place."""
        # The view asks for the eight plain colours alone, which every colour terminal shows as its owner chose them.
        self._colours = ColorSystem.STANDARD if coloured else None
        self._styles: dict[str, Style] = {}
        self._status_shown = False
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")

    @property
    def canvas(self) -> Canvas:
        """What to draw for, as the terminal is now: a person may resize it at any time."""
        return Canvas(width=self._width(), encoding=self._stream.encoding or "ascii")

    def _width(self) -> int:
        columns = os.environ.get("COLUMNS", "")
        if columns.isdecimal() and int(columns):
            return int(columns)
        if self._terminal:
            try:
                return os.get_terminal_size(self._stream.fileno()).columns or PIPE_WIDTH
            except OSError:
                return PIPE_WIDTH
        return PIPE_WIDTH

    def show(self, lines: Iterable[Line]) -> None:
        """Write lines and flush. Raises OSError when the stream is closed at its other end."""
        text = "".join(self._rendered(line) + "\n" for line in lines)
        if text:
            self._stream.write((_ERASE_LINE if self._status_shown else "") + text)
            self._status_shown = False
        self._stream.flush()

    def status(self, line: Line) -> None:
        """Show a line that the next one replaces; on what is no terminal nothing is written."""
        if not self.moving:
            return
        cells = max(self.canvas.columns - 1, MIN_WIDTH - 1)
        if width_of(line) > cells:
            line = [(set_cell_size("".join(text for text, _ in line), cells), "")]
        self._stream.write(_ERASE_LINE + self._rendered(line))
        self._stream.flush()
        self._status_shown = bool(line)

    def _rendered(self, line: Line) -> str:
        if self._colours is None:
            return "".join(text for text, _ in line)
        return "".join(self._style(style).render(text, color_system=self._colours) for text, style in line)

    def _style(self, name: str) -> Style:
        if name not in self._styles:
            self._styles[name] = Style.parse(name)
        return self._styles[name]
