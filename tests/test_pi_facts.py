"""The 17 facts about the Pi family that every reader of its streams must know; each test is named after its fact."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compass_otel.events import (
    CompactionEnded,
    CompactionStarted,
    InnerError,
    MessageEnded,
    MessageStarted,
    NoticeRaised,
    OtherMessage,
    PromptSettled,
    RetryEnded,
    RetryScheduled,
    RunEnded,
    RunStarted,
    SessionOpened,
    SourceEnded,
    TextDelta,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from compass_otel.sources.pi_session import PiSession
from compass_otel.sources.pi_stream import PiStream
from sources_support import (
    AGENTS,
    NAMES,
    START_NS,
    answers,
    assistant,
    captured,
    captured_file,
    feed,
    names_of,
    of,
    start,
    stream_lines,
    unusable,
    user,
    whole,
)


@pytest.mark.parametrize("agent", ["pi-0.73", "pi-1.6"])
def test_fact_01_a_low_level_run_is_not_a_prompt(agent: str) -> None:
    """Every retry is a run of its own, without a user message, and all of them are one prompt."""
    events = captured(f"{agent}/f_http_503_exhausted")
    assert [len(of(events, kind)) for kind in (RunStarted, RunEnded, PromptSettled)] == [3, 3, 1]
    told = [[type(m).__name__ for m in run.messages if not isinstance(m, OtherMessage)] for run in of(events, RunEnded)]
    assert told == [["UserMessage", "AssistantMessage"], ["AssistantMessage"], ["AssistantMessage"]]


def test_fact_02_omp_withholds_intermediate_ends() -> None:
    """Omp starts several low-level runs for one end, and an end with isTerminal:false settles nothing."""
    events = captured("omp-18/f_http_503_exhausted")
    assert [len(of(events, kind)) for kind in (RunStarted, RunEnded, PromptSettled)] == [3, 1, 1]
    steered = captured("omp-18/p_steer_mid_run")
    assert [len(of(steered, kind)) for kind in (RunStarted, RunEnded, PromptSettled)] == [2, 2, 1]


def test_fact_02_the_extension_api_tells_every_end() -> None:
    """An end with willContinue:true settles nothing, even when it comes after the next start."""
    first, second = start(user()), whole(assistant())
    events = feed(
        {"type": "advisor_cost_changed"},
        {"type": "agent_start"},
        first,
        second,
        {"type": "agent_start"},
        {"type": "agent_end", "messages": [], "willContinue": True},
        second,
        {"type": "agent_end", "messages": []},
        end=False,
    )
    assert names_of(events)[-3:] == ["MessageEnded", "RunEnded", "PromptSettled"]
    assert len(of(events, PromptSettled)) == 1


def test_fact_03_will_retry_covers_retries_only() -> None:
    """Pi 1.6 ends an overflowed run with willRetry:false and goes on; only agent_settled says that all is done."""
    records = [json.loads(line) for line in stream_lines("pi-1.6/k4_overflow_first_prompt")]
    assert [r["willRetry"] for r in records if r["type"] == "agent_end"] == [False, False]
    kinds = names_of(captured("pi-1.6/k4_overflow_first_prompt"))
    settled = kinds.index("PromptSettled")
    assert kinds.count("PromptSettled") == 1
    assert settled > len(kinds) - 1 - kinds[::-1].index("RunEnded")
    stopped_before = [r for r in records if r["type"] != "agent_settled"]
    assert of(feed(*stopped_before), PromptSettled) == []


def test_fact_03_pi_073_never_says_that_all_is_done() -> None:
    """Pi 0.73 has no such record: its prompt settles when nothing takes the end back."""
    assert of(captured("pi-0.73/a_success_text", end=False), PromptSettled) == []
    assert len(of(captured("pi-0.73/a_success_text"), PromptSettled)) == 1


@pytest.mark.parametrize("name", ["omp-18/d4_http_402_billing", "omp-18/l6_empty_stop"])
def test_fact_04_a_retry_can_end_that_never_started(name: str) -> None:
    """Omp ends retrying that it never announced, before the run's end; nothing is invented for it."""
    events = captured(name)
    assert of(events, RetryScheduled) == []
    kinds = names_of(events)
    assert kinds.index("RetryEnded") < kinds.index("RunEnded") < kinds.index("PromptSettled")


@pytest.mark.parametrize("agent", AGENTS)
def test_fact_04_where_the_end_of_retrying_stands(agent: str) -> None:
    """A failed end comes before the last agent_end in omp and after it in Pi; a good one before its turn's end."""
    kinds = names_of(captured(f"{agent}/f_http_503_exhausted"))
    last_run = len(kinds) - 1 - kinds[::-1].index("RunEnded")
    assert (kinds.index("RetryEnded") < last_run) is (agent == "omp-18")
    if agent != "omp-18":
        good = names_of(captured(f"{agent}/f2_http_500_then_success"))
        at = good.index("RetryEnded")
        assert (good[at - 1], good[at + 1]) == ("MessageEnded", "TurnEnded")


@pytest.mark.parametrize("agent", ["pi-0.73", "pi-1.6"])
def test_fact_05_a_compaction_can_end_that_never_started(agent: str) -> None:
    """The second overflow after one recovery ends a compaction without a start; the prompt still settles once."""
    events = captured(f"{agent}/k3_overflow_again_after_compact")
    assert (len(of(events, CompactionStarted)), len(of(events, CompactionEnded))) == (1, 2)
    assert of(events, CompactionEnded)[1].error_message.startswith("Context overflow recovery failed")
    assert len(of(events, PromptSettled)) == 2


def test_fact_05_reason_and_will_retry_prove_nothing() -> None:
    """Pi 1.6 calls a short answer an overflow; Pi 0.73 says willRetry and nothing follows, yet the prompt settles."""
    short = captured("pi-1.6/q6_length_below_max_output")
    assert answers(short)[1].stop_reason == "length"
    assert of(short, CompactionEnded)[0].reason == "overflow"
    silent = captured("pi-0.73/j4_silent_overflow")
    assert names_of(silent)[-3:] == ["CompactionEnded", "PromptSettled", "SourceEnded"]
    assert of(silent, CompactionEnded)[0].will_retry is True


def test_fact_05_omp_repeats_the_turn_and_skips_useless_compactions() -> None:
    """After a silent overflow omp repeats the turn in the same prompt; it skips a useless compaction, with a notice."""
    repeated = captured("omp-18/j4_silent_overflow")
    assert (len(answers(repeated)), len(of(repeated, PromptSettled))) == (3, 2)
    for name in ("k3_overflow_again_after_compact", "k4_overflow_first_prompt"):
        events = captured(f"omp-18/{name}")
        assert of(events, CompactionEnded)[-1].skipped is True
        assert of(events, NoticeRaised)[0].level == "warning"
    started = feed({"type": "auto_compaction_start", "reason": "incomplete", "action": "context-full"})
    assert of(started, CompactionStarted)[0].reason == "incomplete"


def test_fact_06_hidden_retries_stay_hidden() -> None:
    """Omp's own HTTP retries give no event, so none is made up: one answer, no retry."""
    for name in ("e_http_429_then_success", "q4_retry_disabled_503"):
        events = captured(f"omp-18/{name}")
        assert (len(answers(events)), of(events, RetryScheduled, RetryEnded)) == (1, [])


@pytest.mark.parametrize(("agent", "streaming"), [("pi-0.73", "stop"), ("pi-1.6", "pending"), ("omp-18", "stop")])
def test_fact_07_a_message_may_start_final(agent: str, streaming: str) -> None:
    """A request that fails at once starts and ends with the same failed message; a started `stop` is no success."""
    failed = [e.message for e in captured(f"{agent}/d2_http_400") if isinstance(e, MessageStarted | MessageEnded)]
    assert failed[-1].failed
    assert failed[-2].error_message == failed[-1].error_message
    begun = [e.message for e in captured(f"{agent}/a_success_text") if isinstance(e, MessageStarted)][-1]
    assert begun.stop_reason == streaming
    assert (begun.text != "") is (agent == "omp-18")


@pytest.mark.parametrize("agent", AGENTS)
def test_fact_08_an_error_can_carry_content(agent: str) -> None:
    """A cut stream's error keeps the text that came."""
    message = answers(captured(f"{agent}/h_stream_cut"))[0]
    assert (message.stop_reason, message.text != "") == ("error", True)


def test_fact_08_a_cut_tool_call_never_runs() -> None:
    """A partial call in a failed answer starts no tool in Pi; omp's made-up result is marked so."""
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}
    failed = {**assistant("error", errorMessage="terminated"), "content": [call]}
    events = feed({"type": "agent_start"}, start(failed), whole(failed), {"type": "agent_end", "messages": [failed]})
    assert of(events, ToolStarted) == []
    details = {"__synthetic": True, "source": "turn", "executed": False, "upstreamError": "terminated"}
    result = {"content": [{"type": "text", "text": "not run"}], "details": details}
    made_up = feed(
        {"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash", "args": {}},
        {"type": "tool_execution_end", "toolCallId": "c1", "toolName": "bash", "result": result, "isError": True},
    )
    assert of(made_up, ToolEnded)[0].synthetic is True


def test_fact_09_abort_mid_stream() -> None:
    """All three end the message as aborted, with wordings of their own."""
    words = {a: answers(captured(f"{a}/i_abort_mid_stream"))[-1] for a in AGENTS}
    assert {m.stop_reason for m in words.values()} == {"aborted"}
    assert {m.error_message for m in words.values()} == {"Request was aborted", "Interrupted by user"}


def test_fact_09_abort_mid_tool() -> None:
    """Pi fails the tool and opens a turn with an empty aborted answer; omp tells of it only in agent_end."""
    for agent in ("pi-0.73", "pi-1.6"):
        events = captured(f"{agent}/i2_abort_during_tool")
        assert of(events, ToolEnded)[0].is_error
        assert (answers(events)[-1].stop_reason, answers(events)[-1].empty) == ("aborted", True)
        assert (len(of(events, TurnStarted)), len(of(events, TurnEnded))) == (2, 2)
    omp = captured("omp-18/i2_abort_during_tool")
    assert (len(of(omp, TurnStarted)), len(of(omp, TurnEnded))) == (2, 1)
    assert answers(omp)[-1].stop_reason == "toolUse"
    assert of(omp, RunEnded)[0].messages[-1].stop_reason == "aborted"


@pytest.mark.parametrize("agent", AGENTS)
def test_fact_09_abort_in_the_retry_wait(agent: str) -> None:
    """No aborted message comes, but "Retry cancelled"; Pi 1.6 says aborted for `abort` and not for `abort_retry`."""
    events = captured(f"{agent}/i3_abort_during_retry_wait")
    retry = of(events, RetryEnded)[0]
    assert (retry.success, retry.cancelled, retry.final_error) == (False, True, "Retry cancelled")
    assert answers(events)[-1].stop_reason == "error"
    assert of(events, PromptSettled)[0].aborted is (agent == "pi-1.6")


def test_fact_09_pi_073_answers_abort_before_the_end() -> None:
    """The answer to `abort` may come before agent_end and changes nothing."""
    types = [json.loads(line)["type"] for line in stream_lines("pi-0.73/i2_abort_during_tool")]
    assert types[-2:] == ["response", "agent_end"]
    assert len(of(captured("pi-0.73/i2_abort_during_tool"), PromptSettled)) == 1


def test_fact_10_success_that_is_none() -> None:
    """Pi 0.73 calls cut streams, HTML pages and empty streams `stop`, Pi 1.6 errors; an empty stop is empty."""
    for name in ("h3_stream_eof_no_finish", "l2_html_body_200"):
        assert answers(captured(f"pi-0.73/{name}"))[-1].stop_reason == "stop"
        assert answers(captured(f"pi-1.6/{name}"))[-1].error_message == "Stream ended without finish_reason"
    for agent in AGENTS:
        assert answers(captured(f"{agent}/l6_empty_stop"))[-1].empty
    assert len(answers(captured("omp-18/l6_empty_stop"))) == 4


def test_fact_11_exit_status_says_little() -> None:
    """The exit status is passed on and decides nothing here: Pi exits 0 although the prompt failed."""
    for status in (0, 1):
        source = PiStream()
        events = [e for line in stream_lines("pi-1.6/d_http_401") for e in source.decode(line)]
        last = source.end(exit_status=status)
        assert len(of(events, PromptSettled)) == 1
        assert [e.exit_status for e in of(last, SourceEnded)] == [status]


@pytest.mark.parametrize("agent", AGENTS)
def test_fact_12_order_of_tool_events(agent: str) -> None:
    """Two parallel calls both start before either ends; results stand after all ends in Pi, between them in omp."""
    events = captured(f"{agent}/b2_two_tools_parallel")
    tools = [type(e).__name__ for e in of(events, ToolStarted, ToolEnded)]
    assert tools == ["ToolStarted", "ToolStarted", "ToolEnded", "ToolEnded"]
    ends = [i for i, e in enumerate(events) if isinstance(e, ToolEnded)]
    between = names_of(events[ends[0] : ends[1]])
    assert ("MessageStarted" in between) is (agent == "omp-18")


def test_fact_12_late_updates_and_calls_that_never_ran() -> None:
    """Omp updates a call after its end; a call with invalid arguments has no duration in Pi 1.6."""
    events = captured("omp-18/i2_abort_during_tool")
    kinds = [type(e) for e in of(events, ToolUpdated, ToolEnded)]
    assert kinds == [ToolUpdated, ToolEnded, ToolUpdated]
    assert of(captured("pi-1.6/c4_bad_tool_args"), ToolEnded)[0].duration_ms is None
    assert of(captured("pi-1.6/c_tool_failure"), ToolEnded)[0].duration_ms == 22


def test_fact_13_most_records_carry_no_time() -> None:
    """Live events have their arrival; stored ones the last time that a record stated, and never the present."""
    live = feed({"type": "agent_start"}, start(user(stamp=1_796_000_000_500)), {"type": "turn_start"})
    assert [e.at_ns - START_NS for e in live[1:4]] == [0, 1_000_000, 2_000_000]
    stored = feed({"type": "agent_start"}, start(user(stamp=1_796_000_000_500)), {"type": "turn_start"}, at_ns=None)
    assert {e.at_ns for e in stored} == {1_796_000_000_500_000_000}


def test_fact_13_durations_where_they_stand() -> None:
    """Pi 0.73 states no duration, 1.6 its own, omp duration and first chunk; completion only in message_end."""
    last = {agent: answers(captured(f"{agent}/a_success_text"))[-1] for agent in AGENTS}
    assert last["pi-0.73"].duration_ms is None
    assert (last["pi-1.6"].duration_ms or 0) > 0
    assert (last["omp-18"].duration_ms or 0) > 0
    assert (last["omp-18"].time_to_first_chunk_ms or 0) > 0
    assert last["omp-18"].completed_at_ms is not None
    assert of(captured("omp-18/a_success_text"), TurnEnded)[0].message.completed_at_ms is None
    ended = [e for e in captured("omp-18/a_success_text") if isinstance(e, MessageEnded)][-1]
    assert ended.at_ns == last["omp-18"].completed_at_ms * 1_000_000


def test_fact_14_lines_of_pi_073_grow_with_the_message() -> None:
    """An update that repeats a message of a megabyte twice gives its delta alone, as do 1.6's and omp's short ones."""
    long = assistant(text="x" * 1_000_000)
    inner = {"type": "text_delta", "contentIndex": 0, "delta": "x", "partial": long}
    events = feed(
        {"type": "agent_start"}, {"type": "message_update", "assistantMessageEvent": inner, "message": long}, end=False
    )
    assert events[-1] == TextDelta(START_NS + 1_000_000, "x")
    for agent in AGENTS:
        assert "".join(e.delta for e in of(captured(f"{agent}/a_success_text"), TextDelta)).startswith("The file has")


def test_fact_15_odd_numbers() -> None:
    """A negative errorId harms nothing, and omp's waits are fractions of a millisecond."""
    retry = of(captured("omp-18/f_http_503_exhausted"), RetryScheduled)[0]
    assert retry.delay_ms != int(retry.delay_ms)
    failed = assistant("error", errorMessage="413 (no body)", errorStatus=413, errorId=-2139090944)
    assert answers(feed(whole(failed)))[0].error_status == 413


def test_fact_16_omp_prints_local_paths() -> None:
    """The path inside an error text is passed on as it is; scrubbing is done where text leaves."""
    message = answers(captured("omp-18/d2_http_400"))[0]
    assert "\nraw-http-request=" in message.error_message
    assert message.error_status == 400


@pytest.mark.parametrize("name", [n for n in NAMES if "/o_" in n or "/o2_" in n or "/o3_" in n])
def test_fact_17_nothing_marks_the_end_of_a_killed_process(name: str) -> None:
    """A killed process leaves its prompt open: nothing settles it, and the end is still told."""
    events = captured(name)
    assert of(events, PromptSettled) == []
    assert isinstance(events[-1], SourceEnded)
    assert of(events, SessionOpened)
    assert any(isinstance(e.message, UserMessage) for e in of(events, MessageStarted))


def test_fact_17_the_last_line_may_be_cut() -> None:
    """A stream cut inside its last line gives all lines before, one counted malformed, and no settled prompt."""
    lines = stream_lines("pi-1.6/a_success_text")[:-1]
    lines[-1] = lines[-1][: len(lines[-1]) // 2]
    source = PiStream()
    events = [e for line in lines for e in source.decode(line)]
    assert [u.line for u in unusable(events)] == [len(lines)]
    assert (source.counts.malformed, of(events, PromptSettled)) == (1, [])


def test_fact_17_a_killed_session_file_shows_an_open_prompt() -> None:
    """A session file that ends in a tool call says nothing of an end."""
    for agent in AGENTS:
        events = captured_file(f"{agent}/o2_sigkill_during_tool")
        assert of(events, PromptSettled, SourceEnded) == []
        assert of(events, ToolStarted)[0].call_id == "call_1"
    assert PiSession().open_prompt is None


def test_inner_error_is_read_to_the_letter() -> None:
    """The stream's own error event gives reason and message, with and without status and text."""
    extras: list[dict[str, Any]] = [{}, {"errorMessage": "boom", "errorStatus": 503}]
    for reason in ("error", "aborted"):
        for extra in extras:
            inner = {"type": "error", "reason": reason, "error": assistant(reason, **extra)}
            event = of(feed({"type": "message_update", "assistantMessageEvent": inner}), InnerError)[0]
            assert (event.reason, event.message.error_message) == (reason, extra.get("errorMessage"))
            assert event.message.error_status == extra.get("errorStatus")
