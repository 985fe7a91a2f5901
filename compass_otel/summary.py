"""Tally: what a command saw in all: its last lines, its exit status, the list of what it could not read. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from compass_otel.exits import Exit
from compass_otel.jsonout import RecordsObject
from compass_otel.unmapped import Malformed, Unmapped
from compass_otel.view_text import count_words

MAX_TOLD: Final = 10
"""Unreadable lines of one input told one by one, and unknown types by name; beyond it their number must do."""
_OTHER_TYPES: Final = "other types"
_OUTCOME_ORDER: Final = ("failed", "incomplete", "cancelled", "open", "completed")


@dataclass(slots=True)
class Useless:
    """What one input had that was of no use: lines that could not be read, records of types that nobody knows."""

    told: list[Malformed] = field(default_factory=list)
    malformed: int = 0
    unmapped: Counter[str] = field(default_factory=Counter)

    def add(self, each: Malformed | Unmapped) -> None:
        """Take one; memory stays bounded."""
        if isinstance(each, Unmapped):
            known = each.type in self.unmapped or len(self.unmapped) < MAX_TOLD
            self.unmapped[each.type if known else _OTHER_TYPES] += 1
            return
        self.malformed += 1
        if len(self.told) < MAX_TOLD:
            self.told.append(each)

    def lines(self, source: str) -> Iterator[str]:
        """Give one line for each, with file and line."""
        for each in self.told:
            where = f"{source}:{each.line}" if each.line is not None else source
            yield f"{where}: not read: {each.reason.replace('_', ' ')}"
        if self.malformed > len(self.told):
            yield f"{source}: {self.malformed - len(self.told):,} more lines not read"
        if self.unmapped:
            types = ", ".join(f"{name or '(no type)'} ({count:,})" for name, count in self.unmapped.most_common())
            yield f"{source}: records of unknown types: {types}"


@dataclass(slots=True)
class Tally:
    """Counts over all inputs of one command."""

    outcomes: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    inputs: int = 0
    skipped_files: int = 0
    trouble: bool = False
    """Whether something could not be read or sent."""

    def add_records(self, records: RecordsObject) -> None:
        """Add what became of the records of one input."""
        self.inputs += 1
        self.records.update(records)
        self.trouble = self.trouble or records["malformed"] > 0

    def lines(self) -> list[str]:
        """Give the closing lines: runs by outcome, then records by what became of them."""
        runs = [f"{self.outcomes[outcome]:,} {outcome}" for outcome in _OUTCOME_ORDER if self.outcomes[outcome]]
        total = count_words(sum(self.outcomes.values()), "run")
        files = f" in {count_words(self.inputs, 'input')}" if self.inputs != 1 else ""
        skipped = f"; {count_words(self.skipped_files, 'other file')} skipped" if self.skipped_files else ""
        told = f"{total}{files}: {', '.join(runs)}" if runs else f"{total}{files}"
        return [told + skipped, self._records_line()]

    def _records_line(self) -> str:
        parts = [f"{self.records[kind]:,} {kind}" for kind in ("mapped", "ignored", "unmapped", "malformed")]
        return f"{count_words(self.records['read'], 'record')} read: {', '.join(parts)}"

    def exit_status(self, fail_on: str | None) -> int:
        """Decide the exit status; `fail_on` is `failed`, `cancelled` or None. A verdict on runs goes before trouble."""
        if fail_on is not None and (self.outcomes["failed"] or self.outcomes["incomplete"]):
            return Exit.RUN_FAILED
        if fail_on == "cancelled" and self.outcomes["cancelled"]:
            return Exit.RUN_CANCELLED
        return Exit.TROUBLE if self.trouble else Exit.OK
