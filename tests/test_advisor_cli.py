"""`compass-otel advise` and the example: notes for a host in any language."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from advisor_scenes import AUTH_NOTE, EXHAUSTED_NOTE, OVERLOADED, SOFTENED_NOTE, UNAUTHORISED, listed, stamp, user
from advisor_scenes import OVERFLOW as OVERFLOW_TEXT
from compass_otel.advise_cli import add_advise_parser, run
from compass_otel.exits import Exit
from compass_otel.renderers import HostFormat

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = Path(__file__).parent.parent / "examples" / "advise_openai.py"
FAILED = [user(0), listed(1, UNAUTHORISED), user(3)]
NOW = str(stamp(4))


@pytest.fixture
def advise(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command with a document on standard input; gives its status and what it printed."""

    def call(document: Any, *arguments: str) -> tuple[int, str, str]:
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        parser = ArgumentParser()
        add_advise_parser(parser)
        status = run(parser.parse_args(arguments))
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode()

    return call


def test_a_list_of_messages_gives_the_notes_as_lines(advise: Any) -> None:
    """The plainest use: Pi's messages in, one line a note out."""
    assert advise(FAILED, "--now", NOW) == (Exit.OK, AUTH_NOTE + "\n", "")


def test_silence_prints_nothing(advise: Any) -> None:
    """Where nothing is to be told, nothing is printed, and that is no failure."""
    assert advise([user(0)], "--now", NOW) == (Exit.OK, "", "")
    assert advise([user(0)], "--now", NOW, "--format", "openai") == (Exit.OK, "[]\n", "")


def test_the_document_states_model_and_time(advise: Any) -> None:
    """An object may say where the request goes and when; the command line overrides it."""
    document = {
        "messages": [user(0), listed(1, OVERFLOW_TEXT), user(3)],
        "model": {"provider": "anthropic", "id": "model-y"},
        "now": stamp(4),
    }
    assert advise(document) == (Exit.OK, SOFTENED_NOTE + "\n", "")
    assert advise(document, "--now", "2031-01-01T00:00:00Z")[1] == ""
    assert "larger-context" in advise(document, "--model", "anthropic/model-x")[1]


def test_a_host_whose_lists_carry_no_failures_says_how_its_run_ended(advise: Any) -> None:
    """For OpenAI and Anthropic hosts the failure stands beside the messages, retries included."""
    failure = {"message": OVERLOADED, "status": 529, "provider": "openai", "model": "m", "at": stamp(1), "retries": 2}
    document = {"input": [{"role": "user", "content": "Hi"}], "model": "openai/m", "failure": failure, "now": stamp(4)}
    status, out, _ = advise(document, "--format", "openai-responses")
    [message] = json.loads(out)
    assert status == Exit.OK
    assert message == {"type": "message", "role": "user", "content": [{"type": "input_text", "text": EXHAUSTED_NOTE}]}
    assert advise({**document, "now": stamp(2000)}, "--format", "openai")[1] == "[]\n"


@pytest.mark.parametrize("host", HostFormat)
def test_each_format_prints_the_message_to_append(advise: Any, host: HostFormat) -> None:
    """Each format gives a JSON list with one message of that host that holds the note."""
    status, out, _ = advise(FAILED, "--now", NOW, "--format", host)
    [message] = json.loads(out)
    content = message["content"]
    assert status == Exit.OK
    assert (content if isinstance(content, str) else content[0]["text"]) == AUTH_NOTE
    assert message.get("timestamp", stamp(4)) == stamp(4)


def test_the_whole_list_is_ready_to_be_sent(advise: Any) -> None:
    """With --whole the list comes back with the notes in their place, and nothing else changed."""
    out = json.loads(advise(FAILED, "--now", NOW, "--format", "pi", "--whole")[1])
    assert out[:-1] == FAILED
    assert out[-1]["content"][0]["text"] == AUTH_NOTE


@pytest.mark.parametrize(
    "document", [b"{", b"\xff", b"", b"7", b"{}", b'{"messages": 3}', b"[" * 100_000], ids=lambda data: repr(data[:12])
)
def test_input_that_is_no_conversation_is_refused_without_repeating_it(advise: Any, document: bytes) -> None:
    """A broken document gives status 1, one line that says why, and nothing of the conversation."""
    status, out, err = advise(document)
    assert (status, out) == (Exit.TROUBLE, "")
    assert err.startswith("compass-otel: advise: ")
    assert len(err.splitlines()) == 1


def test_a_file_is_read_too(advise: Any, tmp_path: Path) -> None:
    """The messages may stand in a file; one that is not there is said so."""
    path = tmp_path / "messages.json"
    path.write_text(json.dumps(FAILED), encoding="utf-8")
    assert advise(b"", str(path), "--now", NOW)[1] == AUTH_NOTE + "\n"
    assert advise(b"", str(tmp_path / "none.json"))[0] == Exit.TROUBLE


def test_the_example_runs_offline_and_shows_the_note() -> None:
    """The example's second request tells of the first one's failure, and its history does not."""
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    assert "     user: [error-advisor] The previous request failed with a transient provider error — " in done.stdout
    assert "the history holds: ['system', 'user', 'user', 'assistant']" in done.stdout
