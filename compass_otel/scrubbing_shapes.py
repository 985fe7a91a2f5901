"""Secrets that are known by their own form or by their place, not by a name before them.

Private key blocks, credentials in URLs, ``Bearer`` and ``Basic`` anywhere, keys that a provider echoes in a sentence,
options of a command line, and parameters that are secret only inside a URL.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from compass_otel.patterns import pattern
from compass_otel.scrubbing_names import is_counted, is_empty_value, is_prose, label_of_name, looks_random
from compass_otel.scrubbing_values import Q, Span, quotation_end

__all__ = ["authorizations", "command_options", "echoed_keys", "private_keys", "url_credentials", "url_parameters"]

_GAP: Final = r"[ +]"
_KEY_WORDS: Final = rf"{_GAP}(?:[A-Z0-9]{{1,16}}{_GAP}){{0,4}}PRIVATE{_GAP}KEY(?:{_GAP}BLOCK)?{_GAP}?-{{4,5}}"
_KEY_BEGIN: Final = pattern(rf"BEGIN(?<=-BEGIN)?{_KEY_WORDS}")
_KEY_END: Final = pattern(rf"-{{4,5}}[ ]?END{_KEY_WORDS}")
_KEY_BLOCK_CHARS: Final = 65_536
_KEY_GAP: Final = pattern(r"(?:[\s\"',>|]|\\{1,16}[nrt\"']?){0,64}")
_KEY_LINE: Final = pattern(r"(?:[A-Za-z0-9+/=\ufffd]|\\{1,16}/)+")
_KEY_HEADER: Final = pattern(r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset):[^\n\\]{0,128}")
_KEY_LINE_CHARS: Final = 20
_KEY_DASHES: Final = 8


def private_keys(text: str) -> Iterator[Span]:
    """Find private key blocks, whole, without their last line, or without their first."""
    if "PRIVATE" not in text:
        return
    pos = 0
    begin, end = _KEY_BEGIN.search(text), _KEY_END.search(text)
    while begin or end:
        if end and not (begin and begin.start() < end.start()):
            start, stop = _start_of_block(text, pos, end.start()), end.end()
        else:
            assert begin is not None  # noqa: S101 (one of the two is there)
            start = _start_of_begin(text, pos, begin.start())
            nested = end and _KEY_BEGIN.search(text, begin.end(), end.start())
            whole = end is not None and nested is None and end.start() - start < _KEY_BLOCK_CHARS
            stop = end.end() if end and whole else _end_of_block(text, begin.end())
        yield start, stop, "private key"
        pos = stop
        begin = _KEY_BEGIN.search(text, pos) if begin and begin.start() < pos else begin
        end = _KEY_END.search(text, pos) if end and end.start() < pos else end


def _start_of_begin(text: str, floor: int, start: int) -> int:
    """Go back over the dashes, and blanks between them, before the word BEGIN."""
    dashes = text[floor:start] if start - floor < _KEY_DASHES else text[start - _KEY_DASHES : start]
    return start - len(dashes[len(dashes.rstrip("- ")) :].lstrip(" "))


def _end_of_block(text: str, pos: int) -> int:
    """Follow the lines of a block whose END is missing, as long as they look like one."""
    first = True
    while True:
        gap = _KEY_GAP.match(text, pos)
        at = gap.end() if gap else pos
        line = _KEY_HEADER.match(text, at) or _KEY_LINE.match(text, at)
        if line is None:
            return pos
        body = line[0]
        if not (first or len(body) >= _KEY_LINE_CHARS or looks_random(body) or body[-1] == "="):
            return pos
        first, pos = False, line.end()


def _start_of_block(text: str, floor: int, end: int) -> int:
    """Go back from an END line whose BEGIN is missing over lines of base64."""
    start = end
    while start > floor:
        line_start = start
        while line_start > floor and text[line_start - 1] in " \t\r\n":
            line_start -= 1
        for gap in ("\\n", "\\r", "\\"):
            line_start -= len(gap) if text.endswith(gap, floor, line_start) else 0
        at = line_start
        while at > floor and (text[at - 1].isalnum() or text[at - 1] in "+/="):
            at -= 1
        escaped = at < line_start and at > floor and text[at - 1] == "\\" and text[at] in "nr"
        at += 1 if escaped else 0
        if line_start - at < (_KEY_LINE_CHARS if start != end else 1):
            return start
        start = at
    return start


_AUTHORITY: Final = pattern(
    r":(?:\\{0,16}/){2}(?P<user>[^\s/?#\"'<>@:\\|]{0,256})(?::(?P<password>[^\s/?#\"'<>@\\|]{1,1024}))?@"
)
_STORE_URL: Final = pattern(
    r"(?<![a-z])(?:postgres(?:ql)?|mysql2?|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|smtps?|ldaps?|s?ftp|clickhouse)"
    r"(?:\+[a-z0-9]{1,16})?:(?:\\{0,16}/){2}[^\s/?#\"'<>@:]{0,256}:(?P<password>[^\s\"'<>|]{1,1024})",
    re.IGNORECASE,
)
_PORT: Final = pattern(r"[0-9]{1,5}(?![^/?#,)\s.;:\]}])")
_USER_TOKEN_CHARS: Final = 16


def url_credentials(text: str, low: str) -> Iterator[Span]:
    """Find ``scheme://user:password@host`` and ``scheme://token@host``."""
    if ":/" not in text and ":\\" not in text:
        return
    for match in _AUTHORITY.finditer(text):
        if match["password"] is not None:
            yield *match.span("password"), "password"
        elif len(match["user"]) >= _USER_TOKEN_CHARS and looks_random(match["user"]):
            yield *match.span("user"), "token"
    for match in _STORE_URL.finditer(low):
        start, end = match.span("password")
        last_at = text.rfind("@", start, end)
        shown = text[start : last_at if last_at >= 0 else end]
        if _PORT.match(shown) is None:
            yield start, start + len(shown), "password"


_URL_ONLY: Final = pattern(
    r"[?&;]"
    r"(?P<name>session|sid|sessid|phpsessid|jsessionid|connect\.sid|code|ticket|assertion|client_assertion|samlresponse"
    r"|samlrequest|policy|hdnea|hdnts|code_verifier|oauth_verifier|awsaccesskeyid|tk|sas|pw|auth_code)"
    r"=",
)
_URL_VALUE: Final = pattern(r"""(?:[^\s"'`\\&;<>|)\]},]|\\{1,16}(?:/|u00(?:2[bdf]|3d))){1,8192}""", re.IGNORECASE)
_UUID: Final = pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_WORDY: Final = pattern(r"[a-z_]+\Z|[0-9]{1,6}\Z")
_LABELS: Final = {
    "policy": "url signature",
    "hdnea": "url signature",
    "hdnts": "url signature",
    "awsaccesskeyid": "access key",
}


def url_parameters(text: str, low: str) -> Iterator[Span]:
    """Find parameters whose names mean a secret only inside a URL; UUIDs, words and short numbers stay."""
    pos = 0
    while match := _URL_ONLY.search(low, pos):
        value = _URL_VALUE.match(text, match.end())
        pos = value.end() if value else match.end()
        if value is None or _UUID.match(value[0]) or _WORDY.match(value[0]):
            continue
        yield *value.span(), _LABELS.get(match["name"], "session" if "s" in match["name"][:1] else "code")


_CARRIED: Final = pattern(r"(?P<scheme>bearer|basic)(?:[ \t]{1,8}|\+)(?P<value>[a-z0-9._~+/\-\ufffd]{6,8192}={0,4})")


def authorizations(text: str, low: str) -> Iterator[Span]:
    """Find ``Bearer …`` and ``Basic …`` wherever they stand; ``bearer token`` and ``basic auth`` are prose."""
    if "bearer" not in low and "basic" not in low:
        return
    for match in _CARRIED.finditer(low):
        start, end = match.span("value")
        value = text[start:end].rstrip(".")
        is_parameter = value[-1:] == "=" and text[end : end + 1] in {'"', "\\"}
        if is_parameter or is_prose(value) or is_empty_value(value):
            continue
        if match["scheme"] == "basic":
            if _is_basic(value):
                yield start, start + len(value), "credentials"
        elif looks_random(value) or len(value) >= _USER_TOKEN_CHARS or text[end : end + 1] in {'"', "'", "\\"}:
            yield start, start + len(value), "token"


def _is_basic(value: str) -> bool:
    """Say whether *value* is base64 of ``user:password``, or random enough to be the beginning of it."""
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return looks_random(value)


_ECHOED: Final = pattern(
    r"(?P<name>api[ _-]?key|token|secret|password|passphrase"
    r"|(?:access|private|license|auth|encryption)[ _-]key)"
    r"(?P<tail>(?:[ ](?:provided|supplied|given|used|sent|was|is|value)){0,3})(?P<colon>[ ]?:)?[ ]"
    rf"(?:(?P<quote>{Q})|[<(\[])?(?P<value>[^\s\"'`<>()\[\]\\]{{4,512}})"
)


def echoed_keys(text: str, low: str) -> Iterator[Span]:
    """Find keys that a sentence repeats: ``Incorrect API key provided: …``, ``The token 'ab12…' has expired``."""
    if not any(word in low for word in ("key", "token", "secret", "pass")):
        return
    pos = 0
    while match := _ECHOED.search(low, pos):
        pos = match.start("value")
        if match["name"] == "token" and is_counted(
            low[max(0, match.start() - 16) : match.start()].rpartition(" ")[0].rpartition(" ")[2]
        ):
            continue
        start, end = match.span("value")
        if match["quote"]:
            end = max(end, quotation_end(text, start, match["quote"]))
        value = text[start:end].rstrip(".,:;!?\\")
        stated = match["tail"] and match["colon"]
        if is_empty_value(value) or is_prose(value) or not (stated or looks_random(value)):
            continue
        pos = end
        yield (
            start,
            start + len(value),
            "api key" if "key" in match["name"] else match["name"].replace("passphrase", "password"),
        )


_OPTION: Final = pattern(
    rf"--(?P<name>[A-Za-z][A-Za-z0-9-]{{1,48}})[ \t]{{1,8}}(?:{Q})?"
    r"(?P<value>[^\s\"'`\\<>-][^\s\"'`\\<>]{0,1024})"
)


def command_options(text: str) -> Iterator[Span]:
    """Find the values of options such as ``--api-key VALUE``; ``--api-key=VALUE`` is a named value like any other."""
    if "--" not in text:
        return
    for match in _OPTION.finditer(text):
        named = label_of_name(match["name"])
        value = match["value"]
        if named is not None and not is_empty_value(value) and not is_prose(value) and not value.isdigit():
            yield *match.span("value"), named.label
