r"""Text that no terminal, backend or reader can trip over, and cutting that never leaves half of anything.

What happens to what:

========================================  =================================================================
line ends (``\n``, ``\r\n``), tabs        stay
a lone ``\r``, VT, FF, NEL, LS, PS        become ``\n``: a bare CR lets a terminal line overwrite itself
NUL, lone surrogates                      become U+FFFD; the two halves of a surrogate pair become the character
terminal sequences (CSI, OSC, DCS, …)     removed whole; one that never ends loses its introducer only
other control characters                  removed
bidi marks, zero-width, other invisibles  removed, so that they cannot part a secret; joiners stay where they
                                          build an emoji or an Arabic or Indic word
========================================  =================================================================

Pure functions; any thread may call them.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from compass_otel.patterns import pattern
from compass_otel.scrubbing_views import View

__all__ = ["clean", "cut", "has_sequences", "is_clean", "make_valid", "readings"]

_REPLACEMENT: Final = "\ufffd"

_SURROGATE_PAIR: Final = pattern("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE: Final = pattern("[\ud800-\udfff]")
_ASCII_UNSAFE: Final = pattern("[\x00-\x08\x0b-\x1f\x7f]")

_JOINERS: Final = "\u200c\u200d"
_INVISIBLE: Final = (
    "\x01-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_LINE_ENDS: Final = "\x0b\x0c\x85\u2028\u2029"
_UNSAFE: Final = pattern(f"[\x00\r{_LINE_ENDS}{_INVISIBLE}{_JOINERS}\ud800-\udfff]")

_SEQUENCE: Final = (
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*(?:(?!\\[redacted: )[@-~])?"  # CSI: colours, cursor moves
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])(?:[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c))?"  # OSC, DCS and their kin
    "|\x1b[ -/][0-~]|\x1b[78=>cDEHMNOZ]"  # the two- and three-character ones
)
_TERMINAL_SEQUENCE: Final = pattern(_SEQUENCE)
_LINE_END: Final = pattern(f"\r(?!\n)|[{_LINE_ENDS}]")
_EMOJI: Final = "\u2190-\u2bff\u3030\u303d\u3297\u3299\ufe0f\U0001f000-\U0001faff"
_JOINED_SCRIPTS: Final = "\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff"
_DROPPED: Final = pattern(
    f"[{_INVISIBLE}]+|(?<![{_EMOJI}{_JOINED_SCRIPTS}])[{_JOINERS}]+|[{_JOINERS}](?![{_EMOJI}{_JOINED_SCRIPTS}])"
)


_SEQUENCE_OR_DROPPED: Final = pattern(f"((?:{_SEQUENCE}|[{_INVISIBLE}{_JOINERS}])+)")
_CONTROL_OR_DROPPED: Final = pattern(f"([{_INVISIBLE}{_JOINERS}]+)")


def make_valid(text: str) -> str:
    """Repair what UTF-8, protobuf and databases refuse: lone surrogates and NUL become U+FFFD, nothing else changes."""
    if not text.isascii() and _SURROGATE.search(text):
        text = _SURROGATE_PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
        text = _SURROGATE.sub(_REPLACEMENT, text)
    return text.replace("\x00", _REPLACEMENT)


def is_clean(text: str) -> bool:
    """Say whether *text* is harmless as it is."""
    return (_ASCII_UNSAFE if text.isascii() else _UNSAFE).search(text) is None


def has_sequences(text: str) -> bool:
    """Say whether anything in *text* begins a terminal sequence, which makes it readable in two ways."""
    return _TERMINAL_SEQUENCE.search(text) is not None


def readings(text: str) -> tuple[View, View]:
    """Give the two ways in which a valid *text* may be meant: without its terminal sequences, and with what is in them.

    A terminal takes the first letter after ``ESC [`` for a command, a person may read it as the first of a key. So a
    secret is looked for in both, before either is thrown away.
    """
    as_terminal = View(text, _SEQUENCE_OR_DROPPED.split(text), lambda _: "")
    return as_terminal, View(text, _CONTROL_OR_DROPPED.split(text), lambda _: "")


def clean(text: str) -> str:
    """Make *text* harmless as this module's table says; returns the same object when there is nothing to do."""
    if is_clean(text):
        return text
    text = _TERMINAL_SEQUENCE.sub("", make_valid(text))
    text = _LINE_END.sub("\n", text)
    # Dropping one invisible can leave a joiner without its neighbour.
    while (shorter := _DROPPED.sub("", text)) != text:
        text = shorter
    return text


_MARK_CHARS: Final = 64
_CLUSTER_CHARS: Final = 16


def cut(text: str, max_bytes: int) -> str:
    """Shorten an already scrubbed *text* to at most *max_bytes* bytes of UTF-8, visibly.

    Args:
        text: Scrubbed text; cutting before scrubbing would leave parts of secrets that nothing recognises any more.
        max_bytes: The most bytes the result may have, its mark ``… [cut, N bytes in all]`` included; N is the size of
            *text*. Where even the mark does not fit, a shorter one stands, at last none.

    Returns:
        *text* itself if it fits, else its beginning and the mark. A character, a joined emoji and a redaction mark are
        kept whole or left out.

    """
    if len(text) * 4 <= max_bytes:
        return text
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= max_bytes:
        return text
    for mark in (f"… [cut, {len(encoded)} bytes in all]", "… [cut]", "…", ""):
        room = max_bytes - len(mark.encode())
        if room >= 0:
            return _whole_beginning(text, encoded[:room].decode("utf-8", "ignore")) + mark
    return ""


def _whole_beginning(text: str, kept: str) -> str:
    """Take back from *kept*, the beginning of *text*, what the cut would leave in half."""
    opened = kept.rfind("[", max(0, len(kept) - _MARK_CHARS))
    if opened >= 0 and "]" not in kept[opened:] and text.startswith("[redacted: ", opened):
        return kept[:opened]
    end = len(kept)
    least = max(0, end - _CLUSTER_CHARS)
    while least < end < len(text) and (_joins(text[end]) or text[end - 1] == "\u200d"):
        end -= 1
    return kept[:end]


def _joins(char: str) -> bool:
    """Say whether *char* belongs to the character before it."""
    return not char.isascii() and (char == "\u200d" or unicodedata.category(char) in {"Mn", "Mc", "Me"})


_SHORT_CHARS: Final = 12
_PLAIN_WORDS_CHARS: Final = 256
_SHORT_AND_HARMLESS: Final = pattern(r"[A-Za-z0-9 \n.,!?'()+*/\[\]{};]*+")
_SHORT_CODE: Final = pattern(r"[A-Za-z0-9 \n\t.,!?'()+*/\[\]{};:=\"_<>#$|~^`@&\\-]*+")
_ANNOUNCES_A_SECRET: Final = pattern(
    r"pass|pwd|psw|secret|token|key|cred|cookie|sig|hmac|jwt|otp|auth|jsess|phpsess|bearer|basic"
    r"|-u|--|-[a-z0-9_-]{6}|-[^\n\\]*[\n\\]|_[a-z0-9_-]{6}|_[^\n\\]*[\n\\]|:[/\\]|\\u"
    r"|\?[a-z_.]+=|;[a-z_.]+=|&[a-z_.]+=|&[a-z#]"
)
"""Each of these begins with a literal: that lets the search skip what begins none of them."""
_MAY_HIDE_A_SECRET: Final = pattern(
    r"[^A-Za-z ,.!?'();-]|[A-Za-z'-]{13}|-[A-Za-z'-]{8}|--"
    r"|[Bb][Ee][Aa][Rr][Ee][Rr]|[Bb][Aa][Ss][Ii][Cc]"
    r"|[Ll][Oo][Gg][Ii][Nn]|[Pp][Aa][Ss][Ss]|[Ii][Dd][Ee][Nn][Tt][Ii][Ff]"
)


def is_plain_words(text: str) -> bool:
    r"""Whether *text* is so plain that no built-in pattern can match it; most of what a model streams is.

    A stream brings one small text for each token, and looking through every pattern for each of them would cost more
    than all else. Plain is, blanks and line ends around it left aside:

    - at most 12 characters without any of ``: = " @ % & \\ < - _`` and their like;
    - at most 12 characters of code, with any of these but ``%``, where nothing announces a secret: no telling
      name, no option, no address, no escape, no prefix of a token with something behind it, on this line or the next;
    - one line of words of at most 12 letters, 7 after a hyphen, with ordinary punctuation and none of the words that
      announce a secret without any such sign (``login jane password …``, ``identified by '…'``).

    A test holds this to the patterns.
    """
    if len(text) <= _PLAIN_WORDS_CHARS:
        core = text.strip(" \n\t")
        if len(core) <= _SHORT_CHARS:
            return _SHORT_AND_HARMLESS.fullmatch(core) is not None or (
                _SHORT_CODE.fullmatch(core) is not None and _ANNOUNCES_A_SECRET.search(core.lower()) is None
            )
        return _MAY_HIDE_A_SECRET.search(text) is None
    return False
