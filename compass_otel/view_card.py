"""Draws one failure as a card: kind, error type, HTTP status, attempt, the message, what happened next. Pure."""

from typing import Final

from compass_otel.view_facts import Card
from compass_otel.view_marks import STYLES, Marks
from compass_otel.view_text import Line, harmless, one_line, wrap, wrap_text

MAX_MESSAGE_ROWS: Final = 12
"""A page of HTML that a proxy sent as an error must not push the next failure off the screen."""
_KIND_WORDS: Final = {
    "ERROR": "ERROR",
    "ABORTED": "ABORTED",
    "COMPACTION": "COMPACTION FAILED",
}
NO_MESSAGE: Final = "(the agent gave no message)"


def draw_card(card: Card, *, width: int, marks: Marks, encoding: str) -> list[Line]:
    """Give the rows of the card, each at most *width* cells, a bar at its left."""
    style = STYLES[card.fate]
    inner = max(width - len(marks.bar), 8)
    rows = wrap(_title(card, marks, style, encoding), inner)
    message = harmless(card.message, encoding).strip("\n") or NO_MESSAGE
    rows += wrap_text(message, "" if card.message else "dim", inner, MAX_MESSAGE_ROWS)
    if card.next_words:
        rows += wrap([(marks.arrow + harmless(card.next_words, encoding), style)], inner)
    return [[(marks.bar, style), *row] for row in rows]


def card_facts(card: Card) -> list[str]:
    """Give the facts of a failure in the order in which they are read: kind, type, HTTP status, attempt, retryable."""
    facts = [_KIND_WORDS.get(card.kind, card.kind)]
    if card.error_type:
        facts.append(card.error_type)
    if card.http_status is not None:
        facts.append(f"HTTP {card.http_status}")
    if card.attempt:
        facts.append(f"attempt {card.attempt}")
    if card.retryable is not None and card.kind == "ERROR":
        facts.append("retryable" if card.retryable else "not retryable")
    return facts


def _title(card: Card, marks: Marks, style: str, encoding: str) -> Line:
    pieces = [(harmless(one_line(fact), encoding), style) for fact in card_facts(card)]
    return [piece for fact in pieces for piece in ((marks.dot, "dim"), fact)][1:]
