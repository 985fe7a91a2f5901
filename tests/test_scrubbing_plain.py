"""The quick way out for plain words: it may never let through what the patterns would hide."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compass_otel.scrubbing import Scrubber, SecretPattern, scrub
from compass_otel.scrubbing_cleaning import is_plain_words

WORDS = st.sampled_from(
    """
    Bearer bearer Basic password passwd pass pwd pw token Token secret key API api apikey Authorization cookie
    credential PIN pin login user AKIA AKIAABCDEFGH sk ghp xoxb eyJ eyJhbGci BEGIN PRIVATE KEY session access client
    refresh otp code is the set to and identified by with sshpass hvs
    """.split()  # noqa: SIM905 (a list of words)
)
PARTS = st.one_of(
    WORDS,
    st.text("ABCDEFabcdef0123456789", min_size=1, max_size=14),
    st.sampled_from([" ", ". ", ", ", "'", "\n", "(", ")", "; ", "-", "_", "/", "*", "!", "?", " is "]),
)
SIGNS = st.sampled_from(
    [
        *(
            ": ",
            " = ",
            "-u ",
            " -p ",
            "--",
            "://",
            "\n    ",
            "-\n",
            "_\n",
            "&quot;",
            "a:b",
            "\\n",
            "\\u00",
            "-\\n",
            "\u200b",
        ),
        *':="@%&\\<>#$|~^`\t?;[]{}\r\x1bx7é',
    ]
)
NAMES = st.sampled_from(
    """
    sid sas pw tk code ticket policy session sig jwt otp hmac auth key token pwd psw pass cred cookie secret mfa org
    sk- hf_ gh ghp_ npm_ sbp_ gsk_ r8_ pa- ak- SG. hvs. dp.pt. AIza EAA SK EZAK basic bearer oracle:
    login smtp ftp redis
    """.split()  # noqa: SIM905 (same)
)
CODE = st.lists(st.one_of(SIGNS, NAMES, st.text("abAB019", min_size=1, max_size=8)), max_size=7).map("".join)

# The patterns alone: an extra pattern switches the quick way out off.
_PATTERNS_ONLY = Scrubber(extra_patterns=[SecretPattern("never", r"\x00never\x00", "secret")])


@settings(max_examples=1000)
@given(st.lists(PARTS, max_size=40).map("".join))
def test_plain_words_are_what_the_patterns_leave_alone(text: str) -> None:
    """Whatever is let through quickly comes out of the patterns as it went in."""
    if is_plain_words(text):
        assert _PATTERNS_ONLY.scrub(text) == text
    assert scrub(text) == _PATTERNS_ONLY.scrub(text)


@settings(max_examples=2000)
@given(CODE, st.sampled_from(["", " ", "\n", "\n        ", "\t"]))
def test_short_code_is_what_the_patterns_leave_alone(text: str, around: str) -> None:
    """The same for pieces of code, whose signs part names from values, and for blanks around them."""
    if is_plain_words(around + text):
        assert _PATTERNS_ONLY.scrub(around + text) == around + text
    if is_plain_words(text + around):
        assert _PATTERNS_ONLY.scrub(text + around) == text + around


def test_most_of_what_a_model_streams_is_plain() -> None:
    """Words, short numbers and ordinary punctuation take the quick way; names and values with a sign between do not."""
    assert all(
        map(is_plain_words, ["hello", " world", "The module keeps its invariants, in one place.", "x + 1", "42"])
    )
    assert all(
        map(is_plain_words, ["\n        if (", "x_1 = ", '"id": ', " >= 10_000", ":\n\n", "</div>", " a->b", "}\n"])
    )
    assert not any(
        map(is_plain_words, ["password: x", "key=1", "sk-abcdefghijklmnop", "Bearer abcdefgh ij", "a\x1b[0m"])
    )


@pytest.mark.parametrize(
    "text",
    [
        "login jane password hunter",
        "sshpass -p hunter ssh svc",
        "IDENTIFIED BY 'hunter'",
        "alter user jane with password 'hunter'",
        "ghp_ab12cd34",
        "npm_ab12cd34",
        "hf_Ab3dEf6h",
        "a key sk-Abcdefgh there",
    ],
)
def test_secrets_in_plain_words_are_no_plain_words(text: str) -> None:
    """The few shapes that hide a secret among letters and blanks alone go through the patterns."""
    assert "[redacted: " in scrub(text)
