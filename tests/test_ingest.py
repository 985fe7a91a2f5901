"""`compass-otel ingest`: a live stream shown as it happens, whatever ends it."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from command_support import CAPTURES, COMMAND, LIMIT_S, compass, on_a_terminal
from compass_otel.interrupts import LAST_WORDS_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FAILED = CAPTURES / "pi-1.6" / "f_http_503_exhausted.events.jsonl"
TOOL = CAPTURES / "pi-1.6" / "b_tool_success.events.jsonl"
KILLED = CAPTURES / "pi-1.6" / "o2_sigkill_during_tool.events.jsonl"
OLD = CAPTURES / "pi-0.73" / "a_success_text.events.jsonl"


class Live:
    """A running `ingest` whose input and output a test holds."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.written = ""

    def say(self, *lines: bytes) -> None:
        """Write lines as an agent does."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(lines))
        self.process.stdin.flush()

    def wait_for(self, text: str) -> None:
        """Wait until the command has written *text*."""
        assert self.process.stdout is not None
        deadline_s = time.monotonic() + LIMIT_S
        while text not in self.written:
            assert time.monotonic() < deadline_s, self.written
            ready, _, _ = select.select([self.process.stdout], [], [], 1)
            if ready:
                chunk = os.read(self.process.stdout.fileno(), 65536)
                assert chunk, f"ended without {text!r}: {self.written}"
                self.written += chunk.decode()

    def end(self) -> int:
        """Close the input and wait; give the exit status."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        self.written += out.decode()
        self.errors = err.decode()
        return self.process.returncode


@contextmanager
def live(*arguments: str, env: dict[str, str] | None = None) -> Iterator[Live]:
    """Start an `ingest`; it is ended whatever the test does."""
    process = subprocess.Popen(
        [*COMMAND, "ingest", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )
    try:
        yield Live(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=LIMIT_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def lines_of(path: Path) -> list[bytes]:
    """Give the lines of a capture."""
    return path.read_bytes().splitlines(keepends=True)


def index_of(lines: list[bytes], kind: str) -> int:
    """Give the index after the first record of that type."""
    return next(index for index, line in enumerate(lines) if f'"type":"{kind}"'.encode() in line) + 1


def test_the_tree_grows_as_it_happens() -> None:
    """A tool that has ended is shown while the agent still works; the outcome comes when the run is over."""
    lines = lines_of(TOOL)
    cut = index_of(lines, "tool_execution_end")
    with live() as ingest:
        ingest.say(*lines[:cut])
        ingest.wait_for("tool bash")
        assert "… running · pi" in ingest.written
        assert "completed" not in ingest.written
        ingest.say(*lines[cut:])
        ingest.wait_for("└─ ✔ completed · pi")
        assert ingest.end() == 0
    assert "1 run: 1 completed" in ingest.written
    assert ingest.errors == ""


def test_a_failure_is_shown_at_once_and_its_retry_after_it() -> None:
    """The card of a failed call comes with the failure, the announced retry and the end have rows of their own."""
    done = compass("ingest", stdin=FAILED.read_bytes())
    assert done.returncode == 0
    rows = [row for row in done.stdout.splitlines() if row.startswith(("├", "└"))]
    assert [re.sub(r"  .*", "", row) for row in rows][:-1] == [
        "├─ ✖ chat fake-model · FAILED",
        "├─ » retry 1 of 2 in 60 ms",
        "├─ ✖ chat fake-model · FAILED · attempt 2",
        "├─ » retry 2 of 2 in 120 ms",
        "├─ ✖ chat fake-model · FAILED · attempt 3",
    ]
    assert rows[-1].startswith("└─ ✖ FAILED · pi")
    assert "overloaded, HTTP 503, gave up after 3 attempts" in done.stdout


def test_a_stream_that_stops_with_a_run_open_is_incomplete() -> None:
    """An agent that was killed leaves an incomplete run, and a CI job learns of it."""
    done = compass("ingest", "--fail-on", "failed", stdin=KILLED.read_bytes())
    assert done.returncode == 3
    assert "? INCOMPLETE · pi" in done.stdout
    assert "process_lost" in done.stdout
    assert "1 run: 1 incomplete" in done.stdout


def test_json_gives_one_object() -> None:
    """`--json` prints one object at the end of the input, the summary goes elsewhere."""
    done = compass("ingest", "--json", stdin=FAILED.read_bytes())
    (line,) = done.stdout.splitlines()
    made = json.loads(line)
    assert made["source"] == "-"
    assert [(run["outcome"], len(run["session_errors"])) for run in made["runs"]] == [("failed", 3)]
    assert "1 run: 1 failed" in done.stderr


def test_live_and_stored_give_the_same_ids() -> None:
    """The same stream has the same trace and span ids, read live or later."""

    def ids(text: str) -> list[tuple[str, str]]:
        return [(span["trace_id"], span["span_id"]) for run in json.loads(text)["runs"] for span in run["spans"]]

    stored = compass("replay", "--json", TOOL).stdout
    assert ids(compass("ingest", "--json", stdin=TOOL.read_bytes()).stdout) == ids(stored)


def test_an_inherited_trace_is_joined() -> None:
    """TRACEPARENT makes the run a child of what called; the span ids stay."""
    parent = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
    done = compass("ingest", "--json", stdin=TOOL.read_bytes(), env={"TRACEPARENT": parent})
    (run,) = json.loads(done.stdout)["runs"]
    assert run["trace_id"] == "ab" * 16
    assert run["spans"][0]["parent_span_id"] == "cd" * 8
    alone = json.loads(compass("replay", "--json", TOOL, env={"TRACEPARENT": parent}).stdout)["runs"][0]
    assert alone["trace_id"] != run["trace_id"]
    assert [span["span_id"] for span in alone["spans"]] == [span["span_id"] for span in run["spans"]]


def test_tee_passes_every_byte_through() -> None:
    """`--tee` gives the input unchanged, a cut last line too; the tree moves to standard error."""
    data = FAILED.read_bytes() + b'\xff\xfe not json\r\n{"cut'
    done = subprocess.run([*COMMAND, "ingest", "--tee"], input=data, capture_output=True, timeout=LIMIT_S, check=False)
    assert done.stdout == data
    assert "✖ FAILED" in done.stderr.decode()
    assert done.returncode == 1


def test_failures_only_shows_a_whole_tree_at_the_end_of_the_run() -> None:
    """With `--failures` nothing grows: a run that failed is drawn when it is over, others not at all."""
    good = compass("ingest", "--failures", stdin=TOOL.read_bytes())
    assert "completed · pi" not in good.stdout
    bad = compass("ingest", "--failures", stdin=FAILED.read_bytes())
    assert bad.stdout.startswith("✖ FAILED · pi")


def test_ctrl_c_reads_on_to_the_agents_last_words() -> None:
    """After SIGINT the input is read to its end, and a run that ends then was cancelled, not lost."""
    lines = lines_of(KILLED)
    with live("--fail-on", "cancelled") as ingest:
        ingest.say(*lines[:-2])
        ingest.wait_for("running")
        ingest.process.send_signal(signal.SIGINT)
        ingest.say(*lines[-2:])
        assert ingest.end() == 4
    assert "⊘ cancelled · pi" in ingest.written
    assert "1 run: 1 cancelled" in ingest.written
    assert ingest.errors == ""


def test_a_second_ctrl_c_ends_it_now() -> None:
    """Whoever presses Ctrl-C twice does not wait for an agent that never ends."""
    with live() as ingest:
        ingest.say(*lines_of(KILLED))
        ingest.wait_for("chat fake-model")
        begun_s = time.monotonic()
        ingest.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            ingest.process.wait(timeout=1)
        ingest.process.send_signal(signal.SIGINT)
        assert ingest.process.wait(timeout=LIMIT_S) == 0
        assert time.monotonic() - begun_s < LAST_WORDS_S
        ingest.wait_for("1 run: 1 cancelled")


def test_sigterm_ends_it_in_order() -> None:
    """SIGTERM is for the reader: the open run is closed as cancelled and the summary written."""
    with live() as ingest:
        ingest.say(*lines_of(KILLED))
        ingest.wait_for("chat fake-model")
        ingest.process.terminate()
        ingest.wait_for("1 run: 1 cancelled")
        ingest.process.wait(timeout=LIMIT_S)
        assert ingest.process.returncode == 0


def test_a_reader_that_goes_away_ends_it() -> None:
    """A closed standard output ends the command without a word at the next thing to show."""
    with live() as ingest:
        ingest.say(*lines_of(KILLED)[:8])
        ingest.wait_for("running")
        assert ingest.process.stdout is not None
        ingest.process.stdout.close()
        ingest.say(*lines_of(KILLED)[8:])
        assert ingest.process.wait(timeout=LIMIT_S) == 0
        assert ingest.process.stderr is not None
        assert ingest.process.stderr.read() == b""


def test_an_agent_that_never_says_that_it_settled_settles_by_quiet() -> None:
    """Pi 0.73 ends without a word: after two seconds of quiet its run is over although the input is open."""
    with live() as ingest:
        ingest.say(*lines_of(OLD))
        ingest.wait_for("✔ completed · pi")
        assert ingest.process.poll() is None
        assert ingest.end() == 0


@pytest.mark.parametrize(
    ("data", "told", "status"), [(b"", "empty, no records", 0), (b"hello\nworld\n", "--mode json", 1)]
)
def test_what_is_no_stream_is_said_in_one_line(data: bytes, told: str, status: int) -> None:
    """Nothing, or the output of another program, is said to be that, with what to do."""
    done = compass("ingest", stdin=data)
    assert done.returncode == status
    assert done.stderr.count("\n") == 1
    assert told in done.stderr


def test_stray_lines_among_records_are_named() -> None:
    """Lines of other programs between the records are named and cost nothing else."""
    lines = lines_of(TOOL)
    done = compass("ingest", stdin=b"".join([lines[0], b"warning: something\n", *lines[1:]]))
    assert done.returncode == 1
    assert "-:2: not read" in done.stderr
    assert "✔ completed" in done.stdout


def test_a_session_file_is_told_from_a_stream() -> None:
    """What a session file holds is read as such although it comes through a pipe."""
    done = compass("ingest", stdin=TOOL.with_name("b_tool_success.session.jsonl").read_bytes())
    assert done.returncode == 0
    assert "✔ completed · pi" in done.stdout
    assert "0 unmapped, 0 malformed" in done.stdout


def test_frames_come_as_they_happen() -> None:
    """`--frames -` writes each frame when it is made, not at the end."""
    lines = lines_of(TOOL)
    with live("--frames", "-") as ingest:
        ingest.say(*lines[: index_of(lines, "tool_execution_start")])
        ingest.wait_for("AGENT_TOOL_CALL_STATUS_IN_PROGRESS")
        ingest.say(*lines[index_of(lines, "tool_execution_start") :])
        assert ingest.end() == 0
    assert "1 run: 1 completed" in ingest.errors


def test_a_terminal_shows_what_is_going_on(tmp_path: Path) -> None:
    """On a terminal one moving line tells what runs now; it is gone at the end."""
    seen = tmp_path / "seen"
    running = re.compile(r"└─ … .*tool bash \d+ ms")

    def look(text: str) -> None:
        if running.search(text):
            seen.touch()

    script = tmp_path / "agent.sh"
    script.write_text(f"cat {KILLED}; for i in $(seq 100); do [ -e {seen} ] && exit; sleep 0.1; done\n")
    status, written = on_a_terminal(
        "-c",
        f"bash {script} | {' '.join(COMMAND)} ingest",
        env={"NO_COLOR": "1"},
        command=["/bin/bash"],
        watch=look,
    )
    assert status == 0
    assert seen.exists()
    assert written.rstrip().splitlines()[-2].endswith("1 run: 1 incomplete")
