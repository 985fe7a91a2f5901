"""The wire contract: its names and numbers, the checks that guard it, and the runtimes that can read it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

import compass_otel
from checks import contract
from compass_otel._pb.compass.v1 import compass_pb2

ROOT = Path(__file__).resolve().parents[1]

FIELDS = {
    "SessionEvent": {
        "event_id": 1,
        "at_unix_ms": 2,
        "assistant_text": 3,
        "thinking": 4,
        "tool_call": 5,
        "tool_call_update": 6,
        "plan": 7,
        "notice": 8,
        "session_injection": 9,
        "session_error": 10,
    },
    "SessionAssistantText": {"text": 1, "message_id": 2},
    "SessionThinking": {"text": 1, "message_id": 2},
    "SessionToolCall": {"tool_call_id": 1, "title": 2, "status": 3},
    "SessionToolCallUpdate": {"tool_call_id": 1, "status": 2, "output": 3, "diffs": 4},
    "SessionFileDiff": {"path": 1, "old_text": 2, "new_text": 3},
    "SessionPlan": {"entries": 1},
    "AgentPlanEntry": {"content": 1, "status": 2},
    "SessionNotice": {"text": 1, "link": 2},
    "SessionInjection": {"op_kind": 1, "message_id": 2, "from_handle": 3},
    "SessionError": {"kind": 1, "message": 2, "status": 3},
    "SessionFrame": {"state": 1, "typed_event": 2},
    "AgentSessionFrame": {"session_id": 1, "event": 2, "state": 3},
}
ENUMS = {
    "AgentSessionState": ["STARTING", "READY", "WORKING", "STOPPED", "ERRORED", "DISCONNECTED"],
    "AgentToolCallStatus": ["PENDING", "IN_PROGRESS", "COMPLETED", "FAILED"],
    "AgentPlanEntryStatus": ["PENDING", "IN_PROGRESS", "COMPLETED"],
    "SessionInjectionKind": ["STEER", "DELIVER"],
    "SessionErrorKind": ["ERROR", "ABORTED"],
}
PREFIXES = {
    "AgentSessionState": "AGENT_SESSION_STATE_",
    "AgentToolCallStatus": "AGENT_TOOL_CALL_STATUS_",
    "AgentPlanEntryStatus": "AGENT_PLAN_ENTRY_STATUS_",
    "SessionInjectionKind": "SESSION_INJECTION_KIND_",
    "SessionErrorKind": "SESSION_ERROR_KIND_",
}


def test_messages_have_exactly_the_agreed_names_and_numbers() -> None:
    """Every message and field of the contract stands under its agreed number, and no other does."""
    messages = compass_pb2.DESCRIPTOR.message_types_by_name
    assert {name: {f.name: f.number for f in message.fields} for name, message in messages.items()} == FIELDS


def test_enums_have_exactly_the_agreed_names_and_numbers() -> None:
    """Every enum counts from UNSPECIFIED = 0 in the agreed order."""
    enums = compass_pb2.DESCRIPTOR.enum_types_by_name
    expected = {
        name: {PREFIXES[name] + value: number for number, value in enumerate(["UNSPECIFIED", *values])}
        for name, values in ENUMS.items()
    }
    assert {name: {v.name: v.number for v in enum.values} for name, enum in enums.items()} == expected


def test_an_unknown_status_is_absent_and_not_zero() -> None:
    """A session error without a status says so on the wire: absence survives, and differs from 0."""
    absent = compass_pb2.SessionError(kind=compass_pb2.SESSION_ERROR_KIND_ERROR, message="m")
    zero = compass_pb2.SessionError(kind=compass_pb2.SESSION_ERROR_KIND_ERROR, message="m", status=0)
    assert not compass_pb2.SessionError.FromString(absent.SerializeToString()).HasField("status")
    assert compass_pb2.SessionError.FromString(zero.SerializeToString()).HasField("status")


@pytest.mark.parametrize(("message", "field"), [("SessionFileDiff", "old_text"), ("SessionNotice", "link")])
def test_optional_texts_tell_absent_from_empty(message: str, field: str) -> None:
    """An optional text that is absent stays absent, and an empty one stays empty."""
    made = getattr(compass_pb2, message)
    assert not made.FromString(made().SerializeToString()).HasField(field)
    assert made.FromString(made(**{field: ""}).SerializeToString()).HasField(field)


@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    status=st.none() | st.integers(-(2**31), 2**31 - 1),
    at_unix_ms=st.integers(-(2**63), 2**63 - 1),
)
def test_a_session_error_round_trips(text: str, status: int | None, at_unix_ms: int) -> None:
    """Whatever the text, the time and the status are, bytes and JSON give the same event back."""
    event = compass_pb2.SessionEvent(
        event_id="1",
        at_unix_ms=at_unix_ms,
        session_error=compass_pb2.SessionError(
            kind=compass_pb2.SESSION_ERROR_KIND_ABORTED, message=text, status=status
        ),
    )
    assert compass_pb2.SessionEvent.FromString(event.SerializeToString()) == event
    assert json_format.Parse(json_format.MessageToJson(event), compass_pb2.SessionEvent()) == event


def test_a_reader_of_the_older_contract_skips_what_it_does_not_know() -> None:
    """A member of the oneof that a reader has never heard of leaves the rest of the event readable."""
    newer = compass_pb2.SessionEvent(event_id="7").SerializeToString() + b"\x9a\x06\x02hi"  # field 99
    older = compass_pb2.SessionEvent.FromString(newer)
    assert older.event_id == "7"
    assert older.WhichOneof("event") is None
    assert older.SerializeToString() == newer


# --- the checks themselves -------------------------------------------------------------------------------------------


@pytest.fixture(name="copy")
def _copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    shutil.copytree(ROOT / "compass_otel" / "_pb", tmp_path / "compass_otel" / "_pb")
    return tmp_path


def _edit(copy: Path, old: str, new: str) -> None:
    file = copy / "proto" / contract.CONTRACT
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.checkout
def test_the_committed_contract_passes_all_checks() -> None:
    """Lint, drift and breaking find nothing in the tree as it stands."""
    assert contract.check(ROOT) == []


@pytest.mark.checkout
@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("string event_id = 1;", "string eventId = 1;", "lower_snake_case"),
        ("SESSION_ERROR_KIND_UNSPECIFIED = 0;", "SESSION_ERROR_KIND_NONE = 0;", "_UNSPECIFIED"),
        ("SESSION_INJECTION_KIND_STEER = 1;", "STEER = 1;", "SESSION_INJECTION_KIND_"),
        ("package compass.v1;", "package compass.v2;", "directory"),
    ],
)
def test_lint_fails_when_a_rule_is_broken(copy: Path, old: str, new: str, rule: str) -> None:
    """A name outside of the STANDARD rules is a line of complaint that names the rule."""
    _edit(copy, old, new)
    assert any(rule in line for line in contract.lint(copy))


@pytest.mark.checkout
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    SessionError session_error = 10;\n", ""),
        ("SessionError session_error = 10;", "SessionError session_error = 11;"),
        ("SessionError session_error = 10;", "SessionNotice session_error = 10;"),
        ("string from_handle = 3;", "string sender = 3;"),
        ("optional int32 status = 3;", "int32 status = 3;"),
        ("optional int32 status = 3;", "optional int64 status = 3;"),
        ("  SESSION_ERROR_KIND_ABORTED = 2;\n", ""),
        ("AGENT_SESSION_STATE_ERRORED = 5;", "AGENT_SESSION_STATE_FAILED = 5;"),
    ],
)
def test_breaking_fails_when_a_reader_would_break(copy: Path, old: str, new: str) -> None:
    """Removing, renumbering, retyping or renaming what readers know is refused, and `gen` keeps the baseline."""
    before = (copy / contract.BASELINE).read_bytes()
    _edit(copy, old, new)
    assert contract.breaking(copy) != []
    assert contract.gen(copy) != []
    assert (copy / contract.BASELINE).read_bytes() == before


@pytest.mark.checkout
def test_an_addition_is_no_break_and_is_protected_from_then_on(copy: Path) -> None:
    """A new member of the oneof is accepted by `gen`, enters the baseline, and cannot be taken away afterwards."""
    line = "    SessionError session_error = 10;\n"
    added = line + "    SessionNotice second_notice = 11;\n"
    _edit(copy, line, added)
    assert any("run `make gen`" in problem for problem in contract.breaking(copy))
    assert contract.gen(copy) == []
    assert contract.check(copy) == []
    _edit(copy, added, line)
    assert contract.breaking(copy) != []


@pytest.mark.checkout
@pytest.mark.parametrize("name", contract.GENERATED)
def test_drift_fails_when_generated_code_was_edited_or_is_gone(copy: Path, name: str) -> None:
    """Generated code that differs from what the contract generates is named."""
    file = copy / contract.PACKAGE_DIR / name
    file.write_text(file.read_text(encoding="utf-8") + "# by hand\n", encoding="utf-8")
    assert [name in line for line in contract.drift(copy)] == [True]
    file.unlink()
    assert [name in line for line in contract.drift(copy)] == [True]


@pytest.mark.checkout
def test_drift_fails_when_the_contract_moved_on(copy: Path) -> None:
    """A contract that was changed without generating anew is drift in both files."""
    _edit(copy, "string title = 2;", "string title = 2;\n  string subtitle = 4;")
    assert len(contract.drift(copy)) == len(contract.GENERATED)


@pytest.mark.checkout
def test_the_command_says_what_is_wrong_and_fails(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check` ends with status 0 on a sound tree, and with 1 and one line per problem on a broken one."""
    assert contract.main(["check", "--root", str(copy)]) == 0
    _edit(copy, "string event_id = 1;", "string eventId = 1;")
    assert contract.main(["check", "--root", str(copy)]) == 1
    assert "lint: " in capsys.readouterr().out


# --- the runtimes ----------------------------------------------------------------------------------------------------

ROUND_TRIP = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from compass_otel._pb.compass.v1 import compass_pb2 as pb
import google.protobuf
from google.protobuf import json_format
error = pb.SessionError(kind=pb.SESSION_ERROR_KIND_ERROR, message="529 \\u00fcberlastet", status=529)
event = pb.SessionEvent(event_id="1", at_unix_ms=1788307200000, session_error=error)
diffs = [pb.SessionFileDiff(path="a", new_text="b"), pb.SessionFileDiff(path="a", old_text="", new_text="b")]
update = pb.SessionToolCallUpdate(tool_call_id="t", status=pb.AGENT_TOOL_CALL_STATUS_FAILED, output="o", diffs=diffs)
frames = [
    pb.AgentSessionFrame(session_id="s", event=event),
    pb.AgentSessionFrame(session_id="s", state=pb.AGENT_SESSION_STATE_ERRORED),
    pb.AgentSessionFrame(session_id="s", event=pb.SessionEvent(event_id="2", tool_call_update=update)),
]
for frame in frames:
    assert pb.AgentSessionFrame.FromString(frame.SerializeToString()) == frame
    assert json_format.Parse(json_format.MessageToJson(frame), pb.AgentSessionFrame()) == frame
print(json.dumps({
    "version": google.protobuf.__version__,
    "wire": [frame.SerializeToString(deterministic=True).hex() for frame in frames],
    "json": [json.loads(json_format.MessageToJson(frame)) for frame in frames],
}))
"""


def _runtime(requirement: str, folder: Path) -> Path:
    """Install one protobuf into a folder of its own; kept, so that only the first run asks the package index."""
    if not folder.is_dir():
        fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(fresh), requirement]
        done = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=100)
        assert done.returncode == 0, done.stderr
        fresh.rename(folder)
    return folder


@pytest.fixture(name="runtimes", scope="session")
def _runtimes() -> dict[str, Path]:
    kept = ROOT / "build" / "protobuf"
    kept.mkdir(parents=True, exist_ok=True)
    return {
        "floor": _runtime("protobuf==5.26.1", kept / "floor"),
        "newest": _runtime("protobuf>=5.26.1,<8", kept / "newest"),
    }


def _round_trip(runtime: Path) -> dict[str, object]:
    # -S leaves out the environment's own packages: only the one runtime and the package itself are there to be found.
    package = Path(compass_otel.__file__).resolve().parents[1]
    search = json.dumps([str(runtime), str(package)])
    command = [sys.executable, "-S", "-c", ROUND_TRIP, search]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, cwd=runtime)
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_the_oldest_and_the_newest_runtime_write_the_same(runtimes: dict[str, Path]) -> None:
    """On the declared floor and on the newest protobuf, all frames round-trip, to the same bytes and the same JSON."""
    floor, newest = _round_trip(runtimes["floor"]), _round_trip(runtimes["newest"])
    assert floor.pop("version") == "5.26.1"
    assert str(newest.pop("version")).startswith("7.")
    assert floor == newest
