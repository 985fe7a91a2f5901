"""No input makes a source raise, lose count, or stop reading: random bytes, damaged lines, odd values, any order."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from compass_otel.events import AgentEvent, PromptSettled
from compass_otel.sources.pi_session import History, PiSession
from compass_otel.sources.pi_stream import PiStream
from compass_otel.unmapped import Malformed, Unmapped
from sources_support import AGENTS, CAPTURES, START_NS, names_of, stream_lines

if TYPE_CHECKING:
    from compass_otel.sources import Source

GOOD_STREAM = [b'{"type":"agent_start"}\n', b'{"type":"todo_auto_clear"}\n']
GOOD_FILE = [b'{"type":"model_change","id":"e","timestamp":"2026-11-30T10:00:00.000Z","provider":"p","modelId":"m"}\n']

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=12)
    | st.sampled_from(["assistant", "error", "user", "aborted", "toolUse", "call_1", "2026-11-30T10:00:00Z"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
times = st.none() | st.integers(min_value=0, max_value=2**70)


@cache
def real_lines(kind: str) -> tuple[bytes, ...]:
    """Give every different line of the recorded streams or session files, up to a length that mutates quickly."""
    lines = {
        line
        for agent in AGENTS
        for path in (CAPTURES / agent).glob(f"*.{kind}.jsonl")
        for line in path.read_bytes().splitlines(keepends=True)
        if len(line) < 3000
    }
    return tuple(sorted(lines))


def check(source: Source, lines: list[Any], at: list[int | None], good: list[bytes]) -> None:
    """Feed lines, then good ones, and check counts, times, and that the good ones were read."""
    last = 0
    for index, line in enumerate(lines):
        for event in source.decode(line, at[index % len(at)] if at else None):
            assert isinstance(event, AgentEvent | Unmapped | Malformed)
            if not isinstance(event, Unmapped | Malformed | PromptSettled):
                assert event.at_ns >= last
                last = event.at_ns
    before = source.counts
    assert before.read == before.mapped + before.ignored + before.unmapped + before.malformed
    assert before.read <= len(lines)
    read = [event for line in good for event in source.decode(line, 2**71)]
    assert source.counts.read - before.read == source.counts.mapped - before.mapped == len(good)
    assert not [event for event in read if isinstance(event, Unmapped | Malformed)]
    source.tick(2**72)
    source.end(2**72)
    assert source.end() == ()


def both(lines: list[Any], at: list[int | None]) -> None:
    """Feed the same lines to a stream and to a session file."""
    check(PiStream(), lines, at, GOOD_STREAM)
    check(PiSession(history=History()), lines, at, GOOD_FILE)


@given(st.lists(st.binary(max_size=80), max_size=8), st.lists(times, max_size=3))
def test_random_bytes(lines: list[bytes], at: list[int | None]) -> None:
    """Bytes of any kind are counted, and what follows is read."""
    both(lines, at)


@given(st.data())
@settings(max_examples=300)
def test_damaged_real_lines(data: st.DataObject) -> None:
    """Recorded lines, cut, joined, with bytes changed or put in, never raise and lose no count."""
    lines = []
    for kind in ("events", "session"):
        line = bytearray(data.draw(st.sampled_from(real_lines(kind))))
        for _ in range(data.draw(st.integers(0, 4))):
            at, how = data.draw(st.integers(0, len(line))), data.draw(st.sampled_from(["cut", "put", "drop", "change"]))
            match how:
                case "cut":
                    del line[at:]
                case "put":
                    line[at:at] = data.draw(st.binary(max_size=6))
                case "drop":
                    del line[at : at + data.draw(st.integers(1, 30))]
                case _:
                    line[at : at + 1] = data.draw(st.binary(min_size=1, max_size=1))
        lines.append(bytes(line))
    both(lines, [START_NS])


@given(st.data())
@settings(max_examples=300)
def test_real_records_with_odd_values(data: st.DataObject) -> None:
    """Recorded records in which any field holds any JSON value never raise, as text and as objects."""
    records = []
    for kind in ("events", "session"):
        record = json.loads(data.draw(st.sampled_from(real_lines(kind))))
        for _ in range(data.draw(st.integers(1, 3))):
            put_somewhere(record, data)
        records.append(record)
    both([json.dumps(record) for record in records], [None])
    both(records, [START_NS])


def put_somewhere(record: Any, data: st.DataObject) -> None:
    """Put any value in any place of a record."""
    while isinstance(record, dict | list) and record:
        keys: list[Any] = list(record) if isinstance(record, dict) else list(range(len(record)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(record[key], dict | list) or not record[key] or data.draw(st.booleans()):
            record[key] = data.draw(json_values)
            return
        record = record[key]


@given(
    st.lists(st.dictionaries(st.sampled_from(["type", "message", "id", "data"]), json_values, max_size=4), max_size=6)
)
def test_any_objects(records: list[dict[str, Any]]) -> None:
    """Objects of any content, with fields of the right names, never raise."""
    both(records, [None])
    both(records, [START_NS])


@given(st.data())
@settings(max_examples=200)
def test_reordered_and_repeated_records(data: st.DataObject) -> None:
    """A stream whose records are shuffled, dropped and doubled is read to its end; every record is counted once."""
    agent = data.draw(st.sampled_from(AGENTS))
    name = data.draw(
        st.sampled_from(["f2_http_500_then_success", "k3_overflow_again_after_compact", "p_steer_mid_run"])
    )
    lines = stream_lines(f"{agent}/{name}")
    picked = data.draw(st.lists(st.sampled_from(range(len(lines))), max_size=60))
    source = PiStream()
    events = [e for index in picked for e in source.decode(lines[index], START_NS)]
    assert source.counts.read == source.counts.mapped + source.counts.ignored == len(picked)
    assert names_of(source.end())[-1] == "SourceEnded"
    assert len([e for e in events if isinstance(e, PromptSettled)]) <= len(picked)


@given(st.integers(1, 3000), st.sampled_from(["[", '{"a":']))
@settings(max_examples=60)
def test_deep_nesting(depth: int, opening: str) -> None:
    """Nesting of any depth, in fields that are read and in fields that are skipped, never raises."""
    value = opening * depth + "1" + ("]" if opening == "[" else "}") * depth
    lines = [
        f'{{"type":"agent_end","messages":{value}}}',
        f'{{"type":"message_update","assistantMessageEvent":{{"type":"text_delta","delta":"x","partial":{value}}}}}',
        f'{{"type":"message_end","message":{{"role":"assistant","content":{value},"errorMessage":{value}}}}}',
        f'{{"type":"tool_execution_start","toolCallId":"c","toolName":"todo","args":{{"todos":{value}}}}}',
        f'{{"type":"custom","customType":"user_todo_edit","data":{{"phases":{value}}}}}',
    ]
    both([line.encode() for line in lines], [START_NS])
