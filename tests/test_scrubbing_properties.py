"""Secrets planted at random are gone, ordinary texts stay, and no text costs more than its length."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compass_otel.scrubbing import cut, scrub, scrub_and_cut
from scrubbing_samples import (
    ENCODINGS,
    FAMILIES,
    LINE_BREAKS,
    NAMED_PLACES,
    ORDINARY_TEXTS,
    drawn_from,
    leaked,
    random_token,
)

_SURROUNDINGS = st.one_of(
    st.text(max_size=60),
    st.text("abcXYZ019 _-=:/.,;&?%\"'\\{}[]()<>|\n\t", max_size=60),
    st.sampled_from(
        ["", " ", "key ", '{"error":"', "x=", "'", "api_key: ", "a" * 50, "-" * 20, "\\n", "%22", "\\u0022"]
    ),
    st.sampled_from(ORDINARY_TEXTS),
)
_SEEDS = st.integers(0, 2**32)
# Glued to a letter these are told from words and from base64 only by what goes before them.
_NEEDS_A_BOUNDARY = {"facebook", "jwt"}


def _value(seed: int, length: int = 24) -> str:
    source = drawn_from(seed)
    letters = source.choices("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz", k=length - 4)
    digits = source.choices("23456789", k=4)
    mixed = letters + digits
    source.shuffle(mixed)
    return "".join(mixed)


class TestPlantedSecrets:
    """Not even eight characters of the random part come through."""

    @given(st.sampled_from(sorted(FAMILIES)), _SEEDS, _SURROUNDINGS, _SURROUNDINGS, st.sampled_from(sorted(ENCODINGS)))
    @settings(max_examples=400)
    def test_tokens_of_every_family(self, name: str, seed: int, before: str, after: str, encoding: str) -> None:
        """A token is gone between any texts in any encoding."""
        token, body = random_token(FAMILIES[name], drawn_from(seed))
        if name in _NEEDS_A_BOUNDARY:
            before += " "
        shown = scrub(ENCODINGS[encoding](before + token + after))
        assert leaked(body, shown) == []

    @given(st.sampled_from(sorted(FAMILIES)), _SEEDS, _SURROUNDINGS, st.integers(0, 400))
    @settings(max_examples=150)
    def test_cut_anywhere(self, name: str, seed: int, before: str, limit: int) -> None:
        """Whatever the limit, a cut leaves no usable piece, and scrubbing what is left changes nothing harmful."""
        token, body = random_token(FAMILIES[name], drawn_from(seed))
        shown = scrub_and_cut(f"{before} {token} {before}", limit)
        assert leaked(body, shown) == []
        assert len(shown.encode()) <= limit

    @given(
        st.sampled_from(sorted(FAMILIES)),
        _SEEDS,
        st.floats(0, 1),
        st.sampled_from(LINE_BREAKS),
        st.sampled_from(["", " end"]),
    )
    @settings(max_examples=400)
    def test_wrapped_over_lines(self, name: str, seed: int, at: float, line_break: str, after: str) -> None:
        """A token with a line break inside is gone, but for a last piece too short or too like a word to tell."""
        token, body = random_token(FAMILIES[name], drawn_from(seed))
        place = 1 + int(at * (len(token) - 2))
        shown = scrub(f"bad key {token[:place]}{line_break}{token[place:]}{after}")
        last = token[place:]
        tellable = len(last) >= 12 and any(char.isdigit() for char in last)
        assert leaked(body if tellable else token[:place], shown) == []
        assert shown.startswith("bad key [redacted: ")

    @given(st.sampled_from(NAMED_PLACES), _SEEDS, _SURROUNDINGS, _SURROUNDINGS, st.sampled_from(sorted(ENCODINGS)))
    @settings(max_examples=400)
    def test_named_values(self, place: str, seed: int, before: str, after: str, encoding: str) -> None:
        """A value after a telling name is gone between any texts, each on a line of its own, in any encoding."""
        value = _value(seed)
        shown = scrub(ENCODINGS[encoding](f"{before}\n{place.replace('{}', value)}\n{after}"))
        assert leaked(value, shown) == []

    @given(
        st.lists(st.tuples(st.sampled_from(NAMED_PLACES), _SEEDS), min_size=2, max_size=5),
        st.sampled_from(["\n", " ", " | "]),
    )
    @settings(max_examples=150)
    def test_several_in_one_text(self, places: list[tuple[str, int]], joint: str) -> None:
        """One secret never shields another."""
        shown = scrub(joint.join(place.replace("{}", _value(seed)) for place, seed in places))
        assert [piece for _, seed in places for piece in leaked(_value(seed), shown)] == []

    @given(_SEEDS, st.integers(1, 30_000), st.integers(1, 30_000))
    @settings(max_examples=20)
    def test_deep_in_a_long_text(self, seed: int, before: int, after: int) -> None:
        """Length hides nothing."""
        token, body = random_token(FAMILIES["openai"], drawn_from(seed))
        assert leaked(body, scrub("word " * before + token + " word" * after)) == []


class TestStability:
    """Scrubbing is a projection."""

    @given(
        st.lists(
            st.one_of(
                _SURROUNDINGS, st.sampled_from(NAMED_PLACES), st.sampled_from(["[redacted: ", "]", "[redacted: token]"])
            ),
            max_size=6,
        )
    )
    @settings(max_examples=400)
    def test_twice_is_once(self, parts: list[str]) -> None:
        """What came out goes through unaltered."""
        once = scrub("".join(parts).replace("{}", "Zq8Xw2Rt5Yp1"))
        assert scrub(once) == once

    @given(st.lists(st.sampled_from(ORDINARY_TEXTS), min_size=1, max_size=8))
    def test_ordinary_lines_stay_together(self, lines: list[str]) -> None:
        """Texts without secrets stay, in any order, on lines of their own."""
        text = "\n".join(lines)
        assert scrub(text) == text

    @given(st.text(max_size=300), st.integers(0, 200))
    def test_nothing_raises(self, text: str, limit: int) -> None:
        """Any text at all gives a text."""
        assert isinstance(cut(scrub(text), limit), str)


_MEGABYTE = 1_000_000
HOSTILE = (
    "a", " ", "\n", "\\", '\\"', '"', "%25", "%", "=", ":", "-", ".", "@", "://", "://a:", "sk-", "eyJ", "eyJ.",
    "ghp_\n", "AKIA", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n",
    "password=", 'password="', 'password=\\"', "token=a ", "token: must ", "auth=", "?key=a&", "&sig=", "key-",
    "cookie: a=b; ", 'key"  ,   "value', "bearer ", "basic ", "api key ", "--token a ", "\x1b[", "\x1b]", "\x00",
    "\ud800", "\u200b", "\u200d", "[redacted: ", "key{", '"cookie":[',
    "csk-", "xai-\n", "pa-", "LTAI", "EAA", "npm_\n",
)  # fmt: skip


class TestCost:
    """Linear, whatever the text."""

    @pytest.mark.parametrize("unit", HOSTILE, ids=ascii)
    def test_a_hostile_quarter_megabyte(self, unit: str) -> None:
        """No repeated unit costs more than its length; quadratic work on it would take minutes."""
        text = unit * (_MEGABYTE // 4 // len(unit))
        began = time.process_time()
        scrub_and_cut(text, 2048)
        assert time.process_time() - began < 1.0

    def test_an_ordinary_megabyte(self) -> None:
        """A long answer of a provider is scrubbed in a fraction of a second."""
        text = '{"type":"error","message":"prompt is too long: 213462 tokens > 200000 maximum"}\n' * 12_000
        began = time.process_time()
        assert scrub(text) == text
        assert time.process_time() - began < 1.0
