"""Control characters made harmless, and cuts that leave nothing in half."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compass_otel.scrubbing import cut, make_valid, scrub, scrub_and_cut

_ANY_TEXT = st.text(st.characters(), max_size=200)
_HARMFUL = (
    "\x00\x1b\x07\x08\x0b\x0c\x7f\x85\x9b\u200b\u200e\u200f\u202a\u202e\u2028\u2029\u2066\u2069\ufeff\u00ad\U000e0041"
)


class TestHarmless:
    """What a terminal, a backend or a reader could trip over."""

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("a\x1b[31mred\x1b[0m b", "ared b"),
            ("a\x1b]8;;https://evil.example\x07label\x1b]8;;\x07b", "alabelb"),
            ("a\x1b]0;title\x1b\\b", "ab"),
            ("a\x1b]0;title without an end", "a0;title without an end"),
            ("a\x9b2Jb", "ab"),
            ("a\x1bPq;data\x1b\\b", "ab"),
            ("a\x1bcb", "ab"),
            ("10%\r20%\r\nend", "10%\n20%\r\nend"),
            ("a\u2028b\u2029c\x85d", "a\nb\nc\nd"),
            ("tab\tand\nline\r\nend", "tab\tand\nline\r\nend"),
            ("nul\x00", "nul\ufffd"),
            ("529 Overloaded \ud83e please", "529 Overloaded \ufffd please"),
            ("\ud83e\udde9", "🧩"),
            ("user\u202etxt.exe", "usertxt.exe"),
            ("ig\u200bnore\u2060d", "ignored"),
            ("tag\U000e0041\U000e0042s", "tags"),
            ("family 👨\u200d👩\u200d👧 and ✔\ufe0f", "family 👨\u200d👩\u200d👧 and ✔\ufe0f"),
            ("می\u200cخواهم", "می\u200cخواهم"),  # noqa: RUF001 (Persian)
            ("a\u200db\u200cc", "abc"),
            ("👩\u200b\u200d💻", "👩💻"),
        ],
    )
    def test_examples(self, text: str, shown: str) -> None:
        """Each harmful character is gone, joined or replaced as the table says; joiners that build words stay."""
        assert scrub(text) == shown

    @given(_ANY_TEXT)
    def test_any_text_is_harmless_after(self, text: str) -> None:
        """No control character but tab and line ends, no bidi mark, no surrogate, no NUL in any scrubbed text."""
        shown = scrub(text)
        shown.encode("utf-8")
        assert [char for char in shown if unicodedata.category(char) == "Cc" and char not in "\t\n\r"] == []
        assert [char for char in shown if char in _HARMFUL] == []
        assert not re.search(r"\r(?!\n)", shown)

    @given(_ANY_TEXT)
    def test_once_is_enough(self, text: str) -> None:
        """Scrubbing twice is scrubbing once, whatever the characters."""
        once = scrub(text)
        assert scrub(once) == once

    @given(st.text(st.characters(categories=["Lu", "Ll", "Nd", "Po", "Sm", "Sc", "So", "Zs"])))
    def test_text_without_either_stays(self, text: str) -> None:
        """Letters, marks and signs of any script pass as they are, where no name gives a secret away."""
        if not re.search(r"[=:>]|//|--", text):
            assert scrub(text) == text

    @given(_ANY_TEXT)
    def test_make_valid_repairs_and_no_more(self, text: str) -> None:
        """Only surrogates and NUL change, one character each."""
        repaired = make_valid(text)
        repaired.encode("utf-8")
        assert "\x00" not in repaired
        if not re.search("[\ud800-\udfff\x00]", text):
            assert repaired == text

    def test_pairs_become_characters(self) -> None:
        """Two halves that JSON decoding left apart become the character that they are."""
        assert make_valid("x\ud83e\udde9\ud83e") == "x🧩\ufffd"


class TestCut:
    """Limits in bytes."""

    @given(_ANY_TEXT, st.integers(0, 300))
    def test_keeps_the_limit_and_whole_characters(self, text: str, limit: int) -> None:
        """The result fits, is valid, and is the text's own beginning and a mark."""
        text = scrub(text)
        shown = cut(text, limit)
        assert len(shown.encode("utf-8")) <= limit
        if len(text.encode()) <= limit:
            assert shown == text
        else:
            kept = re.sub(r"…(?: \[cut(?:, \d+ bytes in all)?\])?\Z", "", shown)
            assert text.startswith(kept)

    def test_the_mark_says_how_much_there_was(self) -> None:
        """A person sees that something is missing, and how long the whole was."""
        assert cut("x" * 5000, 64) == "x" * 36 + "… [cut, 5000 bytes in all]"

    @pytest.mark.parametrize("limit", range(140))
    def test_no_mark_and_no_emoji_in_half(self, limit: int) -> None:
        """A redaction mark, a joined emoji and an accented letter are kept whole or left out."""
        text = "500 👨\u200d👩\u200d👧 e\u0301 [redacted: private key] and [redacted: api key] " + "z" * 100
        shown = re.sub(r"…(?: \[cut.*\])?\Z", "", cut(text, limit))
        assert shown.count("[") == shown.count("]")
        assert not shown.endswith(("\u200d", "👨", "👨\u200d👩"))
        assert not (shown.endswith("e") and "e\u0301" not in shown)

    @pytest.mark.parametrize("limit", range(20, 80))
    def test_utf16_readers_see_whole_characters(self, limit: int) -> None:
        """Whoever counts in UTF-16 finds no lone half either."""
        shown = scrub_and_cut("500 " + "🧩" * 400, limit)
        json.dumps(shown).encode("utf-16-le")
        assert "\\ud83e\\u2026" not in json.dumps(shown)

    def test_scrubs_before_it_cuts(self) -> None:
        """A secret that the cut would have parted is gone."""
        assert "hunter2" not in scrub_and_cut("x" * 40 + " password=hunter2hunter2hunter2", 58)

    def test_what_fits_is_returned_as_it_is(self) -> None:
        """No copy, no mark, where nothing is cut."""
        text = "überlang"
        assert cut(text, 9) is text
        assert cut("", 0) == ""
