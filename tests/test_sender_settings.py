"""The standard variables are obeyed, arguments come first, and what cannot work is told early."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compass_otel.errors import ConfigError
from compass_otel.otlp_settings import Compression, Protocol, endpoint_is_set, load_settings, user_agent
from compass_otel.sender import make_sender

if TYPE_CHECKING:
    from pathlib import Path

P = "OTEL_EXPORTER_OTLP_"


@dataclass(frozen=True)
class Case:
    """Variables and arguments, and the URL and security that come of them."""

    url: str
    secure: bool = False
    environ: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)


GRPC = {P + "PROTOCOL": "grpc"}
ENDPOINTS = {
    "nothing set": Case("http://localhost:4318/v1/traces"),
    "nothing set, grpc": Case("http://localhost:4317", environ=GRPC),
    "a base": Case("http://c:4318/v1/traces", environ={P + "ENDPOINT": "http://c:4318"}),
    "a base with a path": Case("https://c:443/otlp/v1/traces", True, {P + "ENDPOINT": "https://c/otlp/"}),
    "the traces one as it is": Case("http://c:4318/other", environ={P + "TRACES_ENDPOINT": "http://c:4318/other"}),
    "the traces one without a path": Case("http://c:4318/", environ={P + "TRACES_ENDPOINT": "http://c:4318"}),
    "the traces one first": Case(
        "http://t:80/x", environ={P + "TRACES_ENDPOINT": "http://t/x", P + "ENDPOINT": "http://c"}
    ),
    "empty is unset": Case("http://localhost:4318/v1/traces", environ={P + "TRACES_ENDPOINT": " ", P + "ENDPOINT": ""}),
    "the argument first": Case(
        "http://a:4318/v1/traces", environ={P + "ENDPOINT": "http://c"}, arguments={"endpoint": "http://a:4318"}
    ),
    "the argument's own path": Case("http://a:1/x?y=z", arguments={"endpoint": "http://a:1/x?y=z"}),
    "no scheme": Case("http://a:4318/v1/traces", arguments={"endpoint": "a:4318"}),
    "ipv6": Case("http://[::1]:4318/v1/traces", arguments={"endpoint": "http://[::1]:4318"}),
    "grpc, https": Case("https://c:4317", True, {**GRPC, P + "ENDPOINT": "https://c:4317"}),
    "grpc, no scheme is secure": Case("https://c:4317", True, {**GRPC, P + "ENDPOINT": "c:4317"}),
    "grpc, no scheme, insecure": Case(
        "http://c:4317", False, {**GRPC, P + "ENDPOINT": "c:4317", P + "INSECURE": "true"}
    ),
    "grpc, the scheme decides": Case(
        "http://c:1", False, {**GRPC, P + "ENDPOINT": "http://c:1", P + "INSECURE": "false"}
    ),
    "grpc, a path is dropped": Case("http://c:4317", False, {**GRPC, P + "ENDPOINT": "http://c:4317/v1/traces"}),
    "grpc, default port": Case("http://c:4317", False, {**GRPC, P + "ENDPOINT": "http://c"}),
    "grpc over a socket file": Case(
        "unix:/run/otel.sock", arguments={"endpoint": "unix:/run/otel.sock", "protocol": "grpc", "insecure": True}
    ),
    "the traces protocol first": Case(
        "http://localhost:4317", environ={P + "PROTOCOL": "http/protobuf", P + "TRACES_PROTOCOL": "grpc"}
    ),
}


@pytest.mark.parametrize("name", ENDPOINTS)
def test_where_it_goes(name: str) -> None:
    """Endpoint, path and security as the specification and the stock exporters have them."""
    case = ENDPOINTS[name]
    settings = load_settings(environ=case.environ, **case.arguments)
    assert (settings.url, settings.secure) == (case.url, case.secure)


class TestOtherSettings:
    """Time, headers, compression, files."""

    def test_defaults(self) -> None:
        """HTTP, ten seconds, no compression, no headers."""
        settings = load_settings(environ={})
        assert (settings.protocol, settings.timeout_s, settings.compression) == (Protocol.HTTP, 10.0, Compression.NONE)
        assert settings.headers == ()

    def test_variables_for_traces_come_before_the_general_ones(self) -> None:
        """In each setting."""
        settings = load_settings(
            environ={
                P + "TIMEOUT": "1",
                P + "TRACES_TIMEOUT": "2.5",
                P + "HEADERS": "a=general",
                P + "TRACES_HEADERS": "a=traces",
                P + "COMPRESSION": "none",
                P + "TRACES_COMPRESSION": "GZIP",
            }
        )
        assert (settings.timeout_s, settings.compression) == (2.5, Compression.GZIP)
        assert settings.headers == (("a", "traces"),)

    def test_headers_are_decoded_and_the_arguments_come_on_top(self) -> None:
        """Percent-encoding, spaces, equals signs in values; names in lower case."""
        environ = {P + "HEADERS": "Authorization=Bearer%20abc==, x-Team = a b ,,x-other=1"}
        settings = load_settings(environ=environ, headers={"X-Team": "mine"})
        assert dict(settings.headers) == {"authorization": "Bearer abc==", "x-team": "mine", "x-other": "1"}

    def test_headers_that_cannot_be_sent_are_left_out_without_showing_them(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The good ones stay; the warning names no value."""
        environ = {P + "HEADERS": "good=1,no-equals-hunter2,bad name=hunter2,x=a%0d%0ahunter2,content-length=5"}
        assert dict(load_settings(environ=environ).headers) == {"good": "1"}
        assert len(caplog.records) == 4
        assert "hunter2" not in caplog.text

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("TIMEOUT", "soon"),
            ("TIMEOUT", "-1"),
            ("TIMEOUT", "nan"),
            ("COMPRESSION", "brotli"),
            ("PROTOCOL", "http/json"),
        ],
    )
    def test_a_variable_that_makes_no_sense_is_reported_and_its_default_used(
        self, caplog: pytest.LogCaptureFixture, variable: str, value: str
    ) -> None:
        """The host's start is not stopped by a typing mistake in its environment."""
        settings = load_settings(environ={P + variable: value})
        assert settings == load_settings(environ={})
        assert P + variable in caplog.text

    def test_deflate_is_not_spoken_over_grpc(self, caplog: pytest.LogCaptureFixture) -> None:
        """From a variable: said and left out; from an argument: refused."""
        assert load_settings(environ={**GRPC, P + "COMPRESSION": "deflate"}).compression is Compression.NONE
        assert "deflate" in caplog.text
        with pytest.raises(ConfigError, match="compression"):
            load_settings(environ=GRPC, compression="deflate")

    @pytest.mark.parametrize(
        ("arguments", "setting"),
        [
            ({"endpoint": "ftp://c"}, "endpoint"),
            ({"endpoint": "http://"}, "endpoint"),
            ({"endpoint": "http://c:port"}, "endpoint"),
            ({"endpoint": "http://c:99999"}, "endpoint"),
            ({"endpoint": "http://c/a b"}, "endpoint"),
            ({"endpoint": "http://c/\r\nx: y"}, "endpoint"),
            ({"endpoint": "", "protocol": "grpc"}, "endpoint"),
            ({"protocol": "carrier-pigeon"}, "protocol"),
            ({"timeout_s": 0}, "timeout_s"),
            ({"timeout_s": float("inf")}, "timeout_s"),
            ({"compression": "zip"}, "compression"),
            ({"headers": {"a b": "c"}}, "headers"),
            ({"headers": {"a": "hunter2\n"}}, "headers"),
            ({"certificate_file": "/no/such/file"}, "certificate_file"),
        ],
    )
    def test_an_argument_that_cannot_work_is_refused(self, arguments: dict[str, Any], setting: str) -> None:
        """At once, by name, without showing a credential."""
        with pytest.raises(ConfigError, match=setting) as caught:
            load_settings(environ={}, **arguments)
        assert "hunter2" not in str(caught.value)

    def test_a_file_that_a_variable_names_has_to_be_there(self) -> None:
        """A missing certificate is told at the start, with the variable's name."""
        with pytest.raises(ConfigError, match=P + "CERTIFICATE"):
            load_settings(environ={P + "CERTIFICATE": "/no/such/file"})

    def test_the_authorities_of_the_stock_exporter_count_over_http(self, tmp_path: Path) -> None:
        """`REQUESTS_CA_BUNDLE` is obeyed, behind the variable of OTLP."""
        bundle, own = tmp_path / "bundle", tmp_path / "own"
        bundle.touch()
        own.touch()
        environ = {"REQUESTS_CA_BUNDLE": str(bundle)}
        assert load_settings(environ=environ).certificate_file == str(bundle)
        assert load_settings(environ={**environ, P + "CERTIFICATE": str(own)}).certificate_file == str(own)
        assert load_settings(environ={**environ, **GRPC}).certificate_file is None

    def test_whether_somebody_named_an_endpoint(self) -> None:
        """Commands send nothing unless told where."""
        assert not endpoint_is_set({})
        assert not endpoint_is_set({P + "ENDPOINT": ""})
        assert endpoint_is_set({P + "ENDPOINT": "http://c"})
        assert endpoint_is_set({P + "TRACES_ENDPOINT": "http://c"})

    def test_a_sender_is_described_without_connecting(self) -> None:
        """Both protocols, in words for a person."""
        http, grpc = make_sender(load_settings(environ={})), make_sender(load_settings(environ=GRPC))
        assert http.describe() == "OTLP http/protobuf to http://localhost:4318/v1/traces"
        assert grpc.describe() == "OTLP grpc to http://localhost:4317"
        assert user_agent().startswith("OTel-OTLP-Exporter-Python/")

    @given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=10))
    def test_no_environment_raises_anything_else(self, endpoint: str, headers: str, other: str) -> None:
        """Whatever the variables hold, there are settings or a `ConfigError`."""
        environ = {P + "ENDPOINT": endpoint, P + "HEADERS": headers, P + "TIMEOUT": other, P + "PROTOCOL": other}
        try:
            settings = load_settings(environ=environ)
        except ConfigError:
            return
        assert settings.url
        make_sender(settings).close()
