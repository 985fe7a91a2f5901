"""The one door for text that leaves this process: secrets hidden, control characters harmless, cuts clean.

:func:`scrub` for a text, :func:`scrub_value` for a JSON-like value, :func:`scrub_and_cut` for a text with a size limit
(scrubbing first: half a key that a cut left behind is a key that no pattern finds any more). What is hidden says what
it was: ``[redacted: api key]``. Everything else comes out as it went in; ids, numbers, paths and prose stay.

A :class:`Scrubber` holds a choice of patterns: your own added, built-in ones left out. There is no global setting; hand
the scrubber to whoever scrubs. All of it is pure, never raises on any text, and may be used by any thread. The time is
linear in the size of the text.

What it cannot know: a password in the middle of a sentence with nothing before it that says so, a secret that is
spread over several texts (scrub the joined text), a secret inside base64 or a compressed body.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from compass_otel.errors import ConfigError
from compass_otel.patterns import compile_patterns, pattern
from compass_otel.scrubbing_cleaning import clean, cut, has_sequences, is_clean, is_plain_words, make_valid, readings
from compass_otel.scrubbing_names import MARK, SecretName, is_empty_value, label_of_name
from compass_otel.scrubbing_patterns import SECRET_PATTERNS, TOKEN_FAMILIES, SecretPattern
from compass_otel.scrubbing_shapes import (
    authorizations,
    command_options,
    echoed_keys,
    private_keys,
    url_credentials,
    url_parameters,
)
from compass_otel.scrubbing_tokens import TokenFinder, with_wrapped_lines
from compass_otel.scrubbing_values import Span, named_values
from compass_otel.scrubbing_views import View, decoded

__all__ = [
    "BUILT_IN_NAMES",
    "Scrubber",
    "SecretPattern",
    "cut",
    "make_valid",
    "prepare",
    "scrub",
    "scrub_and_cut",
    "scrub_value",
]

_Finder: TypeAlias = Callable[[str, str], Iterator[Span]]

_SHAPES: Final[dict[str, _Finder]] = {
    "private-key": lambda text, _: private_keys(text),
    "url-credentials": url_credentials,
    "url-parameter": url_parameters,
    "bearer-and-basic": authorizations,
    "echoed-key": echoed_keys,
    "command-option": lambda text, _: command_options(text),
}
_NAMED_LABELS: Final = (
    "password",
    "secret",
    "api key",
    "access key",
    "private key",
    "token",
    "cookie",
    "authorization",
    "credentials",
    "signature",
)


def _named(label: str) -> str:
    return f"named-{label.replace(' ', '-')}"


BUILT_IN_NAMES: Final[tuple[str, ...]] = (
    *(family.name for family in TOKEN_FAMILIES),
    *(pattern.name for pattern in SECRET_PATTERNS),
    *_SHAPES,
    *(_named(label) for label in _NAMED_LABELS),
)
"""The names that ``Scrubber(disable=...)`` takes. ``named-password`` and its like are values after a telling name."""

_LABEL: Final = pattern(r"[a-z][a-z0-9 -]{0,39}")
_BACKWARDS: Final = pattern(r"[A-Za-z0-9_.~-]*")
_BACKWARDS_CHARS: Final = 128
_ROUNDS: Final = 4
_ONE_ROUND_CHARS: Final = 65_536
"""A mark can bring out what stood hidden beside it; longer texts get one round, so that their cost stays in bounds."""
_TOO_DEEP: Final = "[nested too deep]"
_MAX_DEPTH: Final = 64
_ESCAPE_KINDS: Final = 3
"""Escapes of one kind are decoded at once, however often applied; percent in HTML in JSON takes three rounds."""


class Scrubber:
    """A fixed choice of what to hide. Immutable; one may serve all threads.

    Args:
        extra_patterns: Shapes of your own, added to the built-in ones.
        disable: Names from :data:`BUILT_IN_NAMES` to leave out.

    Raises:
        ConfigError: A name is unknown or taken, a regular expression does not compile or matches an empty text, or a
            label could be mistaken for something else.

    """

    __slots__ = ("_extra", "_families", "_rows", "_shapes", "_wanted_labels")

    def __init__(self, *, extra_patterns: Iterable[SecretPattern] = (), disable: Iterable[str] = ()) -> None:
        disabled = _checked_names(disable)
        extra = _checked_patterns(extra_patterns)
        self._families = TokenFinder(family for family in TOKEN_FAMILIES if family.name not in disabled)
        rows = (*(row for row in SECRET_PATTERNS if row.name not in disabled), *extra)
        self._rows = tuple((row.hints or ("",), row, re.compile(row.regex)) for row in rows)
        self._shapes = tuple(finder for name, finder in _SHAPES.items() if name not in disabled)
        self._wanted_labels = frozenset(label for label in _NAMED_LABELS if _named(label) not in disabled)
        self._extra = tuple(pattern.name for pattern in extra)

    def __repr__(self) -> str:
        return f"Scrubber(extra_patterns={list(self._extra)!r})"

    def scrub(self, text: str) -> str:
        """Hide what is secret in *text* and make the rest harmless; a text with neither comes back as it is."""
        if not self._extra and is_plain_words(text):
            return text
        if not is_clean(text):
            text = make_valid(text)
            text = clean(self._without_parted_secrets(text) if has_sequences(text) else text)
        for _ in range(_ROUNDS):
            spans = sorted(_outside_marks(text, self._spans(text)))
            if not spans:
                return text
            text = _hidden(text, with_wrapped_lines(text, spans))
            if len(text) > _ONE_ROUND_CHARS:
                return text
        return text

    def _without_parted_secrets(self, text: str) -> str:
        """Hide the secrets in a valid *text* that only show before its control characters are taken out."""
        spans = [
            (view.start(start), view.end(end), label)
            for view in readings(text)
            for start, end, label in self._spans(view.text)
        ]
        outside = sorted(_outside_marks(text, spans))
        return _hidden(text, outside) if outside else text

    def scrub_and_cut(self, text: str, max_bytes: int) -> str:
        """Scrub the whole *text*, then cut it to at most *max_bytes* bytes of UTF-8; see :func:`cut`."""
        return cut(self.scrub(text), max_bytes)

    def scrub_value(self, value: object) -> object:
        """Scrub every text inside a JSON-like *value* and hide what stands under a secret key; *value* is untouched.

        Mappings and sequences come back as dicts and lists, bytes as text; other things come back as they are. Pairs
        (``["x-api-key", "…"]``) and ``{"name": …, "value": …}`` count as key and value. What is nested deeper than 64
        levels, as anything is that contains itself, becomes a short text saying so.
        """
        return self._scrubbed(value, ())

    def _scrubbed(self, value: object, inside: tuple[int, ...]) -> object:
        match value:
            case str():
                return self.scrub(value)
            case bytes() | bytearray():
                return self.scrub(bytes(value).decode("utf-8", "replace"))
            case Mapping() | Sequence() | AbstractSet():
                endless = id(value) in inside or len(inside) == _MAX_DEPTH
                return _TOO_DEEP if endless else self._scrubbed_items(value, (*inside, id(value)))
            case _:
                return value

    def _scrubbed_items(self, value: object, inside: tuple[int, ...]) -> object:
        match value:
            case Mapping():
                told = value.get("name", value.get("key"))
                return {
                    self._scrubbed(key, inside): self._under(told if key == "value" else key, inner, inside)
                    for key, inner in value.items()
                }
            case [str(name), inner] if self._names(name):
                return [self.scrub(name), self._under(name, inner, inside)]
            case Sequence() | AbstractSet():
                return [self._scrubbed(inner, inside) for inner in value]
            case _:
                return value

    def _under(self, key: object, value: object, inside: tuple[int, ...]) -> object:
        named = self._names(key) if isinstance(key, str) else None
        if named is None or not named.hides(value) or (isinstance(value, str) and is_empty_value(value)):
            return self._scrubbed(value, inside)
        return _mark(named.label)

    def _names(self, name: str) -> SecretName | None:
        named = label_of_name(name)
        return named if named and named.label in self._wanted_labels else None

    def _spans(self, text: str) -> Iterator[Span]:
        yield from self._spans_as_read(text)
        views: list[View] = []
        while len(views) < _ESCAPE_KINDS and (view := decoded(views[-1].text if views else text)):
            views.append(view)
            for start, end, label in self._spans_as_read(view.text):
                for outer in reversed(views):
                    start, end = outer.start(start), outer.end(end)  # noqa: PLW2901 (step by step towards the text)
                yield start, end, label

    def _spans_as_read(self, text: str) -> Iterator[Span]:
        low = _lower(text)
        yield from self._families.spans(text)
        for hints, row, regex in self._rows:
            for hint in hints:  # no `any`: it costs more than all of the looking, and this runs for every text
                if hint in low:
                    yield from _matches(text, row, regex)
                    break
        yield from named_values(text, low, self._wanted_labels.__contains__)
        for finder in self._shapes:
            yield from finder(text, low)


def _lower(text: str) -> str:
    """Lower-case *text* without changing its length."""
    low = text.lower()
    return low if len(low) == len(text) else text.replace("İ", "i").lower()


def _matches(text: str, row: SecretPattern, regex: re.Pattern[str]) -> Iterator[Span]:
    group = "secret" if "secret" in regex.groupindex else 0
    for match in regex.finditer(text):
        start, end = match.span(group)
        if row.backwards:
            before = _BACKWARDS.match(text[max(0, start - _BACKWARDS_CHARS) : start][::-1])
            start -= before.end() if before else 0
        if end > start:
            yield start, end, row.label


def _outside_marks(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Leave alone what earlier scrubbing put there, so that a second time changes nothing."""
    if "[redacted: " not in text:
        yield from (span for span in spans if span[0] < span[1])
        return
    marks = [mark.span() for mark in MARK.finditer(text)]
    for start, end, label in spans:
        at = bisect.bisect_right(marks, (start, len(text))) - 1
        begin = max(start, marks[at][1]) if at >= 0 else start
        if text[begin:end].strip():
            yield begin, end, label


def _mark(label: str) -> str:
    return f"[redacted: {label}]"


def _hidden(text: str, spans: Iterable[Span]) -> str:
    """Put a mark in the place of each of the *spans*; those that overlap become one."""
    parts: list[str] = []
    done = 0
    open_start, open_end, open_label = -1, -1, ""
    for start, end, label in spans:
        if start < open_end:
            open_end = max(open_end, end)
            continue
        if open_end >= 0:
            parts += (text[done:open_start], _mark(open_label))
            done = open_end
        open_start, open_end, open_label = start, end, label
    parts += (text[done:open_start], _mark(open_label), text[open_end:])
    return "".join(parts)


def _checked_names(names: Iterable[str]) -> frozenset[str]:
    given = [names] if isinstance(names, str) else list(names)
    for name in given:
        if name not in BUILT_IN_NAMES:
            raise ConfigError("disable", name, f"the names of built-in patterns: {', '.join(BUILT_IN_NAMES)}")
    return frozenset(given)


def _checked_patterns(patterns: Iterable[SecretPattern]) -> tuple[SecretPattern, ...]:
    given = tuple(patterns)
    taken = set(BUILT_IN_NAMES)
    for shape in given:
        if not shape.name or shape.name in taken:
            raise ConfigError("extra_patterns: name", shape.name, "a name that no other pattern has")
        taken.add(shape.name)
        if not _LABEL.fullmatch(shape.label):
            raise ConfigError(
                f"extra_patterns: label of {shape.name}", shape.label, "lower-case words, 40 characters at most"
            )
        try:
            empty = re.compile(shape.regex).search("") is not None
        except re.error as error:
            raise ConfigError(
                f"extra_patterns: regex of {shape.name}", shape.regex, f"a regular expression ({error})"
            ) from error
        if empty:
            raise ConfigError(
                f"extra_patterns: regex of {shape.name}", shape.regex, "one that needs at least one character"
            )
    return given


@functools.cache
def _default() -> Scrubber:
    return Scrubber()


def prepare() -> None:
    """Build the built-in rules now, some 30 ms, instead of at the first text that needs them. Later calls cost nothing.

    Whoever hands texts over where time matters calls it; the public classes of this package do when they are made.
    """
    _default()
    compile_patterns()


def scrub(text: str) -> str:
    """Hide what is secret in *text* and make the rest harmless, with the built-in patterns.

    Args:
        text: Any text of any length, lone surrogates included. It is never cut.

    Returns:
        The same text where there is nothing to hide or to repair. Scrubbing twice gives the same as scrubbing once.

    """
    # Asked here too: most texts are a streamed token each, and for them two calls less are a third of the cost.
    return text if is_plain_words(text) else _default().scrub(text)


def scrub_and_cut(text: str, max_bytes: int) -> str:
    """Scrub the whole *text*, then cut it to at most *max_bytes* bytes of UTF-8; see :func:`cut`."""
    return _default().scrub_and_cut(text, max_bytes)


def scrub_value(value: object) -> object:
    """Scrub a JSON-like *value* with the built-in patterns; see :meth:`Scrubber.scrub_value`."""
    return _default().scrub_value(value)
