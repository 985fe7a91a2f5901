"""HTTP byte by byte: what the sender writes, and every shape of answer it may get."""

from __future__ import annotations

import gzip
import json
import signal
import socket
import threading
import time
import zlib
from typing import TYPE_CHECKING, Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from compass_otel import otlp_answers
from compass_otel.delivery import Delivered, Rejected, Retry
from compass_otel.otlp_settings import load_settings
from compass_otel.sender import make_sender
from receivers import Mode, Receiver
from receivers.records import a_record, send, sender_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compass_otel.delivery import Delivery

PARTIAL = ExportTraceServiceResponse(
    partial_success=ExportTracePartialSuccess(rejected_spans=2, error_message="two")
).SerializeToString()


class Canned:
    """A server that reads a request and writes the bytes it was given, one piece after the other."""

    def __init__(self, *pieces: bytes, close: bool = True) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1/traces"
        self.pieces = pieces
        self.close_after = close
        self.connections = 0
        self.requests: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with client:
                while self._one(client) and not self.close_after:
                    continue

    def _one(self, client: socket.socket) -> bool:
        data = b""
        while b"\r\n\r\n" not in data:
            more = client.recv(65536)
            if not more:
                return False
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < size:
            body += client.recv(65536)
        self.requests.append(head + b"\r\n\r\n" + body)
        for piece in self.pieces:
            client.sendall(piece)
        return True


def answer_to(*pieces: bytes, within_s: float = 5.0) -> Delivery:
    """Give what the sender makes of these bytes."""
    with Canned(*pieces) as server:
        sender = make_sender(load_settings(endpoint=server.endpoint))
        delivery = send(sender, a_record(), within_s=within_s)
        sender.close()
        return delivery


def http(status: str, body: bytes = b"", **headers: str) -> bytes:
    """Put an answer together; underscores in header names become dashes."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body


PROTOBUF = "application/x-protobuf"
SHAPES: dict[str, tuple[bytes, type[Delivery], int]] = {
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", Delivered, 0),
    "accepted, text": (http("202 Accepted", b"ok", content_type="text/plain"), Delivered, 0),
    "no reason phrase": (b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", Delivered, 0),
    "http/1.0 until the end": (
        b"HTTP/1.0 200 OK\r\ncontent-type: application/x-protobuf\r\n\r\n" + PARTIAL,
        Delivered,
        2,
    ),
    "chunked": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/x-protobuf\r\n\r\n"
        + b"%x;ext=1\r\n%b\r\n0\r\n\r\n" % (len(PARTIAL), PARTIAL),
        Delivered,
        2,
    ),
    "interim answers first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nx: y\r\n\r\n" + http("200 OK"),
        Delivered,
        0,
    ),
    "more than was announced": (http("200 OK") + http("503 Busy"), Delivered, 0),
    "json": (
        http("200 OK", b'{"partialSuccess":{"rejectedSpans":"2"}}', content_type="application/json"),
        Delivered,
        2,
    ),
    "json of another kind": (http("200 OK", b'["ok"]', content_type="application/json"), Delivered, 0),
    "json that is none": (http("200 OK", b"{", content_type="application/json"), Delivered, 0),
    "gzip": (http("200 OK", gzip.compress(PARTIAL), content_type=PROTOBUF, content_encoding="gzip"), Delivered, 2),
    "a web page": (http("200 OK", b"<html>Log in</html>", content_type="text/html"), Retry, 0),
    "protobuf that is none": (http("200 OK", b"\xff\xff\xff", content_type=PROTOBUF), Retry, 0),
    "an endless body": (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n" + b"x" * 300_000, Retry, 0),
    "an endless chunk": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffff\r\n" + b"x" * 300_000,
        Retry,
        0,
    ),
    "a chunk size that is none": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n", Retry, 0),
    "a length that is none": (b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n", Retry, 0),
    "endless headers": (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000, Retry, 0),
    "a status that is none": (b"HTTP/1.1 ok\r\n\r\n", Retry, 0),
    "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n", Retry, 0),
    "half a body": (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345", Retry, 0),
    "nothing": (b"", Retry, 0),
    "plain text to a TLS port": (
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
        Retry,
        0,
    ),
    "refused, html": (http("413 Too Large", b"<h1>413 Request Too Large</h1>", content_type="text/html"), Rejected, 0),
    "refused, json": (http("400 Bad", b'{"message":"why"}', content_type="application/json"), Rejected, 0),
    "switching protocols": (b"HTTP/1.1 101 Switching\r\n\r\n" + http("503 Busy"), Retry, 0),
}


class TestAnswers:
    """Every shape that HTTP allows, and many that it does not."""

    @pytest.mark.parametrize("name", SHAPES)
    def test_each_shape(self, name: str) -> None:
        """It is read right, or it is a retry."""
        wire, kind, rejected = SHAPES[name]
        delivery = answer_to(wire)
        assert type(delivery) is kind
        if isinstance(delivery, Delivered):
            assert delivery.rejected == rejected

    @pytest.mark.parametrize("size", [1, 3, 7])
    def test_the_pieces_an_answer_comes_in_do_not_matter(self, size: int) -> None:
        """Byte by byte or at once: the same."""
        wire = SHAPES["chunked"][0]
        assert answer_to(*(wire[at : at + size] for at in range(0, len(wire), size))) == Delivered(2, "two")

    def test_what_a_refusal_says_is_read_from_json_and_html(self) -> None:
        """The text is in the reason, its markup is not."""
        json_answer, html_answer = answer_to(SHAPES["refused, json"][0]), answer_to(SHAPES["refused, html"][0])
        assert isinstance(json_answer, Rejected)
        assert '"why"' in json_answer.reason
        assert isinstance(html_answer, Rejected)
        assert "413 Request Too Large" in html_answer.reason
        assert "<" not in html_answer.reason

    def test_a_refusal_before_the_body_was_read_is_heard(self) -> None:
        """A server that answers 413 and closes, while we are still writing, has said 413."""
        listener = socket.create_server(("127.0.0.1", 0))

        def refuse() -> None:
            client, _ = listener.accept()
            client.recv(1000)
            client.sendall(http("413 Too Large", connection="close"))
            client.shutdown(socket.SHUT_WR)
            time.sleep(0)
            while client.recv(1 << 20):
                continue
            client.close()

        threading.Thread(target=refuse, daemon=True).start()
        sender = make_sender(load_settings(endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}"))
        assert isinstance(send(sender, a_record(attributes={"k": "x" * 20_000_000})), Rejected)
        sender.close()
        listener.close()

    @settings(max_examples=60)
    @given(st.one_of(st.binary(max_size=300), st.builds(lambda tail: b"HTTP/1.1 " + tail, st.binary(max_size=300))))
    def test_no_bytes_raise_or_hang(self, wire: bytes) -> None:
        """Whatever a server writes, there is an answer."""
        assert isinstance(answer_to(wire), Delivered | Retry | Rejected)


class TestRetryAfter:
    """How long a backend asks us to wait."""

    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            ("5", 5.0),
            ("0", 0.0),
            ("-3", 0.0),
            ("1.5", 1.5),
            ("99999", 60.0),
            ("inf", 60.0),
            ("nan", None),
            ("soon", None),
            ("", None),
            ("Wed, 21 Oct 2015 07:28:05 GMT", 5.0),
            ("Wed, 21 Oct 2015 07:27:00 GMT", 0.0),
        ],
    )
    def test_seconds_and_dates(self, value: str, seconds: float | None) -> None:
        """Both forms, bounded; a date counts from the answer's own date, so no clock of ours can spoil it."""
        headers = {"retry-after": value, "date": "Wed, 21 Oct 2015 07:28:00 GMT"}
        assert otlp_answers.retry_after(headers) == seconds

    def test_a_date_without_a_date_counts_from_now(self) -> None:
        """Then our own clock has to do, and the bound still holds."""
        at = "Wed, 21 Oct 2015 07:28:05 GMT"
        assert otlp_answers.retry_after({"retry-after": at}, now_s=1445412480.0) == 5.0
        assert otlp_answers.retry_after({"retry-after": at}, now_s=0.0) == 60.0


@pytest.fixture(scope="module", name="receiver")
def _receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


class TestConnecting:
    """Before the first byte."""

    def test_a_name_is_looked_up_and_its_addresses_tried(self, receiver: Receiver) -> None:
        """`localhost` may be two addresses, of which one listens."""
        sender = make_sender(load_settings(endpoint=f"http://localhost:{receiver.http_port}"))
        assert send(sender, a_record()) == Delivered()
        sender.close()

    def test_a_resolver_that_hangs_is_waited_for_no_longer_than_the_deadline(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Three attempts, one thread; when it answers at last, so do we."""
        go = threading.Event()
        real = socket.getaddrinfo
        calls: list[object] = []

        def slow(host: object, *arguments: Any, **more: Any) -> Any:
            if host == b"slow.example" and not more.get("flags"):
                calls.append(host)
                go.wait(10)
                host = b"127.0.0.1"
            return real(host, *arguments, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(socket, "getaddrinfo", slow)
        with Canned(http("200 OK")) as server:
            sender = make_sender(load_settings(endpoint=server.endpoint.replace("127.0.0.1", "slow.example")))
            for _ in range(3):
                started = time.monotonic()
                delivery = send(sender, a_record(), within_s=0.1)
                assert isinstance(delivery, Retry)
                assert "not resolved within" in delivery.reason
                assert time.monotonic() - started < 0.4
            assert len(calls) == 1
            go.set()
            assert send(sender, a_record()) == Delivered()
            sender.close()


class TestRequests:
    """What a backend sees."""

    def test_headers_of_the_settings_and_of_the_specification(self, receiver: Receiver) -> None:
        """Content type, user agent, and what the person set; one connection for all requests."""
        before = receiver.counts()["http_connections"]
        sender = sender_to(receiver, "http/protobuf", headers={"X-Key": "k"})
        for _ in range(3):
            assert send(sender, a_record()) == Delivered()
        seen = receiver.counts()
        assert seen["http_connections"] == before + 1
        assert seen["headers"]["http"]["content-type"] == "application/x-protobuf"
        assert seen["headers"]["http"]["user-agent"].startswith("OTel-OTLP-Exporter-Python/")
        assert seen["headers"]["http"]["x-key"] == "k"
        assert seen["headers"]["http"]["host"] == f"127.0.0.1:{receiver.http_port}"
        sender.close()

    def test_metadata_over_grpc(self, receiver: Receiver) -> None:
        """The same headers travel as metadata."""
        sender = sender_to(receiver, "grpc", headers={"X-Key": "k"})
        assert send(sender, a_record()) == Delivered()
        headers = receiver.counts()["headers"]["grpc"]
        assert headers["x-key"] == "k"
        assert headers["user-agent"].startswith("OTel-OTLP-Exporter-Python/")
        sender.close()

    @pytest.mark.parametrize(
        ("protocol", "compression"), [("http/protobuf", "gzip"), ("http/protobuf", "deflate"), ("grpc", "gzip")]
    )
    def test_compression(self, receiver: Receiver, protocol: str, compression: str) -> None:
        """A compressed body arrives whole."""
        sender = sender_to(receiver, protocol, compression=compression)
        assert send(sender, a_record("zipped", {"k": "x" * 10_000})) == Delivered()
        assert receiver.spans()[-1].attributes == {"k": "x" * 10_000}
        sender.close()

    def test_a_closed_connection_is_opened_again_without_a_word(self) -> None:
        """A server that closes after each answer costs a connection each, never a failure."""
        with Canned(http("200 OK")) as server:
            sender = make_sender(load_settings(endpoint=server.endpoint))
            for _ in range(5):
                assert send(sender, a_record()) == Delivered()
            assert server.connections == 5
            sender.close()

    def test_a_connection_that_breaks_under_the_request_is_tried_once_more(self, receiver: Receiver) -> None:
        """A kept connection may be gone without our knowing; a new one decides."""
        sender = sender_to(receiver, "http/protobuf")
        assert send(sender, a_record()) == Delivered()
        receiver.behave(Mode("reset", times=1))
        assert send(sender, a_record()) == Delivered()
        sender.close()

    def test_an_answer_to_an_interrupted_request_is_not_taken_for_the_next(self, receiver: Receiver) -> None:
        """A signal handler that raises in the middle leaves no connection with an answer still to come."""
        sender = sender_to(receiver, "http/protobuf")
        assert send(sender, a_record()) == Delivered()
        receiver.behave(Mode(delay_s=0.2, rejected=7, times=1))

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                sender.send([a_record()], time.monotonic() + 5)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert send(sender, a_record()) == Delivered()
        sender.close()

    def test_answers_that_nobody_asked_for_are_not_taken_for_the_next(self) -> None:
        """A server that answers twice is heard once a connection."""
        with Canned(http("200 OK") + http("503 Busy"), close=False) as server:
            sender = make_sender(load_settings(endpoint=server.endpoint))
            assert [send(sender, a_record()) for _ in range(3)] == [Delivered()] * 3
            assert server.connections == 3
            sender.close()

    def test_large_batches_arrive_whole(self, receiver: Receiver) -> None:
        """Five megabytes in two thousand records, over both protocols."""
        records = [a_record("many", {"k": "x" * 2_500}) for _ in range(1_500)]
        for protocol in ("http/protobuf", "grpc"):
            before = len(receiver.keys())
            sender = sender_to(receiver, protocol)
            assert send(sender, *records, within_s=20) == Delivered()
            assert len(receiver.keys()) == before + len(records)
            sender.close()

    def test_no_text_of_a_sender_shows_credentials(self) -> None:
        """Neither its description nor its `repr`, nor that of its settings."""
        url = "https://user:hunter2@collector/v1/traces?api_key=hunter3"
        made = load_settings(endpoint=url, headers={"x-api-key": "hunter4"})
        for text in (repr(made), str(made), made.describe(), repr(make_sender(made)), make_sender(made).target):
            assert "hunter" not in text
        assert dict(made.headers)["authorization"].startswith("Basic ")

    def test_body_of_deflate_is_zlib(self) -> None:
        """HTTP's deflate is the zlib format."""
        with Canned(http("200 OK")) as server:
            sender = make_sender(load_settings(endpoint=server.endpoint, compression="deflate"))
            record = a_record()
            send(sender, record)
            assert zlib.decompress(server.requests[0].partition(b"\r\n\r\n")[2]) == record
            sender.close()

    def test_messages_of_a_backend_are_one_short_line(self) -> None:
        """A refusal of a thousand lines is cut; the first words stay."""
        body = json.dumps({"message": "first\n" * 1000}).encode()
        delivery = answer_to(http("400 Bad", body, content_type="application/json"))
        assert isinstance(delivery, Rejected)
        assert len(delivery.reason) < 450
        assert "first first" in delivery.reason
        assert "\n" not in delivery.reason
