"""What a row of the table says: figures of ours beside the plain SDK's, the promises that did not hold, a verdict."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

OURS = "ours"
PLAIN = "plain SDK"


@dataclass
class Report:
    """One row of the fault table, measured.

    Args:
        title: What was done.
        columns: Names of the figures.

    """

    title: str
    columns: tuple[str, ...]
    figures: list[tuple[str, ...]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Promises that did not hold; empty = the row is passed."""
    late: list[str] = field(default_factory=list)
    """Those of them that are about time, where a busy machine may be at fault."""
    notes: list[str] = field(default_factory=list)

    def add(self, *figures: object) -> None:
        """Add a line of the table."""
        self.figures.append(tuple(str(figure) for figure in figures))

    @property
    def is_only_late(self) -> bool:
        """Whether all promises that did not hold are about time."""
        return self.broken == self.late

    def expect(self, held: object, promise: str) -> None:
        """Note a promise of ours that did not hold."""
        if not held:
            self.broken.append(promise)

    def expect_in_time(self, held: object, promise: str) -> None:
        """Note a promise of ours about time that did not hold."""
        if not held:
            self.broken.append(promise)
            self.late.append(promise)

    def text(self) -> str:
        """Give the table and the verdict, as Markdown."""
        lines = [f"## {self.title}", "", _line(self.columns), _line(["---"] * len(self.columns))]
        lines += [_line(figures) for figures in self.figures]
        lines += ["", *(f"- {note}" for note in self.notes)]
        lines += [f"- BROKEN: {promise}" for promise in self.broken]
        load = " ".join(f"{number:.1f}" for number in os.getloadavg())
        lines.append(
            f"- {'PASSED' if not self.broken else 'FAILED'}; load of the machine {load} on {os.cpu_count()} cores"
        )
        return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def percentile(numbers: Sequence[float], percent: float) -> float:
    """Give a percentile; 0 of nothing."""
    ordered = sorted(numbers)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0
