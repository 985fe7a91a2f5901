"""How long a provider asked to wait, read from its text.

Sources: the Retry-After header as relays print it, Google's retryDelay, OpenAI's and Azure's sentences, omp's suffix,
the sentences of agents that gave up because of the wait, and the same in Chinese, Japanese and Korean.
Pure: may be called from any thread.
"""

import re
from itertools import islice
from typing import Final

from compass_otel.patterns import pattern

_LONGEST_S: Final = 366 * 86400.0
"""A longer wait is a misread number."""
_REACH_CHARS: Final = 96
"""How far behind its first word a wait is stated."""
_REACH_BACK_CHARS: Final = 16
"""How far before the word for 'after' a wait is stated in Chinese, Japanese and Korean."""
_MOST_MARKS: Final = 256
"""So many places are looked at; a text with more says nothing exact."""

_UNITS_S: Final = {
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds", "毫秒"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒", "秒钟", "초"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes", "分", "分钟", "분"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "小时", "时間", "시간"), 3600.0),
    **dict.fromkeys(("d", "day", "days", "天", "日"), 86400.0),
}
_PART: Final = (
    r"\d{1,12}(?:\.\d{1,9})? ?"
    r"(?:milliseconds?|msec|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?![a-z])"
)
_ONE: Final = pattern(r"(\d{1,12}(?:\.\d{1,9})?) ?([a-z]{1,12})")

_MARK: Final = pattern(r"retry|again|wait|reset|requested|available|后|후")
_SPAN: Final = pattern(
    r"(?:retry|again|wait|resets?|requested|available)"
    r"(?:[-_ ]?(?:after|in|for|of|within|delay|again|your request|value))*"
    r"[\"']{0,2}\s{0,3}[:=]?\s{0,3}[\"']{0,2}(?:(?:about|approximately|around|another|at least|a|~) ?)?"
    rf"(?P<span>{_PART}(?:(?:,? (?:and )?|){_PART})*)"
)
_HEADER: Final = pattern(
    r"(?:retry|resets?)[-_ ]?(?:after|in)[-_ ]?(?P<unit>ms|milliseconds|seconds|secs?|s)?"
    r"[\"']{0,2}\s{0,3}[:=]\s{0,3}[\"']{0,2}(?P<number>\d{1,12}(?:\.\d{1,9})?)(?![\w:-]|\.\d)"
)
_BEFORE: Final = pattern(r"(\d{1,12}(?:\.\d{1,9})?) ?(毫秒|秒钟|秒|分钟|分|小时|时間|天|日|초|분|시간) ?(?:之|以)?$")


def stated_wait_s(text: str) -> float | None:
    """Return the wait that a text asks for.

    Args:
        text: in lower case, without escapes.

    Returns:
        Seconds; the longest where several are stated, since a request sent before it fails again. None if none is.

    """
    waits = (_wait_at(text, mark) for mark in islice(_MARK.finditer(text), _MOST_MARKS))
    return max((wait for wait in waits if wait is not None and wait <= _LONGEST_S), default=None)


def _wait_at(text: str, mark: re.Match[str]) -> float | None:
    begin, end = mark.span()
    if not mark[0].isascii():
        said = _BEFORE.search(text[max(0, begin - _REACH_BACK_CHARS) : begin])
        return float(said[1]) * _UNITS_S[said[2]] if said else None
    reach = text[begin : end + _REACH_CHARS]
    if span := _SPAN.match(reach):
        return sum(float(number) * _UNITS_S[unit] for number, unit in _ONE.findall(span["span"]))
    header = _HEADER.match(reach)
    return float(header["number"]) * _UNITS_S[header["unit"] or "s"] if header else None
