"""Which names say that their value is secret, and which words and values say that there is none.

One question with one answer for texts (``apiKey=…``), header lines and the keys of JSON objects alike:
:func:`label_of_name`. The word lists are data; adding a name is adding a word.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from msgspec import Struct

from compass_otel.patterns import pattern

__all__ = [
    "MARK",
    "SecretName",
    "Strictness",
    "is_counted",
    "is_empty_value",
    "is_prose",
    "is_verdict",
    "label_of_name",
    "label_of_words",
    "looks_random",
]


MARK: Final = pattern(r"\[redacted: [a-z][a-z0-9 -]{0,39}\]")
"""What stands where a secret was."""


class Strictness(Enum):
    """How much a name proves about its value."""

    ALWAYS = "always"
    """Whatever stands there is the secret."""
    TEXT = "text"
    """Bare numbers are counts (``token: 32000``); anything else is the secret."""
    RANDOM = "random"
    """Only a value that looks random is a secret: the word has other meanings as well."""


class SecretName(Struct, frozen=True):
    """What a name announces: the label of the mark, and how sure that is."""

    label: str
    strictness: Strictness = Strictness.ALWAYS

    def hides(self, value: object) -> bool:
        """Say whether a decoded *value* under this name is a secret; nothing, truth values and counts are none."""
        if value is None or isinstance(value, bool) or value in ("", [], {}):
            return False
        match self.strictness:
            case Strictness.ALWAYS:
                return True
            case Strictness.TEXT:
                return not isinstance(value, int | float)
            case Strictness.RANDOM:
                return not isinstance(value, str) or looks_random(value)


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_PASSWORD: Final = SecretName("password")
_SECRET: Final = SecretName("secret")
_API_KEY: Final = SecretName("api key")
_PRIVATE_KEY: Final = SecretName("private key")
_ACCESS_KEY: Final = SecretName("access key")
_TOKEN: Final = SecretName("token")
_BARE_PASS: Final = SecretName("password", Strictness.TEXT)
_BARE_TOKEN: Final = SecretName("token", Strictness.TEXT)
_COOKIE: Final = SecretName("cookie")
_AUTHORIZATION: Final = SecretName("authorization")
_CREDENTIALS: Final = SecretName("credentials")
_SIGNATURE: Final = SecretName("signature", Strictness.RANDOM)
_AUTH: Final = SecretName("authorization", Strictness.RANDOM)

_LAST_WORD: Final[dict[str, SecretName]] = {
    **dict.fromkeys(("password", "passwords", "passwd", "passphrase", "passcode", "pwd", "psw", "pass"), _PASSWORD),
    **dict.fromkeys(("secret", "secrets"), _SECRET),
    **dict.fromkeys(("apikey", "apikeys"), _API_KEY),
    **dict.fromkeys(("credential", "credentials", "creds"), _CREDENTIALS),
    **dict.fromkeys(("cookie", "cookies"), _COOKIE),
    **dict.fromkeys(("signature", "sig", "hmac"), _SIGNATURE),
    "jwt": _TOKEN,
    "jsessionid": _COOKIE,
    "phpsessid": _COOKIE,
    "otp": _PASSWORD,
    "totp": _PASSWORD,
    "authorization": _AUTHORIZATION,
    "auth": _AUTH,
    "token": _BARE_TOKEN,
}
"""By the last word of the name: ``db_password``, ``x-amz-security-token``, ``clientSecret``."""

_KEY_KINDS: Final[dict[str, SecretName]] = {
    **dict.fromkeys(("api", "x", "xi", "openai", "anthropic", "gemini", "google", "groq", "mistral"), _API_KEY),
    **dict.fromkeys(("subscription", "functions", "function", "rapidapi", "app", "application", "service"), _API_KEY),
    **dict.fromkeys(("developer", "consumer", "anon", "license", "ingest", "ingestion", "webhook", "admin"), _API_KEY),
    **dict.fromkeys(("auth", "account", "shared", "master", "storage", "client", "write"), _ACCESS_KEY),
    **dict.fromkeys(("access", "secret", "deploy", "root"), _ACCESS_KEY),
    **dict.fromkeys(
        ("private", "encryption", "decryption", "signing", "ssh", "rsa", "aes", "hmac", "jwt"), _PRIVATE_KEY
    ),
}
"""A key is secret only when the word before it says what it opens; ``primary_key`` and ``cache_key`` open nothing."""

_SPOKEN_KEYS: Final = _words(
    """
    api access secret private account license encryption signing auth subscription
    """
)

_GLUED: Final[tuple[tuple[str, SecretName], ...]] = (
    ("apikey", _API_KEY),
    ("secretkey", _ACCESS_KEY),
    ("accesskey", _ACCESS_KEY),
    ("accountkey", _ACCESS_KEY),
    ("masterkey", _ACCESS_KEY),
    ("authkey", _ACCESS_KEY),
    ("privatekey", _PRIVATE_KEY),
    ("password", _PASSWORD),
    ("passwd", _PASSWORD),
    ("passphrase", _PASSWORD),
    ("secret", _SECRET),
    ("token", _TOKEN),
    ("cookie", _COOKIE),
)
"""Endings of names written as one lower-case word: ``dbpassword``, ``accesstoken``."""

_COUNTED: Final = _words(
    """
    max min total input output prompt completion cached reasoning thinking num count per each limit budget audio
    image eos bos pad unk sep cls mask stop special first last next start end page unexpected expected
    """
)
"""What stands before a ``token`` that is a piece of text or a place in a list, not a credential."""

_TAIL_WORDS: Final = _words(
    """
    value values hash b64 base64 raw plain plaintext text string str bytes prod test dev live old new
    current previous primary secondary given provided used base
    """
)
"""Words that follow the telling one without changing what it says: ``api_key_value``, ``password_hash``."""

_WORD: Final = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def label_of_name(name: str) -> SecretName | None:
    """Say what a name such as ``OPENAI_API_KEY``, ``x-api-key``, ``apiKey`` or ``"API key"`` announces, or None."""
    words = [word.lower() for word in _WORD.findall(name)]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _TAIL_WORDS):
        words.pop()
    if not words:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in {"key", "keys"}:
        return _KEY_KINDS.get(before)
    if last == "signature" and before in {"thinking", "thought", "reasoning"}:
        return None
    if last == "pass" and not before:
        return _BARE_PASS
    if last == "token":
        return None if before in _COUNTED else _TOKEN if before else _BARE_TOKEN
    return _LAST_WORD.get(last) or _label_of_glued(last)


def label_of_words(word: str) -> SecretName | None:
    """Say what ``key`` after *word* and a blank announces in a sentence; fewer words tell there than inside a name."""
    return _KEY_KINDS[word] if word in _SPOKEN_KEYS else None


def _label_of_glued(word: str) -> SecretName | None:
    return next((named for ending, named in _GLUED if word.endswith(ending)), None)


_SENTENCE_WORDS: Final = _words(
    """
    a an and any are as at auth authentication authorization authenticated bad be been before but by can cannot cant
    challenge check could credentials denied did does doesnt dont empty error exceeded expected expired failed
    failure field for forbidden format from given had has have header headers if in incorrect input insufficient
    invalid is isnt it its length limit malformed may mismatch missing must no not null of or parameter please
    prefix provided rejected required requires revoked scheme should string supplied that the then this to token
    tokens too type unable unauthorized undefined unexpected unknown unset unsupported used value was were when
    which will with without wrong you your
    """
)
"""How a sentence about a secret goes on: ``password: must be …``, ``Bearer token``; never a secret themselves."""

_VERDICTS: Final = _words(
    """
    cannot expired failed incorrect invalid is missing must required should unauthorized unknown unsupported wrong
    """
)
"""How a quoted message about a secret begins; narrower than the list above, since a passphrase is quoted as well."""

_EMPTY: Final = _words(
    """
    none null nil undefined true false yes no n/a na unset empty nan
    """
)
_MASKED: Final = pattern(
    r"[*xX.•…_\-#]{2,}|\[(?:redacted|filtered|secure|hidden|masked|scrubbed|removed|object)\b[^\]]{0,48}\]?"
    r"|redacted|<[A-Za-z _-]{0,48}>|\$\{?[A-Z][A-Z0-9_]{2,}\}?|\$\{\{[^}]{0,64}\}{0,2}|%[sdv]|\{[A-Za-z_]{0,48}\}?"
    r"|SecretStr\(['\"]?\**['\"]?\)?",
    re.IGNORECASE,
)
_MASKED_PIECES: Final = pattern(r"[*•…]+|\.{3,}|[xX]{4,}")
_USABLE_CHARS: Final = 8
_MASKED_PIECE_COUNT: Final = 2
_MASKED_CHARS: Final = 256
_KNOWN_START: Final = pattern(r"(?:[a-z]{2,5}[-_]){1,2}|AIza|Bearer ")


def is_empty_value(value: str) -> bool:
    """Say whether *value* holds nothing to hide: none, a placeholder, or a key that was masked before it reached us.

    ``sk-fake**key`` counts as masked: it has at most two pieces left, prefix not counted, each of 8 characters at
    most. It still tells a person which key it was and is of no use to anybody else.
    """
    if len(value) > _MASKED_CHARS:
        return False
    if value.lower() in _EMPTY or _MASKED.fullmatch(value):
        return True
    pieces = _MASKED_PIECES.split(value)
    pieces[0] = _KNOWN_START.sub("", pieces[0], count=1)
    return len(pieces) == _MASKED_PIECE_COUNT and all(len(piece) <= _USABLE_CHARS for piece in pieces)


_FIRST_WORD: Final = pattern(r"[A-Za-z']+(?![A-Za-z0-9_@#$%^&*+=/\\-])")


def is_counted(word: str) -> bool:
    """Say whether *word* before ``token`` makes it a piece of text (``max token``, ``unexpected token``)."""
    return word in _COUNTED


def is_verdict(value: str) -> bool:
    """Say whether a quoted *value* of several words is a message about the secret, not the secret."""
    return value.split(maxsplit=1)[0].lower() in _VERDICTS


def is_prose(value: str) -> bool:
    """Say whether *value* begins like the rest of a sentence and so is no secret."""
    first = _FIRST_WORD.match(value)
    return first is not None and first[0].lower().replace("'", "") in _SENTENCE_WORDS


_RANDOM: Final = pattern(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/=_~%.:\\-]{8,}\Z")
_CASE_CHANGE: Final = pattern(r"[a-z][A-Z]")
_LONG: Final = 16


def looks_random(value: str) -> bool:
    """Say whether *value* could be a generated credential: letters and digits in one run, or restless letter case."""
    shown = value[:256]
    if _RANDOM.match(shown):
        return True
    return len(shown) >= _LONG and shown.isalnum() and len(_CASE_CHANGE.findall(shown)) * 5 >= len(shown)
