"""What the commands send: the spans that they show, to a real receiver, and the truth about what did not arrive."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from command_support import CAPTURES, COMMAND, LIMIT_S, compass
from receivers import Mode, Receiver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FAILED = CAPTURES / "pi-1.6" / "f_http_503_exhausted.events.jsonl"
CANCELLED = CAPTURES / "omp-18" / "i_abort_mid_stream.events.jsonl"
GOOD = CAPTURES / "omp-18" / "b_tool_success.events.jsonl"
OPEN = CAPTURES / "pi-1.6" / "o2_sigkill_during_tool.session.jsonl"


@pytest.fixture(name="receiver")
def running_receiver() -> Iterator[Receiver]:
    """Give a well-behaved receiver."""
    with Receiver() as receiver:
        yield receiver


def base(receiver: Receiver) -> str:
    """Give the endpoint as a person types it."""
    return f"http://127.0.0.1:{receiver.http_port}"


def shown(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Give the spans of `--json` output by their ids."""
    runs = [run for line in text.splitlines() for run in json.loads(line)["runs"]]
    return {(span["trace_id"], span["span_id"]): span for run in runs for span in run["spans"]}


def test_replay_sends_what_it_shows(receiver: Receiver) -> None:
    """Every span that is shown arrives, with the same ids, names, times, attributes and events, and no other."""
    done = compass("replay", "--json", "--export", "--endpoint", base(receiver), FAILED, CANCELLED, GOOD)
    assert done.returncode == 0, done.stderr
    spans = shown(done.stdout)
    arrived = receiver.spans()
    assert len(arrived) == len(spans)
    for span in arrived:
        wanted = spans[span.key]
        assert span.name == wanted["name"]
        assert (span.start_ns, span.end_ns) == (wanted["start_unix_ns"], wanted["end_unix_ns"])
        assert span.parent_span_id == (wanted["parent_span_id"] or "")
        sent = {key: value for key, value in span.attributes.items() if key != "compass.lane"}
        assert json.loads(json.dumps(sent)) == wanted["attributes"]
        assert [name for name, _ in span.events] == [event["name"] for event in wanted["events"]]
    assert {span.resource["service.name"] for span in arrived} == {"pi", "omp"}
    assert len({span.resource["service.instance.id"] for span in arrived}) == 1


def test_the_last_line_says_what_became_of_everything(receiver: Receiver) -> None:
    """The last line of standard error tells delivered, waiting and dropped, by lane."""
    done = compass("replay", "--export", "--endpoint", base(receiver), FAILED)
    last = done.stderr.splitlines()[-1]
    priority = sum(1 for span in receiver.spans() if span.attributes.get("compass.lane") == "priority")
    rest = len(receiver.spans()) - priority
    assert f"priority {priority} delivered, 0 waiting in the spool, 0 dropped" in last
    assert f"trace {rest} delivered, 0 waiting in the spool, 0 dropped" in last


@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_the_standard_variables_say_where_to(receiver: Receiver, variable: str) -> None:
    """Without `--endpoint` the standard variables decide, for both commands."""
    url = base(receiver) if variable == "OTEL_EXPORTER_OTLP_ENDPOINT" else receiver.http_endpoint
    assert compass("replay", "--export", FAILED, env={variable: url}).returncode == 0
    assert compass("ingest", stdin=GOOD.read_bytes(), env={variable: url}).returncode == 0
    assert {span.resource["service.name"] for span in receiver.spans()} == {"pi", "omp"}


def test_grpc_is_spoken_where_the_variables_say_so(receiver: Receiver) -> None:
    """`OTEL_EXPORTER_OTLP_PROTOCOL=grpc` is obeyed."""
    env = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    done = compass("replay", "--export", "--endpoint", receiver.grpc_endpoint, FAILED, env=env)
    assert done.returncode == 0, done.stderr
    assert {span.transport for span in receiver.spans()} == {"grpc"}


def test_ingest_sends_what_it_shows(receiver: Receiver) -> None:
    """A live run arrives as it is shown, and standard error ends with what became of it."""
    done = compass("ingest", "--json", "--endpoint", base(receiver), stdin=FAILED.read_bytes())
    assert done.returncode == 0, done.stderr
    assert {span.key for span in receiver.spans()} == set(shown(done.stdout))
    assert "0 dropped" in done.stderr.splitlines()[-1]


def test_an_incomplete_live_run_is_sent(receiver: Receiver) -> None:
    """A stream that stops with a run open is sent as incomplete, an error."""
    stream = CAPTURES / "pi-1.6" / "o2_sigkill_during_tool.events.jsonl"
    compass("ingest", "--endpoint", base(receiver), stdin=stream.read_bytes())
    (run,) = [span for span in receiver.spans() if span.name.startswith("invoke_agent")]
    assert run.attributes["compass.outcome"] == "incomplete"
    assert run.attributes["error.type"] == "process_lost"
    assert run.status_code == 2


def test_an_open_run_of_a_session_file_is_not_sent(receiver: Receiver, tmp_path: Path) -> None:
    """What a session file leaves open is shown, and nothing of it is sent."""
    session = tmp_path / "session.jsonl"
    session.write_bytes(OPEN.read_bytes())
    done = compass("replay", "--export", "--endpoint", base(receiver), session)
    assert done.returncode == 0, done.stderr
    assert "still open" in done.stdout
    assert receiver.spans() == []


def test_a_sampler_thins_what_is_sent_and_keeps_failures(receiver: Receiver) -> None:
    """With a sampler that takes nothing, runs and failures are sent all the same, and everything is shown."""
    env = {"OTEL_TRACES_SAMPLER": "always_off"}
    done = compass("replay", "--json", "--export", "--endpoint", base(receiver), FAILED, GOOD, env=env)
    names = sorted(span.name for span in receiver.spans())
    assert names == ["chat fake-model"] * 3 + ["invoke_agent omp", "invoke_agent pi"]
    assert len(shown(done.stdout)) > len(names)


def test_a_switched_off_sdk_sends_nothing_and_shows_everything(receiver: Receiver) -> None:
    """`OTEL_SDK_DISABLED` is about sending alone, and it is said."""
    env = {"OTEL_SDK_DISABLED": "true"}
    done = compass("replay", "--export", "--endpoint", base(receiver), FAILED, env=env)
    assert done.returncode == 0
    assert "✖ FAILED" in done.stdout
    assert "OTEL_SDK_DISABLED" in done.stderr
    assert receiver.spans() == []


def test_without_any_delivery_replay_gives_up_and_says_what_remains(receiver: Receiver) -> None:
    """A receiver that is down costs the time-out once, status 1 and a line; everything is shown."""
    url = base(receiver)
    receiver.kill()
    done = compass("replay", "--export", "--endpoint", url, "--timeout", "1.5", FAILED, GOOD, CANCELLED)
    assert done.returncode == 1
    assert re.search(r"gave up after 1\.5 s without any delivery: 3 runs not sent", done.stderr)
    assert "3 runs in 3 inputs" in done.stdout


def test_replay_waits_for_room_and_drops_nothing(receiver: Receiver) -> None:
    """A queue far smaller than a run, and a slow receiver, lose no span."""
    receiver.behave(Mode(delay_s=0.02))
    env = {"OTEL_BSP_MAX_QUEUE_SIZE": "4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2"}
    paths = sorted((CAPTURES / "omp-18").glob("[bc]*.events.jsonl"))
    done = compass("replay", "--json", "--export", "--endpoint", base(receiver), *paths, env=env)
    assert done.returncode == 0, done.stderr
    assert {span.key for span in receiver.spans()} == set(shown(done.stdout))


def test_what_ingest_could_not_send_waits_in_the_spool(receiver: Receiver, tmp_path: Path) -> None:
    """With the receiver down a live failure is kept and said, and the next command delivers it."""
    url = base(receiver)
    spool = tmp_path / "spool"
    receiver.kill()
    done = compass("ingest", "--endpoint", url, "--spool", spool, stdin=FAILED.read_bytes())
    assert done.returncode == 1
    assert "not delivered yet, kept in" in done.stderr
    assert re.search(r"priority 0 delivered, [1-9]\d* waiting in the spool, 0 dropped", done.stderr.splitlines()[-1])
    receiver.restart()
    compass("ingest", "--endpoint", url, "--spool", spool, stdin=GOOD.read_bytes())
    outcomes = {span.attributes.get("compass.outcome") for span in receiver.spans() if span.name == "invoke_agent pi"}
    assert outcomes == {"failed"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_ingest_with_everything_sent(receiver: Receiver, number: signal.Signals) -> None:
    """After Ctrl-C or SIGTERM the open run is sent as cancelled, without an error."""
    stream = CAPTURES / "pi-1.6" / "o2_sigkill_during_tool.events.jsonl"
    process = subprocess.Popen(
        [*COMMAND, "ingest", "--endpoint", base(receiver)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(stream.read_bytes())
    process.stdin.flush()
    assert b"running" in process.stdout.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert b"1 run: 1 cancelled" in out
    (run,) = [span for span in receiver.spans() if span.name.startswith("invoke_agent")]
    assert run.attributes["compass.outcome"] == "cancelled"
    assert run.status_code == 0
    assert len(receiver.spans()) == 3


def test_without_an_endpoint_nothing_is_kept(tmp_path: Path) -> None:
    """No endpoint, no state folder, no file: reading leaves no trace."""
    state = tmp_path / "kept"
    env = {"COMPASS_OTEL_STATE": str(state), "HOME": str(tmp_path)}
    compass("ingest", stdin=FAILED.read_bytes(), env=env)
    compass("replay", FAILED, env=env)
    assert list(tmp_path.iterdir()) == []
