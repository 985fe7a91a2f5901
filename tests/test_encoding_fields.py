"""The encoder reads the SDK's insides for speed: probed, replaceable, and with caches that do not grow."""

from __future__ import annotations

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan

from compass_otel import encoding, sdk_private
from compass_otel.encoding import encode_span
from test_encoding import CONTEXT, span_with


class TestPrivateFields:
    """Speed may depend on the SDK's insides, truth never."""

    def test_the_installed_sdk_is_read_the_fast_way(self) -> None:
        """The probe passes on the SDK under test, so the measured speed is the real one."""
        assert sdk_private.Probe(fast=True, reason="") == sdk_private.PROBE

    def test_a_moved_field_is_noticed(self) -> None:
        """An SDK whose fields are gone or say something else is read by its properties."""

        class Moved(ReadableSpan):
            @property
            def name(self) -> str:
                return "another"

        assert not sdk_private.probe(lambda: Moved("name", CONTEXT, events=[Event("e")])).fast
        assert not sdk_private.probe(object).fast  # type: ignore[arg-type]

    def test_prefixes_are_bounded(self) -> None:
        """A host that makes a resource per span does not grow the cache without bound."""
        for index in range(encoding._MAX_PREFIXES * 2):
            encode_span(span_with(resource=Resource({"n": index})))
        assert len(encoding._prefixes) <= encoding._MAX_PREFIXES
