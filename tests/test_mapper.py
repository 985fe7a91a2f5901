"""EventMapper: the seed's fixtures to the letter, each failure once, and the states that follow."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compass_otel._pb.compass.v1.compass_pb2 import SessionErrorKind, SessionFrame, SessionInjectionKind
from compass_otel.events import (
    AgentEvent,
    AssistantMessage,
    CommandEnd,
    CommandFailed,
    CompactionEnded,
    CompactionStarted,
    Ending,
    FileDiff,
    InjectionQueued,
    InnerError,
    MessageEnded,
    MessageStarted,
    ModelFallback,
    NoticeRaised,
    PlanChanged,
    PlanEntry,
    PromptRefused,
    PromptResult,
    PromptSettled,
    RetryEnded,
    RetryScheduled,
    RunEnded,
    RunStarted,
    SessionShutdown,
    SourceEnded,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from compass_otel.frames import kind_name, session_error_of, state_of
from compass_otel.mapper import EventMapper
from compass_otel.scrubbing import scrub
from compass_otel.unmapped import Unmapped

T = 1_790_000_000_000_000_000


def failed(reason: str = "error", text: object = "503 overloaded", status: int | None = None, ms: int = 7) -> Any:
    """Build a failed answer."""
    return AssistantMessage(timestamp_ms=ms, stop_reason=reason, error_message=text, error_status=status)


def told(mapper: EventMapper, *events: AgentEvent | Unmapped) -> list[str | tuple[str, ...]]:
    """Map events and say each frame in one word, session errors as (kind, message, status)."""
    lines: list[str | tuple[str, ...]] = []
    for event in events:
        for frame in mapper.map(event):
            if isinstance(frame, Unmapped):
                lines.append(("unmapped", frame.type, frame.reason))
                continue
            error, state = session_error_of(frame), state_of(frame)
            assert (error is None) or (state is None), "a session error and its state are two frames"
            if error is not None:
                status = str(error.status) if error.HasField("status") else "none"
                lines.append((kind_name(error), error.message, status))
            elif state is not None:
                lines.append(state.value)
            else:
                which = frame.typed_event.WhichOneof("event")
                lines.append(which if which != "notice" else ("notice", frame.typed_event.notice.text))
    return lines


@pytest.mark.parametrize("status", [None, 529])
@pytest.mark.parametrize("text", [None, "", "Overloaded"])
def test_inner_error_is_content_then_errored_once(status: int | None, text: str | None) -> None:
    """An inner error gives a session error and then, as a frame of its own, ERRORED; message_end adds nothing."""
    message = failed("error", text, status)
    shown = ("ERROR", text or "", str(status) if status else "none")
    assert told(EventMapper(), RunStarted(T), InnerError(T, "error", message), MessageEnded(T, message)) == [
        "working",
        shown,
        "errored",
    ]


@pytest.mark.parametrize("status", [None, 499])
@pytest.mark.parametrize("text", [None, "", "Request was aborted"])
def test_inner_abort_is_content_alone(status: int | None, text: str | None) -> None:
    """An abort gives one session error, no state and no unmapped count; message_end adds nothing."""
    mapper = EventMapper()
    message = failed("aborted", text, status)
    shown = ("ABORTED", text or "", str(status) if status else "none")
    assert told(mapper, RunStarted(T), InnerError(T, "aborted", message), MessageEnded(T, message)) == [
        "working",
        shown,
    ]
    assert mapper.unmapped_count == 0


SIGHTINGS: dict[str, Callable[[AssistantMessage], AgentEvent]] = {
    "inner": lambda m: InnerError(T, m.stop_reason or "", m),
    "message_end": lambda m: MessageEnded(T, m),
    "turn_end": lambda m: TurnEnded(at_ns=T, message=m),
    "agent_end": lambda m: RunEnded(at_ns=T, messages=(m,)),
}


@given(
    order=st.lists(st.sampled_from(sorted(SIGHTINGS)), min_size=1, max_size=12),
    reason=st.sampled_from(["error", "aborted"]),
    text=st.one_of(st.none(), st.text(), st.dictionaries(st.text(), st.integers())),
)
def test_each_failure_once_in_whatever_order_it_is_seen(order: list[str], reason: str, text: object) -> None:
    """However often and in whatever order one failure is told, it gives one session error."""
    mapper = EventMapper()
    message = failed(reason, text)
    mapper.map(RunStarted(T))
    frames = [frame for name in order for frame in mapper.map(SIGHTINGS[name](message))]
    assert sum(session_error_of(f) is not None for f in frames if isinstance(f, SessionFrame)) == 1
    assert mapper.repeated_sightings == len(order) - 1


@given(st.permutations(sorted(SIGHTINGS)), st.integers(2, 5))
def test_attempts_that_fail_alike_are_told_each(order: list[str], attempts: int) -> None:
    """Attempts with the same text and timestamp are failures of their own, since a retry stands between them."""
    mapper = EventMapper()
    mapper.map(RunStarted(T))
    count = 0
    for attempt in range(attempts):
        if attempt:
            mapper.map(RetryScheduled(at_ns=T, attempt=attempt, error_message="x"))
            mapper.map(RunStarted(T))
        first = order if order[0] in ("inner", "message_end") else sorted(order)[::-1]
        for name in ("message_end", *first):
            frames = mapper.map(SIGHTINGS[name](failed()))
            count += sum(session_error_of(f) is not None for f in frames if isinstance(f, SessionFrame))
    assert count == attempts


@pytest.mark.parametrize(
    "start",
    [RunStarted(T), MessageStarted(T, AssistantMessage()), RetryScheduled(at_ns=T, attempt=1, error_message="x")],
)
def test_a_start_alone_makes_the_same_failure_new(start: AgentEvent) -> None:
    """A record that can only stand before a new message makes an equal failure, without a timestamp, another one."""
    mapper = EventMapper()
    same = AssistantMessage(stop_reason="error", error_message="503 overloaded")
    once = ("ERROR", "503 overloaded", "503")
    told(mapper, RunStarted(T))
    assert once in told(mapper, MessageEnded(T, same))
    assert once not in told(mapper, MessageEnded(T, same))
    assert once in told(mapper, start, MessageEnded(T, same))


@pytest.mark.parametrize("reason", ["error", "aborted"])
def test_an_error_text_goes_through_the_door(reason: str) -> None:
    """The text of a session error is what scrubbing makes of it, for both kinds."""
    mapper = EventMapper(scrub=lambda text: text.replace("secret", "***"))
    (shown,) = (line for line in told(mapper, MessageEnded(T, failed(reason, "a secret b"))) if isinstance(line, tuple))
    assert shown[1] == "a *** b"


def test_ids_go_through_the_same_door_as_prose() -> None:
    """No secret and no control character reaches a frame in an id: of a message, an injection, a call, a tool."""
    hostile = "id-1\x1b[31m\u202e\x00 sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCd"
    answer = AssistantMessage(timestamp_ms=1, message_id=hostile)
    mapper = EventMapper()
    events: tuple[AgentEvent, ...] = (
        MessageStarted(T, UserMessage(timestamp_ms=0, text="go")),
        MessageStarted(T, answer),
        TextDelta(T, "hi"),
        MessageEnded(T, answer),
        ToolStarted(at_ns=T, call_id=hostile, name=hostile, args={}),
        ToolEnded(at_ns=T, call_id=hostile, name=hostile, output="", is_error=False),
        MessageStarted(T, UserMessage(timestamp_ms=5, text="and", message_id=hostile)),
    )
    frames = [frame for event in events for frame in mapper.map(event) if isinstance(frame, SessionFrame)]
    text, call, update, injected = (frame.typed_event for frame in frames if frame.HasField("typed_event"))
    shown = (
        text.assistant_text.message_id,
        call.tool_call.tool_call_id,
        call.tool_call.title,
        update.tool_call_update.tool_call_id,
        injected.session_injection.message_id,
    )
    assert set(shown) == {scrub(hostile)}


def test_two_messages_without_a_start_are_told_apart_by_their_timestamps() -> None:
    """An agent that sends no message_start between two failures still has both told."""
    assert told(EventMapper(), RunStarted(T), MessageEnded(T, failed(ms=1)), MessageEnded(T, failed(ms=2))) == [
        "working",
        ("ERROR", "503 overloaded", "503"),
        "errored",
        ("ERROR", "503 overloaded", "503"),
        "errored",
    ]


def test_agent_end_tells_an_abort_that_nothing_else_told() -> None:
    """The aborted message that omp keeps inside agent_end is told, and a failure already told is not told again."""
    early, late = failed("error", "500 x", ms=1), failed("aborted", "Interrupted by user", ms=2)
    assert told(EventMapper(), RunStarted(T), MessageEnded(T, early), RunEnded(at_ns=T, messages=(early, late))) == [
        "working",
        ("ERROR", "500 x", "500"),
        "errored",
        ("ABORTED", "Interrupted by user", "none"),
    ]


@pytest.mark.parametrize(
    ("message", "rendered"),
    [({"code": 1}, '{"code":1}'), (["速率"], '["速率"]'), (7, "7"), (None, ""), (False, "false")],
)
def test_an_error_message_that_is_no_string_is_rendered(message: object, rendered: str) -> None:
    """A non-string error message is rendered, never dropped."""
    assert told(EventMapper(), MessageEnded(T, failed("error", message)))[1][1] == rendered


def test_errored_stands_after_a_failed_prompt_until_work_begins() -> None:
    """READY does not replace ERRORED; WORKING does."""
    assert told(EventMapper(), RunStarted(T), MessageEnded(T, failed()), PromptSettled(at_ns=T), RunStarted(T)) == [
        "working",
        ("ERROR", "503 overloaded", "503"),
        "errored",
        "working",
    ]


def test_ready_after_success_and_after_cancel() -> None:
    """A settled prompt that did not fail is READY, on change only."""
    good = AssistantMessage(timestamp_ms=1, stop_reason="stop", text="hi")
    mapper = EventMapper()
    assert told(mapper, RunStarted(T), MessageStarted(T, good), MessageEnded(T, good), PromptSettled(at_ns=T)) == [
        "working",
        "assistant_text",
        "ready",
    ]
    assert told(mapper, RunStarted(T), MessageEnded(T, failed("aborted", "x")), PromptSettled(at_ns=T)) == [
        "working",
        ("ABORTED", "x", "none"),
        "ready",
    ]


def test_a_settled_abort_that_no_message_told_is_a_cancel() -> None:
    """When only the agent's last word says aborted, a cancel is told, so it cannot look like a success."""
    good = AssistantMessage(timestamp_ms=1, stop_reason="stop", text="")
    assert told(EventMapper(), RunStarted(T), MessageEnded(T, good), PromptSettled(at_ns=T, aborted=True)) == [
        "working",
        ("ABORTED", "", "none"),
        "ready",
    ]


def test_a_cancelled_retry_wait_is_a_cancel_besides_the_error() -> None:
    """A person who ends the retry wait gives ABORTED after the ERROR that was told before."""
    assert told(
        EventMapper(),
        RunStarted(T),
        MessageEnded(T, failed()),
        RetryScheduled(at_ns=T, attempt=1, max_attempts=2, delay_ms=60, error_message="503 overloaded"),
        RetryEnded(at_ns=T, success=False, attempt=1, final_error="Retry cancelled", cancelled=True),
        PromptSettled(at_ns=T),
    ) == [
        "working",
        ("ERROR", "503 overloaded", "503"),
        "errored",
        ("notice", "retry 1 of 2 in 0.06 s: 503 overloaded"),
        ("ABORTED", "Retry cancelled", "none"),
        "ready",
    ]


def test_exhausted_retries_that_no_message_carried_are_a_failure_of_their_own() -> None:
    """auto_retry_end success:false tells the failure where no message did, and only there."""
    retry = RetryScheduled(at_ns=T, attempt=1, max_attempts=1, delay_ms=500, error_message="429 slow down")
    end = RetryEnded(at_ns=T, success=False, attempt=1, final_error="429 slow down")
    assert told(EventMapper(), RunStarted(T), retry, end)[2:] == [
        ("ERROR", "429 slow down", "429"),
        "errored",
        ("notice", "gave up after 1 retry: 429 slow down"),
    ]
    mapper = EventMapper()
    frames = [each for event in (RunStarted(T), retry, end) for each in mapper.map(event)]
    events = [each.typed_event for each in frames if isinstance(each, SessionFrame) and each.HasField("typed_event")]
    assert [event.event_id for event in events] == ["1", "2", "3"], "ids rise in the order of the frames"
    carried = told(EventMapper(), RunStarted(T), retry, RunStarted(T), MessageEnded(T, failed()), end)
    assert sum(line[0] == "ERROR" for line in carried) == 1
    unannounced = told(EventMapper(), RunStarted(T), end)
    assert unannounced == ["working", ("notice", "gave up after 1 retry: 429 slow down")]


def test_a_refused_prompt_and_a_prompt_result_are_failures_where_nothing_was_seen() -> None:
    """A refused prompt fails; omp's prompt_result fails only when no failure was seen before it."""
    assert told(EventMapper(), PromptRefused(at_ns=T, error_message="no model")) == [
        ("ERROR", "no model", "none"),
        "errored",
    ]
    result = PromptResult(at_ns=T, status="error", error_message="401 bad key", error_status=401)
    assert told(EventMapper(), RunStarted(T), result)[1:] == [("ERROR", "401 bad key", "401"), "errored"]
    seen = told(EventMapper(), RunStarted(T), MessageEnded(T, failed()), PromptSettled(at_ns=T), result)
    assert sum(line[0] == "ERROR" for line in seen) == 1
    assert told(EventMapper(), RunStarted(T), PromptResult(at_ns=T, status="aborted")) == ["working"]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (SourceEnded(at_ns=T), [("ERROR", "the stream ended with the run open", "none"), "errored"]),
        (
            SourceEnded(at_ns=T, signal=9),
            [("ERROR", "the agent ended with the run open: signal SIGKILL", "none"), "errored"],
        ),
        (
            SourceEnded(at_ns=T, exit_status=137),
            [("ERROR", "the agent ended with the run open: exit status 137", "none"), "errored"],
        ),
        (SourceEnded(at_ns=T, signal=2), [("ABORTED", "the agent ended with the run open: signal SIGINT", "none")]),
        (
            SourceEnded(at_ns=T, signal=15, requested=True),
            [("ABORTED", "the agent ended with the run open: signal SIGTERM", "none")],
        ),
        (SourceEnded(at_ns=T, requested=True), [("ABORTED", "the run was interrupted", "none")]),
        (SessionShutdown(T), [("ABORTED", "the session was shut down with the run open", "none"), "stopped"]),
    ],
)
def test_the_end_of_an_open_run(end: AgentEvent, expected: list[Any]) -> None:
    """A lost process is a failure that names signal or status; a person's end is a cancel; an orderly close too."""
    assert told(EventMapper(), RunStarted(T), end) == ["working", *expected]


def test_the_end_after_an_abort_adds_nothing() -> None:
    """A cancel just told is not told again when the stream then ends (omp on SIGINT)."""
    events = (RunStarted(T), MessageEnded(T, failed("aborted", "x")))
    assert told(EventMapper(), *events, SourceEnded(at_ns=T)) == ["working", ("ABORTED", "x", "none")]
    assert told(EventMapper(), *events, SessionShutdown(T)) == ["working", ("ABORTED", "x", "none"), "stopped"]
    newer = told(EventMapper(), *events, MessageStarted(T, AssistantMessage(timestamp_ms=9)), SourceEnded(at_ns=T))
    assert newer[-2:] == [("ERROR", "the stream ended with the run open", "none"), "errored"]


def test_an_orderly_end_is_stopped_whatever_stood_before() -> None:
    """STOPPED replaces READY and ERRORED; a killed idle process says nothing."""
    settled = (RunStarted(T), MessageEnded(T, failed()), PromptSettled(at_ns=T))
    assert told(EventMapper(), *settled, SourceEnded(at_ns=T, exit_status=1))[-1] == "stopped"
    assert told(EventMapper(), *settled, SourceEnded(at_ns=T, signal=9))[-1] == "errored"


def test_a_session_file_that_stopped_growing_is_an_error_and_an_unanswered_prompt_is_not() -> None:
    """LOST tells a session error; UNANSWERED tells none, since the file cannot know."""
    assert told(EventMapper(), RunStarted(T), PromptSettled(at_ns=T, ending=Ending.LOST))[1:] == [
        ("ERROR", "the session file ends with the run open", "none"),
        "errored",
    ]
    assert told(EventMapper(), RunStarted(T), PromptSettled(at_ns=T, ending=Ending.UNANSWERED)) == ["working", "ready"]


def test_deltas_stream_and_whole_answers_are_not_doubled() -> None:
    """Text that streamed is not emitted again; an answer that nothing streamed is emitted whole."""
    message = AssistantMessage(timestamp_ms=5, stop_reason="stop", text="hello", thinking="hm")
    streamed = told(
        EventMapper(),
        MessageStarted(T, AssistantMessage(timestamp_ms=5)),
        ThinkingDelta(T, "hm"),
        TextDelta(T, ""),
        TextDelta(T, "hello"),
        MessageEnded(T, message),
    )
    assert streamed == ["working", "thinking", "assistant_text"]
    assert told(EventMapper(), MessageEnded(T, message)) == ["working", "thinking", "assistant_text"]
    partial = AssistantMessage(timestamp_ms=5, stop_reason="error", text="hel", error_message="cut")
    assert told(EventMapper(), MessageEnded(T, partial)) == ["working", ("ERROR", "cut", "none"), "errored"]


def test_message_ids_are_the_agents_or_made_of_role_and_time() -> None:
    """Chunks of one answer share an id: the agent's own, else one made of role and timestamp."""
    mapper = EventMapper()
    mapper.map(MessageStarted(T, AssistantMessage(timestamp_ms=5)))
    assert mapper.map(TextDelta(T, "a"))[0].typed_event.assistant_text.message_id == "assistant-5"  # type: ignore[union-attr]
    mapper.map(MessageStarted(T, AssistantMessage(timestamp_ms=6, message_id="msg-2")))
    assert mapper.map(ThinkingDelta(T, "a"))[0].typed_event.thinking.message_id == "msg-2"  # type: ignore[union-attr]


def test_event_ids_count_up_and_carry_the_events_time() -> None:
    """Each session event has the next id and its event's own time; states have neither."""
    mapper = EventMapper(first_event_id=41)
    failure = InnerError(T + 5_000_000, "error", failed())
    events: list[AgentEvent] = [TextDelta(T, "a"), failure, TextDelta(T + 9_000_000, "b")]
    frames = list(itertools.chain.from_iterable(mapper.map(event) for event in events))
    typed = [f.typed_event for f in frames if isinstance(f, SessionFrame) and f.HasField("typed_event")]
    assert [(e.event_id, e.at_unix_ms - T // 1_000_000) for e in typed] == [("41", 0), ("42", 5), ("43", 9)]


def test_tool_frames_carry_status_output_and_diffs() -> None:
    """A tool call starts in progress, updates, and ends completed or failed with readable output and file diffs."""
    mapper = EventMapper()
    start = mapper.map(ToolStarted(at_ns=T, call_id="c1", name="bash", args={"command": "ls  -l\n"}))[0]
    update = mapper.map(ToolUpdated(at_ns=T, call_id="c1", output="a"))[0]
    diffs = (FileDiff("new.txt", "x"), FileDiff("old.txt", "y", "z"))
    end = mapper.map(ToolEnded(at_ns=T, call_id="c1", output="o" * 9000, diffs=diffs))[0]
    bad = mapper.map(ToolEnded(at_ns=T, call_id="c2", is_error=True))[0]
    assert isinstance(start, SessionFrame)
    assert isinstance(update, SessionFrame)
    assert isinstance(end, SessionFrame)
    assert isinstance(bad, SessionFrame)
    assert (start.typed_event.tool_call.title, start.typed_event.tool_call.status) == ("bash: ls -l", 2)
    assert (update.typed_event.tool_call_update.output, update.typed_event.tool_call_update.status) == ("a", 2)
    ended = end.typed_event.tool_call_update
    assert (len(ended.output), ended.status) == (4000, 3)
    assert ended.output.endswith("… [cut, 9000 characters in all]")
    assert [(d.path, d.new_text, d.HasField("old_text")) for d in ended.diffs] == [
        ("new.txt", "x", False),
        ("old.txt", "y", True),
    ]
    assert bad.typed_event.tool_call_update.status == 4


def test_plan_is_told_whole_and_cleared() -> None:
    """A plan replaces the one before; an empty one clears it."""
    mapper = EventMapper()
    entries = (PlanEntry("do", "in_progress"), PlanEntry("done", "completed"), PlanEntry("later", "pending"))
    plan = mapper.map(PlanChanged(T, entries))[0]
    cleared = mapper.map(PlanChanged(T))[0]
    assert isinstance(plan, SessionFrame)
    assert isinstance(cleared, SessionFrame)
    assert [(e.content, e.status) for e in plan.typed_event.plan.entries] == [("do", 2), ("done", 3), ("later", 1)]
    assert cleared.typed_event.WhichOneof("event") == "plan"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (RetryEnded(at_ns=T, success=True, attempt=2), "recovered after 2 retries"),
        (CompactionStarted(at_ns=T, reason="overflow"), "compaction started (overflow)"),
        (CompactionEnded(at_ns=T, tokens_before=9, tokens_after=3), "compaction done: 9 to 3 tokens"),
        (CompactionEnded(at_ns=T, error_message="400 no"), "compaction failed: 400 no"),
        (CompactionEnded(at_ns=T, aborted=True), "compaction cancelled"),
        (CompactionEnded(at_ns=T, skipped=True), "compaction skipped"),
        (ModelFallback(at_ns=T, from_model="a", to_model="b"), "model fell back from a to b"),
        (ModelFallback(at_ns=T, to_model="b", succeeded=True), "model answered after fallback to b"),
        (NoticeRaised(at_ns=T, text="line\none", level="warning"), "warning: line one"),
        (CommandFailed(at_ns=T, command="compact", error_message="busy"), "command compact failed: busy"),
        (CommandEnd(at_ns=T, name="go", error="boom"), "command /go failed: boom"),
    ],
)
def test_notices_are_one_readable_line(event: AgentEvent, line: str) -> None:
    """Retries, compactions, fallbacks and failed commands are notices of one line."""
    assert told(EventMapper(), event) == [("notice", line)]


def test_a_command_that_ended_well_says_nothing() -> None:
    """command_end without an error gives no frame."""
    assert told(EventMapper(), CommandEnd(at_ns=T, name="go")) == []


def test_user_messages_in_a_running_run_are_injections_and_the_prompt_is_not() -> None:
    """The prompt itself is no injection; a later one is a STEER, a queued follow-up a DELIVER, each told once."""
    mapper = EventMapper()
    prompt, steer, follow = (UserMessage(timestamp_ms=n, text=f"m{n}") for n in (1, 2, 3))
    assert told(mapper, RunStarted(T), MessageStarted(T, prompt), MessageEnded(T, prompt)) == ["working"]
    mapper.map(MessageStarted(T, AssistantMessage(timestamp_ms=9)))
    mapper.map(InjectionQueued(at_ns=T, kind="steer", text="m2"))
    mapper.map(InjectionQueued(at_ns=T, kind="follow_up", text="m3"))
    frames = [f for m in (steer, follow) for e in (MessageStarted(T, m), MessageEnded(T, m)) for f in mapper.map(e)]
    injections = [f.typed_event.session_injection for f in frames if isinstance(f, SessionFrame)]
    assert [(i.op_kind, i.message_id) for i in injections] == [
        (SessionInjectionKind.SESSION_INJECTION_KIND_STEER, "user-2"),
        (SessionInjectionKind.SESSION_INJECTION_KIND_DELIVER, "user-3"),
    ]


def test_unmapped_is_a_value_and_counted() -> None:
    """What nobody maps comes back as a value and is counted."""
    mapper = EventMapper()
    assert told(mapper, Unmapped("new_thing", "unknown_type")) == [("unmapped", "new_thing", "unknown_type")]
    assert mapper.unmapped_count == 1


def test_turn_and_message_starts_are_work() -> None:
    """A turn or an answer that begins outside a run is WORKING, on change only."""
    assert told(EventMapper(), TurnStarted(T), MessageStarted(T, AssistantMessage(timestamp_ms=1))) == ["working"]


def test_kinds_are_never_unspecified() -> None:
    """Every session error is ERROR or ABORTED."""
    for reason in ("error", "aborted"):
        frame = EventMapper().map(MessageEnded(T, failed(reason)))[1]
        assert isinstance(frame, SessionFrame)
        assert frame.typed_event.session_error.kind != SessionErrorKind.SESSION_ERROR_KIND_UNSPECIFIED


def test_without_text_frames_every_other_frame_is_the_same() -> None:
    """A caller that wants no streamed text gets the other frames with the very ids that they would have had."""
    events: list[AgentEvent] = [
        RunStarted(T),
        MessageStarted(T, AssistantMessage(timestamp_ms=5)),
        ThinkingDelta(T, "hm"),
        TextDelta(T, "a"),
        MessageEnded(T, failed(ms=5)),
        MessageEnded(T, AssistantMessage(timestamp_ms=6, stop_reason="stop", text="whole", thinking="hm")),
        NoticeRaised(at_ns=T, text="after"),
    ]
    whole, bare = EventMapper(), EventMapper(text_frames=False)
    text = ("assistant_text", "thinking")
    kept = [
        frame
        for event in events
        for frame in whole.map(event)
        if isinstance(frame, SessionFrame) and frame.typed_event.WhichOneof("event") not in text
    ]
    assert [frame for event in events for frame in bare.map(event)] == kept
