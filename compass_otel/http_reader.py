"""Reads one HTTP/1.1 answer, as much of it as anybody needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compass_otel.tcp_connect import ConnectionFailed

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_HEAD_BYTES: Final = 65_536
_MAX_BODY_BYTES: Final = 262_144  # an answer is a status and a sentence; the rest of a larger one is not read
_MAX_LENGTH_DIGITS: Final = 18
_SHOWN_BYTES: Final = 256
_FIRST_REFUSAL: Final = 300
_FIRST_FINAL_STATUS: Final = 200
_NO_BODY: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    status: int
    headers: dict[str, str]
    """Lower-case names."""
    body: bytes
    complete: bool
    """False if the body was longer than anybody needs and its rest was not read."""


class ResponseReader:
    """Reads one answer.

    Args:
        receive: Gives what has come, waiting for it; empty at the end; raises `OSError`.
        bodiless: The answer has no body whatever it says: that to a CONNECT.

    """

    def __init__(self, receive: Callable[[], bytes], *, bodiless: bool = False) -> None:
        self._receive = receive
        self._bodiless = bodiless
        self._data = b""

    def read(self) -> tuple[Response, bool]:
        """Read the answer.

        Returns:
            The answer, and whether the connection may be kept.

        Raises:
            ConnectionFailed: Time is up, the connection broke, or what came is no HTTP.

        """
        status, headers, keep = self._head()
        while status < _FIRST_FINAL_STATUS:
            status, headers, keep = self._head()
        if self._bodiless or status in _NO_BODY:
            return Response(status, headers, b"", complete=True), keep and not self._data
        if "chunked" in headers.get("transfer-encoding", "").lower():
            body, complete = self._chunks()
        elif "content-length" in headers:
            body, complete = self._sized(headers["content-length"])
        else:
            body, complete = self._rest(status)
            keep = False
        # Bytes behind the answer belong to no request of ours: whoever sends them is not trusted with the next.
        return Response(status, headers, body, complete), keep and complete and not self._data

    def _more(self) -> bool:
        try:
            data = self._receive()
        except OSError as error:
            raise ConnectionFailed("answer", error, answered=bool(self._data)) from error
        self._data += data
        return bool(data)

    def _need_more(self) -> None:
        if not self._more():
            where = "in the middle of the answer" if self._data else "without an answer"
            raise ConnectionFailed("answer", ConnectionResetError(f"closed {where}"), answered=bool(self._data))

    def _head(self) -> tuple[int, dict[str, str], bool]:
        """Read status and headers, and whether they let the connection live."""
        while (end := self._data.find(b"\r\n\r\n")) < 0:
            if not b"HTTP/".startswith(self._data[:5]) or len(self._data) > _MAX_HEAD_BYTES:
                raise _no_http(self._data)
            self._need_more()
        head, self._data = self._data[:end], self._data[end + 4 :]
        first, *lines = head.decode("latin-1").split("\r\n")
        protocol, _, rest = first.partition(" ")
        code = rest[:3]
        if protocol not in {"HTTP/1.1", "HTTP/1.0"} or not (code.isascii() and code.isdecimal() and int(code) >= 100):  # noqa: PLR2004
            raise _no_http(head)
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        connection = headers.get("connection", "" if protocol == "HTTP/1.1" else "close").lower()
        return int(code), headers, "close" not in connection

    def _sized(self, length: str) -> tuple[bytes, bool]:
        if not (length.isascii() and length.isdecimal()):
            raise _no_http(b"Content-Length: " + length.encode("latin-1"))
        wanted = int(length) if len(length) <= _MAX_LENGTH_DIGITS else _MAX_BODY_BYTES + 1
        size = min(wanted, _MAX_BODY_BYTES)
        while len(self._data) < size:
            self._need_more()
        body, self._data = self._data[:size], self._data[size:]
        return body, wanted == size

    def _rest(self, status: int) -> tuple[bytes, bool]:
        """Read until the connection ends; what a refusal says holds even if it ends rudely.

        A server that refuses before it has read the request closes upon unread bytes, and that is a reset.
        """
        try:
            while len(self._data) < _MAX_BODY_BYTES and self._more():
                continue
        except ConnectionFailed as failure:
            if status < _FIRST_REFUSAL or not isinstance(failure.cause, ConnectionError):
                raise
        return self._data[:_MAX_BODY_BYTES], len(self._data) < _MAX_BODY_BYTES

    def _chunks(self) -> tuple[bytes, bool]:
        body = b""
        while (size := self._chunk_size()) + len(body) <= _MAX_BODY_BYTES:
            while len(self._data) < size + 2:
                self._need_more()
            body += self._data[:size]
            self._data = self._data[size + 2 :]
            if size == 0:
                return body, True
        return body, False

    def _chunk_size(self) -> int:
        while (end := self._data.find(b"\r\n")) < 0:
            if len(self._data) > _MAX_HEAD_BYTES:
                raise _no_http(self._data)
            self._need_more()
        line, self._data = self._data[:end], self._data[end + 2 :]
        digits = line.partition(b";")[0].strip()
        try:
            return int(digits, 16) if digits.isalnum() else int("no number")
        except ValueError:
            raise _no_http(line) from None


def _no_http(data: bytes) -> ConnectionFailed:
    return ConnectionFailed("answer", data[:_SHOWN_BYTES], answered=True)
