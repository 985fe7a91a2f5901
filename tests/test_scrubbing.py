"""What is hidden, what stays, and what a user can change about it."""

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from compass_otel.errors import CompassError, ConfigError
from compass_otel.scrubbing import BUILT_IN_NAMES, Scrubber, SecretPattern, scrub, scrub_and_cut, scrub_value
from compass_otel.scrubbing_patterns import ACCOUNT_PATTERNS, SECRET_PATTERNS, TOKEN_FAMILIES
from scrubbing_samples import ENCODINGS, NAMED_PLACES, ORDINARY_TEXTS, leaked

_HERE = Path(__file__).parent
_VALUE = "Zq8Xw2Rt5Yp1Lk7Mn3B"
_CASES = [json.loads(line) for line in (_HERE / "cases" / "field-cases.jsonl").read_text("utf-8").splitlines()]
# Turning a page of HTML into a line is the reader's business, not a matter of secrets.
_PAGES = {"FC-A115"}


def _text_of(case: dict[str, Any]) -> str | None:
    parts = case["input"].get("errorMessageParts")
    text = "".join(piece * times for piece, times in parts) if parts else case["input"].get("errorMessage")
    return text if isinstance(text, str) else None


_TEXT_CASES = [case for case in _CASES if _text_of(case) is not None]


class TestFieldCases:
    """Failures as people reported them."""

    @pytest.mark.parametrize("case", _TEXT_CASES, ids=[case["id"] for case in _TEXT_CASES])
    def test_hides_and_keeps_what_the_case_says(self, case: dict[str, Any]) -> None:
        """Every field case loses what it must not contain and keeps what it must."""
        text = _text_of(case)
        assert text is not None
        clean = scrub(text)
        expected = case["expected"]
        if case["id"] not in _PAGES:
            assert [part for part in expected.get("must_not_contain", ()) if part in clean] == []
        assert [part for part in expected.get("must_contain", ()) if part in text and part not in clean] == []
        clean.encode("utf-8")

    @pytest.mark.parametrize("filler", range(200, 4200, 61))
    def test_a_key_at_the_cut_leaves_no_half(self, filler: int) -> None:
        """Wherever a key stands to the cut, no piece of it is left."""
        key = "sk-proj-EXAMPLEfake0EXAMPLEfake1EXAMPLEfake2EXAMPLEfake3"
        shown = scrub_and_cut(f"Incorrect API key: {'-' * filler} {key} {'z' * 5000}", 2048)
        assert leaked(key, shown, 5) == []
        assert len(shown.encode()) <= 2048

    def test_two_messages_with_the_same_key_stay_different(self) -> None:
        """Only the key is cut out, so messages that differ elsewhere still do."""
        key = "ghp_EXAMPLEfake0EXAMPLEfake1EXAMPLEfake2"
        first, second = (f"401 bad key {key} while reading /home/jane/{path}" for path in ("disk-usage.md", "risk.md"))
        assert scrub(first) == "401 bad key [redacted: token] while reading /home/jane/disk-usage.md"
        assert scrub(first) != scrub(second)

    def test_keyword_arguments_in_an_error_text(self) -> None:
        """A Python call's arguments printed into an error lose the keys, not the rest."""
        jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJleGFtcGxlIn0.c2lnbmF0dXJlLWV4YW1wbGU"
        text = f"context_length_exceeded while calling {{'model': 'm', 'api_key': 'abc', 'user_api_key': '{jwt}'}}"
        assert scrub(text) == (
            "context_length_exceeded while calling "
            "{'model': 'm', 'api_key': '[redacted: api key]', 'user_api_key': '[redacted: api key]'}"
        )


class TestSecrets:
    """Every shape, in every way to write it."""

    @pytest.mark.parametrize("row", [*TOKEN_FAMILIES, *SECRET_PATTERNS], ids=lambda row: row.name)
    @pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=list(ENCODINGS))
    def test_each_row_of_the_table_hides_its_example(self, row: Any, encoding: Any) -> None:
        """The example of every row is gone in every encoding, and the mark says what it was."""
        shown = scrub(encoding(f"401 rejected {row.example} there"))
        secret = row.example
        if isinstance(row, SecretPattern):
            match = re.search(row.regex, row.example)
            assert match is not None
            secret = match["secret"] if "secret" in match.re.groupindex else match[0]
        assert f"[redacted: {row.label}]" in shown
        # Account numbers before a secret may share a run of digits with a made-up example.
        assert [piece for piece in leaked(secret, shown) if not piece.isdigit()] == []
        assert "rejected" in shown
        assert "there" in shown

    @pytest.mark.parametrize("row", [*TOKEN_FAMILIES, *SECRET_PATTERNS], ids=lambda row: row.name)
    def test_the_lines_around_a_token_stay(self, row: Any) -> None:
        """A line after a token is not taken for the rest of it, nor the line before for its beginning."""
        shown = scrub(f"the key\n{row.example}\nnext line\n{row.example}\nAnother\n")
        assert shown.startswith("the key\n")
        assert shown.endswith("\nAnother\n")
        assert "\nnext line\n" in shown

    @pytest.mark.parametrize("place", NAMED_PLACES)
    @pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=list(ENCODINGS))
    def test_a_name_gives_its_value_away(self, place: str, encoding: Any) -> None:
        """A value after a telling name is gone in every notation and encoding, whatever stands around it."""
        text = place.replace("{}", _VALUE)
        for written in (encoding(text), encoding(f"failed: {text} again"), f"x\n{encoding(text)}\ny"):
            shown = scrub(written)
            assert leaked(_VALUE, shown, 6) == []
            assert "[redacted: " in shown
            assert scrub(shown) == shown

    def test_the_mark_says_what_was_there(self) -> None:
        """Each kind of secret leaves a mark that names its kind."""
        marks = {
            "api_key=abc": "api key",
            "password=abc": "password",
            "Cookie: sid=abc": "cookie",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----": "private key",
            "https://svc.example/?X-Amz-Signature=0123456789abcdef": "url signature",
            "access_token=abc": "token",
            "Authorization: Bearer abcdefgh12": "authorization",
            "client_secret=abc": "secret",
            "AccountKey=abc==": "access key",
        }
        assert {text: re.findall(r"\[redacted: ([^\]]*)\]", scrub(text)) for text in marks} == {
            text: [label] for text, label in marks.items()
        }

    def test_the_rest_of_a_url_stays(self) -> None:
        """Only the value of the parameter goes, up to its delimiter."""
        assert scrub("GET https://svc.example/v1?session=abc/DEF+1%2FgHi&page=2 failed") == (
            "GET https://svc.example/v1?session=[redacted: session]&page=2 failed"
        )
        assert scrub("postgres://jane:pw@db.example:5432/x") == "postgres://jane:[redacted: password]@db.example:5432/x"

    def test_a_password_with_slashes_and_ats(self) -> None:
        """A password that nobody escaped goes whole; a port is none."""
        assert leaked(_VALUE, scrub(f"postgres://u:p@ss/{_VALUE}@db.example/x"), 6) == []
        assert scrub("redis://cache.example:6379/0?user=a@b") == "redis://cache.example:6379/0?user=a@b"

    def test_a_url_that_was_cut_before_its_host(self) -> None:
        """What is left of a database URL still shows no password."""
        assert scrub("cannot parse postgres://jane:hunter2") == "cannot parse postgres://jane:[redacted: password]"

    @pytest.mark.parametrize("joint", ["|", ",", ";", " ", "\n", "\\n", '","', " and "])
    def test_one_secret_does_not_shield_the_next(self, joint: str) -> None:
        """Two secrets side by side are both gone."""
        shown = scrub(f"x-api-key: {_VALUE}{joint}authorization: Bearer {_VALUE[::-1]}")
        assert leaked(_VALUE, shown, 6) == []
        assert leaked(_VALUE[::-1], shown, 6) == []

    @pytest.mark.parametrize(
        "between", ["\u200b", "\x1b[31m", "\u202e", "\ufeff", "\x08", "\x1b]0;title\x07", "\u2060"]
    )
    def test_invisible_characters_do_not_part_a_secret(self, between: str) -> None:
        """A secret with something invisible inside is still one secret."""
        key = "sk-proj-EXAMPLEfake0EXAMPLEfake1EXAMPLEfake2"
        shown = scrub(f"bad {key[:5]}{between}{key[5:20]}{between}{key[20:]} key")
        assert shown == "bad [redacted: api key] key"

    def test_masked_echoes_are_harmless(self) -> None:
        """A key that its provider masked stays if it shows too little to use, and goes if it shows more."""
        assert scrub("Incorrect API key provided: sk-fake**key.") == "Incorrect API key provided: sk-fake**key."
        shown = scrub("Incorrect API key provided: sk-proj-EXAMPLEfake0EXAM****EXAMPLEfake3.")
        assert shown == "Incorrect API key provided: [redacted: api key]."


class TestPrivateKeys:
    """Blocks of PEM, whole or not."""

    _BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDu"

    @pytest.mark.parametrize("kind", ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"])
    @pytest.mark.parametrize("line_end", ["\n", "\r\n", "\\n", "\\\\n", " ", "%0A"])
    @pytest.mark.parametrize("form", ["whole", "no end", "no begin"])
    def test_a_block_is_hidden(self, kind: str, line_end: str, form: str) -> None:
        """A private key is gone with real, escaped or missing line ends, and without its first or last line."""
        if form == "no begin" and line_end == " ":
            pytest.skip("words and blanks before an END line may be prose")
        body = self._BODY.replace("\n", line_end)
        begin = f"-----BEGIN {kind}-----{line_end}" if form != "no begin" else ""
        end = f"{line_end}-----END {kind}-----" if form != "no end" else ""
        shown = scrub(f"could not parse key: {begin}{body}{end} (asn1)")
        assert leaked(self._BODY, shown) == []
        assert shown.startswith("could not parse key: ")
        assert shown.endswith("[redacted: private key] (asn1)")

    def test_percent_encoded(self) -> None:
        """A private key in a form body is gone as well."""
        text = f"-----BEGIN PRIVATE KEY-----\n{self._BODY}\n-----END PRIVATE KEY-----"
        assert leaked(self._BODY, scrub(ENCODINGS["percent"](text))) == []

    def test_public_things_stay(self) -> None:
        """Certificates and public keys are no secrets."""
        text = (
            "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa\n-----END CERTIFICATE-----"
        )
        assert scrub(text) == text

    def test_what_follows_a_cut_block_stays(self) -> None:
        """Prose after a block without its last line is not taken for the key."""
        assert scrub("-----BEGIN PRIVATE KEY-----\nRVhBTVBMRWZha2UwRVhB\nPlease check the file.") == (
            "[redacted: private key]\nPlease check the file."
        )


class TestOrdinaryText:
    """Ids, numbers, paths and prose come out as they went in."""

    @pytest.mark.parametrize("text", ORDINARY_TEXTS)
    def test_stays(self, text: str) -> None:
        """A text without a secret is returned unaltered, alone, in a sentence, in JSON and among other lines."""
        for written in (text, f"x {text} y", json.dumps({"message": text}), f"a\n{text}\nb"):
            assert scrub(written) == written

    def test_every_recorded_message_stays(self) -> None:
        """The error texts that real agents wrote pass unaltered; the one key in them was masked by the provider."""
        messages = re.findall(
            r'"message": ("(?:[^"\\]|\\.)*")', (_HERE / "captures" / "expected.json").read_text("utf-8")
        )
        texts = [json.loads(message) for message in messages]
        assert len(texts) > 50
        assert [scrub(text) for text in texts] == texts

    def test_every_recorded_line_stays(self) -> None:
        """A whole recorded stream passes unaltered, ids and all."""
        lines = [
            line
            for path in sorted((_HERE / "captures").glob("*/*_http_*.jsonl"))
            for line in path.read_text("utf-8").splitlines()
        ]
        assert len(lines) > 300
        assert [line for line in lines if scrub(line) != line] == []

    def test_classified_messages_stay(self) -> None:
        """No wording that a classifier reads is touched."""
        rows = (_HERE / "cases" / "classification.jsonl").read_text("utf-8").splitlines()
        texts = [text for row in rows if (text := json.loads(row).get("errorMessage"))]
        assert [text for text in texts if scrub(text) != text] == []


class TestSettings:
    """Patterns added and left out."""

    def test_an_added_pattern(self) -> None:
        """A pattern of one's own hides its group, under its label, and leaves the built-in ones at work."""
        scrubber = Scrubber(
            extra_patterns=[SecretPattern("badge", r"badge-(?P<secret>\d{6})", "badge number", ("badge",))]
        )
        assert scrubber.scrub("Badge badge-123456 and password=x") == (
            "Badge badge-[redacted: badge number] and password=[redacted: password]"
        )
        assert scrub("badge-123456") == "badge-123456"

    @pytest.mark.parametrize("row", TOKEN_FAMILIES, ids=lambda row: row.name)
    def test_a_family_switched_off(self, row: Any) -> None:
        """A family left out by name is no longer hidden for its own sake."""
        text = f"a {row.example} b"
        all_families = {family.name for family in TOKEN_FAMILIES}
        assert scrub(text) == f"a [redacted: {row.label}] b"
        assert Scrubber(disable=all_families - {row.name}).scrub(text) != text
        assert Scrubber(disable=all_families).scrub(text) == text

    def test_named_values_switched_off(self) -> None:
        """Values after a telling name can be left out by what they are."""
        assert (
            Scrubber(disable=["named-cookie"]).scrub("Cookie: a=b, password=x")
            == "Cookie: a=b, password=[redacted: password]"
        )

    def test_all_switched_off(self) -> None:
        """With everything off no secret is hidden, but control characters are still harmless."""
        scrubber = Scrubber(disable=BUILT_IN_NAMES)
        text = "\n".join(NAMED_PLACES).replace("{}", _VALUE)
        assert scrubber.scrub(f"\x1b[31m{text}\x00") == f"{text}\ufffd"

    def test_names_are_unique(self) -> None:
        """Every built-in pattern has a name of its own."""
        assert len(set(BUILT_IN_NAMES)) == len(BUILT_IN_NAMES)

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ({"disable": ["githup"]}, ("disable", "githup", "github")),
            ({"disable": "nothing"}, ("disable", "nothing")),
            ({"extra_patterns": [SecretPattern("x", "(", "word")]}, ("regex of x", "'('", "regular expression")),
            ({"extra_patterns": [SecretPattern("x", "a*", "word")]}, ("regex of x", "'a*'", "at least one character")),
            ({"extra_patterns": [SecretPattern("x", "a", "Word]")]}, ("label of x", "Word]", "lower-case")),
            ({"extra_patterns": [SecretPattern("github", "a", "word")]}, ("name", "github", "no other")),
        ],
    )
    def test_a_wrong_setting_says_what_is_wrong(self, arguments: dict[str, Any], told: tuple[str, ...]) -> None:
        """A setting that cannot work names itself, its value and what would do, and is a ValueError."""
        with pytest.raises(ConfigError) as raised:
            Scrubber(**arguments)
        assert isinstance(raised.value, ValueError)
        assert isinstance(raised.value, CompassError)
        assert [part for part in told if part not in str(raised.value)] == []

    def test_a_setting_error_survives_copying(self) -> None:
        """An error that crosses a process border keeps its parts."""
        error = pickle.loads(pickle.dumps(ConfigError("size", 0, "above 0")))  # noqa: S301 (our own bytes)
        assert (error.setting, error.value, error.allowed) == ("size", 0, "above 0")
        assert str(error) == "size is 0; allowed: above 0"

    def test_its_repr_names_the_added_patterns(self) -> None:
        """A scrubber in a log line says what was added to it."""
        assert (
            repr(Scrubber(extra_patterns=[SecretPattern("badge", "b", "word")])) == "Scrubber(extra_patterns=['badge'])"
        )

    @pytest.mark.parametrize("row", ACCOUNT_PATTERNS, ids=lambda row: row.name)
    def test_account_patterns_hide_their_examples(self, row: SecretPattern) -> None:
        """What a model need not read is hidden by the patterns made for that, and by them alone."""
        assert scrub(row.example) == row.example
        assert f"[redacted: {row.label}]" in Scrubber(extra_patterns=ACCOUNT_PATTERNS).scrub(row.example)


class TestValues:
    """JSON-like values."""

    def test_keys_tell(self) -> None:
        """What stands under a secret key is hidden whole; counts, nothing and other keys are not."""
        value: dict[str, object] = {
            "api_key": "abc",
            "usage": {"max_tokens": 5, "token": 3, "tokens": [1, 2.5]},
            "password": None,
            "clientSecret": {"a": 1},
            "cookies": [],
            "author": "Jane",
            "auth": "none",
        }
        assert scrub_value(value) == {**value, "api_key": "[redacted: api key]", "clientSecret": "[redacted: secret]"}

    def test_pairs_tell(self) -> None:
        """Header lists in both of their usual forms lose their secrets."""
        assert scrub_value([["x-api-key", "v"], ("Accept", "*/*"), {"name": "Cookie", "value": "a"}]) == [
            ["x-api-key", "[redacted: api key]"],
            ["Accept", "*/*"],
            {"name": "Cookie", "value": "[redacted: cookie]"},
        ]

    def test_texts_are_scrubbed_wherever_they_stand(self) -> None:
        """Texts in lists, in objects, in keys and in bytes are scrubbed like any other."""
        assert scrub_value({"password=x": ["a\x00", {"b": b"password=x"}]}) == {
            "password=[redacted: password]": ["a\ufffd", {"b": "password=[redacted: password]"}]
        }

    def test_the_input_is_untouched(self) -> None:
        """The given value is not changed."""
        value = {"a": [{"api_key": "abc"}]}
        scrub_value(value)
        assert value == {"a": [{"api_key": "abc"}]}

    def test_endless_values_end(self) -> None:
        """A value that contains itself, or is nested without measure, ends in a word."""
        inner: list[Any] = [1]
        inner += [inner, inner]
        assert scrub_value(inner) == [1, "[nested too deep]", "[nested too deep]"]
        deep: Any = "x"
        for _ in range(5000):
            deep = [deep]
        assert "nested too deep" in json.dumps(scrub_value(deep))

    def test_twice_is_once(self) -> None:
        """A scrubbed value is left alone."""
        once = scrub_value({"api_key": "abc", "t": "password=x"})
        assert scrub_value(once) == once


def test_a_token_that_ends_with_its_line_ends() -> None:
    """A complete token right before a line break is taken as it is, and the search goes on."""
    key = "ghp_" + "Ab3dEf6hIj9l" * 3
    assert scrub(f"{key}\n") == "[redacted: token]\n"
    assert scrub(f"{key}\n\nnext {key}\n(") == "[redacted: token]\n\nnext [redacted: token]\n("
