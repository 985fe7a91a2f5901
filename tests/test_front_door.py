"""The front door: one list of public names, cheap to import, with no side effects."""

import subprocess
import sys

import compass_otel


def test_every_listed_name_is_there_and_none_is_missing() -> None:
    """`__all__` is sorted, holds no name twice, and each name can be had from its home."""
    assert compass_otel.__all__ == sorted(set(compass_otel.__all__))
    assert sorted(compass_otel._HOME) == compass_otel.__all__
    for name in compass_otel.__all__:
        assert getattr(compass_otel, name) is not None
        assert name in dir(compass_otel)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that is not public fails like on any module."""
    assert not hasattr(compass_otel, "no_such_name")


def test_importing_everything_opens_nothing() -> None:
    """Importing every public name starts no thread, opens no socket and reads no user file."""
    code = """
import socket, threading
def refuse(*a, **k): raise AssertionError("a socket was opened")
socket.socket.connect = refuse
import compass_otel
for name in compass_otel.__all__: getattr(compass_otel, name)
assert threading.active_count() == 1, threading.enumerate()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)
