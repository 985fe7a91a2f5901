r"""Quotation of foreign text inside a note: one string that the text cannot close, leave or hide in.

Provider, gateway and extension texts are written by nobody we trust, and a note is read by a model. So the text stands
there as one JSON string on one line: quotes and backslashes are escaped, line ends are `\n`, characters that nobody
sees are gone, and what a chat template or a reader could take for a marker (`<`, three backticks, `[INST]`, our own
`[error-advisor]`) is written as its `\u` escape. `json.loads` gives back the text; letters of any script stay
readable.

Everything here is pure. A text of 1 MB costs a few regular expressions without nested repeats.
"""

import json
import re
from collections.abc import Callable
from typing import Final

from compass_otel.patterns import pattern

MAX_QUOTE_CHARS: Final = 300
"""Longest quotation, its quote marks and escapes included."""
MARK: Final = "[error-advisor]"
"""How every note begins; no quoted text can hold it."""

_TAIL_CHARS: Final = 80
_GAP: Final = " … "

_LINE_ENDS: Final = pattern("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_BLANKS: Final = pattern("[\t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000 ]+")
_LINE_RUNS: Final = pattern(" ?\n[ \n]*")
# Cc, Cf, Cs and Co, plus what Unicode calls default-ignorable or draws as nothing (fillers, blank braille).
_UNSEEN: Final = pattern(
    "[\x00-\x09\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff]+"
)
# What looks like the quote mark that ends our string is written as one, so that it is escaped like one.
_QUOTE_LIKE: Final = str.maketrans(dict.fromkeys("\u201c\u201d\u201e\u201f\uff02\u301d\u301e\u301f\u2033", '"'))

_BRACKET: Final = "[\\[\uff3b\u3010\u3014\u27e6]"
_MARKERS: Final = pattern(
    f"[<\uff1c]|{_BRACKET}(?=\\W*error[\\W_]*advisor)|{_BRACKET}(?-i:(?=/?[A-Z_]{{3,24}}\\]))|`(?=``)|(?<=`)`|~(?=~~)|(?<=~)~",
    re.IGNORECASE,
)
_COMBINING: Final = pattern("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")


def legible(text: str) -> str:
    """`text` with only what a reader sees: line ends as one newline, blanks as one space, nothing unseen."""
    lines = _LINE_ENDS.sub("\n", text)
    blanks = _BLANKS.sub(" ", lines)
    return _LINE_RUNS.sub("\n", _BLANKS.sub(" ", _UNSEEN.sub("", blanks))).strip().translate(_QUOTE_LIKE)


def scrubbed(text: str, scrub: Callable[[str], str]) -> str:
    """`text` made legible and free of secrets, whole.

    Legible first, since an unseen character inside a key would hide the key from the scrubber; and once more after,
    since the scrubber's own output is text like any other.
    """
    return legible(scrub(legible(text)))


def quote(legible_text: str, limit: int = MAX_QUOTE_CHARS) -> str:
    """`legible_text` (see `scrubbed`) as one JSON string of at most `limit` characters, quote marks included.

    A longer text keeps its beginning and, since gateways put the reason last, its end; `…` stands between.
    """
    room = limit - 2
    if len(legible_text) <= room:
        units = _escaped(legible_text)
        if sum(map(len, units)) <= room:
            return f'"{"".join(units)}"'
    tail_room = _TAIL_CHARS if limit >= 3 * _TAIL_CHARS else 0
    tail = _fit(_escaped(legible_text[-tail_room:])[::-1], tail_room)[::-1] if tail_room else []
    used = sum(map(len, tail)) + len(_GAP)
    head = _fit(_escaped(legible_text[:room]), room - used)
    return f'"{"".join(head).rstrip()}{_GAP}{"".join(tail).lstrip()}"' if tail else f'"{"".join(head).rstrip()}{_GAP}"'


def _fit(units: list[str], room: int) -> list[str]:
    taken: list[str] = []
    for unit in units:
        room -= len(unit)
        if room < 0:
            break
        taken.append(unit)
    return taken


def _escaped(text: str) -> list[str]:
    """Write each character of `text` as it stands inside a JSON string; a cut between two splits no escape."""
    marked = {match.start() for match in _MARKERS.finditer(text)}
    units = []
    for index, char in enumerate(text):
        if index in marked or not char.isprintable() or (index == 0 and _COMBINING.match(char)):
            units.append("\\n" if char == "\n" else _by_number(char))
        else:
            units.append(f"\\{char}" if char in '"\\' else char)
    return units


def _by_number(char: str) -> str:
    # JSON counts in UTF-16, so a character beyond the first plane is two escapes.
    return json.dumps(char)[1:-1] if not char.isascii() else f"\\u{ord(char):04x}"


# --- private host names (H-P7) ---

PRIVATE_HOST: Final = "[private host]"

_PRIVATE_LABELS: Final = (
    "internal|intranet|intra|corp|corporate|lan|private|vpn|svc|cluster|consul|k8s|kube|onprem|staging"
)
_PRIVATE_ENDS: Final = f"{_PRIVATE_LABELS}|local|localdomain|home|arpa"
_LABEL: Final = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})"
_PORT: Final = r"(?::\d{1,5})?(?!\d)"
_HOSTS: Final = (
    # Addresses of RFC 1918, RFC 6598, RFC 3927, loopback; unique-local, link-local and loopback of IPv6.
    pattern(
        r"(?<![\w.])(?:10(?:\.\d{1,3}){3}|127(?:\.\d{1,3}){3}|192\.168(?:\.\d{1,3}){2}|169\.254(?:\.\d{1,3}){2}"
        r"|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2}|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])(?:\.\d{1,3}){2})" + _PORT
    ),
    pattern(
        r"\[?(?<![\w:.])(?:f[cd][0-9a-f]{2}:[0-9a-f:]{2,40}|fe80:[0-9a-f:.]{2,40}(?:%\w{1,16})?|::1)(?![\w:])\]?"
        + _PORT,
        re.IGNORECASE,
    ),
    # A name with a label that only private networks use, or ending in one.
    pattern(
        rf"(?<![\w.-])(?:{_LABEL}\.){{0,8}}(?:{_PRIVATE_LABELS})(?:\.{_LABEL}){{1,6}}(?![\w-]){_PORT}",
        re.IGNORECASE,
    ),
    pattern(
        rf"(?<![\w./-])(?:{_LABEL}\.){{1,8}}(?:{_PRIVATE_ENDS})\b(?![\w.-]*\w){_PORT}",
        re.IGNORECASE,
    ),
    # A name without a dot where only a host can stand: after a scheme, after a resolver's or a socket's error code.
    pattern(rf"(?<=://)(?:[^\s/@\"']{{1,200}}@)?{_LABEL}(?![\w.-]){_PORT}"),
    pattern(rf"(?<=ECONNREFUSED ){_LABEL}(?![\w.-]){_PORT}|(?<=ENOTFOUND ){_LABEL}(?![\w.-]){_PORT}"),
    pattern(rf"(?<=EAI_AGAIN ){_LABEL}(?![\w.-]){_PORT}|(?<=host: ){_LABEL}(?![\w.-]){_PORT}"),
    pattern(r"(?<![\w.-])localhost(?![\w.-])" + _PORT, re.IGNORECASE),
)


def mask_private_hosts(text: str) -> str:
    """`text` without the names and addresses of hosts that only a private network knows.

    For text that is about to go to another provider than the one it came from: an error body may name a company's
    gateways. Public host names stay, since they say which provider failed.
    """
    for host in _HOSTS:
        text = host.sub(PRIVATE_HOST, text)
    return text
