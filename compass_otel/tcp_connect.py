"""A TCP connection within a deadline, name resolution included."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any


class ConnectionFailed(Exception):  # noqa: N818 - what happened, not a mistake of the program
    """No answer was got.

    Args:
        stage: What was being done: `resolve`, `connect`, `proxy`, `tls`, `send`, `answer`.
        cause: The error below, or the first bytes of what is no HTTP.
        answered: Whether any byte of an answer had come.

    """

    def __init__(self, stage: str, cause: BaseException | bytes, *, answered: bool = False) -> None:
        super().__init__(stage, cause)
        self.stage = stage
        self.cause = cause
        self.answered = answered


def connect(host: str, port: int, deadline: float) -> socket.socket:
    """Open a TCP connection to the first address that answers.

    Args:
        host: Name or address.
        port: Port.
        deadline: Monotonic seconds.

    Returns:
        The connected socket.

    Raises:
        ConnectionFailed: None answers before the deadline.

    """
    addresses = resolve(host, port, deadline)
    last: BaseException = OSError("no address")
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        left = deadline - time.monotonic()
        if left <= 0:
            raise ConnectionFailed("connect", TimeoutError())
        plain = socket.socket(family, kind, protocol)
        try:
            # A first address that swallows packets leaves time for the second.
            plain.settimeout(left / (len(addresses) - index))
            plain.connect(address)
        except OSError as error:
            plain.close()
            last = error
        else:
            return plain
    raise ConnectionFailed("connect", last) from last


def resolve(host: str, port: int, deadline: float) -> list[tuple[Any, ...]]:
    """Look a host up, waiting until the deadline at most.

    The system's resolver knows no time-out, so a name is looked up in a thread of its own, which is left alone when it
    takes too long and asked again the next time; an address needs no look-up.

    Args:
        host: Name or address.
        port: Port.
        deadline: Monotonic seconds.

    Returns:
        What `socket.getaddrinfo` gives.

    Raises:
        ConnectionFailed: The name is unknown, or the deadline came first.

    """
    try:
        return _addresses(host, port, socket.AI_NUMERICHOST)
    except OSError:
        lookup = _pending.get((host, port)) or _Lookup(host, port)
    answer = lookup.wait(deadline - time.monotonic())
    if isinstance(answer, OSError):
        raise ConnectionFailed("resolve", answer) from answer
    return answer


class _Lookup:
    """One look-up of a name in a thread."""

    def __init__(self, host: str, port: int) -> None:
        self._key = (host, port)
        self._answer: list[tuple[Any, ...]] | OSError = TimeoutError()
        self._thread = threading.Thread(target=self._run, name="compass-otel-resolver", daemon=True)
        _pending[self._key] = self
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter is ending and starts no threads any more
            self._run()

    def wait(self, timeout_s: float) -> list[tuple[Any, ...]] | OSError:
        if self._thread.is_alive():
            self._thread.join(max(timeout_s, 0.0))
        if not self._thread.is_alive():  # ended, or left behind in the parent process by a fork
            _pending.pop(self._key, None)
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = _addresses(*self._key, 0)
        except OSError as error:
            self._answer = error


_pending: dict[tuple[str, int], _Lookup] = {}
"""Look-ups that run, so that a resolver that hangs holds one thread and not one for each attempt."""


def _addresses(host: str, port: int, flags: int) -> list[tuple[Any, ...]]:
    # As bytes: text would load Python's own IDNA tables first.
    return list(dict.fromkeys(socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM, flags=flags)))
