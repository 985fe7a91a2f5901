"""Streams: every record has its meaning or is counted, times never go back, prompts settle when they are over."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from compass_otel.events import (
    BlockStarted,
    CommandEnd,
    CommandFailed,
    CompactionEnded,
    CompactionStarted,
    Ending,
    FileDiff,
    InjectionQueued,
    MessageEnded,
    MessageStarted,
    ModelChanged,
    ModelFallback,
    NoticeRaised,
    OtherMessage,
    PlanChanged,
    PlanEntry,
    PromptRefused,
    PromptResult,
    PromptSettled,
    RetryEnded,
    RetryScheduled,
    RunEnded,
    RunStarted,
    SessionOpened,
    SessionShutdown,
    SourceEnded,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    Usage,
)
from compass_otel.sources import Counts
from compass_otel.sources.pi_stream import PiStream
from compass_otel.unmapped import Malformed, Unmapped
from sources_support import (
    EXPECTED,
    HERE,
    NAMES,
    START_NS,
    answers,
    assistant,
    captured,
    decode_all,
    feed,
    names_of,
    of,
    start,
    stream_lines,
    unusable,
    user,
    whole,
)

BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize("name", NAMES)
def test_every_capture_settles_its_prompts_and_maps_every_record(name: str) -> None:
    """As many prompts settle as ran to an end, in both kinds of time, and no record is unmapped or malformed."""
    outcomes = EXPECTED[name]["runs"]
    # omp killed by SIGINT leaves its last message aborted and its run open: the mapper tells that it was cancelled.
    ended = 0 if name == "omp-18/o3_sigint_mid_stream" else sum(outcome != "incomplete" for outcome in outcomes)
    for at_ns in (None, START_NS):
        source = PiStream()
        events = decode_all(source, stream_lines(name), at_ns)
        assert unusable(events) == []
        assert len(of(events, PromptSettled)) == ended
        assert {e.ending for e in of(events, PromptSettled)} <= {Ending.SETTLED}
        assert source.counts.read == len(stream_lines(name))
        assert isinstance(events[-1], SourceEnded)


@pytest.mark.parametrize("name", NAMES)
def test_the_session_and_its_agent_are_told_once_and_first(name: str) -> None:
    """Every stream opens with its session: id where one is stated, and whose stream it is, from the content."""
    events = captured(name)
    opened = of(events, SessionOpened)
    header = json.loads(stream_lines(name)[0])
    assert len(opened) == 1
    assert events[0] is opened[0]
    assert opened[0].agent == name.split("/", maxsplit=1)[0].split("-", maxsplit=1)[0]
    assert opened[0].session_id == (header["id"] if header["type"] == "session" else None)


@pytest.mark.parametrize("name", NAMES)
def test_times_never_go_back(name: str) -> None:
    """No event is earlier than the one before, whatever the clock does; a settled prompt's time is its end's."""
    lines = stream_lines(name)
    for clock in (lambda _i: None, lambda i: START_NS - i * 10**9, lambda i: START_NS + i % 7 * 10**9):
        source, last = PiStream(), 0
        events = [e for i, line in enumerate(lines) for e in source.decode(line, clock(i))]
        for event in [*events, *source.end()]:
            if not isinstance(event, PromptSettled):
                assert event.at_ns >= last
                last = event.at_ns
            assert 0 < event.at_ns <= last


@pytest.mark.parametrize("name", NAMES)
def test_bytes_text_and_objects_give_the_same_events(name: str) -> None:
    """The fast path and the patient one agree, and an object that was parsed already stays as it was."""
    lines = stream_lines(name)
    objects = [json.loads(line) for line in lines]
    spaced = [json.dumps(record).encode() for record in objects]
    want = decode_all(PiStream(), lines, START_NS)
    for form in ([line.decode() for line in lines], objects, spaced):
        assert decode_all(PiStream(), form, START_NS) == want
    assert objects == [json.loads(line) for line in lines]


def test_field_cases_never_raise_and_add_up() -> None:
    """Every event list collected from the field is read, and each of its records is counted once."""
    for line in (HERE / "cases" / "field-cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        if case["input"].get("form") == "events":
            records = case["input"]["events"]
            for form in (records, [json.dumps(r) for r in records]):
                source = PiStream()
                decode_all(source, form, START_NS)
                assert source.counts.read == len(records), case["id"]
                assert source.counts.malformed == 0, case["id"]


# ---- what is counted, and how ----


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello\n", "not JSON"),
        (b'{"type":"agent_start"\n', "not JSON"),
        (b"[1,2]\n", "not an object"),
        (b"null\n", "not an object"),
        (b'"text"\n', "not an object"),
        (b"\0\0\0\n", "nothing but NUL bytes"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
        (b'{"type":"message_update","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    ],
)
def test_malformed_lines_are_counted_and_reading_goes_on(line: bytes, reason: str) -> None:
    """What is no record becomes a value with its line, and the lines after it are still read."""
    source = PiStream()
    assert source.decode(b'{"type":"agent_start"}', START_NS) != ()
    assert source.decode(line, START_NS) == (Malformed(reason, 2),)
    assert source.decode(b'{"type":"turn_start"}', START_NS) != ()
    assert source.counts == Counts(mapped=2, malformed=1)


@pytest.mark.parametrize(
    ("record", "kind", "reason"),
    [
        ({"type": "no_such_type"}, "no_such_type", "unknown_type"),
        ({"no": "type"}, "", "no_type"),
        ({"type": 7}, "", "no_type"),
        ({"type": ""}, "", "no_type"),
        ({"type": "message_start", "message": None}, "message_start", "wrong_fields"),
        ({"type": "message_end"}, "message_end", "wrong_fields"),
        ({"type": "message_update"}, "message_update", "wrong_fields"),
        ({"type": "message_update", "assistantMessageEvent": {}}, "message_update", "wrong_fields"),
        (
            {"type": "message_update", "assistantMessageEvent": {"type": "hum"}},
            "message_update:hum",
            "unknown_type",
        ),
        (
            {"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}},
            "message_update:text_delta",
            "wrong_fields",
        ),
        ({"type": "tool_execution_start", "toolName": "bash"}, "tool_execution_start", "wrong_fields"),
        ({"type": "tool_execution_update"}, "tool_execution_update", "wrong_fields"),
        ({"type": "tool_execution_end", "toolCallId": None}, "tool_execution_end", "wrong_fields"),
        ({"type": "abort_requested"}, "abort_requested", "unknown_type"),
    ],
)
def test_records_of_no_use_are_unmapped(record: dict[str, Any], kind: str, reason: str) -> None:
    """An unknown type and a record without what it is for are counted with their type, a reason and their line."""
    source = PiStream()
    assert decode_all(source, [record], START_NS, end=False) == [Unmapped(kind, reason, 1)]
    assert source.counts == Counts(unmapped=1)


def test_blank_lines_are_no_records() -> None:
    """Blank lines are not counted but keep their number, whatever the line end."""
    source = PiStream()
    assert [source.decode(line, START_NS) for line in (b"\n", b"\r\n", "", b"  \n")] == [()] * 4
    assert source.decode(b"oops\r\n", START_NS) == (Malformed("not JSON", 5),)
    assert source.counts == Counts(malformed=1)


def test_ignored_types_are_known_types() -> None:
    """Known types that carry nothing for a trace are counted as ignored and give nothing."""
    source = PiStream()
    for kind in ("thinking_level_changed", "tool_stream_update", "before_provider_request", "live_levels"):
        assert source.decode({"type": kind}, START_NS) == ()
    for kind in ("text_end", "toolcall_delta", "toolcall_end", "image_end", "start", "done"):
        assert source.decode({"type": "message_update", "assistantMessageEvent": {"type": kind}}, START_NS) == ()
    assert source.counts == Counts(ignored=10)


def test_a_rejected_line_is_counted() -> None:
    """A line that the reader gave up on is malformed with the reader's reason."""
    source = PiStream()
    assert source.reject("line too long") == (Malformed("line too long", 1),)
    assert source.counts == Counts(malformed=1)


def test_counts_add_up_over_inputs() -> None:
    """Sums over several inputs keep read = mapped + ignored + unmapped + malformed."""
    total = Counts(1, 2, 3, 4) + Counts(10, 20, 30, 40)
    assert (total.read, total.mapped, total.malformed) == (110, 11, 44)


# ---- repair ----


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"type":"notice","message":"a \\ud83e b"}', "a \ufffd b"),
        (b'{"type":"notice","message":"\\ud83d\\udc22"}', "\U0001f422"),
        (BOM + b'{"type":"notice","message":"bom"}', "bom"),
        (b'{"type":"notice","message":"cut \xff byte"}', "cut \ufffd byte"),
        (b'{"type":"notice","message":"a\0b"}', "a\0b"),
        (b'\0\0{"type":"notice","message":"hole before"}\0\0\n', "hole before"),
        (b'{"type":"notice","message":"nan","x":NaN,"y":Infinity}', "nan"),
        (b'{"type":"notice","message":"big","x":' + b"9" * 5000 + b"}", "big"),
        (b'{"type":"notice","message":"twice","message":"last"}', "last"),
        (b'{"type":"notice","message":"crlf"}\r\n', "crlf"),
        (b'{"type":"notice","message":"key","\\ud800":1}', "key"),
        ('{"type":"notice","message":"raw \ud83e in text"}', "raw \ufffd in text"),
        ({"type": "notice", "message": "from a host \ud83e"}, "from a host \ufffd"),
    ],
)
def test_valid_json_is_never_malformed(line: Any, text: str) -> None:
    """What a strict parser refuses is repaired and mapped."""
    source = PiStream()
    assert of(source.decode(line, START_NS), NoticeRaised) == [NoticeRaised(at_ns=START_NS, text=text)]
    assert source.counts == Counts(mapped=1)


def test_broken_deltas_are_repaired_too() -> None:
    """A lone surrogate in a streamed delta, or in what it repeats, costs nothing."""
    ready = PiStream()
    ready.decode(b'{"type":"agent_start"}', START_NS)
    lines = [
        b'{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"\\ud83e"}}',
        b'{"type":"message_update","message":"\\ud83e","assistantMessageEvent":{"type":"text_delta","delta":"x"}}',
        b'{"type":"message_update","assistantMessageEvent":{"type":"thinking_delta","delta":"\\ud800"}}',
    ]
    assert [ready.decode(line, START_NS) for line in lines] == [
        (TextDelta(START_NS, "\ufffd"),),
        (TextDelta(START_NS, "x"),),
        (ThinkingDelta(START_NS, "\ufffd"),),
    ]


def test_a_host_object_that_holds_itself_is_no_trap() -> None:
    """A record that a host built with a cycle in it is read, or counted malformed if its strings need repair."""
    record: dict[str, Any] = {"type": "notice", "message": "fine"}
    record["self"] = record
    source = PiStream()
    assert of(source.decode(record, START_NS), NoticeRaised)
    record["message"] = "\ud800"
    assert source.decode(record, START_NS) == (Malformed("not JSON", 2),)


def test_a_line_of_fifty_megabytes_is_read() -> None:
    """A huge tool result is a record like any other."""
    text = "x" * 50_000_000
    record = {"type": "tool_execution_end", "toolCallId": "c", "toolName": "read", "result": {"content": text}}
    ended = of(feed(record), ToolEnded)[0]
    assert len(ended.output) == 50_000_000


@pytest.mark.parametrize("error", ["boom", {"code": 1}, ["a", {"b": 2}], 429, True, None, ""])
def test_an_odd_error_message_is_kept_as_it_is(error: Any) -> None:
    """Whatever JSON stands where the error text should be, the failure is told and keeps it."""
    message = answers(feed(whole(assistant("error", errorMessage=error))))[0]
    assert message.failed
    assert message.error_message == error


@pytest.mark.parametrize(
    ("status", "read"),
    [(429, 429), ("429", 429), (503.0, 503), (0, None), (None, None), ("x", None), (True, None), (-1, None),
     (1308, None), ([], None), (float("inf"), None)],
)  # fmt: skip
def test_the_status_is_known_or_absent(status: Any, read: int | None) -> None:
    """A status may be a string; what is none is absent, never 0."""
    assert answers(feed(whole(assistant("error", errorMessage="x", errorStatus=status))))[0].error_status == read


@pytest.mark.parametrize("field", ["content", "usage", "timestamp", "model", "provider", "responseId", "durationMs"])
@pytest.mark.parametrize("value", [None, [], {}, "x", 7, True, -1.5, [None], {"a": 1}, 10**400])
def test_an_odd_neighbour_never_hides_a_failure(field: str, value: Any) -> None:
    """A wrong type in any other field leaves the failure, its text and its status in place."""
    raw = {**assistant("error", errorMessage="503 overloaded", errorStatus=503), field: value}
    for record in (whole(raw), {"type": "turn_end", "message": raw}, {"type": "agent_end", "messages": [raw]}):
        events = decode_all(PiStream(), [record], START_NS)
        event = next(e for e in events if not isinstance(e, SessionOpened))
        message = event.messages[0] if isinstance(event, RunEnded) else event.message
        assert (message.stop_reason, message.error_message, message.error_status) == ("error", "503 overloaded", 503)


def test_a_failure_without_a_role_is_an_answer() -> None:
    """A failed message whose role is missing or odd is read as the model's answer."""
    for role in ({}, {"role": None}, {"role": 3}):
        raw = {"stopReason": "error", "errorMessage": "x", **role}
        assert answers(feed(whole(raw)))[0].error_message == "x"


def test_inner_errors_without_a_message() -> None:
    """An inner error whose message is a text, or absent, keeps what it has."""
    for raw, text in (("boom", "boom"), (None, None), ({"errorMessage": "x"}, "x")):
        event = feed({"type": "message_update", "assistantMessageEvent": {"type": "error", "error": raw}})[1]
        assert (event.reason, event.message.error_message) == ("error", text)


# ---- time ----


@pytest.mark.parametrize("stamp", [None, 0, "2026-11-30T10:00:00Z", 10**15, 10**30, -5, True, [], 1_790_000_000, 1e300])
def test_absurd_timestamps_are_no_times(stamp: Any) -> None:
    """A missing, zero, textual, far or overlong timestamp is absent and moves no event."""
    raw = {**assistant(), "timestamp": stamp}
    events = feed(start(user(stamp=1_796_000_000_000)), whole(raw), at_ns=None)
    assert answers(events)[0].timestamp_ms is None
    assert {e.at_ns for e in events} == {START_NS}


def test_a_stored_stream_waits_for_its_first_time() -> None:
    """Records before the first stated time get that time, in order, and never the present."""
    source = PiStream()
    assert source.decode({"type": "agent_start"}) == ()
    assert source.decode({"type": "turn_start"}) == ()
    events = source.decode(start(user(stamp=1_796_000_000_000)))
    assert names_of(events) == ["SessionOpened", "RunStarted", "TurnStarted", "MessageStarted"]
    assert {e.at_ns for e in events} == {START_NS}


def test_a_stream_without_any_time_takes_its_files() -> None:
    """A stored stream that states no time at all gets the file's own, at its end."""
    source = PiStream(fallback_ns=START_NS)
    assert source.decode({"type": "agent_start"}) == ()
    events = source.end()
    assert names_of(events) == ["SessionOpened", "RunStarted", "SourceEnded"]
    assert {e.at_ns for e in events} == {START_NS}
    endless = PiStream()
    given = [e for _ in range(5000) for e in endless.decode({"type": "turn_start"})]
    assert len(given) > 4000


def test_a_stored_answer_ends_when_it_says() -> None:
    """Stored answers end at their completion or after their duration, tools after theirs."""
    events = feed(
        start(user(stamp=1_796_000_000_000)),
        start(assistant(stamp=1_796_000_001_000)),
        whole(assistant(stamp=1_796_000_001_000, durationMs=250)),
        {"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {}},
        {"type": "tool_execution_end", "toolCallId": "c", "toolName": "bash", "result": {}, "durationMs": 100},
        {"type": "entry_appended", "entry": {"timestamp": "2026-11-30T00:53:25.000Z"}},
        {"type": "turn_start"},
        at_ns=None,
    )
    times = [(e.at_ns - START_NS) // 1_000_000 for e in events]
    assert times[:6] == [0, 0, 1000, 1250, 1250, 1350]
    assert times[6] > 1350


# ---- settling ----

END: dict[str, Any] = {"type": "agent_end", "messages": []}
RUN: dict[str, Any] = {"type": "agent_start"}


def _prompt(text: str = "Go") -> tuple[dict[str, Any], ...]:
    return (RUN, start(user(text)), whole(assistant("error", errorMessage="503")), END)


def test_another_prompt_settles_the_one_before_at_its_end() -> None:
    """The prompt before settles just before the next user message begins, at the time it ended."""
    events = feed(*_prompt("one"), *_prompt("two"), end=False)
    kinds = names_of(events)
    at = kinds.index("PromptSettled")
    assert kinds[at - 1 : at + 2] == ["RunStarted", "PromptSettled", "MessageStarted"]
    assert events[at].at_ns == of(events, RunEnded)[0].at_ns


def test_a_start_without_a_user_message_takes_the_end_back() -> None:
    """An extension cannot see retries announced: the answer that follows belongs to the same prompt."""
    events = feed(*_prompt(), RUN, start(assistant()), whole(assistant()), END)
    assert len(of(events, PromptSettled)) == 1
    assert names_of(events)[-3:] == ["RunEnded", "PromptSettled", "SourceEnded"]


def test_a_queued_message_is_no_other_prompt() -> None:
    """A message that just left the queue continues the prompt, even first in a run after a provisional end."""
    queued = {"type": "queue_update", "steering": [], "followUp": ["and then"]}
    empty = {"type": "queue_update", "steering": [], "followUp": []}
    events = feed(*_prompt()[:2], queued, *_prompt()[2:], RUN, empty, start(user("and then")), whole(assistant()), END)
    assert len(of(events, PromptSettled)) == 1
    assert of(events, InjectionQueued)[0].kind == "follow_up"
    cleared = feed(*_prompt()[:2], queued, empty, *_prompt()[2:], RUN, start(user("and then")), END)
    assert len(of(cleared, PromptSettled)) == 2


def test_a_manual_compaction_settles_the_prompt_first() -> None:
    """A compaction that a person asked for is outside every prompt, and the next prompt is another."""
    manual = ({"type": "compaction_start", "reason": "manual"}, {"type": "compaction_end", "reason": "manual"})
    kinds = names_of(feed(*_prompt(), *manual, *_prompt()))
    assert kinds.count("PromptSettled") == 2
    at = kinds.index("PromptSettled")
    assert kinds[at + 1 : at + 3] == ["CompactionStarted", "CompactionEnded"]


def test_quiet_settles_pi_073_alone() -> None:
    """Two seconds of quiet settle a provisional end, once, but no stream that says itself when all is done."""
    for end, settles in ((END, True), ({**END, "willRetry": False}, False), ({**END, "isTerminal": False}, False)):
        source = PiStream()
        decode_all(source, [*_prompt()[:-1], end], START_NS, end=False)
        last = START_NS + 3_000_000
        assert source.tick(last + 1_999_000_000) == ()
        settled = source.tick(last + 2_000_000_000)
        assert [e.at_ns for e in settled] == ([last] if settles else [])
        assert source.tick(last + 9_000_000_000) == ()


@pytest.mark.parametrize(
    "busy",
    [
        {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 60_000},
        {"type": "compaction_start", "reason": "overflow"},
        {"type": "session_before_compact"},
        RUN,
    ],
)
def test_quiet_does_not_count_while_something_is_announced(busy: dict[str, Any]) -> None:
    """In a retry wait, a compaction or a started run the prompt is not over, however long, nor if the input ends."""
    source = PiStream()
    decode_all(source, [*_prompt(), busy], START_NS, end=False)
    assert source.tick(START_NS + 3600 * 10**9) == ()
    assert names_of(source.end()) == ["SourceEnded"]


def test_quiet_counts_again_after_a_compaction() -> None:
    """A compaction that nothing follows was the prompt's last work: it settles at the compaction's end."""
    source = PiStream()
    ends = {"type": "compaction_end", "reason": "overflow", "willRetry": True}
    decode_all(source, [*_prompt(), {"type": "compaction_start", "reason": "overflow"}, ends], START_NS, end=False)
    last = START_NS + 5_000_000
    assert [e.at_ns for e in source.tick(last + 2_000_000_000)] == [last]


def test_a_failed_end_of_retrying_settles_pi_073() -> None:
    """auto_retry_end success:false after the last run's end is final at once; the run's own end in omp comes later."""
    wait = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 2, "delayMs": 60}
    over = {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": "Retry cancelled"}
    assert names_of(feed(*_prompt(), wait, over, end=False))[-2:] == ["RetryEnded", "PromptSettled"]
    omp = feed({"type": "ready"}, *_prompt()[:-1], wait, over, {**END, "isTerminal": True}, end=False)
    assert names_of(omp)[-3:] == ["RetryEnded", "RunEnded", "PromptSettled"]


def test_without_an_end_the_prompt_stays_open() -> None:
    """A failed end of retrying alone, or a 1.6 stream that was cut before agent_settled, settles nothing."""
    over = {"type": "auto_retry_end", "success": False, "attempt": 2, "finalError": "x"}
    assert of(feed(RUN, start(user()), over), PromptSettled) == []
    assert of(feed(*_prompt()[:-1], {**END, "willRetry": False}), PromptSettled) == []


def test_a_second_header_means_that_the_process_before_died() -> None:
    """Streams joined in one input: a prompt open at the next header is lost, a provisional end is an end."""
    header = {"type": "session", "id": "s2", "timestamp": "2026-11-30T10:00:00.000Z"}
    lost = of(feed(RUN, start(user()), header, RUN), PromptSettled)
    assert [e.ending for e in lost] == [Ending.LOST]
    fine = of(feed(*_prompt(), header, RUN), PromptSettled)
    assert [e.ending for e in fine] == [Ending.SETTLED]


def test_ending_twice_says_nothing_more() -> None:
    """The end of input is told once, with what is known of it."""
    source = PiStream()
    decode_all(source, _prompt(), START_NS, end=False)
    first = source.end(START_NS + 10**9, exit_status=None, signal=2, requested=True)
    assert names_of(first) == ["PromptSettled", "SourceEnded"]
    assert (first[-1].signal, first[-1].requested, first[-1].at_ns) == (2, True, START_NS + 10**9)
    assert source.end() == ()


def test_settled_records_settle_what_is_open_only() -> None:
    """agent_settled and session_settled end an open prompt once and are silent otherwise."""
    done = {"type": "agent_settled", "aborted": True}
    events = feed(done, *_prompt(), done, done, {"type": "session_settled"}, end=False)
    assert [e.aborted for e in of(events, PromptSettled)] == [True]
    omp = feed(*_prompt()[:-1], {**END, "isTerminal": False}, {"type": "session_settled"}, end=False)
    assert len(of(omp, PromptSettled)) == 1


# ---- single records ----


@pytest.mark.parametrize(
    ("record", "want"),
    [
        ({"type": "notice", "level": "warning", "message": "m"}, NoticeRaised(at_ns=0, text="m", level="warning")),
        (
            {"type": "extension_ui_request", "method": "notify", "message": "m", "notifyType": "error"},
            NoticeRaised(at_ns=0, text="m", level="error"),
        ),
        (
            {"type": "extension_error", "extensionPath": "a.ts", "event": "context", "error": "bad"},
            NoticeRaised(at_ns=0, text="extension a.ts failed in context: bad", level="error"),
        ),
        (
            {"type": "rpc_frame_error", "originalType": "agent_end", "error": "too long"},
            NoticeRaised(at_ns=0, text="the agent could not send a agent_end: too long", level="warning"),
        ),
        (
            {"type": "retry_fallback_applied", "from": "a/x", "to": "b/y", "role": "default", "reason": "429"},
            ModelFallback(at_ns=0, from_model="a/x", to_model="b/y", reason="429"),
        ),
        (
            {"type": "retry_fallback_succeeded", "model": "b/y", "role": "default"},
            ModelFallback(at_ns=0, to_model="b/y", succeeded=True),
        ),
        ({"type": "model_changed", "model": "p/m/1"}, ModelChanged(at_ns=0, provider="p", model="m/1")),
        (
            {"type": "model_select", "model": {"provider": "p", "id": "m"}},
            ModelChanged(at_ns=0, provider="p", model="m"),
        ),
        (
            {"type": "prompt_result", "status": "error", "error": {"message": "m", "httpStatus": 503, "model": "x"}},
            PromptResult(at_ns=0, status="error", error_message="m", error_status=503, model="x"),
        ),
        ({"type": "prompt_result", "status": "completed"}, PromptResult(at_ns=0, status="completed")),
        ({"type": "prompt_result", "error": "m"}, PromptResult(at_ns=0, status="error", error_message="m")),
        ({"type": "command_end", "name": "deploy", "args": "now"}, CommandEnd(at_ns=0, name="deploy", args="now")),
        (
            {"type": "command_end", "name": "deploy", "args": {"a": 1}, "error": {"m": 1}},
            CommandEnd(at_ns=0, name="deploy", args='{"a": 1}', error='{"m": 1}'),
        ),
        (
            {"type": "todo_reminder", "todos": [{"content": "a", "status": "in_progress"}], "attempt": 1},
            PlanChanged(0, (PlanEntry("a", "in_progress"),)),
        ),
        ({"type": "todo_auto_clear"}, PlanChanged(0)),
        ({"type": "session_shutdown"}, SessionShutdown(0)),
        (
            {"type": "response", "command": "prompt", "success": False, "error": "busy"},
            PromptRefused(at_ns=0, error_message="busy"),
        ),
        (
            {"type": "response", "command": "compact", "success": False, "error": ["x"]},
            CommandFailed(at_ns=0, command="compact", error_message=["x"]),
        ),
        ({"type": "response", "command": "steer", "success": True}, InjectionQueued(at_ns=0, kind="steer")),
        ({"type": "response", "command": "follow_up", "success": True}, InjectionQueued(at_ns=0, kind="follow_up")),
        (
            {"type": "auto_retry_start", "attempt": "2", "maxAttempts": None, "delayMs": 1.5, "errorMessage": {"a": 1}},
            RetryScheduled(at_ns=0, attempt=2, delay_ms=1.5, error_message={"a": 1}),
        ),
        (
            {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": "Retry canceled by user"},
            RetryEnded(at_ns=0, success=False, attempt=1, final_error="Retry canceled by user", cancelled=True),
        ),
        (
            {"type": "auto_compaction_start", "reason": "idle", "action": "shake"},
            CompactionStarted(at_ns=0, reason="idle"),
        ),
        (
            {"type": "compaction_end", "reason": "threshold", "aborted": True,
             "result": {"tokensBefore": 9, "estimatedTokensAfter": 3, "usage": {"input": 5, "cost": {"total": 0.1}}}},
            CompactionEnded(at_ns=0, reason="threshold", tokens_before=9, tokens_after=3, aborted=True,
                            usage=Usage(input=5, cost_usd=0.1)),
        ),
        (
            {"type": "session_compact_failed", "reason": "overflow", "errorMessage": "no", "aborted": False},
            CompactionEnded(at_ns=0, reason="overflow", error_message="no"),
        ),
        (
            {"type": "session_compact", "compactionEntry": {"tokensBefore": 7}},
            CompactionEnded(at_ns=0, tokens_before=7),
        ),
        ({"type": "message_update", "assistantMessageEvent": {"type": "toolcall_start"}}, BlockStarted(0, "toolcall")),
        (
            {"type": "tool_execution_start", "toolCallId": 7, "toolName": "bash", "parentToolCallId": "p"},
            ToolStarted(at_ns=0, call_id="7", name="bash", parent_call_id="p"),
        ),
        (
            {"type": "tool_execution_update", "toolCallId": "c", "partialResult": {"content": [{"type": "image"}]}},
            ToolUpdated(at_ns=0, call_id="c"),
        ),
        (
            {"type": "message_end", "message": {"role": "developer", "content": "d"}},
            MessageEnded(0, OtherMessage(role="developer", text="d")),
        ),
    ],
)  # fmt: skip
def test_what_single_records_mean(record: dict[str, Any], want: Any) -> None:
    """Each type of record becomes its event, with its fields."""
    events = [e for e in feed(record, at_ns=START_NS, end=False) if not isinstance(e, SessionOpened)]
    assert events == [_at(want)]


def _at(event: Any) -> Any:
    return type(event)(
        **{name: getattr(event, name) for name in event.__struct_fields__ if name != "at_ns"}, at_ns=START_NS
    )


def test_extension_words_for_a_told_compaction_add_nothing() -> None:
    """Where the stream announces a compaction itself, the extension API's records for the same one are ignored."""
    events = feed(
        {"type": "auto_compaction_start", "reason": "overflow"},
        {"type": "session_before_compact"},
        {"type": "session_compact", "compactionEntry": {}},
        {"type": "auto_compaction_end", "result": {"tokensBefore": 4}},
    )
    assert [len(of(events, CompactionStarted)), len(of(events, CompactionEnded))] == [1, 1]
    assert of(events, CompactionEnded)[0].tokens_before == 4


def test_injections_are_told_once() -> None:
    """Pi tells of them by queue_update, omp by the command's answer; a queue told later adds no second one."""
    assert [e.text for e in of(captured("pi-1.6/p_steer_mid_run"), InjectionQueued)] == ["Actually be brief"]
    assert [e.text for e in of(captured("omp-18/p_steer_mid_run"), InjectionQueued)] == [None]
    answer = {"type": "response", "command": "steer", "success": True}
    queue = {"type": "queue_update", "steering": ["a"], "followUp": None}
    assert len(of(feed(answer, queue, queue, answer), InjectionQueued)) == 1
    handled = {**answer, "data": {"disposition": "started"}}
    assert of(feed(handled), InjectionQueued) == []


def test_rpc_mode_learns_its_session_from_get_state() -> None:
    """An answer to get_state names the session, which rpc mode has no header for."""
    state = {"type": "response", "command": "get_state", "success": True, "data": {"sessionId": "s9"}}
    assert [e.session_id for e in of(feed(RUN, state, state), SessionOpened)] == [None, "s9"]
    assert [e.session_id for e in of(feed(state, RUN), SessionOpened)] == ["s9"]


def test_a_message_piece_right_after_the_header_opens_the_session_first() -> None:
    """However a stream was trimmed, its session is told before anything else of it."""
    header = b'{"type":"session","id":"s","timestamp":"2026-11-30T10:00:00.000Z"}'
    piece = b'{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"x"}}'
    assert names_of(decode_all(PiStream(), [header, piece], START_NS))[:1] == ["SessionOpened"]
    assert names_of(decode_all(PiStream(), [piece, header, header, piece], START_NS)) == [
        "SessionOpened",
        "SessionOpened",
        "SessionOpened",
        "SourceEnded",
    ]


def test_a_message_queued_during_the_retry_wait_is_no_other_prompt() -> None:
    """The run that a retry announced belongs to the prompt, whatever its first message is."""
    wait = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 2, "delayMs": 60}
    events = feed(*_prompt(), wait, RUN, start(user("and be brief")), whole(assistant()), END)
    assert len(of(events, PromptSettled)) == 1


def test_whose_stream_it_is_can_be_learnt_late() -> None:
    """A sign of omp after the session was told as Pi's tells it again, with the same id."""
    header = {"type": "session", "id": "s", "timestamp": "2026-11-30T10:00:00.000Z"}
    events = feed(header, RUN, start({**user(), "attribution": "user"}), {"type": "notice", "message": "m"})
    assert [(e.session_id, e.agent) for e in of(events, SessionOpened)] == [("s", "pi"), ("s", "omp")]
    assert names_of(events)[2] == "SessionOpened"
    assert isinstance(of(events, MessageStarted, RunStarted)[0], RunStarted)


def test_chunked_frames_are_joined() -> None:
    """Omp's protocol 2 cuts long records into base64 pieces; joined, they are one record."""
    line = json.dumps({"type": "notice", "message": "long " * 50}).encode()
    cut = [line[:100], line[100:200], line[200:]]
    pieces = [
        {"type": "rpc_chunk", "chunkId": "r1", "index": i, "count": 3, "byteLength": len(line),
         "data": base64.b64encode(piece).decode()}
        for i, piece in enumerate(cut)
    ]  # fmt: skip
    source = PiStream()
    assert of(decode_all(source, pieces, START_NS, end=False), NoticeRaised)[0].text == "long " * 50
    assert source.counts == Counts(mapped=1, ignored=2)
    for bad in ([pieces[0], pieces[2]], [pieces[1]], [{**pieces[0], "data": "%%"}], [{"type": "rpc_chunk"}]):
        assert unusable(feed(*bad))[-1] == Unmapped("rpc_chunk", "missing_piece", len(bad))


# ---- tools ----


def _tool(name: str, args: Any, result: Any, **more: Any) -> list[Any]:
    begin = {"type": "tool_execution_start", "toolCallId": "c", "toolName": name, "args": args}
    return feed(begin, {"type": "tool_execution_end", "toolCallId": "c", "toolName": name, "result": result, **more})


@pytest.mark.parametrize(
    ("name", "args", "details", "want"),
    [
        ("edit", {"path": "a", "oldText": "x", "newText": "y"}, {"diff": "+1 y"}, (FileDiff("a", "y", "x"),)),
        (
            "edit",
            {"path": "a", "edits": [{"oldText": "x", "newText": "y"}, {"oldText": "p", "newText": ""}]},
            None,
            (FileDiff("a", "y", "x"), FileDiff("a", "", "p")),
        ),
        ("write", {"path": "n", "content": "new"}, None, (FileDiff("n", "new", None),)),
        ("edit", {"input": "patch"}, {"path": "a", "oldText": "x", "newText": "y"}, (FileDiff("a", "y", "x"),)),
        (
            "edit",
            {"input": "patch"},
            {
                "diff": "",
                "perFileResults": [{"path": "a", "newText": "n"}, {"path": "b", "isError": True, "newText": "x"}, 7],
            },
            (FileDiff("a", "n", None),),
        ),
        ("bash", {"path": "a", "content": "b"}, None, ()),
        ("edit", "odd", 7, ()),
    ],
)
def test_file_changes_of_tools(name: str, args: Any, details: Any, want: tuple[FileDiff, ...]) -> None:
    """Edits and writes tell what they changed, from the result where it stands there, else from the arguments."""
    assert of(_tool(name, args, {"content": [], "details": details}), ToolEnded)[0].diffs == want
    assert of(_tool(name, args, {"content": []}, isError=True), ToolEnded)[0].diffs == ()


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({"content": [], "details": {"exitCode": 3}}, 3),
        ({"content": [], "structuredContent": {"exit_code": 0}}, 0),
        ({"content": [{"type": "text", "text": "oops\n\nCommand exited with code 127"}]}, 127),
        ({"content": [{"type": "text", "text": "Command exited with code 1 was printed\n"}]}, None),
        ("plain text", None),
        (None, None),
    ],
)
def test_exit_codes_of_commands(result: Any, code: int | None) -> None:
    """The exit code is found wherever an agent puts it."""
    assert of(_tool("bash", {}, result), ToolEnded)[0].exit_code == code


def test_todo_tools_change_the_plan() -> None:
    """The phases that a todo tool leaves become the plan; abandoned tasks are not in it; a failed call changes none."""
    tasks = [
        {"content": "a", "status": "completed"},
        {"content": "b", "status": "blocked"},
        {"content": "c", "status": "abandoned"},
        {"content": 7, "status": "pending"},
    ]
    result = {"content": [], "details": {"phases": [{"name": "one", "tasks": tasks}, {"name": "two", "tasks": []}]}}
    plan = (PlanEntry("a", "completed"), PlanEntry("b", "pending"))
    assert of(_tool("todo_write", {}, result), PlanChanged) == [PlanChanged(START_NS + 1_000_000, plan)]
    todos = {"todos": [{"content": "x", "status": "in-progress"}]}
    assert of(_tool("todo", todos, {}), PlanChanged)[0].entries == (PlanEntry("x", "in_progress"),)
    assert of(_tool("todo", todos, {}, isError=True), PlanChanged) == []


def test_open_tools_are_bounded() -> None:
    """Calls whose end never comes do not pile up for ever."""
    source = PiStream()
    for number in range(3000):
        record = {"type": "tool_execution_start", "toolCallId": f"c{number}", "toolName": "write", "args": {}}
        source.decode(record, START_NS)
    assert len(source._state.tools) <= 1024


def test_usage_as_each_version_counts_it() -> None:
    """Tokens, cost and reasoning are read from every version's shape; odd parts count as nothing."""
    raw = {"input": 1, "output": "2", "cacheRead": None, "cacheWrite": -4, "reasoningTokens": 3, "cost": {"total": 0.5}}
    want = Usage(input=1, output=2, reasoning=3, cost_usd=0.5)
    assert answers(feed(whole(assistant(usage=raw))))[0].usage == want
    assert answers(feed(whole(assistant(usage=None))))[0].usage is None
    assert answers(captured("pi-1.6/a_success_text"))[0].usage.cost_usd == 0.0039
