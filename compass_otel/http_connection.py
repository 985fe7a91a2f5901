"""One kept-alive HTTP/1.1 connection that never outlasts a deadline.

The stock exporter spends most of its 700 us per request in layers above the socket, and its time-outs hold per read, so
that a peer that sends a byte a second keeps it for ever. Here a request is one `send`, an answer usually one `recv`,
and every wait is bounded by what is left until the deadline: name look-up, each address tried, proxy, TLS, request,
answer.

Not thread-safe. In a forked child the parent's socket is dropped at first use, not shared.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from compass_otel.http_reader import Response, ResponseReader
from compass_otel.tcp_connect import ConnectionFailed, connect

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_IDLE_S: Final = 50.0  # load balancers forget silent connections after 60 s or more, without a word
_SLACK_S: Final = 0.005  # below this, telling the socket its new time-out costs more than it bounds
_SUCCESS: Final = range(200, 300)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect and what to speak there."""

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None = None
    proxy: tuple[str, int] | None = None
    tunnel: bytes = field(default=b"", repr=False)
    """The whole CONNECT request, where the proxy has to open a tunnel."""


class HttpConnection:
    """A connection that is opened when needed and kept while it works."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._context: ssl.SSLContext | None = None
        self._socket: socket.socket | None = None
        self._timeout_s = -1.0
        self._pid = 0
        self._used_at_s = 0.0

    def __del__(self) -> None:
        """Close without the interpreter's warning: a host may drop its provider without shutting it down."""
        self.close()

    def exchange(self, request: bytes, deadline: float) -> Response:
        """Send a request and read its answer.

        Where the other side had closed a kept connection meanwhile, a new one is opened, once.

        Args:
            request: The whole request.
            deadline: Monotonic seconds.

        Returns:
            The answer.

        Raises:
            ConnectionFailed: There is none; the connection is closed.

        """
        kept = self._kept()
        if kept is not None:
            try:
                return self._once(kept, request, deadline)
            except ConnectionFailed as failure:
                if failure.answered or isinstance(failure.cause, TimeoutError):
                    raise
        return self._once(self._open(deadline), request, deadline)

    def close(self) -> None:
        """Close. In a forked child this closes the child's copy alone, without a word to the other side."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _kept(self) -> socket.socket | None:
        """Give the open connection if it still seems to be one."""
        plain = self._socket
        if plain is None:
            return None
        too_old = time.monotonic() - self._used_at_s > _MAX_IDLE_S
        if too_old or self._pid != os.getpid() or (_readable(plain) and not self._only_tls_talk(plain)):
            self.close()
            return None
        return plain

    def _only_tls_talk(self, plain: socket.socket) -> bool:
        """Whether what can be read is no end and no data, but a message of TLS itself such as a session ticket."""
        if not isinstance(plain, ssl.SSLSocket):
            return False
        plain.settimeout(0.0)
        self._timeout_s = 0.0
        try:
            plain.recv(1)
        except ssl.SSLWantReadError:
            return True
        except OSError:
            return False
        return False

    def _once(self, plain: socket.socket, request: bytes, deadline: float) -> Response:
        """Send and read, over this socket; it stays open only after a whole answer."""
        whole = False
        try:
            response, whole = self._ask(plain, request, deadline)
        finally:
            if whole:
                self._used_at_s = time.monotonic()
            else:
                # Also when a signal handler raised in here: the next answer on this socket would be the one to this.
                self.close()
        return response

    def _ask(self, plain: socket.socket, request: bytes, deadline: float) -> tuple[Response, bool]:
        refused: OSError | None = None
        try:
            self._limit(plain, deadline)
            plain.sendall(request)
        except TimeoutError as error:
            raise ConnectionFailed("send", error) from error
        except OSError as error:
            refused = error  # a server that refuses a large body answers and closes before it has read all of it
        try:
            response, keep = ResponseReader(lambda: self._receive(plain, deadline)).read()
        except ConnectionFailed as failure:
            if refused is not None and not failure.answered:
                raise ConnectionFailed("send", refused) from refused
            raise
        return response, keep and refused is None

    def _receive(self, plain: socket.socket, deadline: float) -> bytes:
        self._limit(plain, deadline)
        return plain.recv(65_536)

    def _limit(self, plain: socket.socket, deadline: float) -> None:
        """Bound the next call on the socket: its time-out counts from each call, so it has to shrink with time."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if not 0 <= self._timeout_s - left < _SLACK_S:
            plain.settimeout(left)
            self._timeout_s = left

    def _open(self, deadline: float) -> socket.socket:
        address = self._address
        self.close()
        plain = self._connect(deadline)
        self._socket, self._pid, self._timeout_s = plain, os.getpid(), -1.0
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        ready = False
        try:
            if address.tunnel:
                self._open_tunnel(plain, deadline)
            if address.tls is not None:
                self._socket = plain = self._start_tls(plain, address.tls, deadline)
            ready = True
        finally:
            if not ready:
                self.close()
        return plain

    def _connect(self, deadline: float) -> socket.socket:
        if self._address.proxy is None:
            return connect(self._address.host, self._address.port, deadline)
        try:
            return connect(*self._address.proxy, deadline)
        except ConnectionFailed as failure:
            raise ConnectionFailed("proxy", failure.cause) from failure

    def _open_tunnel(self, plain: socket.socket, deadline: float) -> None:
        try:
            self._limit(plain, deadline)
            plain.sendall(self._address.tunnel)
            response, _ = ResponseReader(lambda: self._receive(plain, deadline), bodiless=True).read()
        except OSError as error:
            raise ConnectionFailed("proxy", error) from error
        except ConnectionFailed as failure:
            raise ConnectionFailed("proxy", failure.cause) from failure
        if response.status not in _SUCCESS:
            raise ConnectionFailed("proxy", f"HTTP {response.status}".encode(), answered=True)

    def _start_tls(self, plain: socket.socket, tls: Callable[[], ssl.SSLContext], deadline: float) -> socket.socket:
        try:
            if self._context is None:
                self._context = tls()
            self._limit(plain, deadline)
            return self._context.wrap_socket(plain, server_hostname=self._address.host)
        except (OSError, ValueError) as error:
            raise ConnectionFailed("tls", error) from error


if hasattr(select, "poll"):

    def _readable(plain: socket.socket) -> bool:
        poll = select.poll()
        poll.register(plain, select.POLLIN)
        return bool(poll.poll(0))

else:  # Windows

    def _readable(plain: socket.socket) -> bool:
        return bool(select.select([plain], [], [], 0)[0])
