"""Tally: what a command saw in all: its last lines, its exit status, the list of what it could not read. Pure."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from compass_otel.exits import Exit
from compass_otel.jsonout import RecordsObject
from compass_otel.view_text import count_words

MAX_TOLD: Final = 20
"""Unreadable lines told one by one; beyond it their number must do."""
_OUTCOME_ORDER: Final = ("failed", "incomplete", "cancelled", "open", "completed")


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
