"""`compass-otel spool`: what a person sees of a spool and does with it, beside living and dead processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from compass_otel import semconv
from compass_otel.delivery import Delivered, Delivery, Rejected, Retry
from compass_otel.encoding import encode_span
from compass_otel.exits import Exit
from compass_otel.notices import Notices
from compass_otel.priority_lane import PriorityLane
from compass_otel.spool import Spool
from compass_otel.spool_admin import FlushResult, flush, recover, show, status
from compass_otel.spool_cli import add_spool_parser, run
from compass_otel.spool_file import FILE_NAME
from compass_otel.waiting import WaitGate
from receivers import Receiver, refusal
from sink_support import ERROR_ATTRIBUTES, FakeSender, span

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "sk-ant-api03-EXAMPLEfake0EXAMPLEfake0EXAMPLEfake0AA"  # noqa: S105 - made up


def body(name: str, **attributes: str) -> bytes:
    """Encode a failed span."""
    return encode_span(span(name, {**ERROR_ATTRIBUTES, **attributes}, error=True))


def spool_command(*arguments: str) -> int:
    """Run `compass-otel spool` with these arguments."""
    parser = ArgumentParser()
    add_spool_parser(parser)
    return run(parser.parse_args(arguments))


def leave(folder: Path, *bodies: bytes) -> None:
    """Leave records behind, as a process does that ends with its backend down."""
    with closing(Spool(folder)) as spool:
        for each in bodies:
            spool.append(each, 3)
        spool.note(b"run", body("invoke_agent"))


def test_status_tells_what_waits_and_for_whom(tmp_path: Path) -> None:
    """Numbers by rank, open runs, living and dead owners; looking changes nothing."""
    leave(tmp_path, body("left"))
    with closing(Spool(tmp_path)) as living:
        living.append(body("mine"), 1)
        for _ in range(2):
            found = status(tmp_path)
            assert (found.waiting, found.by_rank) == (2, {"session_error": 1, "lifecycle": 1})
            assert (found.open_runs, found.living_owners, found.dead_owners, found.set_aside) == (1, 1, 1, 0)
            assert found.size_bytes > 0
            assert found.bound_bytes == 256 << 20
            assert found.oldest_at_ns is not None


def test_status_tells_of_records_that_were_given_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A spool that was too small says so for as long as it exists, whoever lost by it."""
    with closing(Spool(tmp_path, max_bytes=2000)) as spool:
        for _ in range(10):
            spool.append(b"x" * 500, 1)
    found = status(tmp_path)
    assert (found.waiting, found.given_up) == (3, 7)
    assert found.given_up_at_s is not None
    assert spool_command("status", str(tmp_path)) == Exit.OK
    assert "LOST at the bound: 7, the last" in capsys.readouterr().out


def test_looking_at_a_folder_without_a_spool_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped path is answered and stays as it was."""
    for action in ("status", "flush", "recover", "show"):
        assert spool_command(action, str(tmp_path / "nothing")) == Exit.OK
    assert not (tmp_path / "nothing").exists()
    assert "empty" in capsys.readouterr().out


def test_recover_closes_open_runs_of_the_dead_once_and_sends_nothing(tmp_path: Path) -> None:
    """What a dead process left open becomes a waiting record."""
    leave(tmp_path, body("left"))
    assert recover(tmp_path).runs == 1
    assert recover(tmp_path).runs == 0
    found = status(tmp_path)
    assert (found.waiting, found.open_runs) == (2, 0)
    assert [record.span_name for record in show(tmp_path)] == ["left", "invoke_agent"]


def test_flush_sends_what_the_dead_left_and_what_the_living_have(tmp_path: Path) -> None:
    """Everything that waits goes out; a living process learns of it and sends nothing twice."""
    leave(tmp_path, body("dead"))
    with closing(Spool(tmp_path)) as spool:
        lane = PriorityLane(
            FakeSender(always=Retry(None, "down")),
            spool,
            memory_bytes=1 << 20,
            gate=WaitGate(0, on_event_loop=False, clock=lambda: 0.0),
            export_timeout_s=1,
            notices=Notices(),
        )
        lane.worker.wake = lambda: None  # type: ignore[method-assign]
        for name in ("living", "poison"):
            lane.offer(body(name), 3, wait=False)  # type: ignore[arg-type]

        def refuse(names: list[str]) -> Delivery:
            return Rejected("413") if "poison" in names else Delivered()

        sender = FakeSender(always=refuse)
        result = flush(tmp_path, sender, 5)
        assert (result.delivered, result.rejected, result.left) == (3, 1, 0)
        assert sorted(sender.taken) == ["dead", "invoke_agent", "living"]
        lane.step()
        stats = lane.stats()
        assert (stats.delivered, dict(stats.rejected), stats.spooled) == (1, {"refused": 1}, 0)
    assert [(record.span_name, record.reason) for record in show(tmp_path, set_aside=True)] == [
        ("poison", "refused: 413")
    ]


def test_flush_gives_up_at_its_time_and_says_why(tmp_path: Path) -> None:
    """A backend that is down costs the time that was allowed; everything is still there."""
    leave(tmp_path, body("left"))
    result = flush(tmp_path, FakeSender(always=Retry(None, "connection refused")), 0.6)
    assert result == FlushResult(left=2, reason="connection refused")
    assert status(tmp_path).waiting == 2


def test_flush_leaves_alone_what_its_owner_is_sending(tmp_path: Path) -> None:
    """Nothing goes out twice because two send at once."""
    with closing(Spool(tmp_path)) as spool:
        spool.append(body("mine"), 3)
        assert spool.lease(1, 1 << 20)
        sender = FakeSender()
        result = flush(tmp_path, sender, 0.1)
        assert (result.delivered, result.left, result.busy_owners) == (0, 1, 1)
        assert sender.requests == []


def test_show_tells_of_each_record_what_a_person_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Name, ids, service, conversation, error; secrets and controls never reach the terminal."""
    noisy = encode_span(span("chat \x1b[31m", {**ERROR_ATTRIBUTES, semconv.GEN_AI_CONVERSATION_ID: "c-1"}, error=True))
    leave(tmp_path, noisy, body(f"key {SECRET}"), b"no record at all")
    shown = list(show(tmp_path))
    assert shown[0].service == "test"
    assert (shown[0].conversation, shown[0].error_type, shown[0].status) == ("c-1", "overloaded", "boom")
    assert len(shown[0].trace_id) == 32
    assert shown[2].unreadable
    assert shown[3].state == "open run"
    assert spool_command("show", str(tmp_path)) == Exit.OK
    text = capsys.readouterr().out
    assert len(text.splitlines()) == 4
    assert SECRET not in text
    assert "\x1b" not in text
    assert spool_command("show", str(tmp_path), "--set-aside") == Exit.OK
    assert capsys.readouterr().out == "nothing is set aside\n"


def test_scripts_get_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json each line is an object."""
    leave(tmp_path, body("left"))
    assert spool_command("status", str(tmp_path), "--json") == Exit.OK
    assert json.loads(capsys.readouterr().out)["waiting"] == 1
    assert spool_command("show", str(tmp_path), "--json") == Exit.OK
    assert [json.loads(line)["span_name"] for line in capsys.readouterr().out.splitlines()] == ["left", "invoke_agent"]
    assert spool_command("recover", str(tmp_path), "--json") == Exit.OK
    assert json.loads(capsys.readouterr().out) == {"records": 2, "runs": 1}


def test_an_unreadable_spool_is_an_answer_not_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is no spool is named, with status 1."""
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 100)
    assert spool_command("status", str(tmp_path)) == Exit.TROUBLE
    assert "unreadable" in capsys.readouterr().err


def test_the_command_sends_to_a_real_receiver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`spool flush --endpoint` delivers over OTLP, and what is refused for good is told by the exit status."""
    with Receiver() as receiver:
        leave(tmp_path, body("one"))
        assert spool_command("flush", str(tmp_path), "--endpoint", receiver.http_endpoint) == Exit.OK
        assert capsys.readouterr().out == "2 delivered, 0 refused for good, 0 still waiting\n"
        assert sorted(span.name for span in receiver.spans()) == ["invoke_agent", "one"]
        receiver.behave(refusal(400, "INVALID_ARGUMENT", "bad record"))
        leave(tmp_path, body("two"))
        assert spool_command("flush", str(tmp_path), "--endpoint", receiver.http_endpoint) == Exit.TROUBLE
        assert "2 refused for good" in capsys.readouterr().out


def test_help_shows_an_example(tmp_path: Path) -> None:
    """Whoever asks for help sees a command to copy."""
    code = (
        "from argparse import ArgumentParser\nfrom compass_otel.spool_cli import add_spool_parser\n"
        "parser = ArgumentParser(); add_spool_parser(parser); parser.parse_args(['--help'])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, env=dict(os.environ)
    )
    assert result.returncode == 0
    assert "compass-otel spool flush --endpoint" in result.stdout
