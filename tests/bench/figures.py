"""What a bench gives: figures with their bars, and the table that shows them."""

from __future__ import annotations

import argparse
import json
import os
import resource
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """How long a bench may take: quick sizes by default, those of the promises with `full`."""

    full: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure.

    Attributes:
        name: what was measured.
        value: how much of it.
        bar: the most that is allowed; None where nothing is promised.
        unit: of value and bar; empty for a ratio.
        at_least: the bar is the least that is allowed.

    """

    name: str
    value: float
    bar: float | None = None
    unit: str = ""
    at_least: bool = False

    @property
    def missed(self) -> bool:
        """Whether the bar was missed."""
        if self.bar is None:
            return False
        return self.value < self.bar if self.at_least else self.value > self.bar


def table(figures: list[Figure]) -> str:
    """Show figures for a person, one a line: name, figure, bar, verdict."""
    width = max(len(figure.name) for figure in figures)
    lines = [f"{'name':{width}}  {'figure':>12}  {'bar':>12}  verdict"]
    for figure in figures:
        shown = f"{figure.value:.3g}" if figure.value < 100 else f"{figure.value:.0f}"
        sign = ">=" if figure.at_least else "<="
        bar = "-" if figure.bar is None else f"{sign} {figure.bar:g} {figure.unit}".strip()
        verdict = "" if figure.bar is None else "MISSED" if figure.missed else "met"
        lines.append(f"{figure.name:{width}}  {f'{shown} {figure.unit}'.strip():>12}  {bar:>12}  {verdict}")
    return "\n".join(lines)


def load() -> str:
    """Say how busy the machine is, since every figure depends on it."""
    one, five, _ = os.getloadavg()
    return f"load {one:.1f} (1 min), {five:.1f} (5 min) on {os.cpu_count()} cores"


def cpu_s() -> float:
    """Give the processor time of this process and of its children that ended, in seconds."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def with_bytecode(folder: str) -> dict[str, str]:
    """Give the environment of a process that finds its bytecode in *folder*, as an installed package finds its own."""
    wanted = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return wanted | {"PYTHONPYCACHEPREFIX": folder}


def run_alone(description: str | None, measure: Callable[[Scale], list[Figure]]) -> int:
    """Run one bench as a program: print its table, or one JSON object for each figure; status 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the sizes of the promises, which take minutes")
    parser.add_argument("--json", action="store_true", help="one JSON object for each figure")
    options = parser.parse_args()
    figures = measure(Scale(full=options.full))
    if options.json:
        for figure in figures:
            print(json.dumps(asdict(figure)))
    else:
        print(table(figures))
        print(load())
    return int(any(figure.missed for figure in figures))
