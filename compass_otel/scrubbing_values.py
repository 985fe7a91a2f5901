r"""Secrets that are known by the name before them: ``apiKey=…``, ``"password": "…"``, ``Cookie: …``, ``?sig=…``.

The same name and value come in many spellings, all read alike here: plain, JSON at any depth of escaping
(``\\\"apiKey\\\":``), Python literals, lists of pairs, ``name``/``value`` objects, YAML, XML. Where a value ends
follows from how it began: a quotation ends at the same quotation mark at the same depth of escaping.

Everything is linear: what is read ahead is bounded, and what was hidden is not read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from compass_otel.patterns import pattern
from compass_otel.scrubbing_names import (
    MARK,
    SecretName,
    Strictness,
    is_counted,
    is_empty_value,
    is_prose,
    is_verdict,
    label_of_name,
    label_of_words,
    looks_random,
)

__all__ = ["Q", "Span", "named_values", "quotation_end"]

Span: TypeAlias = tuple[int, int, str]
"""Start, end and label of a stretch of text to hide."""

Q: Final = r"""\\{0,16}["'`]"""
"""A quotation mark at any depth of escaping."""

_GAP: Final = r"(?:\s|\\{1,16}[nrt]){0,40}"
_OPERATOR: Final = r"(?:=>|:=|={1,3}|:(?!//))"
_NAMED: Final = pattern(
    r"(?P<name>(?:pass|pwd|psw|secret|token|key|cred|cookie|sig|hmac|jwt|otp|auth|jsess|phpsess)[a-z0-9_-]{0,24}+)"
    rf"(?:(?:(?P<quoted>{Q})[\])]?)?[ \t]{{0,8}}(?P<op>{_OPERATOR})"
    rf"|(?:{Q})?\s{{0,4}},?{_GAP}(?:{Q})?value(?:{Q})?\s{{0,4}}(?P<pair>[:=])"
    rf"|(?P<listed>{Q}\s{{0,4}},(?=\s{{0,4}}[br]{{0,2}}{Q}))"
    r"|(?P<element>>)(?=[^<>\s]))"
)
_STEMS: Final = (
    "pass",
    "pwd",
    "psw",
    "secret",
    "token",
    "key",
    "cred",
    "cookie",
    "sig",
    "hmac",
    "jwt",
    "otp",
    "auth",
    "jsess",
    "phpsess",
)
_VALUE_START: Final = pattern(
    rf"[ \t]{{0,64}}(?:\s{{1,64}}(?={Q}))?"
    rf"(?:[A-Za-z][A-Za-z0-9_.:]{{0,30}}\((?=[bBrRuU]?{Q}))?(?:[bBrRuUfF]{{1,2}}(?=[\"'\\]))?(?P<quote>{Q})?"
)
_BEFORE: Final = pattern(r"([A-Za-z0-9_.\-]*)(?: ([A-Za-z]+))?")
_ESCAPED_START: Final = pattern(r"u[0-9A-Fa-f]{4}|[nrtbf/]")
_PERCENT_START: Final = pattern(r"(?:25){0,4}[0-9A-Fa-f]{2}")

_PLAIN_VALUE: Final = pattern(
    r"""(?:[^\s"'`\\&;,<>|)\]}]"""
    r"|\\{1,16}(?:/|u00(?:2[bdf]|3d|7e))|\\(?![nrtbfu\"'\\/`])"
    r"|&(?!(?:amp;)?[\w.%\[\]-]{1,64}=|(?:quot|apos|lt|gt|#\w{1,6});|\s|\Z)"
    r"|;(?![\s\"'\\]|\Z|[\w.-]{1,64}=|[A-Za-z]{1,32}(?: [A-Za-z]{1,32}){1,3}=)"
    r"""|,(?![\s"'\\]|\Z|[\w.-]{1,64}["'\\]{0,4}[=:])"""
    r"|[)\]}](?=[A-Za-z0-9!@#$%^*+/_=-])"
    r"|\|(?![\w-]{1,64}[ ]?[:=]|\s|\Z)){1,8192}",
    re.IGNORECASE,
)
_NAME_END: Final = pattern(rf"{Q}\s{{0,8}}(?:=>|[:=])")
_ENVIRONMENT: Final = pattern(
    r"[ \t]{0,4}(?:os\.(?:environ|getenv)|process\.env|(?:System\.)?getenv|ENV\[|env\(|Deno\.env)\b"
)
_HEADER: Final = pattern(
    r"(?:proxy-)?authorization|(?:set-)?cookie2?|api-?key|xi-api-key|private-token|x-[a-z0-9-]{1,40}-(?:key|token)"
    r"|x-[a-z]{2,8}-signature|ocp-apim-subscription-key",
    re.IGNORECASE,
)
_COMPLAINT: Final = pattern(
    r"(?:invalid|missing|incorrect|expired|wrong|bad|no|unknown|unsupported|required|revoked)[_-]"
)
_NAME: Final = pattern(r"[A-Za-z][\w.-]{0,64}[:=](?![=]|\Z)|[A-Za-z][\w.-]{0,64}:\Z")
_GLUED_ON: Final = pattern(r"[A-Za-z0-9_]")
_TRAILING: Final = ".,:;!?"
_NUMBER: Final = pattern(r"-?[0-9][0-9.,_]*\Z")
_LETTERS: Final = pattern(r"[A-Za-z]{1,12}\Z")
_PATH: Final = pattern(r"[/~]|[A-Za-z]:[\\/]")
_LINE_START: Final = pattern(r"(?:\A|\n)[ \t]*(?:- )?\Z")
_FLOODED: Final = pattern(
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|jwt|(?:api|access|secret|private|account|auth|master)[_-]?key"
    r"|[?&;]sig|credentials?|(?P<line>authorization|cookie))[0-9]{0,4}+"
    rf"(?:{Q}[\])]?)?[ \t]{{0,8}}{_OPERATOR}[ \t]{{0,64}}+(?:{Q})?"
    r"(?!\[redacted: )(?(line)(?P<whole>[^\n\"]{1,8192})|(?P<word>[^\s\"'`&;,<>|\\]{1,8192}))"
)
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}
_BEGINNING_CHARS: Final = 256
_QUOTED_CHARS: Final = 65_536
_BRACKET_CHARS: Final = 8192
_QUOTES_TRIED: Final = 256
_FLOOD: Final = 4000

_COOKIE: Final = (
    r"[^\s=;,\"'|\\]{1,256}=(?:\\{0,16}\"[^\"\\\n]*\\{0,16}\""
    r"|(?:[^\s;,\"'|\\]|,(?!\s)|\|(?![\w-]{1,64}:)|\\(?![nrtu\"'\\]))*)"
)
_COOKIES: Final = pattern(
    rf"{_COOKIE}(?:[;,][ \t]*(?:expires=[a-z]{{3,9}},[\w :-]{{0,24}}GMT|{_COOKIE}|(?<=; )[a-z-]{{1,64}}(?![\w=]))?)*",
    re.IGNORECASE,
)
_SCHEME: Final = pattern(
    r"(?:(?P<listing>digest|aws4-hmac-sha256|oauth|hawk|sharedaccesssignature|signature)"
    r"|(?P<known>bearer|basic|token|bot|apikey|api-key|key|negotiate|ntlm|jwt)|[a-z][a-z0-9-]{1,31})"
    r"(?:[ \t]+|\+)",
    re.IGNORECASE,
)
_LISTING: Final = pattern(r"""(?:[\w-]{1,64}=(?:\\{0,16}"[^"\\\n]*\\{0,16}"|[^\s,"'\\]*)(?:,[ \t]*)?)+""")


class _Value(Struct, frozen=True):
    """Where a value begins and what the text around says about it."""

    text: str
    start: int
    named: SecretName
    quote: str
    by_colon: bool
    of_quoted_name: bool
    listed: bool
    at_line_start: bool
    in_url: bool
    on_next_line: bool


def named_values(text: str, low: str, wanted: Callable[[str], bool]) -> Iterator[Span]:
    """Find the values in *text* whose name says that they are secret.

    Args:
        text: Clean text.
        low: *text* in lower case, of the same length.
        wanted: Says by its label whether a kind of value is looked for.

    Yields:
        Spans in rising order, without overlap. After 4,000 telling names in one text, the finer questions (is it prose,
        a number, masked already?) are no longer asked: every value of a plainly telling name is hidden.

    """
    if not any(map(low.__contains__, _STEMS)):
        return
    pos, tried = 0, 0
    while match := _NAMED.search(low, pos):
        pos = match.end()
        value = _value_of(text, match)
        if value is None or not wanted(value.named.label):
            continue
        tried += 1
        if tried > _FLOOD:
            yield from _flooded(low, match.start())
            return
        end = _end_of(value)
        if end > value.start:
            pos = end
            yield value.start, end, _label(value)


def _label(value: _Value) -> str:
    return "url signature" if value.in_url and value.named.label == "signature" else value.named.label


def _value_of(text: str, match: re.Match[str]) -> _Value | None:
    """Name the value that *match* announces, or None if the name announces no secret."""
    before, name, word = _name_before(text, match.start(), match.end("name"))
    in_url = before in {"?", "&", ";"}
    named = label_of_name(name)
    if named is None and name.lower() in {"key", "keys"}:
        named = label_of_name("api_key") if in_url else label_of_words(word)
    is_count = name.lower() == "token" and is_counted(word)
    if named is None or is_count or _names_no_value(match, before, name) or _ENVIRONMENT.match(text, match.end()):
        return None
    begin = _VALUE_START.match(text, match.end())
    assert begin is not None  # noqa: S101 (every part of it is optional)
    start = _after_marks(text, begin.end())
    if start < 0:
        return None
    return _Value(
        text=text,
        start=start,
        named=named,
        quote=begin["quote"] or "",
        by_colon=":" in (match["op"], match["pair"]),
        of_quoted_name=match["quoted"] is not None,
        listed=match["listed"] is not None,
        at_line_start=_LINE_START.search(
            text, max(0, match.end("name") - len(name) - 80), match.end("name") - len(name)
        )
        is not None,
        in_url=in_url,
        on_next_line="\n" in begin[0],
    )


def _names_no_value(match: re.Match[str], before: str, name: str) -> bool:
    """Say whether what follows *name* is no value of it: an XML text, the next item of a list, the next member."""
    if match["element"]:
        return before not in {"<", ":"}
    if match["listed"]:
        return _HEADER.fullmatch(name) is None
    return match["pair"] is not None and _COMPLAINT.match(name) is not None


def _after_marks(text: str, start: int) -> int:
    """Skip marks at *start*; -1 if no rest of a value is glued to the last of them."""
    at = start
    while mark := MARK.match(text, at):
        at = mark.end()
    return at if at == start or _GLUED_ON.match(text, at) else -1


def _name_before(text: str, start: int, end: int) -> tuple[str, str, str]:
    """Give the character before the whole name that ends at *end*, the name, and the word before it."""
    back = _BEFORE.match(text[max(0, start - 48) : start][::-1])
    assert back is not None  # noqa: S101 (it matches nothing, too)
    head, word = back[1][::-1], (back[2] or "")[::-1]
    at = start - len(head) - 1
    before = text[at] if at >= 0 else ""
    escape = _ESCAPED_START if before == "\\" else _PERCENT_START if before == "%" else None
    if escape and (escaped := escape.match(head)):
        head = head[escaped.end() :]
    return before, head + text[start:end], word.lower()


def _flooded(low: str, pos: int) -> Iterator[Span]:
    """Hide whatever follows the plainest names, at the speed of the regular expression engine."""
    for match in _FLOODED.finditer(low, pos):
        yield *match.span(match.lastgroup or 0), "secret"


def _end_of(value: _Value) -> int:
    """Say where the secret that begins at the value's start ends; the start itself if there is none."""
    text, start = value.text, value.start
    if value.listed and (not value.quote or value.named.strictness is not Strictness.ALWAYS):
        return start
    if value.quote:
        return _end_of_quoted(value)
    if text[start : start + 1] in _CLOSING:
        return _end_of_bracket(value)
    if value.named.label == "authorization" and value.by_colon:
        return _end_of_authorization(value)
    if value.named.label == "cookie" and (cookie := _COOKIES.match(text, start)):
        return cookie.end()
    return _end_of_plain(value)


def _end_of_quoted(value: _Value) -> int:
    text, start = value.text, value.start
    end = quotation_end(text, start, value.quote)
    inside = text[start : min(end, start + 512)]
    if not inside.strip() or is_empty_value(inside) or (" " in inside and is_verdict(inside)):
        return start
    if value.on_next_line and _NAME_END.match(text, end):
        return start
    if value.listed and not (looks_random(inside) or " " in inside or "=" in inside):
        return start
    if value.named.strictness is Strictness.RANDOM and not value.in_url and not looks_random(inside):
        return start
    return end


def quotation_end(text: str, start: int, quote: str) -> int:
    """Say where the quotation opened by *quote* before *start* ends: at its closing mark, else with the line."""
    end = _closing(text, start, quote)
    return _line_end(text, start) if end is None or "\n" in text[start:end] else end


def _closing(text: str, start: int, quote: str) -> int | None:
    stop = start + _QUOTED_CHARS
    mark, depth = quote[-1], len(quote) - 1
    at = start - 1
    for _ in range(_QUOTES_TRIED):
        at = text.find(mark, at + 1, stop)
        if at < 0:
            return None
        escapes = at
        while escapes > start and text[escapes - 1] == "\\":
            escapes -= 1
        # Each level of escaping doubles the backslashes before an inner mark and adds one. A mark that JSON does not
        # escape keeps the doubled ones, so what goes on like a word after them is no end.
        goes_on = at > escapes + depth and text[at + 1 : at + 2].isalnum()
        if (at - escapes) % (2 * depth + 2) == depth and not goes_on:
            return at - depth
    return None


def _line_end(text: str, start: int) -> int:
    """Say where the line that holds *start* ends."""
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _end_of_bracket(value: _Value) -> int:
    """Hide a list or an object whole; parentheses only where credentials come as a pair."""
    text, start = value.text, value.start
    opening = text[start]
    if opening == "(" and value.named.label not in {"authorization", "credentials"}:
        return start
    inside = text[start + 1 : start + 65]
    if is_empty_value(text[start : start + 64].split("]")[0]) or inside.lstrip()[:1] in {"]", "}", ")"}:
        return start
    closing, depth = _CLOSING[opening], 0
    for at in range(start, min(len(text), start + _BRACKET_CHARS)):
        depth += (text[at] == opening) - (text[at] == closing)
        if depth == 0:
            return at + 1
    return _line_end(text, start)


def _end_of_authorization(value: _Value) -> int:
    """Read ``scheme credentials``: the scheme's own list of parameters to the end of the line, else one word."""
    text, start = value.text, value.start
    scheme = _SCHEME.match(text, start)
    if scheme is None:
        return _end_of_plain(value)
    if scheme["listing"]:
        listing = _LISTING.match(text, scheme.end())
        return start + len(text[start : listing.end()].rstrip(", \t")) if listing else start
    credentials = _PLAIN_VALUE.match(text, scheme.end())
    if credentials is None or is_empty_value(credentials[0]) or is_prose(credentials[0]):
        return start if scheme["known"] else _end_of_plain(value)
    if scheme["known"] is None and (_NAME.match(credentials[0]) or not scheme[0].strip(" \t+").isalpha()):
        return _end_of_plain(value)
    if scheme["known"] is None and is_prose(scheme[0]):
        return start
    return start + len(text[start : credentials.end()].rstrip(_TRAILING))


def _end_of_plain(value: _Value) -> int:
    text, start = value.text, value.start
    beginning = _PLAIN_VALUE.match(text, start, start + _BEGINNING_CHARS)
    shown = beginning[0].rstrip(_TRAILING) if beginning else ""
    if not shown or is_empty_value(shown) or _is_harmless(value, shown):
        return start
    if beginning and beginning.end() == start + _BEGINNING_CHARS and (whole := _PLAIN_VALUE.match(text, start)):
        shown = whole[0].rstrip(_TRAILING)
    if value.named.label == "password" and value.at_line_start and value.by_colon and not value.of_quoted_name:
        return start + len(text[start : _line_end(text, start)].rstrip())
    return start + len(shown)


def _is_harmless(value: _Value, shown: str) -> bool:
    """Say whether an unquoted value is a count, a path, a word of a sentence: anything but a secret."""
    named = value.named
    if named.strictness is Strictness.RANDOM and not value.in_url and not looks_random(shown):
        return True
    if value.by_colon and is_prose(shown):
        return True
    if named.strictness is Strictness.TEXT and not value.in_url:
        return bool(_NUMBER.match(shown)) or (value.by_colon and bool(_LETTERS.match(shown)))
    if named.label == "password":
        return bool(_PATH.match(shown)) and value.text[value.start - 4 : value.start - 1].lower() == "pwd"
    return named.label == "token" and bool(_NUMBER.match(shown)) and value.of_quoted_name
