"""Reading an error text before it is judged: what was said, without the noise that only looks like it.

Addresses, file paths and ids go, since words and digits in them mean nothing; escapes of JSON in JSON and of Python
byte literals are undone; of a web page only title and headings stay. Every step is linear, and none sees
more than 64 KiB.
Pure and without state, so every name here may be used from any thread.
"""

import json
import re
import reprlib
from typing import Final

from msgspec import Struct

from compass_otel.patterns import pattern

EDGE_CHARS: Final = 32 * 1024
"""Of a text longer than two edges only the first and the last edge are read: a reason stands first or last."""

_MAX_TITLE_CHARS: Final = 300
_MAX_PAGE_CHARS: Final = 500
_MAX_HEADINGS: Final = 3

_UNICODE_ESCAPE: Final = pattern(r"\\u([0-9a-fA-F]{4})")
_BYTE_ESCAPES: Final = pattern(r"(?:\\{1,4}x[0-9a-fA-F]{2})+")
_ADDRESS: Final = pattern(r"(?:https?|wss?)://[^\s\"'<>)\]}]*")
_HOST_AND_PATH: Final = pattern(r"(?<![\w./-])[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}/[^\s\"'<>)\]}]*")
_FILE_PATH: Final = pattern(r"(?<![\w/.])/[\w.@+-]{1,255}(?:/[\w.@+-]{1,255})+")
_REQUEST_FILE: Final = pattern(r"raw-http-request=[^\n]*")
_NAMED_ID: Final = pattern(
    r"(?:request|trace|session|call|correlation|log|event|tool_use)[ _-]?id\W{1,6}[\w.-]{3,80}", re.IGNORECASE
)
_PREFIXED_ID: Final = pattern(
    r"\b(?:req|msg|toolu|call|chatcmpl|resp|rs|fc|gen|run|sess|trace|org|proj|item|evt)[_-](?=[\w-]{0,16}\d)[\w-]{4,}"
)
_UUID: Final = pattern(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_WORD: Final = pattern(r"[a-z0-9]+|[^\x00-\x7f]+")
_CAMEL: Final = pattern(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TAG: Final = pattern(r"<[^<>]{0,400}>")
_PAGE_STATUS: Final = pattern(r"(?<![\w.])([45]\d\d)(?![\w.])")
_PAGE_STARTS: Final = ("<!doctype html", "<html", "<head>", "<body")
_INVISIBLE: Final = pattern("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")

_TRADITIONAL: Final = (
    "餘額請過頻務無權證連線時對長輸試後錯誤費達擁擠負載飽帳戶賬"
    "號鑰認敗內違規審實數續網絡絕斷開關沒訪問並發異應為許滿總僅設"
)
_SIMPLIFIED: Final = (
    "余额请过频务无权证连线时对长输试后错误费达拥挤负载饱账户账"
    "号钥认败内违规审实数续网络绝断开关没访问并发异应为许满总仅设"
)
_ALIKE: Final = str.maketrans(
    "\u2018\u2019\u201c\u201d\u2013\u2014\u00a0\u0130" + _TRADITIONAL, "''\"\"-- i" + _SIMPLIFIED
)
"""Quotation marks and dashes of typography, the one letter that grows in lower case, and the commonest characters that
two scripts write differently."""

_INVALID_WORDS: Final = (
    " invalid request error ",
    " bad request error ",
    " invalid argument ",
    " validation exception ",
    " invalid parameter ",
    " unprocessable entity ",
)
"""How providers, SDKs and gateways declare that the request itself is at fault."""


class Text(Struct, frozen=True):
    """An error text, read.

    Attributes:
        plain: in lower case, escapes undone, noise gone, punctuation kept.
        words: the words of `plain`, one space before, between and after them; `camelCase` and `snake_case` parted.
        tokens: the same words as a set.
        letters: the characters of `plain` that are not ASCII.
        page: whether a web page stood in it.
        page_status: the HTTP status in the page's title or heading.

    """

    plain: str
    words: str
    tokens: frozenset[str]
    letters: frozenset[str]
    page: bool
    page_status: int | None

    @property
    def calls_itself_invalid(self) -> bool:
        """Whether the body declares that the request itself is at fault."""
        return any(words in self.words for words in _INVALID_WORDS)


def read(message: str) -> Text:
    """Read an error text for judging.

    Args:
        message: of any length; only its first and last `EDGE_CHARS` are looked at.

    Returns:
        What was said, normalised.

    """
    text, page_status, page = _without_page(_unescaped(edges(message)))
    text = _without_noise(text)
    tokens = words_of(text)
    plain = text.lower()
    return Text(plain, f" {' '.join(tokens)} ", frozenset(tokens), foreign_letters(plain), page, page_status)


def render_message(value: object) -> str:
    """Render an error message of any JSON type as readable text.

    Args:
        value: the message.

    Returns:
        A string unaltered, `""` for None, anything else as compact JSON that keeps non-ASCII letters.

    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):
        return reprlib.repr(value)


def edges(message: str) -> str:
    """Return the part of a message that is read at all."""
    if len(message) <= 2 * EDGE_CHARS:
        return message
    return f"{message[:EDGE_CHARS]}\n{message[-EDGE_CHARS:]}"


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, `camelCase` parted; an id keeps its digits within a longer word."""
    return _WORD.findall(_CAMEL.sub(" ", text).lower())


def foreign_letters(text: str) -> frozenset[str]:
    """Return the characters of a text that are not ASCII."""
    return frozenset() if text.isascii() else frozenset(letter for letter in set(text) if not letter.isascii())


def _unescaped(text: str) -> str:
    if "\\" in text:
        if "\\u" in text:
            text = _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
        if "\\x" in text:
            text = _BYTE_ESCAPES.sub(lambda match: _decoded(match[0]), text)
        for escape in ("\\n", "\\r", "\\t"):
            text = text.replace(escape, "\n")
        text = text.replace("\\", "")
    if text.isascii():
        return text
    return _INVISIBLE.sub("", text.translate(_ALIKE))


def _decoded(escapes: str) -> str:
    return bytes.fromhex(escapes.replace("\\", "").replace("x", "")).decode("utf-8", "replace")


def _without_page(text: str) -> tuple[str, int | None, bool]:
    """Put the title and the headings of a web page in its place."""
    if "<" not in text:
        return text, None, False
    low = text.lower()
    starts = [at for at in (low.find(start) for start in _PAGE_STARTS) if at >= 0]
    if not starts or len(low) != len(text):
        return text, None, False
    begin = min(starts)
    end = low.rfind("</html>", begin)
    end = len(text) if end < 0 else end + len("</html>")
    said = _headline(text[begin:end], low[begin:end])
    status = _PAGE_STATUS.search(said)
    return f"{text[:begin]} {said} {text[end:]}", int(status[1]) if status else None, True


def _headline(page: str, low: str) -> str:
    parts = []
    for tag, most in (("title", 1), ("h1", _MAX_HEADINGS), ("h2", _MAX_HEADINGS)):
        at = 0
        for _ in range(most):
            at = low.find(f"<{tag}", at)
            begin = low.find(">", at) + 1
            end = low.find(f"</{tag}", begin)
            if at < 0 or not begin or end < 0:
                break
            parts.append(page[begin : min(end, begin + _MAX_TITLE_CHARS)])
            at = end
    said = " . ".join(parts) if parts else page[:_MAX_PAGE_CHARS]
    return _TAG.sub(" ", said)


def _without_noise(text: str) -> str:
    if "raw-http-request=" in text:
        text = _REQUEST_FILE.sub(" ", text)
    if "://" in text:
        text = _ADDRESS.sub(_address_said, text)
    if "/" in text:
        text = _FILE_PATH.sub(" path ", _HOST_AND_PATH.sub(_place_said, text))
    if "id" in text or "Id" in text or "ID" in text:
        text = _NAMED_ID.sub(" id ", text)
    if "_" in text or "-" in text:
        text = _PREFIXED_ID.sub(" id ", text)
    return _UUID.sub(" id ", text) if "-" in text else text


def _place_said(match: re.Match[str]) -> str:
    """Return what a host and path say: nothing, but for the names that Google gives to its quotas so."""
    host, _, path = match[0].partition("/")
    return f" {path} " if host.endswith("googleapis.com") else " url "


def _address_said(match: re.Match[str]) -> str:
    """Return what an address says: nothing, but for the anchor of a page that explains error codes."""
    page, _, anchor = match[0].partition("error-code#")
    return f" url error code {anchor} " if anchor and page else " url "
