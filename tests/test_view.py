"""The tree of a run: what a person sees, at any width, whatever the texts are."""

from __future__ import annotations

import unicodedata
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from compass_otel.view import Canvas, draw_run
from compass_otel.view_card import MAX_MESSAGE_ROWS
from compass_otel.view_text import Line, duration_words, harmless, wrap_text
from view_samples import (
    OVERLOADED,
    cancelled_chat,
    cancelled_run,
    chat,
    event,
    failed_chat,
    retried_run,
    root,
    run,
    span,
)


def drawn(made: Any, width: int = 100, encoding: str = "utf-8") -> list[str]:
    """Draw a run and give its rows as text."""
    rows = draw_run(made, 0, Canvas(width=width, encoding=encoding, timezone=UTC))
    return ["".join(text for text, _ in row) for row in rows]


def test_a_failed_run_is_drawn_whole() -> None:
    """A run that failed after a retry says so first, then each attempt, its error and what followed."""
    assert drawn(retried_run("failed"), 70) == [
        "✖ FAILED · pi 1.6.0 · fake/fake-model · 2026-11-30 15:32:04",
        "│  160 ms",
        "│  overloaded, HTTP 503, gave up after 2 attempts",
        "│  2 model calls · 1 retry",
        "│  session 01a22d15-a612-76be-8435-1c3ef60b79dd · trace",
        "│  5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f",
        "├─ ↻ chat fake-model · failed, retried                           38 ms",
        "│  ┃ ERROR · overloaded · HTTP 503 · attempt 1 · retryable",
        '│  ┃ 503: {"message":"The server is overloaded, please try again',
        '│  ┃ later.","type":"server_error","code":null}',
        "│  ┃ → retried after 60 ms: attempt 2",
        "└─ ✖ chat fake-model · FAILED · attempt 2                        40 ms",
        "   ┃ ERROR · overloaded · HTTP 503 · attempt 2 · retryable",
        '   ┃ 503: {"message":"The server is overloaded, please try again',
        '   ┃ later.","type":"server_error","code":null}',
        "   ┃ → gave up after 2 attempts",
    ]


def test_a_completed_run_tells_model_tokens_cost_and_retries() -> None:
    """The head of a good run tells what it took."""
    text = "\n".join(drawn(retried_run("completed")))
    for told in ("✔ completed", "fake/fake-model", "900 ms", "1 retry", "1,200 tokens in, 20 out", "$0.0021"):
        assert told in text
    assert "FAILED" not in text


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_cancel_a_crash_a_retry_and_a_loss_look_different_without_colour(encoding: str) -> None:
    """Mark and word alone tell the outcomes apart."""
    lost = run("incomplete", root(100), chat(1, 100, compass__outcome="incomplete"), error_type="process_lost")
    heads = {
        name: drawn(made, encoding=encoding)[0].split("pi")[0]
        for name, made in {
            "failed": retried_run("failed"),
            "cancelled": cancelled_run(),
            "incomplete": lost,
            "completed": retried_run("completed"),
            "open": run("open", root(None), chat(1, None)),
        }.items()
    }
    assert len(set(heads.values())) == 5
    assert len({head.split()[0] for head in heads.values()}) == 5
    failed, final = (row for row in drawn(retried_run("failed"), encoding=encoding) if "chat" in row)
    assert failed.split()[1] != final.split()[1]
    assert "failed, retried" in failed
    assert "FAILED" in final


def test_a_cancel_names_the_user_and_carries_no_word_of_failure() -> None:
    """A cancelled run says who ended it and never that it failed."""
    text = "\n".join(drawn(cancelled_run()))
    assert "cancelled by the user" in text
    assert "ABORTED" in text
    assert "FAILED" not in text


def test_a_cancelled_wait_before_a_retry_is_told_as_such() -> None:
    """A failure whose retry a person cancelled says that the wait was cancelled."""
    events = [
        event("compass.retry", 60, compass__retry__delay_s=6.0),
        event(
            "compass.session.cancelled",
            900,
            compass__session_error__kind="ABORTED",
            compass__session_error__message="Retry cancelled",
        ),
    ]
    text = "\n".join(drawn(run("cancelled", root(900, events=events), failed_chat(20, 58, OVERLOADED))))
    assert "the wait of 6.0 s before the retry was cancelled by the user" in text
    assert text.splitlines()[0].startswith("⊘ cancelled")
    assert "Retry cancelled" in text


def test_an_overflow_that_compaction_repaired_says_so() -> None:
    """The card of an overflow tells that the conversation was compacted and the run went on."""
    overflow = failed_chat(
        10, 20, "prompt is too long", error__type="context_overflow", compass__error__retryable=False
    )
    compact = span("compact", 25, 800, attributes={"compass.compaction.reason": "overflow"})
    text = "\n".join(drawn(run("completed", root(2000), overflow, compact, chat(820, 2000))))
    assert "the conversation was compacted, then the run went on" in text
    assert "reason overflow" in text


def test_a_failed_compaction_has_a_card() -> None:
    """A compaction that failed shows its error, and the overflow before it what that meant."""
    overflow = failed_chat(
        10, 20, "prompt is too long", error__type="context_overflow", compass__error__retryable=False
    )
    compact = span(
        "compact",
        25,
        800,
        status="ERROR",
        status_message="400 bad request",
        attributes={"error.type": "invalid_request"},
    )
    text = "\n".join(drawn(run("failed", root(810), overflow, compact, error_type="context_overflow")))
    assert "COMPACTION FAILED · invalid_request" in text
    assert "400 bad request" in text
    assert "the compaction that should have made room failed too" in text


def test_an_error_on_the_run_itself_has_a_card() -> None:
    """A refused prompt, which has no model call, shows its error all the same."""
    refused = event(
        "exception",
        0,
        exception__type="auth",
        exception__message="No API key found",
        compass__session_error__kind="ERROR",
    )
    text = "\n".join(drawn(run("failed", root(0, events=[refused]), error_type="auth")))
    assert "ERROR · auth" in text
    assert "No API key found" in text


def test_tools_of_a_tool_stand_under_it() -> None:
    """A nested tool call is drawn one level deeper than its parent."""
    outer = span("execute_tool task", 10, 90, span_id="b" * 16, attributes={"gen_ai.tool.name": "task"})
    inner = span("execute_tool read", 20, 40, parent_span_id="b" * 16, attributes={"gen_ai.tool.name": "read"})
    rows = drawn(run("completed", root(100), outer, inner))
    assert rows[-2].startswith("└─ ✔ tool task")
    assert rows[-1].startswith("   └─ ✔ tool read")


def test_events_of_the_run_stand_in_order_between_its_spans() -> None:
    """An injected message and a model fallback have rows of their own, where they happened."""
    events = [
        event("compass.session.injection", 50, compass__session__injection__kind="steer"),
        event("compass.model.fallback", 60, compass__model__fallback__from="a", compass__model__fallback__to="b"),
    ]
    rows = drawn(run("completed", root(200, events=events), chat(10, 40), chat(70, 200)))
    told = [row.split(" ", 1)[1] for row in rows if row.startswith(("├", "└"))]
    assert [text.split("·")[0].strip()[:24] for text in told] == [
        "✔ chat fake-model",
        "» a message of the user ",
        "» model fallback from a ",
        "✔ chat fake-model",
    ]


def test_what_the_model_was_told_stands_under_the_request_that_told_it() -> None:
    """An advisor's note is shown with the model call whose request carried it."""
    note = event("compass.advisor.note", 10, compass__advisor__text="[error-advisor] The last request failed.")
    rows = drawn(run("completed", root(200), {**chat(10, 40), "events": [note]}, chat(70, 200)))
    assert rows[-2] == "│  └─ » the model was told: [error-advisor] The last request failed."


def test_an_empty_answer_is_marked() -> None:
    """An answer that ended well and holds nothing is not drawn like one that says something."""
    assert any(
        "empty answer" in row for row in drawn(run("completed", root(9), chat(1, 9, compass__response__empty=True)))
    )


def test_an_open_run_is_drawn_as_open() -> None:
    """A run that has no end yet says so, and what is open in it has no duration."""
    rows = drawn(run("open", root(None), chat(1, 40), chat(50, None)))
    assert rows[0].startswith("… still open · pi")
    assert rows[-1].startswith("└─ … chat fake-model")
    assert not rows[-1].endswith("ms")


def test_a_stream_without_times_shows_no_date() -> None:
    """A run whose time nobody told is not dated to 1970."""
    made = run("completed", {**root(0), "start_unix_ns": 0, "end_unix_ns": 0})
    assert "19" not in drawn(made)[0].replace("1.6.0", "")


def test_a_page_long_message_is_cut_and_says_so() -> None:
    """A huge error message takes a bounded number of rows and tells how much more there is."""
    rows = drawn(
        run("failed", root(9), failed_chat(1, 9, "<html>" + "lorem ipsum " * 90_000), error_type="server_error")
    )
    assert len(rows) < MAX_MESSAGE_ROWS + 12
    assert any("more characters, see --json" in row for row in rows)


def test_non_utf8_terminals_get_ascii_only() -> None:
    """What an ASCII terminal gets can be encoded in ASCII."""
    made = run("failed", root(9, gen_ai__agent__name="ö·x"), failed_chat(1, 9, "日本語 ✖"), cancelled_chat(2, 3))
    for row in drawn(made, encoding="ascii"):
        row.encode("ascii")


HOSTILE = [
    "\x1b[2J\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m",
    "[bold red]markup[/] [link=http://x]y[/link]",
    "a\u202eb\u2066c\u200bd\ufeff",
    "nul\x00bell\x07back\x08",
    "line\nfeed\r\nand\u2028more\ttab",
    "wide 日本語 é é 👩‍👩‍👧",
    "half \ud800 surrogate",
]
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=60), st.text(st.characters(), max_size=40))


def assert_harmless(rows: list[str], width: int) -> None:
    """No row steers a terminal and none is wider than it."""
    for row in rows:
        assert cell_len(row) <= width, row
        for character in row:
            assert unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}, repr(row)


@given(texts=st.lists(TEXTS, min_size=8, max_size=8), width=st.integers(20, 200), ascii_only=st.booleans())
def test_no_text_steers_the_terminal_or_breaks_the_width(texts: list[str], width: int, *, ascii_only: bool) -> None:
    """Whatever names, messages and attributes hold, rows fit and hold nothing but what is seen."""
    message, model, agent, tool, error_type, session, fallback, path = texts
    spans = (
        root(
            900,
            events=[event("compass.model.fallback", 5, compass__model__fallback__from=fallback)],
            gen_ai__agent__name=agent,
            gen_ai__conversation__id=session,
        ),
        failed_chat(20, 58, message, gen_ai__request__model=model, error__type=error_type),
        span("execute_tool x", 60, 70, attributes={"gen_ai.tool.name": tool, "compass.tool.diff.paths": [path]}),
        {**chat(80, 90), "name": f"chat {model}"},
    )
    encoding = "ascii" if ascii_only else "utf-8"
    assert_harmless(drawn(run("failed", *spans, error_type=error_type), width, encoding), max(width, 20))


def test_rich_markup_in_a_message_is_shown_as_text() -> None:
    """Square brackets are text, never styles."""
    text = "\n".join(drawn(run("failed", root(9), failed_chat(1, 9, "[bold]x[/bold]"), error_type="auth")))
    assert "[bold]x[/bold]" in text


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_samples_fit_every_width(width: int) -> None:
    """The ordinary samples fit narrow and wide terminals."""
    for made in (retried_run("completed"), retried_run("failed"), cancelled_run()):
        assert_harmless(drawn(made, width), width)


def test_harmless_keeps_line_ends_and_shows_what_it_took_away() -> None:
    """Line ends and tabs keep their sense, everything else invisible becomes visible."""
    assert harmless("a\r\nb\tc\x1b[0m\u202e") == "a\nb    c\\x1b[0m\\u202e"


@pytest.mark.parametrize(
    ("duration_ns", "words"),
    [
        (0, "0 ms"),
        (312_400_000, "312 ms"),
        (1_200_000_000, "1.2 s"),
        (9_960_000_000, "10 s"),
        (59_600_000_000, "1 min 00 s"),
        (125_000_000_000, "2 min 05 s"),
        (3_720_000_000_000, "1 h 02 min"),
    ],
)
def test_durations_are_told_in_the_unit_that_fits(duration_ns: int, words: str) -> None:
    """A duration is a number that a person can compare at a glance."""
    assert duration_words(duration_ns) == words


@given(text=st.text(max_size=400), width=st.integers(8, 60), rows=st.integers(1, 6))
def test_wrapped_texts_are_bounded(text: str, width: int, rows: int) -> None:
    """A text takes the rows that it is given, and one more to say that there is more."""
    made: list[Line] = wrap_text(harmless(text), "", width, rows)
    assert len(made) <= rows + 1
