"""Marks, words and styles of the terminal view: each outcome has a mark and a word of its own, so colour only helps.

Two sets: one for terminals that write UTF-8, one in ASCII for those that do not.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Fate(StrEnum):
    """What became of a run or a span, as the tree tells it."""

    COMPLETED = "completed"
    FAILED = "failed"
    RETRIED = "retried"
    """Failed, and was tried again."""
    WENT_ON = "went_on"
    """Failed, and the run went on in another way: after a compaction, with a new message."""
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"
    OPEN = "open"
    TOOL_FAILED = "tool_failed"
    """A tool gave an error to the model: ordinary work, no failure of the run."""
    NOT_EXECUTED = "not_executed"
    """A tool result that the agent made up; nothing ran."""
    EMPTY = "empty"
    """An answer that ended well and holds nothing."""
    NOTE = "note"
    """Something that happened to the run: an injection, a fallback, what the model was told."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The drawing characters of one terminal."""

    fates: dict[Fate, str]
    branch: str
    last: str
    pipe: str
    blank: str
    bar: str
    arrow: str
    dot: str
    """Stands between two facts, blanks included."""


UNICODE_MARKS: Final = Marks(
    fates={
        Fate.COMPLETED: "✔",
        Fate.FAILED: "✖",
        Fate.RETRIED: "↻",
        Fate.WENT_ON: "↷",
        Fate.CANCELLED: "⊘",
        Fate.INCOMPLETE: "?",
        Fate.OPEN: "…",
        Fate.TOOL_FAILED: "!",
        Fate.NOT_EXECUTED: "∅",
        Fate.EMPTY: "∅",
        Fate.NOTE: "»",
    },
    branch="├─ ",
    last="└─ ",
    pipe="│  ",
    blank="   ",
    bar="┃ ",
    arrow="→ ",
    dot=" · ",
)

ASCII_MARKS: Final = Marks(
    fates={
        Fate.COMPLETED: "[ok]",
        Fate.FAILED: "[X]",
        Fate.RETRIED: "[r]",
        Fate.WENT_ON: "[>]",
        Fate.CANCELLED: "[/]",
        Fate.INCOMPLETE: "[?]",
        Fate.OPEN: "[..]",
        Fate.TOOL_FAILED: "[!]",
        Fate.NOT_EXECUTED: "[0]",
        Fate.EMPTY: "[0]",
        Fate.NOTE: ">>",
    },
    branch="|- ",
    last="`- ",
    pipe="|  ",
    blank="   ",
    bar="| ",
    arrow="-> ",
    dot=", ",
)

WORDS: Final = {
    Fate.COMPLETED: "completed",
    Fate.FAILED: "FAILED",
    Fate.RETRIED: "failed, retried",
    Fate.WENT_ON: "failed, run went on",
    Fate.CANCELLED: "cancelled",
    Fate.INCOMPLETE: "INCOMPLETE",
    Fate.OPEN: "still open",
    Fate.TOOL_FAILED: "tool failed",
    Fate.NOT_EXECUTED: "not executed",
    Fate.EMPTY: "empty answer",
    Fate.NOTE: "",
}

STYLES: Final = {
    Fate.COMPLETED: "green",
    Fate.FAILED: "bold red",
    Fate.RETRIED: "yellow",
    Fate.WENT_ON: "yellow",
    Fate.CANCELLED: "bold blue",
    Fate.INCOMPLETE: "bold magenta",
    Fate.OPEN: "cyan",
    Fate.TOOL_FAILED: "yellow",
    Fate.NOT_EXECUTED: "yellow",
    Fate.EMPTY: "yellow",
    Fate.NOTE: "cyan",
}


def marks_for(encoding: str) -> Marks:
    """Choose the marks that a terminal with this *encoding* can show."""
    return UNICODE_MARKS if encoding.lower().replace("-", "").replace("_", "").startswith("utf") else ASCII_MARKS
