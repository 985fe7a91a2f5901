"""GrowingTree: shows a live run as it happens: a row for whatever has ended, the outcome last.

It only ever adds rows, so that it works in a pipe and in a log as well as on a terminal, and nothing that scrolled away
has to be taken back. A terminal also gets one moving line that says what is going on.
"""

import time
from collections.abc import Callable
from operator import itemgetter
from typing import Final

from compass_otel.collected_run import CollectedRun
from compass_otel.jsonout import span_object
from compass_otel.showing import RunCollector
from compass_otel.view_live import draw_event, draw_finished, draw_opened, draw_running, draw_span
from compass_otel.view_terminal import Screen
from compass_otel.view_text import Line

_STATUS_EVERY_S: Final = 0.1


class GrowingTree:
    """Draws what a collector has that is new. Not thread-safe; blocks as its screen does.

    Args:
        screen: Where to draw.
        collector: Must keep rows (`RunCollector(keep_rows=True)`).
        clock: Wall time, nanoseconds.

    """

    def __init__(self, screen: Screen, collector: RunCollector, clock: Callable[[], int] = time.time_ns) -> None:
        self._screen = screen
        self._collector = collector
        self._clock = clock
        self._events_shown: dict[int, int] = {}
        self._begun = False
        self._next_status_s = 0.0

    def grow(self, finished: list[CollectedRun]) -> int:
        """Show what happened since the last call; *finished* are the runs that ended in it.

        Returns:
            How many rows were shown.

        Raises:
            OSError: The screen cannot be written.

        """
        lines: list[Line] = []
        for run in self._collector.take_opened():
            lines += [[]] if self._begun else []
            lines += draw_opened(span_object(run.root), self._screen.canvas)
            self._begun = True
        lines += self._rows(finished)
        for run in finished:
            self._events_shown.pop(id(run), None)
            lines += draw_finished(run.drawable()[0], self._screen.canvas)
        if lines:
            self._screen.show(lines)
            self._next_status_s = 0.0
        self._show_running()
        return len(lines)

    def _rows(self, finished: list[CollectedRun]) -> list[Line]:
        """Give rows of ended spans and of events of their runs, in the order of time."""
        canvas = self._screen.canvas
        timed: list[tuple[int, list[Line]]] = []
        for run, span in self._collector.take_rows():
            timed.append((span["end_unix_ns"] or 0, draw_span(span, span_object(run.root), canvas)))
        for run in (*finished, *self._collector.open_runs):
            shown = self._events_shown.get(id(run), 0)
            if len(run.root.events) > shown:
                root = span_object(run.root)
                timed += [
                    (event["time_unix_ns"], draw_event(event, root, run.outcome, canvas))
                    for event in root["events"][shown:]
                ]
                self._events_shown[id(run)] = len(root["events"])
        return [line for _, lines in sorted(timed, key=itemgetter(0)) for line in lines]

    def _show_running(self) -> None:
        now_s = time.monotonic()
        if not self._screen.moving or now_s < self._next_status_s:
            return
        self._next_status_s = now_s + _STATUS_EVERY_S
        open_runs = self._collector.open_runs
        if not open_runs:
            self._screen.status([])
            return
        spans = [span_object(span) for run in open_runs for span in run.children.values()]
        self._screen.status(draw_running(spans, self._clock(), self._screen.canvas))
