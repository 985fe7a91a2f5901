"""Session files: the same prompts as their live streams, with the file's own times, and copied history counted once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compass_otel.events import (
    AssistantMessage,
    CompactionEnded,
    CompactionStarted,
    Ending,
    MessageEnded,
    MessageStarted,
    ModelChanged,
    PlanChanged,
    PromptSettled,
    RetryEnded,
    RetryScheduled,
    RunEnded,
    RunStarted,
    SessionOpened,
    SessionShutdown,
    SourceEnded,
    ToolEnded,
    ToolStarted,
    UserMessage,
)
from compass_otel.sources import Counts
from compass_otel.sources.pi_session import History, PiSession
from compass_otel.unmapped import Malformed, Unmapped
from sources_support import (
    AGENTS,
    EXPECTED,
    NAMES,
    answers,
    assistant,
    captured,
    captured_file,
    decode_all,
    names_of,
    of,
    prompts_of,
    session_path,
    unusable,
    user,
)

BASE_MS = 1_796_000_000_000
FILES = [name for name in NAMES if session_path(name).exists()]

# omp removes the messages of overflow failures and of empty stops from its files.
ANSWERS_REMOVED = {
    "omp-18/an_j_overflow_compact_success",
    "omp-18/j_overflow_compact_success",
    "omp-18/k3_overflow_again_after_compact",
    "omp-18/k_overflow_compact_failure",
    "omp-18/l2_html_body_200",
    "omp-18/l6_empty_stop",
}
# What the live stream calls settled and the file cannot.
ENDING_UNTOLD = {
    "omp-18/i2_abort_during_tool": "unanswered",
    "omp-18/k3_overflow_again_after_compact": "unanswered",
    "omp-18/k_overflow_compact_failure": "unanswered",
    "omp-18/l2_html_body_200": None,
    "omp-18/l6_empty_stop": None,
}
OUTCOMES = {"stop": "completed", "length": "completed", "error": "failed", "aborted": "cancelled"}


def iso(ms: int) -> str:
    """Give an entry's time as the agents write it."""
    day, rest = divmod(ms - 1_795_996_800_000, 86_400_000)
    return f"2026-11-{30 + day:02d}T{rest // 3_600_000:02d}:{rest // 60_000 % 60:02d}:{rest % 60_000 / 1000:06.3f}Z"


def entry(kind: str, at: int, number: int, **fields: Any) -> dict[str, Any]:
    """Make an entry, `at` milliseconds after the start."""
    return {"type": kind, "id": f"e{number}", "parentId": f"e{number - 1}", "timestamp": iso(BASE_MS + at), **fields}


def said(message: dict[str, Any], at: int, number: int, took: int = 0) -> dict[str, Any]:
    """Make a message entry that began `at` milliseconds after the start and was appended `took` later."""
    return entry("message", at + took, number, message={**message, "timestamp": BASE_MS + at})


def header(at: int = -10, session_id: str = "s1", **more: Any) -> dict[str, Any]:
    """Make the line that opens a file."""
    return {"type": "session", "version": 3, "id": session_id, "timestamp": iso(BASE_MS + at), "cwd": "/p", **more}


def read(*entries: dict[str, Any], source: PiSession | None = None, end_ns: int | None = None) -> list[Any]:
    """Give the events of a file made by hand."""
    source = PiSession() if source is None else source
    events = decode_all(source, [json.dumps(e) for e in entries], end=False)
    return [*events, *source.end(end_ns)]


def three_turns() -> list[dict[str, Any]]:
    """Make three answered prompts, the second one failed."""
    turns: list[tuple[str, dict[str, Any]]] = [
        ("stop", {}),
        ("error", {"errorMessage": "503 overloaded"}),
        ("stop", {}),
    ]
    lines: list[dict[str, Any]] = []
    for index, (stop, more) in enumerate(turns):
        lines.append(said(user(f"turn {index}"), index * 1000, 2 * index))
        lines.append(said(assistant(stop, **more), index * 1000 + 10, 2 * index + 1, took=100))
    return lines


# ---- against the recorded files ----


@pytest.mark.parametrize("name", FILES)
def test_every_recorded_file_is_read_whole(name: str) -> None:
    """No entry of a recorded file is unmapped or malformed; its session comes first, told as its agent's."""
    source = PiSession()
    lines = session_path(name).read_bytes().splitlines(keepends=True)
    events = decode_all(source, lines)
    assert unusable(events) == []
    assert source.counts.read == len(lines)
    opened = of(events, SessionOpened)
    assert events[0] is opened[0]
    assert len(opened) == 1
    assert opened[0].agent == name.split("-", maxsplit=1)[0]


@pytest.mark.parametrize("name", FILES)
def test_a_file_tells_the_same_prompts_as_its_stream(name: str) -> None:
    """Users' times, answers' times and call ids agree, on which the ids of spans rest; listed exceptions aside."""
    live, stored = prompts_of(captured(name)), prompts_of(captured_file(name))
    assert [p["users"] for p in stored] == [p["users"] for p in live]
    assert [p["calls"] for p in stored] == [p["calls"] for p in live]
    if name in ANSWERS_REMOVED:
        kept = [[stamp for stamp in p["answers"] if stamp in q["answers"]] for p, q in zip(live, stored, strict=True)]
        assert [p["answers"] for p in stored] == kept
    else:
        # An answer that was still streaming when the process was killed is in no file.
        pairs = zip(live, stored, strict=True)
        kept = [p["answers"] if p["ending"] else p["answers"][: len(q["answers"])] for p, q in pairs]
        assert [p["answers"] for p in stored] == kept


@pytest.mark.parametrize("name", FILES)
def test_a_file_tells_the_same_endings_as_its_stream(name: str) -> None:
    """The last answer of each prompt in the file decides, as the recorded outcome says; exceptions are listed."""
    stored = prompts_of(captured_file(name))
    outcomes = EXPECTED[name]["runs"]
    assert len(stored) == len(outcomes)
    if name in ENDING_UNTOLD:
        assert stored[-1]["ending"] == ENDING_UNTOLD[name]
        return
    assert [p["ending"] for p in stored] == [None if o == "incomplete" else "settled" for o in outcomes]
    stops = {m.timestamp_ms: m.stop_reason for m in answers(captured_file(name))}
    told = [OUTCOMES.get((stops[p["answers"][-1]] or "") if p["answers"] else "", "incomplete") for p in stored]
    # A retry wait that a person ended leaves nothing in any file: the error before it is what is there.
    if "/i3_" in name:
        assert (told, outcomes) == (["failed"], ["cancelled"])
    else:
        assert told == outcomes


@pytest.mark.parametrize("name", FILES)
def test_a_file_shows_the_retries_of_its_stream(name: str) -> None:
    """As many retries are derived as were announced, and their end is told alike."""
    live, stored = captured(name), captured_file(name)
    if "/i3_" in name or name in ANSWERS_REMOVED or name == "omp-18/d4_http_402_billing":
        assert of(stored, RetryScheduled) == []
        return
    assert [r.attempt for r in of(stored, RetryScheduled)] == [r.attempt for r in of(live, RetryScheduled)]
    assert [(r.success, r.attempt) for r in of(stored, RetryEnded)] == [
        (r.success, r.attempt) for r in of(live, RetryEnded)
    ]


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_its_own_times(name: str) -> None:
    """Answers begin at their own time and end when they were appended; no time goes back, none is invented."""
    lines = session_path(name).read_bytes().splitlines()
    appended = {}
    for line in lines:
        record = json.loads(line)
        message = record.get("message", {})
        if message.get("role") == "assistant":
            appended[message["timestamp"]] = record["timestamp"]
    last = 0
    for event in captured_file(name):
        assert event.at_ns >= last or isinstance(event, PromptSettled | RunEnded)
        last = max(last, event.at_ns)
        if not isinstance(event, MessageStarted | MessageEnded) or not isinstance(event.message, AssistantMessage):
            continue
        if isinstance(event, MessageStarted):  # the entry before may have been appended a moment after this began
            assert 0 <= event.at_ns - (event.message.timestamp_ms or 0) * 10**6 <= 5 * 10**6
        else:
            assert iso(event.at_ns // 10**6) == appended[event.message.timestamp_ms]


# ---- endings ----


def test_a_later_prompt_leaves_an_open_one_unanswered() -> None:
    """A prompt without an answer that another follows is unanswered, at its last sign of life."""
    events = read(header(), said(user("one"), 0, 1), said(user("two"), 60_000, 2), said(assistant(), 60_010, 3, 50))
    assert [e.ending for e in of(events, PromptSettled)] == [Ending.UNANSWERED, Ending.SETTLED]
    assert of(events, PromptSettled)[0].at_ns == BASE_MS * 10**6
    assert [type(e) for e in of(events, RunStarted, PromptSettled)] == [RunStarted, PromptSettled] * 2


def test_an_orderly_exit_leaves_an_open_prompt_unanswered() -> None:
    """Omp's session_exit after a prompt without an answer: unanswered, then the shutdown."""
    events = read(header(), said(user(), 0, 1), entry("custom", 50, 2, customType="session_exit", data={}))
    assert names_of(events)[-4:] == ["RunEnded", "PromptSettled", "SessionShutdown", "SourceEnded"]
    assert of(events, PromptSettled)[0].ending is Ending.UNANSWERED


@pytest.mark.parametrize("ending", ["user", "tool", "pending"])
def test_an_open_prompt_is_shown_and_says_nothing(ending: str) -> None:
    """With nothing after it an unanswered prompt stays open: no settling and no end of input, until asked again."""
    lines = [header(), said(user("why"), 0, 1)]
    if ending == "tool":
        call = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {}}
        lines.append(said({**assistant("toolUse"), "content": [call]}, 10, 2))
    if ending == "pending":
        lines.append(said(assistant("pending"), 10, 2))
    source = PiSession(last_change_ns=BASE_MS * 10**6)
    events = read(*lines, source=source)
    assert of(events, PromptSettled, SourceEnded) == []
    assert source.open_prompt is not None
    assert source.open_prompt.text == "why"
    assert source.end(BASE_MS * 10**6 + 599 * 10**9) == ()
    lost = source.end(BASE_MS * 10**6 + 600 * 10**9)
    assert [e.ending for e in of(lost, PromptSettled)] == [Ending.LOST]
    assert lost[-1].at_ns <= (BASE_MS + 10) * 10**6
    assert source.open_prompt is None
    assert source.end() == ()


def test_an_answer_at_the_end_settles_whatever_edits_follow() -> None:
    """Pi 1.6 marks a failed attempt as retried when the wait begins; without another attempt it failed."""
    edit = entry("context_edit", 200, 3, targetId="e2", replacement=None)
    events = read(header(), said(user(), 0, 1), said(assistant("error", errorMessage="x"), 10, 2, 90), edit)
    assert names_of(events)[-3:] == ["RunEnded", "PromptSettled", "SourceEnded"]
    assert of(events, PromptSettled)[0].at_ns == (BASE_MS + 100) * 10**6


def test_a_followed_file_settles_when_it_stops_growing() -> None:
    """While a file is followed, a good answer settles after ten seconds, a failed or missing one after ten minutes."""
    for stop, wait_s, ending in (("stop", 10, "settled"), ("error", 600, "settled"), ("toolUse", 600, "lost")):
        source = PiSession()
        decode_all(source, [header(), said(user(), 0, 1), said(assistant(stop), 10, 2, 90)], end=False)
        last = (BASE_MS + 100) * 10**6
        assert source.tick(last + wait_s * 10**9 - 1) == ()
        assert [str(e.ending) for e in of(source.tick(last + wait_s * 10**9), PromptSettled)] == [ending]
        assert source.tick(last + 3600 * 10**9) == ()


# ---- prompts and what belongs to them ----


def test_a_message_older_than_what_it_follows_was_injected() -> None:
    """A message that waited in the queue, or that omp marks as steering, is part of the prompt at work."""
    call = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {}}
    result = {"role": "toolResult", "toolCallId": "c", "toolName": "bash", "content": [], "isError": False}
    start = [header(), said(user("go"), 0, 1), said({**assistant("toolUse"), "content": [call]}, 10, 2, 90)]
    start.append(said(result, 500, 3))
    steered = read(*start, said(user("be brief"), 300, 4, 210), said(assistant(), 520, 5, 80))
    assert [p["users"] for p in prompts_of(steered)] == [[BASE_MS, BASE_MS + 300]]
    flagged = read(*start, said({**user("be brief"), "steering": True}, 505, 4), said(assistant(), 520, 5, 80))
    assert len(prompts_of(flagged)) == 1
    killed = read(*start, said(user("again"), 90_000, 4), said(assistant(), 90_010, 5, 80))
    assert [p["ending"] for p in prompts_of(killed)] == ["unanswered", "settled"]
    follow_up = [said(assistant(), 600, 4, 400), said(user("then"), 700, 5, 301), said(assistant(), 1002, 6, 10)]
    assert [len(p["answers"]) for p in prompts_of(read(*start, *follow_up))] == [3]


def test_tools_run_from_their_call_to_their_result() -> None:
    """Pi's tools start with the answer that calls them; omp's when it noted that; both end with their result."""
    for agent in AGENTS:
        events = captured_file(f"{agent}/b2_two_tools_parallel")
        begun, ended = of(events, ToolStarted), of(events, ToolEnded)
        assert [e.call_id for e in begun] == [e.call_id for e in ended] == ["call_1", "call_2"]
        assert [e.name for e in ended] == ["read", "bash"]
        assert begun[0].args == {"path": "notes.txt"}
        called = next(e for e in events if isinstance(e, MessageEnded) and isinstance(e.message, AssistantMessage))
        assert (begun[0].at_ns > called.at_ns) is (agent == "omp-18")


def test_calls_of_a_failed_answer_never_started() -> None:
    """A partial call in a failed answer starts nothing in Pi; omp's made-up result shows it, marked as made up."""
    call = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {}}
    failed = {**assistant("error", errorMessage="terminated"), "content": [call]}
    lines = [header(), said(user(), 0, 1), said(failed, 10, 2, 90)]
    assert of(read(*lines), ToolStarted) == []
    result = {"role": "toolResult", "toolCallId": "c", "toolName": "bash", "content": [], "isError": True}
    events = read(*lines, said({**result, "details": {"__synthetic": True}}, 110, 3))
    assert [e.synthetic for e in of(events, ToolEnded)] == [True]
    assert [e.ending for e in of(events, PromptSettled)] == [Ending.SETTLED]


def test_a_compaction_belongs_to_the_prompt_if_the_prompt_goes_on() -> None:
    """After a failure it is within the prompt; after a good answer only if another answer follows, else outside."""
    summary = entry("compaction", 5000, 3, summary="s", tokensBefore=9, tokensAfter=4, usage={"input": 7})
    failed = [header(), said(user(), 0, 1), said(assistant("error", errorMessage="too long"), 10, 2, 90), summary]
    within = read(*failed, said(assistant(), 5010, 4, 90))
    assert names_of(within)[-3:-1] == ["RunEnded", "PromptSettled"]
    assert of(within, RetryScheduled) == []
    assert of(within, CompactionStarted)[0].at_ns == (BASE_MS + 100) * 10**6
    ended = of(within, CompactionEnded)[0]
    assert (ended.tokens_before, ended.tokens_after, ended.usage.input) == (9, 4, 7)
    good = [header(), said(user(), 0, 1), said(assistant(), 10, 2, 90), summary]
    outside = read(*good)
    assert names_of(outside)[-4:-1] == ["PromptSettled", "CompactionStarted", "CompactionEnded"]
    assert of(outside, CompactionStarted)[0].at_ns == of(outside, CompactionEnded)[0].at_ns
    goes_on = names_of(read(*good, said(assistant(), 5010, 4, 90)))
    assert goes_on.index("CompactionEnded") < goes_on.index("PromptSettled")
    alone = read(header(), summary)
    assert names_of(alone) == ["SessionOpened", "CompactionStarted", "CompactionEnded", "SourceEnded"]


def test_branches_are_read_in_the_order_of_the_file() -> None:
    """A file whose entries branch tells each of its prompts once, in the order in which they were made."""
    again = said(user("other way"), 5000, 9)
    again["parentId"] = None
    events = read(header(), *three_turns(), again, said(assistant(), 5010, 10, 90))
    assert [p["users"] for p in prompts_of(events)] == [[BASE_MS + t] for t in (0, 1000, 2000, 5000)]


def test_other_entries() -> None:
    """Models, omp's edited plans and exits have their events; bookkeeping is ignored; an unknown type is unmapped."""
    source = PiSession()
    events = read(
        {"type": "title", "v": 1, "title": "", "pad": " "},
        header(),
        entry("model_change", 0, 1, model="p/m/x"),
        entry("model_change", 1, 2, provider="q", modelId="n"),
        entry("custom", 2, 3, customType="user_todo_edit", data={"phases": [{"name": "a", "tasks": []}]}),
        entry("custom", 3, 4, customType="someone's", data=7),
        entry("label", 4, 5),
        entry("brand_new", 5, 6),
        {"id": "e7"},
        entry("message", 6, 8, message=None),
        entry("custom_message", 7, 9, content="injected"),
        source=source,
    )
    assert [(e.provider, e.model) for e in of(events, ModelChanged)] == [("p", "m/x"), ("q", "n")]
    assert of(events, SessionOpened)[0].agent == "omp"
    assert len(of(events, PlanChanged)) == 1
    reasons = [("brand_new", "unknown_type"), ("", "no_type"), ("message", "wrong_fields")]
    assert [(u.type, u.reason) for u in unusable(events)] == reasons
    assert source.counts == Counts(mapped=5, ignored=3, unmapped=3)
    assert source.decode(b"not json\n") == (Malformed("not JSON", 12),)
    assert source.reject("line too long") == (Malformed("line too long", 13),)


def test_absurd_times_in_a_file_move_nothing() -> None:
    """Entries without a usable time keep the time of the one before."""
    odd = said(user("two"), 1000, 3)
    odd["timestamp"], odd["message"]["timestamp"] = "yesterday", 10**17
    events = read(header(), said(user("one"), 0, 1), said(assistant(), 10, 2, 90), odd)
    assert {e.at_ns for e in events} <= {(BASE_MS + t) * 10**6 for t in (-10, 0, 10, 100)}
    assert events[-1].message.text == "two"


# ---- forks and resumes ----


def _costs(events: list[Any]) -> float:
    return sum(m.usage.cost_usd or 0.0 for m in answers(events) if m.usage)


def _forked(session_id: str = "s2", at: int = 60_000, **more: Any) -> list[dict[str, Any]]:
    new = [said(user("new"), 70_000, 20), said(assistant(usage={"cost": {"total": 1.0}}), 70_010, 21, 90)]
    return [header(at, session_id, parentSession="s1.jsonl", **more), *three_turns(), *new]


@pytest.mark.parametrize("child_first", [False, True])
def test_a_fork_reports_its_own_part(child_first: bool) -> None:
    """FC-B031: parent and fork in one replay give four prompts in all, each once, the fork linked to its parent."""
    files = [[header(), *three_turns()], _forked()]
    history = History()
    if child_first:
        files.reverse()
    told = [read(*lines, source=PiSession(history=history)) for lines in files]
    counts = [len(prompts_of(events)) for events in told]
    assert counts == ([1, 3] if child_first else [3, 1])
    assert sum(_costs(events) for events in told) == 1.0
    child = told[0 if child_first else 1]
    assert of(child, SessionOpened)[0].parent_session == "s1.jsonl"
    assert [p["users"] for p in prompts_of(child)] == [[BASE_MS + 70_000]]


def test_a_fork_without_times_is_known_by_its_entries() -> None:
    """FC-B031 as collected: headers without a time; the entries that the parent showed are not told again."""
    parent, child = [header(), *three_turns()], _forked()
    for line in (parent[0], child[0]):
        del line["timestamp"]
    history = History()
    first = read(*parent, source=PiSession(history=history))
    source = PiSession(history=history)
    second = read(*child, source=source)
    assert [len(prompts_of(events)) for events in (first, second)] == [3, 1]
    assert (source.inherited, source.counts) == (6, Counts(mapped=3, ignored=6))


def test_a_fork_alone_reports_its_own_part_too() -> None:
    """FC-B034: a copied failure is none of the fork's, also when its parent is not read."""
    source = PiSession()
    events = read(*_forked(), source=source)
    assert [m.failed for m in answers(events)] == [False]
    assert source.inherited == 6


def test_a_resumed_file_reports_all_of_its_prompts() -> None:
    """A session resumed in its own file, or read twice in one replay, is no copy of anything."""
    history = History()
    lines = [header(), *three_turns(), said(user("later"), 9_000_000, 9), said(assistant(), 9_000_010, 10, 90)]
    assert len(prompts_of(read(*lines, source=PiSession(history=history)))) == 4
    assert len(prompts_of(read(*lines, source=PiSession(history=history)))) == 4


def test_recorded_files_share_nothing() -> None:
    """No entry of one recorded session is taken for a copy of another's."""
    history = History()
    for name in FILES:
        source = PiSession(history=history)
        decode_all(source, session_path(name).read_bytes().splitlines())
        assert source.inherited == 0


def test_a_user_less_answer_opens_a_prompt() -> None:
    """An answer without a prompt before it, as after a trimmed file, is still told."""
    events = read(header(), said(assistant(), 10, 1, 90))
    assert [p["answers"] for p in prompts_of(events)] == [[BASE_MS + 10]]
    assert len(of(events, RunStarted)) == 1


def test_shutdown_comes_after_the_prompt() -> None:
    """Omp's orderly exit settles the answered prompt and is told after it."""
    events = captured_file("omp-18/a_success_text")
    assert [type(e) for e in events[-3:]] == [PromptSettled, SessionShutdown, SourceEnded]
    assert isinstance(of(events, MessageStarted)[0].message, UserMessage)
    assert Unmapped not in {type(e) for e in events}
