"""Tokens by their prefix, also where a line break stands inside them.

All prefixes of the table go into one search (a tree of alternatives), so that a text is read once however long the
table grows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from compass_otel.patterns import pattern
from compass_otel.scrubbing_patterns import TokenFamily
from compass_otel.scrubbing_values import Span
from compass_otel.scrubbing_views import BREAK, View, unbroken

__all__ = ["TokenFinder", "with_wrapped_lines"]

# U+FFFD stands where a NUL or half a character was; a token does not end there.
_CHAR: Final = r"[A-Za-z0-9_\-\ufffd]"
_BODY: Final = rf"(?P<body>{_CHAR}{{6,128}})"
_REST_OF_BODY: Final = pattern(rf"{_CHAR}*(?:\.+{_CHAR}+)*")
_ESCAPE_BEFORE: Final = pattern(r"(?:%(?:25){0,4}[0-9A-Fa-f]{2}|\\[nrtbf]|\\u[0-9A-Fa-f]{4})\Z")
_ESCAPE_CHARS: Final = 12
_LOOKED_AT: Final = 128
_RUN_CHARS: Final = 8192
_LINES_FOR_PROOF: Final = 3
_FLOOD: Final = 5000
"""Where so many runs in one text begin like a token and are none, no more are asked for proof: all are hidden."""

_ENDS_HERE: Final = frozenset(" \t\"'`&,;:.)]}<>|@/?!")
_REST_OF_TOKEN: Final = pattern(r"[A-Za-z0-9_\-*•…\ufffd]+")
_RUN: Final = pattern(r"[A-Za-z0-9_+=\-\ufffd][A-Za-z0-9_+/=.\-\ufffd]*+(?!\s{0,4}[:=])")
_ID: Final = pattern(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9.:-]+"
    r"|(?:req|toolu|call|msg|chatcmpl|resp|run|org|proj|session|trace|span|rs|fc|item|file|thread)[_-].*"
)
_HEX: Final = pattern(r"[0-9a-f]{8,}\Z")
_PIECES: Final = pattern(r"[-_./+=]+")
_GENERATED: Final = pattern(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z]).{6}|(?:[A-Z]*[a-z]{1,2}[A-Z]+){2}")
_WORDS: Final = pattern(r"(?:[A-Z]?[a-z]+)*\Z|[A-Z]+\Z|.{1,3}\Z")
_SHORT_CHARS: Final = 8
_BEFORE_CHARS: Final = 16


class TokenFinder:
    """Finds the tokens of some families in texts. Immutable."""

    __slots__ = ("_by_prefix", "_search")

    def __init__(self, families: Iterable[TokenFamily]) -> None:
        self._by_prefix = {
            prefix: (family, re.compile(family.alone), re.compile(family.glued))
            for family in families
            for prefix in family.prefixes
        }
        self._search = re.compile(rf"(?P<prefix>{_tree(list(self._by_prefix)) or '(?!)'}){_BODY}")

    def spans(self, text: str) -> Iterator[Span]:
        """Find the tokens in clean *text*, which is read without its line breaks, real and escaped."""
        yield from self._spans_in(text, unbroken(text))
        if "\\n" in text:
            # The n may as well be the first letter of a token after a backslash.
            yield from self._spans_in(text, View(text, [text], str))

    def _spans_in(self, text: str, view: View) -> Iterator[Span]:
        pos, failures = 0, 0
        while match := self._search.search(view.text, pos):
            family, alone, glued = self._by_prefix[match["prefix"]]
            start, body = match.start(), match.start("body")
            known_at = body + family.least
            pos = start + 1
            if match.end() < known_at:
                continue
            proof = alone if _begins_word(text, view.start(start)) else glued
            end = _end_of_token(view, known_at, body + family.full, _LINES_FOR_PROOF)
            if failures > _FLOOD or proof.match(view.text[body:end]):
                pos = end = _end_of_token(view, end, body + family.full, len(view.text))
                yield view.start(start), view.end(end), family.label
            else:
                failures += 1


def _tree(words: list[str]) -> str:
    """Write *words* as one expression that shares their beginnings, the longest first."""
    branches: dict[str, list[str]] = {}
    for word in words:
        if word:
            branches.setdefault(word[0], []).append(word[1:])
    if not branches:
        return ""
    choices = "|".join(re.escape(char) + _tree(rest) for char, rest in sorted(branches.items()))
    return f"(?:{choices})" + ("?" if "" in words else "")


def _begins_word(text: str, start: int) -> bool:
    """Say whether no letter or digit, those of escapes left aside, stands before *start*."""
    if start == 0 or not (text[start - 1].isascii() and text[start - 1].isalnum()):
        return True
    return _ESCAPE_BEFORE.search(text[max(0, start - _ESCAPE_CHARS) : start]) is not None


def _end_of_token(view: View, known_at: int, full_at: int, lines: int) -> int:
    """Say where a token, known by what stands before *known_at*, ends, or about where its first *lines* lines end.

    A line that begins before *full_at* belongs to it unless it begins with a word, a later one if it looks generated.
    """
    joined = view.text
    for _ in range(lines):
        join = view.next_join(known_at)
        known_at = _end_of_run(joined, known_at, join if lines > _LINES_FOR_PROOF else min(join, known_at + _LOOKED_AT))
        # A break may stand right after a dot that parts the pieces of a token.
        if join == len(joined) or joined[known_at : min(join, known_at + _LOOKED_AT)].strip("."):
            break
        stop = min(view.next_join(join + 1), join + _RUN_CHARS)
        end = _end_of_run(joined, join, stop)
        run = joined[join:end]
        is_rest = known_at < full_at and not _WORDS.match(run)
        completes = known_at + len(run) == full_at and not run[1:].islower()
        before = joined[max(0, known_at - _BEFORE_CHARS) : known_at]
        if not run or not (is_rest or completes or _continues(run, whole=end == stop, after=before)):
            break
        known_at = end
    return known_at


def _end_of_run(text: str, start: int, stop: int) -> int:
    run = _REST_OF_BODY.match(text, start, stop)
    return run.end() if run else start


def with_wrapped_lines(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """Lengthen each of the *spans* over what belongs to it: the rest of its token, and its next lines.

    A line after one that ended inside a secret belongs to it if it begins with a run that looks generated. Ids do not.
    """
    for start, end, label in spans:
        if end == len(text) or text[end] in _ENDS_HERE:
            yield start, end, label
            continue
        rest = _REST_OF_TOKEN.match(text, end)
        end_here = rest.end() if rest else end
        while following := BREAK.match(text, end_here):
            run = _RUN.match(text, following.end())
            if run is None:
                break
            whole = text[run.end() : run.end() + 1] in {"", "\n", "\r", '"', "'", "\\"}
            if not _continues(run[0], whole=whole, after=text[max(start, end_here - _BEFORE_CHARS) : end_here]):
                break
            end_here = run.end()
        yield start, end_here, label


def _continues(run: str, *, whole: bool, after: str) -> bool:
    """Say whether *run*, at the start of a line, looks like the rest of a secret that the line before began."""
    shown = run[:_LOOKED_AT].rstrip(".")
    if _ID.fullmatch(shown) and not (_HEX.match(after) and _HEX.match(shown)):
        return False
    if len(shown) < _SHORT_CHARS:
        return whole and any(char.isdigit() for char in shown) and any(char.isalpha() for char in shown)
    return any(_GENERATED.match(piece) or (whole and not _WORDS.match(piece)) for piece in _PIECES.split(shown))
