"""`compass-otel replay`: what it reads, shows and says, by running the real command."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from command_support import CAPTURES, COMMAND, LIMIT_S, compass, objects, on_a_terminal
from compass_otel.frames import parse_frame_json
from compass_otel.scrubbing import scrub

FAILED = CAPTURES / "pi-1.6" / "f_http_503_exhausted.events.jsonl"
CANCELLED = CAPTURES / "pi-1.6" / "i_abort_mid_stream.events.jsonl"
GOOD = CAPTURES / "pi-1.6" / "a_success_text.events.jsonl"
KILLED = CAPTURES / "pi-1.6" / "o2_sigkill_during_tool.events.jsonl"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CAPTURES / "expected.json").read_text(encoding="utf-8"))


def test_every_capture_gives_the_runs_and_errors_that_it_holds() -> None:
    """Outcomes and session errors of all captures come out as a correct reading gives them, in one `--json` call."""
    paths = {str(CAPTURES / f"{name}.events.jsonl"): expected for name, expected in EXPECTED.items()}
    seen = objects("replay", *paths)
    assert [each["source"] for each in seen] == list(paths)
    for each in seen:
        expected = paths[each["source"]]
        assert [run["outcome"] for run in each["runs"]] == expected["runs"], each["source"]
        errors = [error for run in each["runs"] for error in run["session_errors"]]
        lost = [run["session_errors"].pop() for run in each["runs"] if run["outcome"] == "incomplete"]
        assert all(error["kind"] == "ERROR" and error["status"] is None for error in lost)
        wanted = [{**error, "message": scrub(error["message"])} for error in expected["session_errors"]]
        assert [error for error in errors if error not in lost] == wanted, each["source"]
        assert each["records"]["unmapped"] == 0
        counts = each["records"]
        assert counts["read"] == counts["mapped"] + counts["ignored"] + counts["unmapped"] + counts["malformed"]


def test_every_span_stands_with_its_run() -> None:
    """Each run begins with its own span, has its trace id, and holds every span of its tree once."""
    for each in objects("replay", *sorted((CAPTURES / "omp-18").glob("*.events.jsonl"))):
        for run in each["runs"]:
            first, *rest = run["spans"]
            assert first["trace_id"] == run["trace_id"]
            assert first["attributes"]["gen_ai.operation.name"] == "invoke_agent"
            ids = [span["span_id"] for span in run["spans"]]
            assert len(ids) == len(set(ids))
            assert all(span["parent_span_id"] in ids for span in rest if span["trace_id"] == run["trace_id"])


def test_json_goes_to_standard_output_alone() -> None:
    """With `--json` standard output holds one compact line per input, the summary is elsewhere."""
    done = compass("replay", "--json", FAILED, GOOD)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    assert '": ' not in done.stdout.replace('\\": ', "")
    assert "2 runs in 2 inputs: 1 failed, 1 completed" in done.stderr


def test_the_same_input_gives_the_same_bytes() -> None:
    """Ids and times come from the input, so a second look prints the same."""
    assert compass("replay", "--json", FAILED).stdout == compass("replay", "--json", FAILED).stdout


def test_a_failed_run_is_told_from_top_to_bottom() -> None:
    """The tree of a run that exhausted its retries names kind, type, status, attempts, message and end."""
    done = compass("replay", FAILED)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    for told in (
        "✖ FAILED · pi",
        "overloaded, HTTP 503, gave up after 3 attempts",
        "2 retries",
        "ERROR · overloaded · HTTP 503 · attempt 1 · retryable",
        "The server is overloaded, please try again",
        "→ retried after 60 ms: attempt 2",
        "→ gave up after 3 attempts",
        "1 run: 1 failed",
    ):
        assert told in done.stdout, told


def test_failures_only_leaves_out_what_went_well() -> None:
    """`--failures` shows failed, cancelled and incomplete runs; the summary still counts all."""
    done = compass("replay", "--failures", GOOD, FAILED, CANCELLED, KILLED)
    heads = re.findall(r"^(\S+ \S+) · pi", done.stdout, re.MULTILINE)
    assert heads == ["✖ FAILED", "⊘ cancelled", "? INCOMPLETE"]
    assert "4 runs in 4 inputs: 1 failed, 1 incomplete, 1 cancelled, 1 completed" in done.stdout
    shown = objects("replay", "--failures", GOOD, FAILED)
    assert [len(each["runs"]) for each in shown] == [0, 1]


@pytest.mark.parametrize(
    ("fail_on", "path", "status"),
    [
        ("failed", GOOD, 0),
        ("failed", FAILED, 3),
        ("failed", KILLED, 3),
        ("failed", CANCELLED, 0),
        ("cancelled", CANCELLED, 4),
        ("cancelled", FAILED, 3),
        (None, FAILED, 0),
    ],
)
def test_fail_on_decides_the_exit_status(fail_on: str | None, path: Path, status: int) -> None:
    """A CI job learns from the exit status alone how the runs ended."""
    asked = ["--fail-on", fail_on] if fail_on else []
    assert compass("replay", *asked, path).returncode == status


def test_what_cannot_be_read_is_said_in_one_line_each(tmp_path: Path) -> None:
    """Missing files, folders without sessions and strange files cost a line and status 1, and the rest is read."""
    strange = tmp_path / "notes.txt"
    strange.write_text("not json\n" * 100)
    empty = tmp_path / "empty"
    empty.mkdir()
    done = compass("replay", tmp_path / "missing.jsonl", strange, empty, GOOD)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert "missing.jsonl: there is no such file; check the path" in done.stderr
    assert "notes.txt: not a stream or session file of Pi or oh-my-pi; give" in done.stderr
    assert "empty: no .jsonl files in this folder" in done.stderr
    assert "✔ completed" in done.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    """A file without permission is named, with what to do."""
    locked = tmp_path / "locked.jsonl"
    locked.touch(mode=0)
    done = compass("replay", locked)
    assert done.returncode == 1
    assert "you may not read this file; check its permissions" in done.stderr


def test_bad_lines_are_named_with_file_and_line(tmp_path: Path) -> None:
    """Lines that are no records are named and counted, and everything after them is read."""
    broken = tmp_path / "broken.jsonl"
    lines = FAILED.read_bytes().splitlines(keepends=True)
    broken.write_bytes(lines[0] + b"oops\n" + b"".join(lines[1:]) + b'{"type":"agent_st')
    done = compass("replay", broken)
    assert done.returncode == 1
    assert f"{broken}:2: not read: " in done.stderr
    assert f"{broken}:{len(lines) + 2}: not read: cut short" in done.stderr
    assert "✖ FAILED" in done.stdout
    assert "2 malformed" in done.stdout


def test_an_empty_file_is_no_error(tmp_path: Path) -> None:
    """An empty file is said to be empty."""
    (tmp_path / "empty.jsonl").touch()
    done = compass("replay", tmp_path / "empty.jsonl")
    assert done.returncode == 0
    assert "empty.jsonl: empty, no records" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_is_walked_and_other_files_are_left_alone(tmp_path: Path) -> None:
    """In a folder sessions are found at any depth; what is none is counted and not complained of."""
    (tmp_path / "deep").mkdir()
    shutil.copy(FAILED, tmp_path / "deep" / "one.jsonl")
    shutil.copy(GOOD.with_name("a_success_text.session.jsonl"), tmp_path / "two.jsonl")
    (tmp_path / "other.jsonl").write_text('{"level": "info"}\n')
    (tmp_path / "readme.md").write_text("hello")
    done = compass("replay", tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "2 runs in 2 inputs: 1 failed, 1 completed; 1 other file skipped" in done.stdout
    assert f"{tmp_path}/deep/one.jsonl\n✖ FAILED" in done.stdout


def test_without_a_path_the_newest_session_is_shown(tmp_path: Path) -> None:
    """Without a path the session that changed last is found, and named."""
    folder = tmp_path / "sessions" / "--project--"
    folder.mkdir(parents=True)
    shutil.copy(GOOD.with_name("a_success_text.session.jsonl"), folder / "old.jsonl")
    shutil.copy(FAILED.with_name("d_http_401.session.jsonl"), folder / "new.jsonl")
    os.utime(folder / "old.jsonl", (1, 1))
    env = {"PI_CODING_AGENT_DIR": str(tmp_path), "HOME": str(tmp_path)}
    done = compass("replay", env=env)
    assert done.returncode == 0
    assert "the newest session is" in done.stderr
    assert "auth, HTTP 401" in done.stdout


def test_without_a_path_and_without_sessions_it_says_what_to_do(tmp_path: Path) -> None:
    """No session anywhere is one line that says where was looked."""
    done = compass("replay", env={"HOME": str(tmp_path)})
    assert done.returncode == 1
    assert "name a file or a folder" in done.stderr


def test_standard_input_can_be_replayed() -> None:
    """`-` reads a stored stream from standard input, with its own times, as the same file would give."""
    (piped,) = objects("replay", "-", stdin=CANCELLED.read_bytes())
    assert piped["source"] == "-"
    assert [run["outcome"] for run in piped["runs"]] == ["cancelled"]


def test_an_open_session_is_shown_as_open(tmp_path: Path) -> None:
    """A session file whose last prompt has no answer yet is open, until it has not grown for ten minutes."""
    session = tmp_path / "session.jsonl"
    shutil.copy(KILLED.with_name("o2_sigkill_during_tool.session.jsonl"), session)
    os.utime(session)
    shown = compass("replay", session)
    assert shown.returncode == 0
    assert "… still open · pi" in shown.stdout
    (made,) = objects("replay", session)
    (run,) = made["runs"]
    assert run["outcome"] == "open"
    assert run["spans"][0]["end_unix_ns"] is None
    assert compass("replay", "--fail-on", "cancelled", session).returncode == 0
    stale_s = time.time() - 700
    os.utime(session, (stale_s, stale_s))
    (made,) = objects("replay", session)
    assert [(run["outcome"], run["error_type"]) for run in made["runs"]] == [("incomplete", "_OTHER")]


def test_frames_are_protobuf_json_lines(tmp_path: Path) -> None:
    """`--frames FILE` writes each frame as a line that the contract's own reader takes; the tree stays."""
    file = tmp_path / "frames.jsonl"
    done = compass("replay", "--frames", file, FAILED)
    assert "✖ FAILED" in done.stdout
    frames = [parse_frame_json(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert {frame.session_id for frame in frames} == {"01a22d15-a612-76be-8435-1c3ef60b79dd"}
    errors = [frame.event.session_error for frame in frames if frame.event.HasField("session_error")]
    assert [(error.kind, error.status) for error in errors] == [(1, 503)] * 3


def test_frames_on_standard_output_stand_alone() -> None:
    """`--frames -` leaves standard output to the frames; the summary goes to standard error."""
    done = compass("replay", "--frames", "-", FAILED)
    assert all(parse_frame_json(line) for line in done.stdout.splitlines())
    assert "1 run: 1 failed" in done.stderr


def test_a_frames_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A bad place for frames costs one line and status 1 before anything is read."""
    done = compass("replay", "--frames", tmp_path / "no" / "where", FAILED)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "cannot be written" in done.stderr


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_terminal_gets_colour_and_rows_of_its_width(columns: int) -> None:
    """On a terminal rows are coloured and fit, narrow or wide."""
    status, written = on_a_terminal("replay", FAILED, CANCELLED, columns=columns)
    assert status == 0
    assert "\x1b[1;31m✖ FAILED" in written
    plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", written).replace("\r", "")
    assert [row for row in plain.splitlines() if len(row) > columns] == []


def test_long_reading_tells_how_far_it_is(tmp_path: Path) -> None:
    """On a terminal a large file has a line that says how far reading is, gone at the end."""
    lines = GOOD.read_bytes().splitlines(keepends=True)
    delta = next(line for line in lines if b"text_delta" in line)
    large = tmp_path / "large.jsonl"
    large.write_bytes(b"".join(lines[:10]) + delta * 250_000 + b"".join(lines[10:]))
    status, written = on_a_terminal("replay", "--json", large, env={"NO_COLOR": "1"})
    assert status == 0
    assert re.search(r"reading, \d+%, \d+ MB, \d+ MB/s", written)
    assert "reading" not in written.rstrip().splitlines()[-1]


def test_no_color_is_honoured() -> None:
    """With NO_COLOR a terminal gets not one escape."""
    _, written = on_a_terminal("replay", FAILED, env={"NO_COLOR": "1"})
    assert "\x1b" not in written


def test_a_terminal_without_utf8_gets_ascii() -> None:
    """Where the encoding is ASCII, marks and texts are ASCII too."""
    done = compass("replay", FAILED, CANCELLED, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    done.stdout.encode("ascii")
    assert "[X] FAILED" in done.stdout
    assert "[/] cancelled" in done.stdout


def test_a_closed_pipe_ends_it_quietly() -> None:
    """A reader that goes away, as `head` does, ends the command without a word."""
    paths = " ".join(str(path) for path in sorted((CAPTURES / "omp-18").glob("*.events.jsonl")) * 3)
    command = " ".join(COMMAND)
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} replay {paths} | head -1"],
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "command",
    [f"replay {FAILED}", f"replay --json {FAILED}", f"ingest --tee < {FAILED}", "advise --format pi <<< '[]'"],
)
def test_a_full_disk_is_said_in_one_line(command: str) -> None:
    """Standard output that takes no more is named as what failed, once, without a traceback; the status is 1."""
    done = _in_a_shell(f"{command} > /dev/full")
    assert done.returncode == 1
    assert done.stderr.count("No space left on device") == 1
    assert "standard output: cannot be written: No space left on device\n" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_frames_that_cannot_be_written_cost_the_frames_alone() -> None:
    """The tree is shown when the frames' file takes no more; the status is 1."""
    done = compass("replay", "--frames", "/dev/full", FAILED)
    assert done.returncode == 1
    assert done.stderr == "compass-otel: /dev/full: cannot be written: No space left on device\n"
    assert "FAILED" in done.stdout


@pytest.mark.parametrize(("command", "status"), [("ingest", 0), ("replay -", 0), ("advise", 1)])
def test_closed_standard_input_is_an_empty_one(command: str, status: int) -> None:
    """`<&-` is no traceback."""
    done = _in_a_shell(f"{command} <&-")
    assert (done.returncode, done.stderr.count("Traceback")) == (status, 0)


def _in_a_shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"{' '.join(COMMAND)} {command}"], capture_output=True, timeout=LIMIT_S, check=False, text=True
    )


def test_hostile_text_is_harmless_on_a_terminal(tmp_path: Path) -> None:
    """Escapes, markup and bidi marks in a message or a name never reach the terminal as such."""
    record = json.loads(FAILED.read_bytes().splitlines()[7])
    text = "\x1b]0;owned\x07\x1b[2J [bold red]x[/] \u202edeb\u202c \x9b31m"
    hostile = FAILED.read_text(encoding="utf-8")
    hostile = hostile.replace(json.dumps(record["message"]["errorMessage"])[1:-1], json.dumps(text)[1:-1])
    hostile = hostile.replace("fake-model", json.dumps(text)[1:-1])
    file = tmp_path / "hostile.jsonl"
    file.write_text(hostile, encoding="utf-8")
    _, written = on_a_terminal("replay", file, env={"NO_COLOR": "1"})
    assert "[bold red]x[/]" in written
    assert not set(written) & set("\x1b\x07\x9b\u202e\u202c")


def test_help_is_quick_and_shows_examples_and_statuses() -> None:
    """`--help` needs a fraction of a second, and tells how to use the command and what its exit status means."""
    spent_s = []
    for _ in range(3):
        # Processor time, since others may keep the machine busy: start-up hardly waits for anything else.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = compass("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent_s) < 0.3
    assert "pi --mode json" in done.stdout
    assert "3  with --fail-on" in done.stdout
    assert "3  with --fail-on" in compass("replay", "--help").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["replay", "--json", "--frames", "-", "x"],
        ["replay", "--endpoint", "http://localhost:4318", "x"],
        ["replay", "--again", "x"],
        ["replay", "--export", "--endpoint", "localhost", "x"],
        ["replay", "--export", "--endpoint", "http://localhost:1", "--timeout", "-1", "x"],
        ["replay", "--export", "x"],
        ["replay", "--fail-on", "never", "x"],
        ["ingest", "--tee", "--json"],
        ["ingest", "--tee", "--frames", "-"],
    ],
)
def test_wrong_use_is_status_2_and_says_why(arguments: list[str]) -> None:
    """What cannot be meant ends with status 2 and a reason, and nothing is read."""
    done = compass(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "compass-otel" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_extra_names_the_command_that_installs_it() -> None:
    """Without `rich` the commands say exactly what to install."""
    code = "import sys; sys.modules['rich'] = None; from compass_otel.cli import main; sys.exit(main(['replay', 'x']))"
    done = subprocess.run([COMMAND[0], "-c", code], capture_output=True, timeout=LIMIT_S, check=False, text=True)
    assert done.returncode == 2
    assert "pip install 'compass-otel[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_export_no_socket_is_opened() -> None:
    """Showing needs no network, whatever endpoint the environment names."""
    code = (
        "import sys\n"
        "def no(event, args):\n"
        "    if event.startswith('socket.') and event != 'socket.gethostname': raise SystemExit(f'opened {event}')\n"
        "sys.addaudithook(no)\n"
        "from compass_otel.cli import main\n"
        f"sys.exit(main(['replay', {str(FAILED)!r}]))\n"
    )
    env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run(
        [COMMAND[0], "-c", code], capture_output=True, timeout=LIMIT_S, check=False, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    assert "✖ FAILED" in done.stdout


def test_sampling_and_switches_do_not_change_what_is_shown() -> None:
    """A disabled SDK and a sampler that takes nothing leave the tree as it is."""
    env = {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_SAMPLER": "always_off"}
    assert compass("replay", FAILED, env=env).stdout == compass("replay", FAILED).stdout
