"""A fork in the middle of sending: both processes go on, each over a connection of its own."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from compass_otel.delivery import Delivered
from receivers import IMMEDIATE, Mode, Receiver, wait_until
from receivers.records import a_record, send, sender_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compass_otel.delivery import Sender

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    # Python warns of what these tests are about.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]

PROTOCOLS = ("http/protobuf", "grpc")
ROUNDS = 8


@pytest.fixture(scope="module", name="shared")
def _shared() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(name="receiver")
def _receiver(shared: Receiver) -> Receiver:
    shared.behave(IMMEDIATE)
    return shared


def in_child(work: Callable[[], bool], within_s: float = 10.0) -> bool:
    """Fork, work in the child, and tell whether it worked there, without a crash or a hang."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = 0 if work() else 1
        finally:
            os._exit(status)
    ended: list[int] = []

    def is_over() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            ended.append(status)
        return bool(pid)

    if not wait_until(is_over, within_s):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return False
    return ended == [0]


def delivers(sender: Sender, number: int) -> bool:
    """Send one record under this name."""
    return send(sender, a_record(f"child {number}")) == Delivered()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_children_and_parent_deliver_while_another_thread_sends(receiver: Receiver, protocol: str) -> None:
    """No crash, no hang, nothing twice, nothing lost, whatever moment the fork comes in."""
    sender, busy = sender_to(receiver, protocol), sender_to(receiver, protocol)
    stop = threading.Event()
    sent: list[bool] = []

    def load() -> None:
        while not stop.is_set():
            sent.append(send(busy, a_record("busy")) == Delivered())

    before = len(receiver.spans())
    assert send(sender, a_record("parent")) == Delivered()
    thread = threading.Thread(target=load)
    thread.start()
    try:
        results = [in_child(lambda number=number: delivers(sender, number)) for number in range(ROUNDS)]  # type: ignore[misc]
        assert send(sender, a_record("parent")) == Delivered()
    finally:
        stop.set()
        thread.join()
    names = [span.name for span in receiver.spans()[before:]]
    assert results == [True] * ROUNDS
    assert all(names.count(f"child {number}") == 1 for number in range(ROUNDS))
    assert names.count("parent") == 2
    assert all(sent)
    assert names.count("busy") == len(sent)
    sender.close()
    busy.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_child_that_closes_its_sender_leaves_the_parents_connection_alone(receiver: Receiver, protocol: str) -> None:
    """After the child's end the parent goes on over the connection that it had."""
    sender = sender_to(receiver, protocol)
    assert send(sender, a_record()) == Delivered()
    before = receiver.counts()[f"{protocol[:4]}_connections"]

    def close() -> bool:
        sender.reset_after_fork()
        sender.close()
        return True

    assert in_child(close)
    assert send(sender, a_record()) == Delivered()
    assert receiver.counts()[f"{protocol[:4]}_connections"] == before
    sender.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_call_that_hangs_does_not_hold_a_fork(receiver: Receiver, protocol: str) -> None:
    """The backend answers nothing: a fork still comes through in a moment, and the child can send."""
    sender = sender_to(receiver, protocol)
    receiver.behave(Mode("hang", times=1))
    thread = threading.Thread(target=lambda: send(sender, a_record(), within_s=1.5))
    thread.start()
    counted = protocol[:4]
    assert wait_until(lambda: receiver.counts()[counted] > 0)
    other = sender_to(receiver, protocol)
    started = time.monotonic()
    assert in_child(lambda: delivers(other, 0))
    assert time.monotonic() - started < 1.2
    receiver.behave(IMMEDIATE)
    thread.join()
    sender.close()
    other.close()
