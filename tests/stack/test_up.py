"""`make stack-up`, as a person uses it: start, look, send, look again, Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from command_support import CAPTURES, compass
from receivers import wait_until
from stack.build import HERE
from stack.jaeger_api import JaegerApi
from stack.programs import fetch

pytestmark = pytest.mark.stack


def test_the_stack_comes_up_says_where_to_look_and_ends() -> None:
    """It prints addresses that answer, shows a run that is sent there, and ends all three at Ctrl-C."""
    command = [sys.executable, str(HERE / "up.py"), "--any-ports"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        text = ""
        while "for instance" not in text:
            line = up.stdout.readline()
            assert line, text
            text += line
        children = children_of(up.pid)
        assert len(children) == 3
        url = re.search(r"look here +(http://\S+?)/api", text)
        endpoint = re.search(r"send here +(http://\S+)", text)
        assert url
        assert endpoint
        for address in re.findall(r"http://127\.0\.0\.1:\d+/(?:graph|metrics)", text):
            assert fetch(address) is not None, address
        failed = CAPTURES / "pi-1.6" / "f_http_503_exhausted.events.jsonl"
        assert compass("replay", "--export", "--endpoint", endpoint[1], failed).returncode == 0
        assert wait_until(lambda: bool(JaegerApi(url[1]).search("pi", {"compass.outcome": "failed"})), 20.0)
        look = [sys.executable, str(HERE / "look.py")]
        seen = subprocess.run(
            look, env={**os.environ, "JAEGER_URL": url[1]}, capture_output=True, text=True, check=True
        )
        assert "(!) invoke_agent pi" in seen.stdout
        assert "error.type=overloaded  http.response.status_code=503  compass.outcome=failed" in seen.stdout
        up.send_signal(signal.SIGINT)
        assert up.wait(30) == 0
    assert not [pid for pid in children if is_running(pid)]


def children_of(pid: int) -> list[int]:
    """Give the ids of a process's children."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
