"""What a row of the table is, and how it is held against a text.

Pure and without state, so every name here may be used from any thread.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from compass_otel.classification_text import Text, foreign_letters, words_of
from compass_otel.classification_words import Advice, ErrorType, advice_for
from compass_otel.patterns import pattern


class Trust(StrEnum):
    """How much the status and the declared kind of an error may overrule the words of a row."""

    SURE = "sure"
    """The words decide, whatever the status."""
    FIRM = "firm"
    """Not where the body declares the request itself invalid, and not with a 401."""
    LOOSE = "loose"
    """Common words: not where the status or the body says that the request was refused."""
    CLIENT = "client"
    """Words about the request: not where the status says that the server failed or is busy."""


_REFUSED: Final = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 407, 410, 411, 413, 414, 415, 416, 417, 421, 422, 431, 451}
)
_MAY_CALL_INVALID: Final = frozenset({None, 400, 422})
_BUSY: Final = frozenset({408, 429})
_UNAUTHORIZED: Final = 401
_SERVER_FAILED: Final = 500


@dataclass(frozen=True, slots=True)
class Case:
    """What a row looks at: the text read, and the status and the wait as far as they are known."""

    text: Text
    status: int | None = None
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """One wording, normalised as the text is: words in lower case, one space between them.

    A phrase of several words may end in the middle of a word (`rate limit` finds `rate limits`), one of a single word
    is that word. Non-Latin wordings, whose words are not parted by spaces, are sought anywhere.
    """

    raw: str
    words: str = field(init=False)
    parts: frozenset[str] = field(init=False)
    """Whole words, or letters of another alphabet, without all of which the wording cannot stand in a text."""

    def __post_init__(self) -> None:
        """Normalise once."""
        tokens = words_of(self.raw)
        alone = len(tokens) == 1
        letters = foreign_letters(self.raw)
        object.__setattr__(self, "parts", letters or frozenset(tokens if alone else tokens[:-1]))
        object.__setattr__(self, "words", f" {tokens[0]} " if alone else f" {' '.join(tokens)}")

    def found(self, text: Text) -> bool:
        """Whether `text` has this wording."""
        if self.raw.isascii():
            return self.parts <= text.tokens and self.words in text.words
        return self.parts <= text.letters and self.raw in text.plain


@dataclass(frozen=True, slots=True)
class Pattern:
    """A wording with numbers or gaps: a regular expression over the normalised words.

    `needs` is a word that must stand in the text for the expression to be tried at all; it keeps long texts cheap.
    """

    needs: str
    expression: re.Pattern[str]

    def found(self, text: Text) -> bool:
        """Whether `text` has this wording."""
        return self.needs in text.tokens and self.expression.search(text.words) is not None


def wording(said: str) -> Phrase | Pattern:
    """Read one wording of a row: `word ~ expression` is a pattern that needs `word`, anything else a phrase."""
    needs, tilde, expression = said.partition(" ~ ")
    return Pattern(needs, pattern(expression)) if tilde else Phrase(said)


class Wordings:
    """Some wordings, read once when the table is built."""

    __slots__ = ("_all",)

    def __init__(self, said: tuple[str, ...]) -> None:
        self._all = tuple(wording(one) for one in said)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._all)

    def found(self, text: Text) -> bool:
        """Whether `text` has one of them."""
        return any(one.found(text) for one in self._all)


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: what is said, what it means, where it was seen.

    Args:
        name: unique, for tests and for the list of disagreements.
        gives: the class.
        says: any one of these wordings; empty where the status alone decides.
        source: who says so, or where it was seen.
        example: a text that this row, and no earlier one, decides.
        beside: if given, one of these must stand in the text too.
        unless: none of these may stand in the text.
        trust: what may overrule the words.
        statuses: if given, only with one of these statuses.
        within_s: if given, only where the text states a wait, and one that is not longer.
        advice: if given, instead of the advice that goes with the class.
        example_status: the numeric status that comes with the example.

    """

    name: str
    gives: ErrorType
    says: tuple[str, ...]
    source: str
    example: str
    beside: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    trust: Trust = Trust.SURE
    statuses: frozenset[int] = frozenset()
    within_s: float | None = None
    advice: Advice | None = None
    example_status: int | None = None
    _says: Wordings = field(init=False, repr=False, compare=False)
    _beside: Wordings = field(init=False, repr=False, compare=False)
    _unless: Wordings = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read the wordings once."""
        object.__setattr__(self, "_says", Wordings(self.says))
        object.__setattr__(self, "_beside", Wordings(self.beside))
        object.__setattr__(self, "_unless", Wordings(self.unless))

    def holds(self, case: Case) -> bool:
        """Whether this row decides `case`."""
        if self.statuses and case.status not in self.statuses:
            return False
        if self.within_s is not None and (case.wait_s is None or case.wait_s > self.within_s):
            return False
        if self._says and not self._says.found(case.text):
            return False
        if self._beside and not self._beside.found(case.text):
            return False
        return not self._unless.found(case.text) and _trusted(self.trust, case)

    @property
    def advised(self) -> Advice:
        """The advice that goes with this row."""
        return self.advice if self.advice is not None else advice_for(self.gives)


def _trusted(trust: Trust, case: Case) -> bool:
    status = case.status
    match trust:
        case Trust.SURE:
            return True
        case Trust.FIRM:
            return status != _UNAUTHORIZED and not (status in _MAY_CALL_INVALID and case.text.calls_itself_invalid)
        case Trust.LOOSE:
            return status not in _REFUSED and not (status is None and case.text.calls_itself_invalid)
        case Trust.CLIENT:
            return status is None or (status < _SERVER_FAILED and status not in _BUSY)
