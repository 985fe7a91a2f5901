"""Draws a run as a tree for a terminal of a given width: outcome first, each failure as a card in its place.

Pure: takes run objects of the `--json` shape and gives lines (see `compass_otel.view_text`); `view_terminal` prints
them. Every text of the run passes `harmless` before it is measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from compass_otel.jsonout import RunObject
from compass_otel.view_card import draw_card
from compass_otel.view_facts import Node, RunFacts, run_facts
from compass_otel.view_marks import STYLES, WORDS, Fate, Marks, marks_for
from compass_otel.view_text import Line, count_words, duration_words, harmless, one_line, width_of, wrap

MIN_WIDTH: Final = 20
_MAX_RULE: Final = 110
"""Durations stand at most this far right: further out the eye loses the row."""
_QUIET_FATES: Final = frozenset({Fate.COMPLETED, Fate.NOTE, Fate.OPEN})


@dataclass(frozen=True, slots=True)
class Canvas:
    """What the view must know about the terminal that it draws for."""

    width: int = 80
    """Cells in a row; below 20 it draws for 20."""
    encoding: str = "utf-8"
    timezone: tzinfo | None = None
    """For the times of runs; None is the zone of the machine."""

    @property
    def marks(self) -> Marks:
        """The marks that this terminal can show."""
        return marks_for(self.encoding)

    @property
    def columns(self) -> int:
        """The width that is drawn for."""
        return max(self.width, MIN_WIDTH)


def draw_run(run: RunObject, hidden: int, canvas: Canvas) -> list[Line]:
    """Give the tree of one run; rows are never wider than the canvas.

    Args:
        run: what to draw.
        hidden: how many of its spans are left out of `run`.
        canvas: what to draw for.

    """
    facts = run_facts(run)
    rows = draw_head(facts, canvas)
    if hidden:
        text = f"{count_words(hidden, 'span')} that went well not shown here, see --json"
        rows += _hanging([(text, "dim")], canvas.marks.pipe, canvas.marks.pipe, canvas)
    for index, node in enumerate(facts.nodes):
        rows += draw_node(node, canvas, "", last=index == len(facts.nodes) - 1)
    return rows


def draw_head(facts: RunFacts, canvas: Canvas, *, closing: bool = False) -> list[Line]:
    """Give the rows that tell of the run as a whole: outcome and why, when, how long, model, totals, ids to look it up.

    They stand above the tree; *closing* ones stand below a tree that grew, as its last branch.
    """
    marks = canvas.marks
    style = STYLES[facts.fate]
    first: Line = [(f"{marks.fates[facts.fate]} {WORDS[facts.fate]}", style)]
    first += _after(marks.dot, _shown(canvas, facts.agent), "bold")
    for text in (*facts.models, time_words(facts.start_ns, canvas), _length_words(facts.start_ns, facts.end_ns)):
        first += _after(marks.dot, _shown(canvas, text), "")
    hang = marks.blank if closing else marks.pipe
    rows = _hanging(first, marks.last if closing else "", hang, canvas)
    if facts.headline:
        rows += _hanging([(_shown(canvas, facts.headline), style)], hang, hang, canvas)
    rows += _hanging(_facts_line(facts.totals, "", canvas), hang, hang, canvas)
    ids = (f"session {facts.session_id}" if facts.session_id else "", f"trace {facts.trace_id}")
    return rows + _hanging(_facts_line(ids, "dim", canvas), hang, hang, canvas)


def draw_node(node: Node, canvas: Canvas, prefix: str, *, last: bool) -> list[Line]:
    """Give the rows of one node and of what stands under it, behind *prefix*."""
    marks = canvas.marks
    below = prefix + (marks.blank if last else marks.pipe)
    text_prefix = below + (marks.pipe if node.children else "")
    rows = _row(node, canvas, prefix + (marks.last if last else marks.branch), text_prefix)
    if node.card:
        inner = canvas.columns - len(text_prefix)
        card = draw_card(node.card, width=inner, marks=marks, encoding=canvas.encoding)
        rows += [[(text_prefix, "dim"), *row] for row in card]
    for index, child in enumerate(node.children):
        rows += draw_node(child, canvas, below, last=index == len(node.children) - 1)
    return rows


def _row(node: Node, canvas: Canvas, prefix: str, hang: str) -> list[Line]:
    marks = canvas.marks
    style = STYLES[node.fate]
    line: Line = [(marks.fates[node.fate] + " ", style), (_shown(canvas, node.name), "")]
    if node.fate not in _QUIET_FATES:
        line += _after(marks.dot, WORDS[node.fate], style)
    for detail in node.details:
        line += _after(marks.dot, _shown(canvas, detail), "")
    length = _length_words(node.start_ns, node.end_ns) if node.fate is not Fate.NOTE else ""
    return _right(_hanging(line, prefix, hang, canvas, reserve=len(length) + 2 if length else 0), length, canvas)


def _right(rows: list[Line], text: str, canvas: Canvas) -> list[Line]:
    """Put *text* at the right end of the first row."""
    if not text:
        return rows
    room = min(canvas.columns, _MAX_RULE) - width_of(rows[0]) - len(text)
    return [[*rows[0], (" " * max(room, 2), ""), (text, "dim")], *rows[1:]]


def _hanging(line: Line, prefix: str, hang: str, canvas: Canvas, *, reserve: int = 0) -> list[Line]:
    """Wrap the line behind *prefix*, further rows behind *hang*; *reserve* cells at the right stay free."""
    widest = max(len(prefix), len(hang))
    rows = wrap(line, max(canvas.columns - widest - reserve, 8))
    return [[(prefix if index == 0 else hang, "dim"), *row] for index, row in enumerate(rows)]


def _facts_line(texts: tuple[str, ...], style: str, canvas: Canvas) -> Line:
    line: Line = []
    for text in texts:
        line += _after(canvas.marks.dot if line else "", _shown(canvas, text), style)
    return line


def _after(dot: str, text: str, style: str) -> Iterator[tuple[str, str]]:
    if text:
        yield dot, "dim"
        yield text, style


def _shown(canvas: Canvas, text: str) -> str:
    return harmless(one_line(text), canvas.encoding)


def time_words(at_ns: int, canvas: Canvas) -> str:
    """Say when, to the second, in the canvas' zone; nothing for a stream that never told a time."""
    if not at_ns:
        return ""
    moment = datetime.fromtimestamp(at_ns / 1e9, tz=canvas.timezone).astimezone(canvas.timezone)
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _length_words(start_ns: int, end_ns: int | None) -> str:
    return duration_words(max(end_ns - start_ns, 0)) if end_ns is not None else ""
