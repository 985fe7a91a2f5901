"""The parts of the commands that need no agent: tally, progress, state folder, screen, JSON."""

from __future__ import annotations

import io
import json
import os
import stat
import uuid
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from compass_otel.cli import main
from compass_otel.collected_run import MAX_DRAWN
from compass_otel.exits import Exit
from compass_otel.jsonout import InputJsonWriter, encode_json, plain_attributes, span_object
from compass_otel.own_provider import own_provider
from compass_otel.progress import Progress
from compass_otel.showing import RunCollector
from compass_otel.state_folder import instance_id, state_folder
from compass_otel.summary import Tally
from compass_otel.view import Canvas, draw_run
from compass_otel.view_terminal import PIPE_WIDTH, Screen


@pytest.mark.parametrize(
    ("outcomes", "trouble", "fail_on", "status"),
    [
        ({"completed": 2}, False, None, Exit.OK),
        ({"failed": 1}, False, None, Exit.OK),
        ({"failed": 1}, True, None, Exit.TROUBLE),
        ({"failed": 1}, True, "failed", Exit.RUN_FAILED),
        ({"incomplete": 1}, False, "failed", Exit.RUN_FAILED),
        ({"incomplete": 1, "cancelled": 1}, False, "cancelled", Exit.RUN_FAILED),
        ({"cancelled": 1}, False, "failed", Exit.OK),
        ({"cancelled": 1}, False, "cancelled", Exit.RUN_CANCELLED),
        ({"open": 1, "completed": 1}, False, "cancelled", Exit.OK),
    ],
)
def test_the_exit_status_says_what_was_asked(
    outcomes: dict[str, int], trouble: bool, fail_on: str | None, status: Exit
) -> None:
    """`--fail-on` speaks of runs and goes first; else trouble is 1 and all else 0."""
    tally = Tally(trouble=trouble)
    tally.outcomes.update(outcomes)
    assert tally.exit_status(fail_on) == status


def test_a_malformed_line_is_trouble() -> None:
    """What could not be read makes the exit status 1."""
    tally = Tally()
    tally.add_records({"read": 3, "mapped": 2, "ignored": 0, "unmapped": 0, "malformed": 1})
    assert tally.exit_status(None) == Exit.TROUBLE
    assert tally.lines() == ["0 runs", "3 records read: 2 mapped, 0 ignored, 0 unmapped, 1 malformed"]


def test_the_summary_tells_failures_first() -> None:
    """Runs are told by outcome, the bad ones first."""
    tally = Tally(inputs=2, skipped_files=1)
    tally.outcomes.update({"completed": 1_000, "failed": 2, "cancelled": 1})
    assert tally.lines()[0] == "1,003 runs in 2 inputs: 2 failed, 1 cancelled, 1,000 completed; 1 other file skipped"


class Told:
    """A screen that remembers its status lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def status(self, line: list[tuple[str, str]]) -> None:
        """Remember one."""
        self.lines.append("".join(text for text, _ in line))


def test_progress_is_told_of_long_reading_only() -> None:
    """Nothing is told in the first half second; then how far, how much and how fast; at the end it is taken away."""
    now_s = 0.0
    told = Told()
    progress = Progress(told, 100_000_000, 3, clock=lambda: now_s)
    progress.next_input()
    progress.advance(10_000_000)
    assert told.lines == []
    now_s = 1.0
    progress.advance(40_000_000)
    progress.advance(1)
    assert told.lines == ["reading 1 of 3, 50%, 50 MB, 50 MB/s"]
    progress.close()
    assert told.lines[-1] == ""


def test_the_state_folder_obeys_its_variables(tmp_path: Path) -> None:
    """Our own variable first, then the XDG one if absolute, then the home folder."""
    assert state_folder({"COMPASS_OTEL_STATE": str(tmp_path), "XDG_STATE_HOME": "/x"}) == tmp_path
    assert state_folder({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "compass-otel"
    assert state_folder({"XDG_STATE_HOME": "relative"}) == Path.home() / ".local" / "state" / "compass-otel"


def test_the_instance_id_is_one_per_folder(tmp_path: Path) -> None:
    """The id is made once, private, and the same ever after; another folder has another."""
    first = instance_id(tmp_path / "a")
    assert str(uuid.UUID(first)) == first
    assert instance_id(tmp_path / "a") == first
    assert instance_id(tmp_path / "b") != first
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "a").iterdir()] == [0o600]


def test_a_state_folder_that_is_a_file_still_has_an_id(tmp_path: Path) -> None:
    """Nothing writable is no reason to fail: the id comes from the path then."""
    (tmp_path / "file").touch()
    assert instance_id(tmp_path / "file") == instance_id(tmp_path / "file")


class FakeTerminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Say yes."""
        return True

    def fileno(self) -> int:
        """There is none."""
        raise OSError


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({"TERM": "xterm-256color"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)],
)
def test_colour_needs_a_terminal_that_wants_it(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without colour not one escape is written."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = FakeTerminal()
    Screen(stream).show([[("text", "bold red")]])
    assert ("\x1b" in stream.getvalue()) is coloured


def test_a_pipe_gets_plain_rows_and_a_fixed_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no terminal gets no escapes, no status lines, and the width that COLUMNS says, else a fixed one."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    screen = Screen(stream)
    assert screen.canvas.width == PIPE_WIDTH
    monkeypatch.setenv("COLUMNS", "42")
    assert screen.canvas.width == 42
    screen.status([("gone", "")])
    screen.show([[("text", "bold red")]])
    assert stream.buffer.getvalue() == b"text\n"


def test_a_status_line_is_replaced_and_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status line is cut to the width, and erased by the rows that follow."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    stream = FakeTerminal()
    screen = Screen(stream)
    screen.status([("x" * 100, "")])
    screen.show([[("row", "")]])
    assert stream.getvalue() == f"\r\x1b[2K{'x' * 29}\r\x1b[2Krow\n"


def test_json_of_any_attribute_is_json() -> None:
    """Bytes, sequences, numbers that are none and surrogates become valid JSON."""
    plain: dict[str, Any] = {"a": (1, 2), "b": b"\x00\xff", "c": float("nan"), "d": {"e": float("inf")}, "f": "\ud800"}
    text = encode_json(plain_attributes(plain)).decode("utf-8")
    assert json.loads(text) == {"a": [1, 2], "b": "AP8=", "c": "nan", "d": {"e": "inf"}, "f": "?"}
    assert " " not in text


def test_an_inputs_object_keeps_the_documented_order() -> None:
    """One line, keys as documented, runs in their order, however many there are."""
    writer = InputJsonWriter("a b.jsonl")
    for number in range(3):
        writer.add_run([b'{"trace_id":', f'"{number}"'.encode(), b"}"])
    out = io.BytesIO()
    writer.finish({"read": 1, "mapped": 1, "ignored": 0, "unmapped": 0, "malformed": 0}, out)
    assert out.getvalue().count(b"\n") == 1
    assert out.getvalue().startswith(
        b'{"source":"a b.jsonl","records":{"read":1,"mapped":1,"ignored":0,"unmapped":0,"malformed":0},"runs":['
    )
    assert [run["trace_id"] for run in json.loads(out.getvalue())["runs"]] == ["0", "1", "2"]


def provider_with(collector: RunCollector, monkeypatch: pytest.MonkeyPatch) -> TracerProvider:
    """Give a command's provider although everything is switched off."""
    from compass_otel.id_generator import DerivedIdGenerator  # noqa: PLC0415

    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=blue")
    return own_provider("pi", [collector], ids=DerivedIdGenerator(), instance_id="i")


def test_what_is_shown_does_not_depend_on_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disabled SDK and a sampler that takes nothing still leave every span to show."""
    collector = RunCollector()
    tracer = provider_with(collector, monkeypatch).get_tracer("t")
    with tracer.start_as_current_span("invoke_agent pi", attributes={"compass.session.state": "working"}):
        tracer.start_span("chat x").end()
    (run,) = collector.take_finished()
    assert [span["name"] for span in run.object()["spans"]] == ["invoke_agent pi", "chat x"]
    assert os.environ["OTEL_SDK_DISABLED"] == "true"


def test_the_resource_names_the_agent_unless_the_environment_names_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent is the service; OTEL_SERVICE_NAME and resource attributes go before it."""
    provider = provider_with(RunCollector(), monkeypatch)
    assert provider.resource.attributes["service.name"] == "pi"
    assert provider.resource.attributes["service.instance.id"] == "i"
    assert provider.resource.attributes["team"] == "blue"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    assert provider_with(RunCollector(), monkeypatch).resource.attributes["service.name"] == "mine"


def test_an_open_run_can_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has not ended is given with what is open in it and what has ended."""
    collector = RunCollector(keep_rows=True)
    tracer = provider_with(collector, monkeypatch).get_tracer("t")
    with tracer.start_as_current_span("invoke_agent pi", attributes={"compass.session.state": "working"}):
        tracer.start_span("chat a").end()
        tracer.start_span("chat b")
        (run,) = collector.open_runs
        made = run.object()
        assert made["outcome"] == "open"
        assert [(span["name"], span["end_unix_ns"] is None) for span in made["spans"]] == [
            ("invoke_agent pi", True),
            ("chat a", False),
            ("chat b", True),
        ]
        assert [span["name"] for _, span in collector.take_rows()] == ["chat a"]


def test_a_span_between_two_runs_stands_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A span with no run around it is not lost: it follows the run before it, or leads the first one."""
    collector = RunCollector(keep_spans=True)
    tracer = provider_with(collector, monkeypatch).get_tracer("t")
    tracer.start_span("compact early").end()
    for name in ("one", "two"):
        with tracer.start_as_current_span(name, attributes={"compass.session.state": "working"}):
            pass
        tracer.start_span(f"compact after {name}").end()
    one, two = collector.take_finished()
    assert [span["name"] for span in one.object()["spans"]] == ["one", "compact early", "compact after one"]
    assert [span.name for span in two.kept] == ["two", "compact after two"]


def test_a_long_run_is_drawn_in_part_and_written_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree shows the begin, the end and every trouble of a run of many spans; JSON holds all, in order."""
    collector = RunCollector()
    tracer = provider_with(collector, monkeypatch).get_tracer("t")
    with tracer.start_as_current_span("invoke_agent pi", attributes={"compass.session.state": "working"}):
        for number in range(3 * MAX_DRAWN):
            span = tracer.start_span(f"chat {number}")
            if number == 600:
                span.set_attribute("compass.session_error.kind", "ERROR")
            span.end()
    (run,) = collector.take_finished()
    shown, hidden = run.drawable()
    assert hidden == 2 * MAX_DRAWN
    assert len(shown["spans"]) + hidden == 3 * MAX_DRAWN + 1
    assert "chat 600" in [span["name"] for span in shown["spans"]]
    assert json.loads(b"".join(run.json())) == run.object()
    assert len(run.object()["spans"]) == 3 * MAX_DRAWN + 1
    assert any("800 spans that went well" in text for row in draw_run(shown, hidden, Canvas()) for text, _ in row)


def test_a_span_object_has_the_documented_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of a span and of its events are those of the documented shape, in its order."""
    tracer = provider_with(RunCollector(), monkeypatch).get_tracer("t")
    span = tracer.start_span("chat x")
    span.add_event("e", {"k": (1, 2)}, timestamp=5)
    span.end()
    made = span_object(span)  # type: ignore[arg-type]  # a span of the SDK
    assert list(made) == [
        "name",
        "kind",
        "status",
        "status_message",
        "trace_id",
        "span_id",
        "parent_span_id",
        "start_unix_ns",
        "end_unix_ns",
        "attributes",
        "events",
    ]
    assert made["events"] == [{"name": "e", "time_unix_ns": 5, "attributes": {"k": [1, 2]}}]
    assert made["kind"] == "INTERNAL"


KEY = "sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCd"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["replay", "--export", "--endpoint", f"ftp://user:{KEY}@host", "x"], Exit.WRONG_USE),
        (["replay", f"--{KEY}"], Exit.WRONG_USE),
        (["replay", "--fail-on", KEY], Exit.WRONG_USE),
        (["replay", "--frames", f"/nowhere/{KEY}", "x"], Exit.TROUBLE),
        (["replay", "--html", f"/nowhere/{KEY}", "x"], Exit.TROUBLE),
        (["advise", f"/nowhere/{KEY}"], Exit.TROUBLE),
        ([KEY], Exit.WRONG_USE),
    ],
)
def test_a_complaint_repeats_no_secret(
    arguments: list[str], status: Exit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was typed is repeated without its secrets: standard error of a CI job is read by many."""
    monkeypatch.setattr("sys.argv", ["compass-otel", *arguments])
    try:
        ended: object = main()
    except SystemExit as wrong:
        ended = wrong.code
    told = capsys.readouterr().err
    assert ended == status
    assert "[redacted: " in told
    assert KEY[8:20] not in told


def test_a_moment_that_is_none_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`advise --now` with something else than a moment is said, not taken for the present."""
    file = tmp_path / "messages.json"
    file.write_text("[]", encoding="utf-8")
    assert main(["advise", str(file), "--now", "yesterday"]) == Exit.WRONG_USE
    assert "--now" in capsys.readouterr().err
