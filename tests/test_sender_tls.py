"""Wrong ports, wrong protocols, certificates and proxies: each says in one line what to change."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme

from compass_otel.delivery import Delivered, Retry
from compass_otel.errors import ConfigError
from compass_otel.otlp_settings import load_settings
from compass_otel.sender import make_sender
from receivers import Receiver, TlsFiles
from receivers.records import a_record, send, sender_to

if TYPE_CHECKING:
    from collections.abc import Iterator

PROTOCOLS = ("http/protobuf", "grpc")


@pytest.fixture(scope="module", name="plain")
def _plain() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


class Certificates:
    """An authority, a server and a client of it, in files."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.authority = str(folder / "authority.pem")
        authority.cert_pem.write_to_path(self.authority)
        self.server, self.server_key = self._issue(authority, folder, "127.0.0.1")
        self.client, self.client_key = self._issue(authority, folder, "client.example")
        self.stranger, self.stranger_key = self._issue(authority, folder, "elsewhere.example")

    @staticmethod
    def _issue(authority: trustme.CA, folder: Path, name: str) -> tuple[str, str]:
        issued = authority.issue_cert(name)
        certificate, key = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        return certificate, key


@pytest.fixture(scope="module", name="files")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", name="secure")
def _secure(files: Certificates) -> Iterator[Receiver]:
    with Receiver(TlsFiles(files.server, files.server_key)) as receiver:
        yield receiver


@pytest.fixture(scope="module", name="mutual")
def _mutual(files: Certificates) -> Iterator[Receiver]:
    with Receiver(TlsFiles(files.server, files.server_key, files.authority)) as receiver:
        yield receiver


def reason_of(endpoint: str, protocol: str = "http/protobuf", **settings: str) -> str:
    """Send to an endpoint that cannot work; give the reason."""
    sender = make_sender(load_settings(endpoint=endpoint, protocol=protocol, **settings))  # type: ignore[arg-type]
    delivery = send(sender, a_record())
    sender.close()
    assert isinstance(delivery, Retry)
    assert "\n" not in delivery.reason
    return delivery.reason


class TestWrongPort:
    """The commonest mistakes."""

    def test_nothing_listens(self) -> None:
        """Refused: says so, and which setting names the port."""
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            for protocol in PROTOCOLS:
                reason = reason_of(f"http://127.0.0.1:{port}", protocol)
                assert "connection refused" in reason
                assert "check the endpoint" in reason

    def test_http_to_the_port_for_grpc(self, plain: Receiver) -> None:
        """Names the other port and the other protocol."""
        reason = reason_of(f"http://127.0.0.1:{plain.grpc_port}")
        assert "the port for gRPC" in reason
        assert "OTEL_EXPORTER_OTLP_PROTOCOL=grpc" in reason

    def test_grpc_to_the_port_for_http(self, plain: Receiver) -> None:
        """Names the protocol."""
        assert "OTEL_EXPORTER_OTLP_PROTOCOL" in reason_of(f"http://127.0.0.1:{plain.http_port}", "grpc")

    def test_another_path(self, plain: Receiver) -> None:
        """Names the path that OTLP has."""
        assert "/v1/traces" in reason_of(f"http://127.0.0.1:{plain.http_port}/traces")

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_a_name_that_does_not_exist(self, protocol: str) -> None:
        """Says that the name is at fault."""
        assert "cannot be resolved" in reason_of("http://no-such-host.invalid:4318", protocol)

    def test_the_variable_that_named_the_endpoint_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A person is sent to the setting that is in force."""
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/v1/traces")
        sender = make_sender()
        delivery = send(sender, a_record())
        assert isinstance(delivery, Retry)
        assert "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" in delivery.reason


class TestTls:
    """Certificates, and TLS on one side only."""

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_a_trusted_certificate_works(self, secure: Receiver, files: Certificates, protocol: str) -> None:
        """With the authority's file the records arrive, over a connection that is kept."""
        sender = sender_to(secure, protocol, certificate_file=files.authority)
        before = secure.counts()["http_connections"]
        for _ in range(3):
            assert send(sender, a_record()) == Delivered()
        assert secure.counts()["http_connections"] - before <= 1
        sender.close()

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_an_unknown_authority_is_named(self, secure: Receiver, protocol: str) -> None:
        """Not trusted: names the setting that takes the authority's file."""
        endpoint = secure.http_endpoint if protocol == "http/protobuf" else secure.grpc_endpoint
        reason = reason_of(endpoint, protocol)
        assert "not trusted" in reason
        assert "OTEL_EXPORTER_OTLP_CERTIFICATE" in reason

    def test_a_certificate_for_another_host(self, secure: Receiver, files: Certificates) -> None:
        """The certificate says 127.0.0.1, we asked for localhost: the host is at fault, not the authority."""
        reason = reason_of(secure.http_endpoint.replace("127.0.0.1", "localhost"), certificate_file=files.authority)
        assert "for another host" in reason

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_plain_text_to_a_port_that_expects_tls(self, secure: Receiver, protocol: str) -> None:
        """Says to write https://."""
        endpoint = secure.http_endpoint if protocol == "http/protobuf" else secure.grpc_endpoint
        assert "write https://" in reason_of(endpoint.replace("https", "http"), protocol)

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_tls_to_a_port_that_speaks_none(self, plain: Receiver, protocol: str) -> None:
        """Says to write http://."""
        endpoint = plain.http_endpoint if protocol == "http/protobuf" else plain.grpc_endpoint
        assert "write http://" in reason_of(endpoint.replace("http:", "https:"), protocol)

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_a_client_certificate(self, mutual: Receiver, files: Certificates, protocol: str) -> None:
        """With ours the records arrive; without, the reason names the settings."""
        own = {"client_certificate_file": files.client, "client_key_file": files.client_key}
        sender = sender_to(mutual, protocol, certificate_file=files.authority, **own)
        assert send(sender, a_record()) == Delivered()
        sender.close()
        endpoint = mutual.http_endpoint if protocol == "http/protobuf" else mutual.grpc_endpoint
        reason = reason_of(endpoint, protocol, certificate_file=files.authority)
        assert "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE" in reason

    def test_a_file_that_is_no_certificate_fails_when_the_sender_is_made(
        self, tmp_path: Path, files: Certificates
    ) -> None:
        """A wrong file is told at once, not at the first failure."""
        wrong = tmp_path / "wrong.pem"
        wrong.write_text("no certificate")
        for settings in (
            {"certificate_file": wrong},
            {"client_certificate_file": wrong},
            {"client_certificate_file": files.client, "client_key_file": files.stranger_key},
        ):
            with pytest.raises(ConfigError, match="certificate_file"):
                make_sender(load_settings(endpoint="https://127.0.0.1:1", **settings))


class Proxy:
    """A proxy that hands connections through, asks for credentials if told, and counts."""

    def __init__(self, credentials: str = "") -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._credentials = credentials
        self.port = self._listener.getsockname()[1]
        self.requests: list[str] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._handle, args=(client,), daemon=True).start()

    def _handle(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(65536)
        first = head.split(b"\r\n")[0].decode()
        self.requests.append(first)
        if self._credentials and self._credentials.encode() not in head:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            client.close()
            return
        method, target, _ = first.split(" ")
        host, _, port = target.removeprefix("http://").partition("/")[0].partition(":")
        server = socket.create_connection((host, int(port)))
        if method == "CONNECT":
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            server.sendall(head)
        threading.Thread(target=_pump, args=(client, server), daemon=True).start()
        _pump(server, client)


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        return
    finally:
        target.close()


class TestProxy:
    """Proxy variables are obeyed as the stock HTTP exporter obeys them."""

    def test_plain_requests_go_through_the_proxy(self, plain: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
        """With HTTP_PROXY the request goes there, in the form that proxies take, with the proxy's credentials."""
        proxy = Proxy("Basic dTpw")
        monkeypatch.delenv("no_proxy")
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.setenv("http_proxy", f"http://u:p@127.0.0.1:{proxy.port}")
        sender = sender_to(plain, "http/protobuf")
        assert send(sender, a_record()) == Delivered()
        assert proxy.requests == [f"POST {plain.http_endpoint} HTTP/1.1"]
        assert f"127.0.0.1:{proxy.port}" in sender.describe()
        assert "u:p" not in sender.describe() + repr(sender)
        sender.close()
        proxy.close()

    def test_tls_goes_through_a_tunnel(
        self, secure: Receiver, files: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With HTTPS_PROXY the proxy opens a tunnel and sees no more."""
        proxy = Proxy()
        monkeypatch.delenv("no_proxy")
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        sender = sender_to(secure, "http/protobuf", certificate_file=files.authority)
        assert send(sender, a_record()) == Delivered()
        assert proxy.requests == [f"CONNECT 127.0.0.1:{secure.http_port} HTTP/1.1"]
        sender.close()
        proxy.close()

    def test_no_proxy_is_obeyed(self, plain: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
        """Hosts that NO_PROXY names are asked directly."""
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        sender = sender_to(plain, "http/protobuf")
        assert send(sender, a_record()) == Delivered()
        sender.close()

    def test_a_proxy_that_refuses_is_named(
        self, secure: Receiver, files: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A proxy that wants credentials, or is not there, is told apart from the backend."""
        monkeypatch.delenv("no_proxy")
        monkeypatch.delenv("NO_PROXY")
        proxy = Proxy("Basic eHh4")
        for place in (f"http://127.0.0.1:{proxy.port}", "http://127.0.0.1:1"):
            monkeypatch.setenv("https_proxy", place)
            reason = reason_of(secure.http_endpoint, certificate_file=files.authority)
            assert "proxy" in reason.lower()
        proxy.close()

    def test_a_proxy_of_another_kind_is_refused_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """SOCKS is not spoken: told when the sender is made."""
        monkeypatch.delenv("no_proxy")
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
        with pytest.raises(ConfigError, match="proxy"):
            make_sender(load_settings(endpoint="http://collector:4318"))
