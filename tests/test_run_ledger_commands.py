"""Nothing twice: what the commands send, skip, send once more, and whose child it becomes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from command_support import CAPTURES, COMMAND, compass
from compass_otel.input_pipeline import InputPipeline
from compass_otel.own_provider import own_provider
from compass_otel.run_accounts import RunAccount, RunAccounts
from compass_otel.showing import RunCollector
from compass_otel.sources.reading import open_source
from receivers import Receiver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from receivers import ReceivedSpan

FAILED = CAPTURES / "pi-1.6" / "f_http_503_exhausted.session.jsonl"
LIVE_FAILED = CAPTURES / "pi-1.6" / "f_http_503_exhausted.events.jsonl"
TOOL = CAPTURES / "pi-1.6" / "b_tool_success.session.jsonl"
LIVE_TOOL = CAPTURES / "pi-1.6" / "b_tool_success.events.jsonl"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
LONG_AGO_S = 1_700_000_000


@pytest.fixture(name="receiver")
def running_receiver() -> Iterator[Receiver]:
    """Give a well-behaved receiver of traces."""
    with Receiver() as receiver:
        yield receiver


def export(receiver: Receiver, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Replay to the receiver."""
    return compass("replay", "--export", "--endpoint", f"http://127.0.0.1:{receiver.http_port}", *arguments)


def ingest(receiver: Receiver, stream: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Ingest to the receiver."""
    return compass("ingest", "--endpoint", f"http://127.0.0.1:{receiver.http_port}", stdin=stream.read_bytes(), env=env)


def runs(receiver: Receiver) -> list[ReceivedSpan]:
    """Give the run spans that arrived."""
    return [span for span in receiver.spans() if span.name.startswith("invoke_agent")]


def keys_of(path: Path) -> list[str]:
    """Give the ledger's keys of the runs of an input."""
    opened: list[str] = []

    class Keeper:
        def opened(self, account: RunAccount) -> None:
            opened.append(account.facts.key)

        def recorded(self, account: RunAccount) -> None:
            """Do nothing."""

    with open_source(str(path)) as reading:
        collector, accounts = RunCollector(), RunAccounts(Keeper())
        pipeline = InputPipeline(
            reading.source,
            collector,
            lambda agent, ids: own_provider(agent, [collector, accounts], ids=ids),
            accounts=accounts,
        )
        for decoded in reading:
            pipeline.handle(decoded)
        pipeline.handle(reading.end())
    return opened


SESSIONS = sorted(CAPTURES.glob("*/*.session.jsonl"))


@pytest.mark.parametrize("agent", ["pi-0.73", "pi-1.6", "omp-18"])
def test_a_session_file_and_its_live_stream_name_the_same_runs(agent: str) -> None:
    """For every recorded session of every agent, each run of the file has the key that it had live."""
    pairs = 0
    for session in (path for path in SESSIONS if path.parent.name == agent):
        stream = session.with_name(session.name.replace(".session.", ".events."))
        if stream.exists():
            pairs += 1
            stored = keys_of(session)
            assert set(stored) <= set(keys_of(stream)), session
            assert len(set(stored)) == len(stored), session
    assert pairs > 30


def test_what_was_sent_is_not_sent_again_and_the_person_is_told(receiver: Receiver) -> None:
    """A second export sends nothing and says how many runs it skipped; the first line of help says how to override."""
    export(receiver, FAILED, TOOL)
    first = receiver.keys()
    done = export(receiver, FAILED, TOOL)
    assert done.returncode == 0, done.stderr
    assert receiver.keys() == first
    assert "2 runs skipped: sent before; --again" in done.stderr


def test_again_sends_the_same_bytes(receiver: Receiver) -> None:
    """`--again` sends what was sent before, identical in every byte, so that a backend may drop the repetition."""
    export(receiver, FAILED)
    done = export(receiver, "--again", FAILED)
    assert "skipped" not in done.stderr
    records: Counter[bytes] = Counter()
    for _, _, _, request in receiver._store.requests():
        for group in request.resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    parts = (group.resource, scope.scope, span)
                    records[b"|".join(part.SerializeToString(deterministic=True) for part in parts)] += 1
    assert set(records.values()) == {2}


@pytest.mark.parametrize("name", ["pi-0.73/f_http_503_exhausted", "pi-1.6/i_abort_mid_stream", "omp-18/b_tool_success"])
def test_what_was_sent_live_is_skipped_when_its_session_file_is_replayed(receiver: Receiver, name: str) -> None:
    """`ingest`, then `replay --export` of the session file that the agent left: nothing arrives twice."""
    ingest(receiver, CAPTURES / f"{name}.events.jsonl")
    live = receiver.keys()
    assert live
    done = export(receiver, CAPTURES / f"{name}.session.jsonl")
    assert receiver.keys() == live
    assert "1 run skipped: sent before" in done.stderr


def test_two_exports_at_once_send_each_run_once(receiver: Receiver, tmp_path: Path) -> None:
    """Two processes over the same folder at the same time: every span arrives, and none twice."""
    wanted = compass("replay", "--json", CAPTURES / "omp-18")
    spans = {
        (span["trace_id"], span["span_id"])
        for line in wanted.stdout.splitlines()
        for run in json.loads(line)["runs"]
        if run["outcome"] != "open"
        for span in run["spans"]
    }
    folder = tmp_path / "sessions"
    folder.mkdir()
    for path in sorted((CAPTURES / "omp-18").glob("[bdf]*.session.jsonl")):
        (folder / path.name).symlink_to(path)
    command = [*COMMAND, "replay", "--export", "--endpoint", f"http://127.0.0.1:{receiver.http_port}", str(folder)]
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate(timeout=60)[1].decode() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    arrived = receiver.keys()
    assert len(arrived) == len(set(arrived))
    assert set(arrived) <= spans
    assert len(runs(receiver)) == len({key for path in folder.iterdir() for key in keys_of(path)})


def test_a_run_that_did_not_arrive_is_not_in_the_ledger(receiver: Receiver) -> None:
    """What a command gave up is sent by the next one, whole."""
    receiver.kill()
    assert export(receiver, "--timeout", "1", FAILED).returncode == 1
    receiver.restart()
    done = export(receiver, FAILED)
    assert "skipped" not in done.stderr
    assert len(runs(receiver)) == 1


def cut_session(folder: Path, *, lines: int) -> Path:
    """Give the head of a session whose answer is not in the file, unchanged for long."""
    path = folder / "session.jsonl"
    path.write_bytes(b"".join(TOOL.read_bytes().splitlines(keepends=True)[:lines]))
    os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return path


def test_an_incomplete_run_is_sent_once_more_when_its_file_shows_an_end(receiver: Receiver, tmp_path: Path) -> None:
    """Its run span comes under a new id, linked to the old one; its other spans come once, the new ones under it."""
    path = cut_session(tmp_path, lines=6)
    export(receiver, path)
    (lost,) = runs(receiver)
    assert lost.attributes["compass.outcome"] == "incomplete"
    before = set(receiver.keys())
    assert "1 run skipped" in export(receiver, path).stderr
    path.write_bytes(TOOL.read_bytes())
    assert "skipped" not in export(receiver, path).stderr
    (again,) = [run for run in runs(receiver) if run.span_id != lost.span_id]
    assert again.attributes["compass.outcome"] == "completed"
    assert again.attributes["compass.replay.of_span_id"] == lost.span_id
    assert (lost.trace_id, lost.span_id) in again.links
    assert again.trace_id == lost.trace_id
    keys = receiver.keys()
    assert len(keys) == len(set(keys))
    fresh = [span for span in receiver.spans() if span.key not in before and span.span_id != again.span_id]
    assert fresh
    assert {span.parent_span_id for span in fresh} == {again.span_id}
    whole = Counter(
        (span.name, span.start_ns) for span in receiver.spans() if span.attributes.get("compass.outcome") is None
    )
    assert set(whole.values()) == {1}
    assert "1 run skipped" in export(receiver, path).stderr
    assert receiver.keys() == keys


def test_a_live_run_that_was_killed_is_followed_by_what_its_file_shows(receiver: Receiver) -> None:
    """SIGKILL in the middle: the next live command sends the run as incomplete, the session file its end, linked."""
    url = f"http://127.0.0.1:{receiver.http_port}"
    head = LIVE_TOOL.read_bytes().splitlines(keepends=True)[:9]
    live = subprocess.Popen(
        [*COMMAND, "ingest", "--endpoint", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert live.stdin is not None
    assert live.stdout is not None
    live.stdin.write(b"".join(head))
    live.stdin.flush()
    assert live.stdout.readline()
    live.send_signal(signal.SIGKILL)
    live.communicate(timeout=30)
    waiting = export(receiver, cut_for_the_dead())
    assert "in the spool of a live command" in waiting.stderr
    ingest(receiver, LIVE_FAILED)
    assert receiver.wait_for(1)
    (lost,) = [run for run in runs(receiver) if run.attributes["compass.outcome"] == "incomplete"]
    export(receiver, TOOL)
    (again,) = [run for run in runs(receiver) if run.attributes["compass.outcome"] == "completed"]
    assert (lost.trace_id, lost.span_id) in again.links
    assert again.span_id != lost.span_id


def cut_for_the_dead() -> Path:
    """Give the session file of a run that shows no end either."""
    return cut_session(Path(os.environ["COMPASS_OTEL_STATE"]).parent, lines=6)


def test_a_live_stream_is_believed(receiver: Receiver) -> None:
    """What is piped in is sent, also when the same run was sent before: nobody but the person knows better."""
    ingest(receiver, LIVE_FAILED)
    once = len(receiver.keys())
    ingest(receiver, LIVE_FAILED)
    assert len(receiver.keys()) == 2 * once


def test_a_replay_leaves_a_run_to_the_live_command_that_sends_it(receiver: Receiver) -> None:
    """While `ingest` has a run open, an export of the growing session file does not send it."""
    url = f"http://127.0.0.1:{receiver.http_port}"
    live = subprocess.Popen(
        [*COMMAND, "ingest", "--endpoint", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert live.stdin is not None
    assert live.stdout is not None
    lines = LIVE_TOOL.read_bytes().splitlines(keepends=True)
    live.stdin.write(b"".join(lines[:9]))
    live.stdin.flush()
    assert live.stdout.readline()
    assert "1 run skipped: another command is sending" in export(receiver, TOOL).stderr
    live.stdin.write(b"".join(lines[9:]))
    live.communicate(timeout=30)
    assert [run.attributes["compass.outcome"] for run in runs(receiver)] == ["completed"]


def test_a_state_folder_that_cannot_be_used_costs_one_line(receiver: Receiver, tmp_path: Path) -> None:
    """Without a ledger everything is sent and the command succeeds; one line says what is missing."""
    (tmp_path / "file").write_text("")
    env = {"COMPASS_OTEL_STATE": str(tmp_path / "file" / "below")}
    url = f"http://127.0.0.1:{receiver.http_port}"
    for times in (1, 2):
        done = compass("replay", "--export", "--endpoint", url, FAILED, env=env)
        assert done.returncode == 0, done.stderr
        assert len(re.findall(r"state folder .* can't be used", done.stderr)) == 1
        assert len(runs(receiver)) == times


@pytest.mark.parametrize("flags", ["01", "00"])
def test_a_live_command_joins_an_inherited_trace(receiver: Receiver, flags: str) -> None:
    """With `TRACEPARENT` the run is its child, same span ids; an unsampled one costs no run and no failure."""
    compass_ids = {span["span_id"] for span in _shown_spans(LIVE_FAILED)}
    ingest(receiver, LIVE_FAILED, env={"TRACEPARENT": f"{PARENT}-{flags}"})
    (run,) = runs(receiver)
    assert run.trace_id == PARENT.split("-")[1]
    assert run.parent_span_id == PARENT.split("-")[2]
    assert {span.span_id for span in receiver.spans()} <= compass_ids
    failed = [span for span in receiver.spans() if span.status_code == 2 and span.name.startswith("chat")]
    assert len(failed) == len([span for span in _shown_spans(LIVE_FAILED) if span["name"].startswith("chat")])


def _shown_spans(path: Path) -> list[dict[str, str]]:
    done = compass("replay", "--json", path)
    return [span for line in done.stdout.splitlines() for run in json.loads(line)["runs"] for span in run["spans"]]


def test_a_replay_joins_no_trace(receiver: Receiver) -> None:
    """`TRACEPARENT` says whose child is happening now; what is replayed happened long ago."""
    url = f"http://127.0.0.1:{receiver.http_port}"
    compass("replay", "--export", "--endpoint", url, FAILED, env={"TRACEPARENT": f"{PARENT}-00"})
    (run,) = runs(receiver)
    assert run.trace_id != PARENT.split("-")[1]
    assert run.parent_span_id == ""
