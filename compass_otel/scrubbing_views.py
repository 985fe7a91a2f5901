r"""Other ways to read a text, each with the way back: escapes decoded, line breaks taken out.

A secret does not care how it was quoted. ``%22api_key%22%3A%22…``, ``\u0026sig\u003d…`` and ``&quot;token&quot;`` are
read decoded, a key that a terminal or a mail program wrapped is read in one piece, and what is found there is hidden in
the text as it stands.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable
from typing import Final

from compass_otel.patterns import pattern

__all__ = ["BREAK", "View", "decoded", "unbroken"]

_ESCAPE: Final = pattern(
    r"(%(?:25){0,8}(?:0[9AaDd]|[2-7][0-9A-Fa-f])|\\\\{0,15}u00(?:0[9AaDd]|[2-7][0-9A-Fa-f])"
    r"|&(?:quot|apos|amp|lt|gt|#0{0,4}(?:[3-9][0-9]|1[01][0-9])|#x[2-7][0-9A-Fa-f]);)"
)
_ENTITIES: Final = {"&quot;": '"', "&apos;": "'", "&amp;": "&", "&lt;": "<", "&gt;": ">"}

BREAK: Final = pattern(
    r"((?:(?:\n|\r\n|=\r?\n|\\\\{0,15}(?:\r?\n|(?:r\\{1,16})?n)|%(?:25){0,4}0(?:[aA]|[dD]%(?:25){0,4}0[aA]))[ \t]*+)++)"
)
"""A line break, real or escaped, with the indentation after it; several in a row count as one."""


class View:
    """A text read another way. Immutable.

    Args:
        text: The text as it stands.
        parts: The text in parts, every second of them something that *read* reads differently.
        read: Gives for such a part what stands in the view instead.

    """

    __slots__ = ("_original_ends", "_view_ends", "original", "text")

    def __init__(self, text: str, parts: list[str], read: Callable[[str], str]) -> None:
        self.original = text
        self._original_ends = list(itertools.accumulate(map(len, parts)))
        parts[1::2] = map(read, parts[1::2])
        self._view_ends = list(itertools.accumulate(map(len, parts)))
        self.text = "".join(parts)

    def start(self, at: int) -> int:
        """Say where in the original the character *at* of the view begins."""
        part = bisect.bisect_right(self._view_ends, at)
        if part == 0:
            return at
        if part == len(self._view_ends):
            return len(self.original)
        return self._original_ends[part - 1] + (at - self._view_ends[part - 1])

    def end(self, at: int) -> int:
        """Say where in the original the character before *at* of the view ends."""
        part = bisect.bisect_left(self._view_ends, at)
        if part % 2:
            return self._original_ends[part]
        return self._original_ends[part] - (self._view_ends[part] - at)

    def next_join(self, at: int) -> int:
        """Say where the part of the view that holds the character before *at* ends, which is where another joins it."""
        return self._view_ends[bisect.bisect_left(self._view_ends, at)]


def decoded(text: str) -> View | None:
    """Read *text* with its percent, JSON (u00…) and HTML escapes decoded, each however often it was applied."""
    if "%" not in text and "\\u00" not in text and "&" not in text:
        return None
    parts = _ESCAPE.split(text)
    return View(text, parts, _unescape) if len(parts) > 1 else None


def _unescape(escape: str) -> str:
    if escape[0] != "&":
        return chr(int(escape[-2:], 16))
    if escape[1] != "#":
        return _ENTITIES[escape]
    return chr(int(escape[3:-1], 16) if escape[2] == "x" else int(escape[2:-1]))


def unbroken(text: str) -> View:
    """Read *text* without its line breaks."""
    has_breaks = "\n" in text or "\\n" in text or "0A" in text or "0a" in text
    return View(text, BREAK.split(text) if has_breaks else [text], lambda _: "")
