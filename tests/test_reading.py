"""Opening inputs: the kind told by content, one line in memory, arrival times, folders, and what cannot be read."""

from __future__ import annotations

import io
import json
import os
import threading
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from compass_otel.events import MessageStarted, PromptSettled, SessionOpened, SourceEnded, TextDelta
from compass_otel.sources import Counts, Format, lines, reading
from compass_otel.sources.detection import detect
from compass_otel.sources.locations import newest_sessions, session_files, session_folders
from compass_otel.sources.pi_session import History
from compass_otel.sources.reading import NotReadableError, open_source
from compass_otel.unmapped import Malformed
from sources_support import (
    AGENTS,
    CAPTURES,
    NAMES,
    START_NS,
    assistant,
    captured,
    names_of,
    of,
    session_path,
    start,
    unusable,
    user,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from compass_otel.sources.reading import Reading


def everything(source: Reading) -> list[Any]:
    """Give all that an input decodes to, its end included."""
    with source:
        return [item for decoded in source for item in decoded] + list(source.end())


def in_memory(*parts: bytes) -> Reading:
    """Open bytes."""
    return open_source(io.BytesIO(b"".join(parts)))


# ---- what it is ----


@pytest.mark.parametrize("name", NAMES)
def test_streams_and_session_files_are_told_apart_by_content(name: str, tmp_path: Path) -> None:
    """Whatever it is called, a recorded stream is found to be one, and so is a session file."""
    unnamed = tmp_path / "x"
    unnamed.write_bytes((CAPTURES / f"{name}.events.jsonl").read_bytes())
    with open_source(unnamed) as opened:
        assert opened.format is Format.PI_STREAM
    if session_path(name).exists():
        unnamed.write_bytes(session_path(name).read_bytes())
        with open_source(unnamed) as opened:
            assert opened.format is Format.PI_SESSION
            events = everything(opened)
        assert unusable(events) == []
        assert of(events, SessionOpened)[0].agent == name.split("-", maxsplit=1)[0]


@pytest.mark.parametrize(
    ("first", "want"),
    [
        ([], None),
        ([b"", b"nonsense\n"], None),
        ([b'{"type":"session","id":"s"}\n'], None),
        ([b'\xef\xbb\xbf{"type":"session"}\r\n', b"oops\n", b'{"type":"agent_start"}\r\n'], Format.PI_STREAM),
        ([b'{"type":"session"}', b'{"type":"model_change","id":"a"}'], Format.PI_SESSION),
        ([b'{"type":"title","v":1}'], Format.PI_SESSION),
        ([b'{"type":"message","message":{}}'], Format.PI_SESSION),
        ([b'{"id":"1","type":"response"}'], Format.PI_STREAM),
        ([b'{"type":"something_new"}'], Format.PI_STREAM),
        ([b'{"t":1,"on":"session_start"}'], Format.EXTENSION_DUMP),
        ([b"[1]", b"{}", b'{"type":"ready"}'], Format.PI_STREAM),
    ],
)
def test_detection(first: list[bytes], want: Format | None) -> None:
    """The first record that belongs to one kind alone decides; a header, junk and blank lines do not."""
    assert detect(first) is want


def test_the_notes_of_an_extension_are_refused_by_name() -> None:
    """What an extension wrote down is no stream: the message names the file and says so."""
    path = next((CAPTURES / "pi-1.6").glob("*.ext.jsonl"))
    with pytest.raises(NotReadableError, match=r"ext\.jsonl: these are the notes of an extension"):
        open_source(path)


def test_a_format_given_overrides_the_content() -> None:
    """A person may say what it is; a word that names no format is an error."""
    path = CAPTURES / "pi-1.6" / "a_success_text.session.jsonl"
    with open_source(path, format="pi-stream") as opened:
        events = everything(opened)
    assert opened.format is Format.PI_STREAM
    assert opened.counts.unmapped == opened.counts.read - 1
    assert names_of(events)[-1] == "SourceEnded"
    with pytest.raises(ValueError, match="no-such-format"):
        open_source(path, format="no-such-format")


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    """A missing file is the system's error; a folder is named as one."""
    with pytest.raises(FileNotFoundError):
        open_source(tmp_path / "missing.jsonl")
    with pytest.raises(NotReadableError, match="a folder"):
        open_source(tmp_path)


# ---- lines ----


def test_nothing_is_something() -> None:
    """An empty file and one of blank lines hold no records and end at once."""
    for data in (b"", b"\n\r\n\n"):
        opened = in_memory(data)
        assert names_of(everything(opened)) == ["SourceEnded"]
        assert opened.counts == Counts()


def test_junk_is_counted_line_by_line() -> None:
    """A text file gives one malformed value for each line, with its number."""
    opened = in_memory(b"# title\n\nsome text\n", b'{"type":"agent_start"}\n', b"more\n")
    assert [(m.reason, m.line) for m in of(everything(opened), Malformed)] == [
        ("not JSON", 1),
        ("not JSON", 3),
        ("not JSON", 5),
    ]
    assert opened.counts.read == 4


def test_a_cut_last_line_is_called_so() -> None:
    """Only the last line can be cut short, and only if it is no JSON; whole lines need no end."""
    good = b'{"type":"agent_start"}\n'
    assert [m.reason for m in unusable(everything(in_memory(good, b'{"type":"agent_e')))] == ["cut short"]
    assert [m.reason for m in unusable(everything(in_memory(good, b'{"type":"agent_e\n')))] == ["not JSON"]
    assert [m.reason for m in unusable(everything(in_memory(good, b"[1]")))] == ["not an object"]
    assert unusable(everything(in_memory(good, b'{"type":"turn_start"}'))) == []


@pytest.mark.parametrize("live", [False, True])
def test_an_overlong_line_is_given_up(monkeypatch: pytest.MonkeyPatch, *, live: bool) -> None:
    """A line beyond the bound is counted, not held, and the lines after it are read."""
    for module in (lines, reading):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 1000)
    long = b'{"type":"turn_end","note":"' + b"x" * 5_000_000 + b'"}\n'
    exact = b'{"type":"turn_end","note":"' + b"x" * (1000 - 30) + b'"}\n'
    assert len(exact) == 1000
    data = b'{"type":"agent_start"}\n' + long + exact + b'{"type":"turn_start"}\n' + long[:-1]
    opened = open_source(io.BytesIO(data), live=live, clock=lambda: START_NS)
    events = everything(opened)
    assert [(m.reason, m.line) for m in unusable(events)] == [("line too long", 2), ("line too long", 5)]
    read = [name for name in names_of(events) if name != "Malformed"]
    assert read == ["SessionOpened", "RunStarted", "TurnEnded", "TurnStarted", "SourceEnded"]


def test_progress_is_known() -> None:
    """Size and bytes read add up for a file; a stream in memory has no size."""
    path = CAPTURES / "pi-0.73" / "b_tool_success.events.jsonl"
    with open_source(path) as opened:
        everything(opened)
        assert opened.bytes_read == opened.size_bytes == path.stat().st_size
        assert opened.name == str(path)
    assert in_memory(b"x").size_bytes is None


class _Endless(io.RawIOBase):
    """A stream that is made while it is read, so that only the reader's memory counts."""

    def __init__(self, line: bytes, count: int) -> None:
        self._line, self._left = line, count

    def readline(self, _limit: int | None = -1, /) -> bytes:
        self._left -= 1
        return self._line if self._left >= 0 else b""


def test_memory_stays_flat() -> None:
    """A long stream is read with the memory of one line, not of the stream."""
    inner = {"type": "text_delta", "contentIndex": 0, "delta": "x" * 100}
    line = json.dumps({"type": "message_update", "assistantMessageEvent": inner, "usage": {}}).encode() + b"\n"
    line = line.replace(b": ", b":").replace(b", ", b",")
    opened = open_source(_Endless(line, 60_000), clock=lambda: START_NS, live=True)  # type: ignore[arg-type]
    tracemalloc.start()
    count = sum(len(decoded) for decoded in opened)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (count, opened.counts.mapped) == (60_001, 60_000)
    assert peak < 1_000_000


# ---- live ----


def _drained(opened: Reading, until: int) -> Iterator[Any]:
    deadline = time.monotonic() + 20
    seen = 0
    for line, at_ns in opened.lines():
        yield from opened.decode(line, at_ns)
        seen += line is not None
        if seen >= until or time.monotonic() > deadline:
            return


def test_a_live_pipe_is_stamped_as_it_comes_and_ticks_when_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines from a pipe carry the clock's time; silence settles Pi 0.73's prompt while the pipe stays open."""
    monkeypatch.setattr(lines, "QUIET_WAIT_S", 0.01)
    now = iter(range(START_NS, START_NS + 10**15, 700_000_000))
    out, into = os.pipe()
    records = [{"type": "agent_start"}, start(user()), whole(assistant()), {"type": "agent_end", "messages": []}]
    text = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    os.write(into, text[:50])
    with os.fdopen(out, "rb") as file:
        writer = threading.Thread(target=os.write, args=(into, text[50:]))
        writer.start()
        opened = open_source(file, live=True, clock=lambda: next(now))
        events = list(_drained(opened, 4))
        writer.join()
        quiet = next(settled for line, at in opened.lines() if (settled := opened.decode(line, at)))
        os.close(into)
        rest = [item for line, at in opened.lines() for item in opened.decode(line, at)] + list(opened.end())
    assert names_of(events) == ["SessionOpened", "RunStarted", "MessageStarted", "MessageEnded", "RunEnded"]
    assert all(e.at_ns > START_NS - 1 for e in events)
    assert [type(e) for e in quiet] == [PromptSettled]
    assert quiet[0].at_ns == events[-1].at_ns
    assert [type(e) for e in rest] == [SourceEnded]
    assert rest[0].at_ns > quiet[0].at_ns


def test_lines_from_a_pipe_are_joined_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the pipe cuts, the same lines come out as from a file."""
    monkeypatch.setattr(lines, "_READ_BYTES", 37)
    path = CAPTURES / "pi-0.73" / "a_success_text.events.jsonl"
    data = path.read_bytes()
    out, into = os.pipe()

    def write() -> None:
        with os.fdopen(into, "wb") as sink:
            sink.write(data + b"\n\ncut")

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(out, "rb") as file:
        got = [line for line, _ in lines.live_lines(file, time.time_ns) if line is not None]
    writer.join()
    assert got == [*data.splitlines(keepends=True), b"\n", b"\n", b"cut"]


def test_a_live_input_can_be_tapped_and_stopped() -> None:
    """What comes is passed on as it comes, whole, and asking to stop ends the input though the pipe stays open."""
    out, into = os.pipe()
    passed: list[bytes] = []
    data = b'{"type":"agent_start"}\n{"type":"turn_start"}\n'
    os.write(into, data)
    with os.fdopen(out, "rb") as file:
        opened = open_source(file, live=True, tap=passed.append, stopped=lambda: bool(passed))
        events = everything(opened)
    os.close(into)
    assert b"".join(passed) == data
    assert names_of(events) == ["SessionOpened", "RunStarted", "TurnStarted", "SourceEnded"]


def test_live_input_has_its_arrival_times(tmp_path: Path) -> None:
    """A file that is read as live input is stamped with the clock, whatever its records say."""
    path = tmp_path / "x.jsonl"
    path.write_bytes((CAPTURES / "pi-1.6" / "a_success_text.events.jsonl").read_bytes())
    with open_source(path, live=True, clock=lambda: START_NS) as opened:
        events = everything(opened)
    assert {e.at_ns for e in events} == {START_NS}


# ---- stored times ----


@pytest.mark.parametrize(
    "name", [f"{agent}/{case}" for agent in AGENTS for case in ("b_tool_success", "m_fail_then_success")]
)
def test_arrival_times_beside_a_stream_are_used(name: str) -> None:
    """Where arrival times were kept, events have them, as far apart as the lines came, and none before its own time."""
    offsets = json.loads((CAPTURES / f"{name}.arrival.json").read_text())
    with open_source(CAPTURES / f"{name}.events.jsonl") as opened:
        events = everything(opened)
    deltas = of(events, TextDelta)
    raw = (CAPTURES / f"{name}.events.jsonl").read_bytes().splitlines()
    at = [offset for offset, line in zip(offsets, raw, strict=False) if b'"text_delta"' in line]
    assert [(e.at_ns - deltas[0].at_ns) // 10**6 for e in deltas] == [offset - at[0] for offset in at]
    for event in of(events, MessageStarted):
        assert event.message.timestamp_ms is None or event.at_ns >= event.message.timestamp_ms * 10**6
        assert event.at_ns - event.message.timestamp_ms * 10**6 < 10**10


@pytest.mark.parametrize("content", [b"", b"{}", b'["a"]', b"[]", b"[-5]", b"[NaN]", b"[" * 10_000, b"[1e30]"])
def test_useless_arrival_times_are_noted(content: bytes, tmp_path: Path) -> None:
    """Arrival times that are none change nothing and are mentioned."""
    path = tmp_path / "x.events.jsonl"
    path.write_bytes((CAPTURES / "pi-1.6" / "a_success_text.events.jsonl").read_bytes())
    (tmp_path / "x.arrival.json").write_bytes(content)
    with open_source(path) as opened:
        events = everything(opened)
    assert len(opened.notes) == 1
    assert "x.arrival.json: not used" in opened.notes[0]
    assert events == captured("pi-1.6/a_success_text")


def test_arrival_times_that_end_early(tmp_path: Path) -> None:
    """Lines beyond the arrival times keep the time of the line before."""
    path = tmp_path / "x.jsonl"
    path.write_bytes((CAPTURES / "pi-1.6" / "a_success_text.events.jsonl").read_bytes())
    (tmp_path / "x.arrival.json").write_text("[0, 1, 2, 3, 4, 5, 100000]")
    with open_source(path) as opened:
        events = everything(opened)
    assert events[-1].at_ns - events[0].at_ns >= 100_000 * 10**6


def test_a_stream_without_times_takes_the_files(tmp_path: Path) -> None:
    """A stored stream in which no record states a time gets the file's own, never the present."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"type":"agent_start"}\n{"type":"agent_end","messages":[]}\n')
    os.utime(path, ns=(START_NS, START_NS))
    with open_source(path) as opened:
        events = everything(opened)
    assert names_of(events)[:3] == ["SessionOpened", "RunStarted", "RunEnded"]
    assert {e.at_ns for e in events} == {START_NS}


def test_an_open_session_file_is_lost_after_ten_minutes(tmp_path: Path) -> None:
    """A file with an open prompt that grew just now stays open; one that is old is lost."""
    path = tmp_path / "s.jsonl"
    path.write_bytes((CAPTURES / "pi-1.6" / "o2_sigkill_during_tool.session.jsonl").read_bytes())
    with open_source(path) as opened:
        assert of(everything(opened), PromptSettled, SourceEnded) == []
    os.utime(path, ns=(START_NS // 2, START_NS // 2))
    with open_source(path) as opened:
        settled = of(everything(opened), PromptSettled)
    assert [str(e.ending) for e in settled] == ["lost"]


# ---- folders ----


def test_a_folder_is_walked_in_order(tmp_path: Path) -> None:
    """Every .jsonl file below a folder is found, sorted, and nothing else."""
    for name in ("b/2.jsonl", "a/1.jsonl", "a/deep/0.jsonl", "a/note.txt", "x.arrival.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [str(path.relative_to(tmp_path)) for path in session_files(tmp_path)]
    assert found == [os.path.join("a", "1.jsonl"), os.path.join("a", "deep", "0.jsonl"), os.path.join("b", "2.jsonl")]  # noqa: PTH118
    assert list(session_files(tmp_path / "missing")) == []


def test_the_newest_session_of_the_agents_here(tmp_path: Path) -> None:
    """The session that changed last is found among both agents' folders, also where Pi's was moved."""
    moved = tmp_path / "elsewhere"
    pi, omp = tmp_path / ".pi/agent/sessions/--p--", tmp_path / ".omp/agent/sessions/p"
    for age, path in enumerate((pi / "1.jsonl", omp / "2.jsonl", moved / "sessions/3.jsonl", pi / "4.jsonl")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, ns=(START_NS - age * 10**9,) * 2)
    assert newest_sessions(environment={}, home=tmp_path) == [pi / "1.jsonl"]
    assert newest_sessions(2, environment={}, home=tmp_path) == [pi / "1.jsonl", omp / "2.jsonl"]
    elsewhere = {"PI_CODING_AGENT_DIR": str(moved)}
    assert newest_sessions(9, environment=elsewhere, home=tmp_path) == [omp / "2.jsonl", moved / "sessions/3.jsonl"]
    assert session_folders(elsewhere, tmp_path)[0] == moved / "sessions"
    assert newest_sessions(environment={}, home=tmp_path / "nobody") == []


def test_all_captures_in_one_replay() -> None:
    """A whole folder in one replay: every file is read or refused by name, and no session is taken for a fork."""
    history, refused, total = History(), 0, Counts()
    for path in session_files(CAPTURES):
        try:
            with open_source(path, history=history) as opened:
                everything(opened)
        except NotReadableError:
            refused += 1
            continue
        total += opened.counts
    assert refused == len(list(CAPTURES.glob("*/*.ext.jsonl")))
    assert (total.unmapped, total.malformed) == (0, 0)
    assert total.read > 4000
