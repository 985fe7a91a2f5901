# ruff: noqa: RUF001  (providers write full-width punctuation; the wordings are theirs)
"""What `classify`, `parse_status` and `render_message` promise, whatever the provider."""

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compass_otel.classification import Advice, ErrorType, Failure, classify, parse_status, render_message

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
USAGES = st.none() | st.dictionaries(
    st.sampled_from(["input", "output", "cacheRead", "cacheWrite", "other"]), JSON_VALUES, max_size=4
)
FULL = {"input": 150_000, "output": 0, "cacheRead": 45_000, "cacheWrite": 0}
SMALL = {"input": 30_000, "output": 500, "cacheRead": 0, "cacheWrite": 0}


@given(
    message=JSON_VALUES,
    status=st.none() | st.integers() | st.floats(),
    stop_reason=st.none() | st.text(max_size=12) | st.sampled_from(["error", "aborted", "stop", "length", "toolUse"]),
    usage=USAGES,
    window=st.none() | st.integers(),
    details=JSON_VALUES,
)
def test_any_input_gets_a_verdict(
    message: Any, status: Any, stop_reason: str | None, usage: Any, window: int | None, details: Any
) -> None:
    """Nothing that a record can hold raises; the parts of a verdict never contradict one another."""
    verdict = classify(Failure(message, status, "p", "m", stop_reason, usage, usage, window, details))
    assert verdict.retryable == (verdict.advice == "transient")
    assert (verdict.error_type is None) == (
        verdict.advice == "none" or stop_reason in {"aborted", "abort", "cancelled", "canceled"}
    )
    assert verdict.status is None or 100 <= verdict.status <= 599
    assert verdict.retry_after_s is None or verdict.retry_after_s >= 0
    assert verdict.advice != "overflow" or verdict.retry_after_s is None


def test_a_class_is_a_plain_string_too() -> None:
    """Who compares with, prints or exports a class needs no import of ours."""
    verdict = classify(Failure(message="429 Too Many Requests"))
    assert verdict.error_type == "rate_limit"
    assert str(verdict.error_type) == "rate_limit"
    assert verdict.error_type is not None
    assert verdict.error_type.value == "rate_limit"
    assert json.dumps([ErrorType.OTHER, Advice.NONE]) == '["_OTHER", "none"]'


@pytest.mark.parametrize(
    "message",
    [
        "the sky is falling",
        "Unknown error",
        "An unknown error occurred",
        "",
        "   ",
        "undefined",
        "[object Object]",
        "Error",
        "req_429 is gone",
        "trace 5f3e429a-5032-4500-8502-503504520524 lost",
        "job 0429503 of 500504",
        "chatcmpl-500-429-503",
        "You can attach at most 500 files",
        "read 503 bytes",
        "wrote 429 items",
        "session id: rate-limit-429-timeout",
        "see https://example.com/429/timeout/billing/overloaded",
        "open /var/tmp/rate-limit/timeout/503 for details",
    ],
)
def test_unknown_wording_is_other_and_not_retried(message: str) -> None:
    """Nothing is guessed: not from digits, nor from words inside ids, addresses and paths."""
    verdict = classify(Failure(message=message))
    assert (verdict.error_type, verdict.retryable, verdict.advice) == ("_OTHER", False, "other")


@pytest.mark.parametrize("word", ["rate limit exceeded", "overloaded", "timeout", "connection refused", "fetch failed"])
@pytest.mark.parametrize("status", [400, 422, None])
def test_words_in_a_refused_request_do_not_make_it_transient(word: str, status: int | None) -> None:
    """A body that declares the request invalid may quote what it likes."""
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": f"messages.1: found '{word}'"}}
    assert classify(Failure(message=json.dumps(body), status=status)).error_type == "invalid_request"


def nested(message: str) -> list[str]:
    """Wrap a provider's sentence as relays do: JSON, JSON in JSON, byte literals, Python dicts, behind other words."""
    inner = json.dumps({"type": "error", "error": {"type": "x_error", "message": message}})
    return [
        inner,
        json.dumps({"error": {"message": inner, "status": "X"}}),
        json.dumps({"error": json.dumps({"error": inner})}),
        json.dumps({"error": {"message": message}}, ensure_ascii=True),
        f"litellm.SomeError: XException - {inner.encode('utf-8')!r}",
        f"XException - {json.dumps({'m': message}, ensure_ascii=False).encode('utf-8')!r}",
        f"Wrapper said: { ({'error': {'message': message}})!r}",
        "Retry failed after 3 attempts: " + message,
        "x " * 400_000 + message,
        message + " x" * 400_000,
    ]


@pytest.mark.parametrize(
    ("message", "error_type"),
    [
        ("prompt is too long: 213462 tokens > 200000 maximum", "context_overflow"),
        ("余额不足或无可用资源包,请充值。", "billing"),
        ("您的账户已达到速率限制，请您控制请求频率", "rate_limit"),
        ("The model is overloaded. Please try again later.", "overloaded"),
        ("Your credit balance is too low", "billing"),
        ("upstream connect error or disconnect/reset before headers", "network"),
    ],
)
def test_a_reason_is_found_in_whatever_it_is_wrapped(message: str, error_type: str) -> None:
    """JSON in JSON, escapes, byte literals and a megabyte before or after change nothing."""
    assert {classify(Failure(message=one)).error_type for one in nested(message)} == {error_type}


@pytest.mark.parametrize(
    ("page", "error_type"),
    [
        ("<html><head><title>502 Bad Gateway</title></head><body>x</body></html>", "server_error"),
        ("<!DOCTYPE html><html><head><title>api.x | 504: Gateway time-out</title></head></html>", "timeout"),
        ("<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n</html>", "payload_too_large"),
        ("<html><head><title>429 Too Many Requests</title></head></html>", "rate_limit"),
        ("<html><head><title>403 Forbidden</title></head></html>", "permission"),
        ("<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>", "permission"),
        ("<html><body><h1>503 Service Unavailable</h1>No server.</body></html>", "server_error"),
        ("<html><head><title>Welcome</title></head><body>timeout 429 overloaded</body></html>", "malformed_response"),
        ("<html><head><title>521: Web server is down</title></head></html>", "server_error"),
    ],
)
@pytest.mark.parametrize("wrap", ["{}", '{{"error": "{}"}}', "Unexpected answer: {}"])
def test_a_web_page_is_judged_by_its_title(page: str, error_type: str, wrap: str) -> None:
    """A gateway's page without a numeric status is known by its title or heading; its body does not count."""
    assert classify(Failure(message=wrap.format(page))).error_type == error_type


@pytest.mark.parametrize(
    "text", ["400 status code (no body)", "400", "HTTP 400 Bad Request", "Request failed with status code 400"]
)
def test_usage_decides_where_the_text_gives_no_reason(text: str) -> None:
    """A refusal without a reason is an overflow exactly if the last answer nearly filled the window."""
    full = classify(Failure(message=text, last_good_usage=FULL, context_window=200_000))
    small = classify(Failure(message=text, last_good_usage=SMALL, context_window=200_000))
    unknown = classify(Failure(message=text))
    assert full.error_type == "context_overflow"
    assert small.advice == unknown.advice == "other"


def test_a_reason_in_the_text_outranks_usage() -> None:
    """A full window does not turn a named cause into an overflow."""
    for text in ("fetch failed", "400 invalid image: 5030 bytes is too small", "503 status code (no body)"):
        assert classify(Failure(message=text, last_good_usage=FULL, context_window=200_000)).advice != "overflow"


@pytest.mark.parametrize("agent", [None, "pi", "omp"])
def test_a_good_answer_gives_no_class(agent: str | None) -> None:
    """A good answer that fits says nothing: no class, no advice."""
    for reason in ("stop", "toolUse", "length", "end_turn"):
        verdict = classify(Failure(stop_reason=reason, usage=SMALL, context_window=200_000, agent=agent))
        assert (verdict.error_type, verdict.advice, verdict.retryable) == (None, "none", False)


def test_an_abort_is_no_failure() -> None:
    """An abort has no class and asks for nothing, whatever its text says."""
    for text in (None, "Request was aborted", "503 overloaded", {"a": 1}):
        verdict = classify(Failure(message=text, stop_reason="aborted"))
        assert (verdict.error_type, verdict.advice, verdict.retryable) == (None, "aborted", False)


@pytest.mark.parametrize(
    "text",
    [
        "Request was aborted.",
        "This operation was aborted",
        "Request aborted before processing provider output.",
        "aborted",
        "Request cancelled by client",
    ],
)
def test_an_abort_that_comes_as_an_error_is_not_called_a_provider_failure(text: str) -> None:
    """Such an answer is an error span of no known class; the model is told that it was aborted."""
    verdict = classify(Failure(message=text))
    assert (verdict.error_type, verdict.advice, verdict.retryable) == ("_OTHER", "aborted", False)


@pytest.mark.parametrize(
    "text", ["failed to cancel tool lease", "The operation was aborted due to timeout", "could not abort job"]
)
def test_the_word_abort_in_a_failure_is_no_abort(text: str) -> None:
    """Only a message that says nothing else is an abort."""
    assert classify(Failure(message=text)).advice != "aborted"


@pytest.mark.parametrize("reason", ["refusal", "content_filter", "sensitive"])
def test_a_refusal_is_a_filter_by_its_stop_reason_or_details(reason: str) -> None:
    """A refusal is known by what the agent knows beside the text."""
    assert classify(Failure(stop_reason=reason)).error_type == "content_filter"
    assert classify(Failure(message="x", stop_details={"type": reason})).error_type == "content_filter"


@pytest.mark.parametrize(
    ("reason", "error_type"),
    [("network_error", "network"), ("MALFORMED_FUNCTION_CALL", "malformed_response"), ("eos", None)],
)
def test_a_foreign_stop_reason_is_read_as_words(reason: str, error_type: str | None) -> None:
    """A stop reason that names a failure is one; a new name for success is not."""
    assert classify(Failure(stop_reason=reason)).error_type == error_type


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("429 Too many", 429),
        ("503: {}", 503),
        ("Mistral API error (422): x", 422),
        ("x API error (404): y", 404),
        ('{"error":{"code":429,"status":"X"}}', 429),
        ('{"error": {"code": "500"}}', 500),
        (r'{"m":"{\"code\": 503}"}', 503),
        ("Throttling error: 429: {}", 429),
        ("Validation error: too short", None),
        ("websocket closed 1006", None),
        ('{"code":"1302"}', None),
        ('{"exit_code": 137}', None),
        ('{"code": 5030}', None),
        ("4290 things", None),
        ("429ers", None),
        ("see 429 above", None),
        ("req_429 x", None),
        ("", None),
        (None, None),
        ("000 x", None),
        ("099 x", None),
        ("600 x", None),
        ("Error code: 429 - {'error': {'code': '1113'}}", None),
        ({"status": 502, "message": "bad"}, 502),
        ({"status": 0}, None),
        ([1, 2], None),
        (503, 503),
        (True, None),
    ],
)
def test_status_is_read_by_the_listed_rules_only(message: object, status: int | None) -> None:
    """Leading number, `API error (NNN)`, a whole JSON `code`, Bedrock's prefixes; never digits inside anything else."""
    assert parse_status(message) == status
    assert classify(Failure(message=message)).status == status


@pytest.mark.parametrize(
    ("number", "status"), [(503, 503), (503.0, 503), (0, 429), (99, 429), (600, 429), (None, 429), (True, 429)]
)
def test_a_numeric_status_wins_if_it_is_one(number: Any, status: int) -> None:
    """The agent's own number outranks the text; 0 and other non-statuses are no number."""
    assert parse_status("429 slow down", status=number) == status


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please try again in 3.965s.", 3.965),
        ("try again in 564ms", 0.564),
        ("Please try again in 17m16.8s.", 1036.8),
        ("try again in 1h2m3s", 3723),
        ("Please retry after 86400 seconds", 86400),
        ("Try again in ~180 min.", 10800),
        ("try again in 3 days 4 hours 5 minutes", 273900),
        ("Please wait 12 seconds before retrying", 12),
        ("retry-after: 30", 30),
        ('"Retry-After":"120"', 120),
        ("retry-after-ms=1500", 1.5),
        ("retry_after_ms: 250", 0.25),
        ('"retryDelay":"34s"', 34),
        ('"retryDelay": "34.074824224s"', 34.074824224),
        ("Please retry in 34.07s", 34.07),
        ('"resets_in_seconds":3600', 3600),
        ("Your quota will reset after 18h23m4s", 66184),
        ("Retry delay of 120s exceeds the limit of 60s", 120),
        ("Server requested 180s retry delay (max: 60s)", 180),
        ("requested 1800000ms wait, exceeds 300000ms", 1800),
        (r"{\"retryDelay\":\"7s\"}", 7),
        ("请在 30 秒后重试", 30),
        ("请 5 分钟后再试", 300),
        ("30秒後に再試行", 30),
        ("retry-after: 0", 0),
        ("Please retry in 34.07s. retryDelay: 34s", 34.07),
        ("429 slow down", None),
        ("Retry failed after 1 attempts", None),
        ("timed out after waiting 30s", None),
        ("Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("retry-after: 2026-01-01", None),
        ("已达到 5 小时的使用上限", None),
        ("retry after 99999999999 seconds", None),
        ("it took 30s", None),
    ],
)
def test_a_stated_wait_is_read_and_nothing_else(text: str, seconds: float | None) -> None:
    """Seconds, minutes, headers, Google's field, agents' sentences, other languages; no date, attempt or duration."""
    assert classify(Failure(message=text, status=429)).retry_after_s == (
        None if seconds is None else pytest.approx(seconds)
    )


@given(value=JSON_VALUES)
def test_a_message_of_any_type_is_rendered(value: Any) -> None:
    """Strings stay as they are, None is empty, anything else is JSON that reads back."""
    text = render_message(value)
    if isinstance(value, str):
        assert text is value
    elif value is None:
        assert text == ""
    else:
        assert text
        assert json.dumps(json.loads(text), sort_keys=True) == json.dumps(value, sort_keys=True)


def test_rendering_keeps_letters_readable_and_survives_what_is_no_json() -> None:
    """Non-ASCII letters stay, and a value that JSON cannot hold is shown rather than dropped."""
    assert render_message({"错": "余额", "n": [1, True, None]}) == '{"错":"余额","n":[1,true,null]}'
    assert "object" in render_message({"x": object()})
    endless: list[Any] = []
    endless.append(endless)
    assert render_message(endless)


def test_many_threads_get_the_same_verdicts() -> None:
    """Nothing is shared between calls."""
    texts = ["429 slow down", "prompt is too long", "fetch failed", "余额不足", "the sky is falling"]
    alone = [classify(Failure(message=text)) for text in texts]
    together: list[list[Any]] = []
    threads = [
        threading.Thread(target=lambda: together.append([classify(Failure(message=text)) for text in texts * 20]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert together == [alone * 20] * 8
