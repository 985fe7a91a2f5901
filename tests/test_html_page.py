"""`compass-otel replay --html`: the file, its safety, and that it says what the terminal says."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_support import CAPTURES, COMMAND, LIMIT_S, compass, objects
from compass_otel.html_page import data_block
from compass_otel.page_advice import would_tell
from compass_otel.page_run import page_run
from compass_otel.page_timeline import timeline
from page.pages import NOTE, every_kind, recorded
from view_samples import MS, cancelled_run, chat, event, failed_chat, retried_run, root, run, span

if TYPE_CHECKING:
    from pathlib import Path

FAILED = CAPTURES / "pi-1.6" / "f_http_503_exhausted.events.jsonl"
GOOD = CAPTURES / "pi-1.6" / "a_success_text.events.jsonl"
KILLED = CAPTURES / "pi-1.6" / "o2_sigkill_during_tool.events.jsonl"
BLOCK = re.compile(r'<script type="application/json" id="([^"]+)">(.*?)</script>', re.DOTALL)


def blocks(page: str) -> dict[str, Any]:
    """Give the data of a page by the name of its block."""
    return {name: json.loads(text) for name, text in BLOCK.findall(page)}


def made(path: Path, *arguments: object) -> dict[str, Any]:
    """Let the command make a page; give its data."""
    done = compass("replay", "--html", path, *arguments)
    assert done.returncode == 0, done.stderr
    return blocks(path.read_text(encoding="utf-8"))


def test_the_page_is_a_whole_file_for_its_owner_alone(tmp_path: Path) -> None:
    """One file, mode 0600 under any umask; standard output stays empty, standard error names the file."""
    page = tmp_path / "runs.html"
    before = os.umask(0)
    try:
        done = compass("replay", "--html", page, FAILED, GOOD)
    finally:
        os.umask(before)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"wrote {page}" in done.stderr
    assert "2 runs in 2 inputs: 1 failed, 1 completed" in " ".join(done.stderr.split())
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert text.rstrip().endswith("</html>")
    assert [file.name for file in tmp_path.iterdir()] == ["runs.html"]


def test_a_dash_is_standard_output(tmp_path: Path) -> None:
    """The same bytes come out of the pipe, and nothing else does."""
    page = tmp_path / "runs.html"
    made(page, FAILED)
    assert compass("replay", "--html", "-", FAILED).stdout == page.read_text(encoding="utf-8")


def test_a_pipe_that_closes_is_no_trouble() -> None:
    """`replay --html - | head` ends in silence, as any other output does."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, "replay", "--html", "-", str(FAILED)],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=LIMIT_S,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert b"Broken" not in done.stderr


@pytest.mark.parametrize("other", [["--json"], ["--frames", "-"]])
def test_two_outputs_never_share_standard_output(other: list[str]) -> None:
    """Asked for two things on one stream it says so and reads nothing."""
    done = compass("replay", "--html", "-", *other, FAILED)
    assert done.returncode == 2
    assert "--html" in done.stderr


def test_json_and_a_page_come_in_one_go(tmp_path: Path) -> None:
    """With a file for the page, standard output is free for `--json`; a closed one does not cost the page its runs."""
    page = tmp_path / "runs.html"
    [first, second] = objects("replay", "--html", page, FAILED, GOOD)
    assert [each["runs"][0]["outcome"] for each in (first, second)] == ["failed", "completed"]
    assert len(blocks(page.read_text(encoding="utf-8"))) == 3
    reading, writing = os.pipe()
    os.close(reading)
    command = [*COMMAND, "replay", "--json", "--html", str(page), str(FAILED), str(GOOD), str(KILLED)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
    os.close(writing)
    assert done.returncode == 0
    assert len(blocks(page.read_text(encoding="utf-8"))) == 4


def test_a_target_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    """One line, exit status 1, and nothing was read for it."""
    for target in (tmp_path / "missing" / "runs.html", tmp_path):
        done = compass("replay", "--html", target, FAILED)
        assert done.returncode == 1
        assert done.stderr.startswith(f"compass-otel: {target}: cannot be written: ")
        assert done.stderr.count("\n") == 1


def test_a_page_takes_its_place_only_when_it_is_whole(tmp_path: Path) -> None:
    """An interrupted command leaves the former page as it was, and nothing beside it."""
    page = tmp_path / "runs.html"
    page.write_text("the former page", encoding="utf-8")
    script = (
        "import sys; from compass_otel import html_page; from compass_otel.cli import main\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "html_page.shutil.copyfileobj = stop\n"
        "sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "replay", "--html", str(page), str(FAILED)],
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1
    assert page.read_text(encoding="utf-8") == "the former page"
    assert list(tmp_path.iterdir()) == [page]


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    """What a link points to is replaced, not the link; into what is no plain file the page is written, in place."""
    page, link, pipe = tmp_path / "runs.html", tmp_path / "latest.html", tmp_path / "pipe"
    link.symlink_to(page)
    made(link, FAILED)
    assert link.is_symlink()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    os.mkfifo(pipe)
    read: list[bytes] = []
    # A daemon: should nobody ever write to the pipe, it must not keep the tests from ending.
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    done = compass("replay", "--html", pipe, FAILED)
    assert done.returncode == 0
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(LIMIT_S)
    assert read == [page.read_bytes()]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    """A page can be compared with yesterday's."""
    made(tmp_path / "a.html", FAILED, GOOD)
    made(tmp_path / "b.html", FAILED, GOOD)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_failures_come_first_then_the_newest(tmp_path: Path) -> None:
    """Failed, incomplete, cancelled, open, completed, each the newest first; `--failures` leaves out the last."""
    streams = sorted((CAPTURES / "pi-1.6").glob("*.events.jsonl"))
    runs = made(tmp_path / "runs.html", *streams)["index"]["runs"]
    order = ["failed", "incomplete", "cancelled", "open", "completed"]
    keys = [(order.index(each["fate"]), -each["start_ms"]) for each in runs]
    assert keys == sorted(keys)
    assert len({each["fate"] for each in runs}) == 4
    failures = made(tmp_path / "runs.html", "--failures", *streams)["index"]["runs"]
    assert failures == [
        {**each, "number": failures[at]["number"]} for at, each in enumerate(runs) if each["fate"] != "completed"
    ]


def test_the_page_says_what_the_terminal_says(tmp_path: Path) -> None:
    """Headline, totals and each card's facts, message and next step are the terminal's own words."""
    tree = " ".join(re.sub("[│┃├└]|─ ", "", compass("replay", FAILED, env={"COLUMNS": "400"}).stdout).split())
    data = made(tmp_path / "runs.html", FAILED)
    page = data["run-0"]
    assert page["headline"] in tree
    assert " · ".join(page["totals"]) in tree
    rows = [row for row in page["timeline"]["rows"] if row["card"]]
    assert len(rows) == page["failures"][0]["facts"].index("retryable") == 3
    for row in rows:
        assert " · ".join(row["card"]["facts"]) in tree
        assert " ".join(row["card"]["message"].split()) in tree
        assert row["card"]["next"] in tree


def test_exit_statuses_stay(tmp_path: Path) -> None:
    """`--fail-on` decides as it does without a page."""
    page = tmp_path / "runs.html"
    assert compass("replay", "--html", page, "--fail-on", "failed", FAILED).returncode == 3
    assert compass("replay", "--html", page, "--fail-on", "failed", GOOD).returncode == 0
    assert compass("replay", "--html", page, tmp_path / "none.jsonl").returncode == 1


def test_secrets_stay_hidden(tmp_path: Path) -> None:
    """A key in an error or in the name of a file is nowhere in the page."""
    key = "sk-ant-api03-" + "Ab3dEf6hIj9" * 6
    folder = tmp_path / f"token={key}"
    folder.mkdir()
    text = recorded(folder, f"401 invalid x-api-key: {key}").read_text(encoding="utf-8")
    assert key not in text
    assert text.count("[redacted") >= 3


def test_the_policy_allows_the_two_parts_of_the_page_and_nothing_else(tmp_path: Path) -> None:
    """All is forbidden but the style sheet and the script that are there, by their hashes; no address is named."""
    made(tmp_path / "runs.html", GOOD)
    text = (tmp_path / "runs.html").read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    [style] = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    [script] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = ["sha256-" + base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (style, script)]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'{hashes[0]}'",
        "script-src": f"'{hashes[1]}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    own = BLOCK.sub("", text)
    assert re.findall(r"https?:|url\(|@import|\bsrc=|innerHTML|\beval\b|import\(", own) == []
    assert len(own) < 60_000


TEXTS = st.text(max_size=60) | st.sampled_from(["</script>", "<!--", "<script>", "]]>", "\u2028", "\x00", "&lt;"])


@given(
    st.recursive(
        TEXTS | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=12
    )
)
def test_no_text_ends_the_block_that_it_stands_in(value: Any) -> None:
    """Whatever the data holds, its block has no angle bracket but those of its own tags, and gives the data back."""
    block = data_block("run-1", value).decode()
    inside = block.removeprefix('<script type="application/json" id="run-1">').removesuffix("</script>\n")
    assert "<" not in inside
    assert json.loads(inside) == value


@given(
    st.integers(0, 10**15),
    st.lists(st.tuples(st.integers(-(10**6), 10**8), st.none() | st.integers(0, 10**8)), max_size=8),
)
def test_every_row_stands_inside_the_scale(length_ns: int, spans: list[tuple[int, int | None]]) -> None:
    """Whatever the times are, bars lie between the run's edges, and the scale has few marks, from 0 upwards."""
    head = root(0)
    head["end_unix_ns"] = head["start_unix_ns"] + length_ns
    children = [chat(at, None if size is None else at + size) for at, size in spans]
    laid = timeline(run("completed", head, *children))  # type: ignore[arg-type]
    for row in laid["rows"]:
        assert 0 <= row["left"] <= 1
        assert 0 <= row["left"] + row["width"] <= 1.0001
    ticks = [tick["left"] for tick in laid["ticks"]]
    assert ticks[0] == 0
    assert ticks == sorted(ticks)
    assert len(ticks) <= 7
    assert len({tick["words"] for tick in laid["ticks"]}) == len(ticks)


def test_the_announced_wait_before_a_retry_is_drawn() -> None:
    """It begins where the failed attempt ends, and only a failed attempt has one."""
    laid = timeline(retried_run("failed"))  # type: ignore[arg-type]
    assert [row["wait"] for row in laid["rows"]] == [0, pytest.approx(62 / 160, abs=0.001), 0]


def test_failures_that_say_the_same_are_one_card() -> None:
    """Attempts with one error are one card with its steps; the one that decided comes first, others follow."""
    page = page_run(retried_run("failed"), number=0, source="").page  # type: ignore[arg-type]
    assert page["failures"] == [
        {
            "fate": "failed",
            "facts": ["ERROR", "overloaded", "HTTP 503", "retryable", "2 times"],
            "message": page["failures"][0]["message"],
            "steps": [
                {"attempt": "attempt 1", "next": "retried after 60 ms: attempt 2"},
                {"attempt": "attempt 2", "next": "gave up after 2 attempts"},
            ],
        }
    ]
    two = run(
        "failed",
        root(300),
        failed_chat(1, 50, "503 first"),
        failed_chat(100, 300, "503 second", attempt=2),
        error_type="overloaded",
    )
    told = [each["message"] for each in page_run(two, number=0, source="").page["failures"]]  # type: ignore[arg-type]
    assert told == ["503 second", "503 first"]


def test_a_note_that_was_recorded_is_told_as_told() -> None:
    """What a chat's event says the model was told is in the page, apart from what it would have been told."""
    pages = [page_run(each, number=0, source="").page for each in every_kind()]  # type: ignore[arg-type]
    assert [[note["would"] for note in page["notes"]] for page in pages] == [[False], [], [], [], [], [True]]
    assert pages[0]["notes"][0]["text"] == NOTE
    assert pages[-1]["notes"][0]["text"].startswith(
        "[error-advisor] The previous request failed with a transient provider error"
    )


def test_only_a_run_that_ended_in_failure_is_advised() -> None:
    """A cancel, a loss and a repaired failure give no advice, however they look otherwise."""
    error = [{"kind": "ERROR", "message": "503 overloaded", "status": 503}]
    for each in (retried_run("completed"), cancelled_run(), run("incomplete", root(9), error_type="process_lost")):
        assert would_tell({**each, "session_errors": error}) == []  # type: ignore[typeddict-item]
    assert would_tell({**retried_run("failed"), "session_errors": []}) == []  # type: ignore[typeddict-item]


def test_a_long_run_says_what_it_leaves_out() -> None:
    """Spans that the command leaves out of a very long run are counted in words."""
    page = page_run(retried_run("failed"), number=0, source="", hidden=1200).page  # type: ignore[arg-type]
    assert page["hidden"] == "1,200 spans that went well not shown here, see --json"


def test_a_long_attribute_is_cut_and_says_so() -> None:
    """A recorded prompt as long as a book costs a few kilobytes of the page."""
    long = chat(1, 50, gen_ai__input__messages="word " * 100_000, listed=["a", "b"], deep=[[1], None])
    [_, row] = timeline(run("completed", root(60), long))["rows"]  # type: ignore[arg-type]
    assert len(row["attributes"]["gen_ai.input.messages"]) < 4200
    assert row["attributes"]["gen_ai.input.messages"].endswith("[cut, 500000 bytes in all]")
    assert row["attributes"]["listed"] == "a, b"
    assert row["attributes"]["deep"] == "[[1], null]"


def test_spans_stand_under_their_parents_and_after_the_run() -> None:
    """A tool inside a tool is a row inside its row; a compaction after the run stands at the right edge."""
    outer = span("execute_tool task", 10, 90, span_id="b" * 16, attributes={"gen_ai.tool.name": "task"})
    inner = span("execute_tool bash", 20, 80, parent_span_id="b" * 16, attributes={"gen_ai.tool.name": "bash"})
    after = span("compact", 5000, 6000, trace_id="9" * 32, parent_span_id=None)
    steer = event("compass.session.injection", 15, compass__session__injection__kind="STEER")
    laid = timeline(run("completed", root(100, events=[steer]), outer, inner, after))["rows"]  # type: ignore[arg-type]
    assert [row["name"] for row in laid] == [
        "invoke_agent pi",
        "tool task",
        "a message of the user steered the run",
        "compact",
    ]
    assert [row["name"] for row in laid[1]["rows"]] == ["tool bash"]
    assert (laid[-1]["left"], laid[-1]["width"], laid[-1]["details"][0]) == (1, 0, "after the run")
    assert laid[1]["begins"] == "10 ms"
    assert laid[1]["width"] == pytest.approx(80 * MS / (100 * MS))
