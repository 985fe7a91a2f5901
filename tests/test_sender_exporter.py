"""Any exporter is a sender: its result is the answer, and what it does to us is bounded."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from opentelemetry import context as context_api
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from compass_otel.delivery import Delivered, Rejected, Retry
from compass_otel.encoding import encode_span, encode_spans
from compass_otel.record_spans import rebuild_spans
from compass_otel.sdk_private import SUPPRESS_KEY
from compass_otel.sender_exporter import ExporterSender
from receivers import Receiver, wait_until
from receivers.records import MARKER, a_record, a_span, send
from test_encoding import official, spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan


class Scripted(SpanExporter):
    """Does as told; keeps what it was given."""

    def __init__(self, *results: object) -> None:
        self.results = list(results)
        self.names: list[list[str]] = []
        self.suppressed: list[object] = []
        self.shut_down = 0

    def export(self, batch: Sequence[ReadableSpan]) -> SpanExportResult:
        """Give the next result, raise it if it is an error."""
        self.names.append([span.name for span in batch])
        self.suppressed.append(context_api.get_value(SUPPRESS_KEY))
        result = self.results.pop(0) if self.results else SpanExportResult.SUCCESS
        if isinstance(result, BaseException):
            raise result
        return result  # type: ignore[return-value]

    def shutdown(self) -> None:
        """Count it."""
        self.shut_down += 1


class Picky(Scripted):
    """Raises for a batch that holds a span with the marker."""

    def export(self, batch: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take it, or raise."""
        super().export(batch)
        if any(MARKER in (span.attributes or {}) for span in batch):
            raise ValueError("cannot encode this")
        return SpanExportResult.SUCCESS


class Hanging(Scripted):
    """Returns when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def export(self, batch: Sequence[ReadableSpan]) -> SpanExportResult:
        """Wait, then succeed."""
        result = super().export(batch)
        self.go.wait(10)
        return result


class TestResults:
    """The result is all that is known."""

    def test_success_is_delivered_and_failure_is_a_retry(self) -> None:
        """The exporter gets rebuilt spans; a failure keeps the batch."""
        exporter = Scripted(SpanExportResult.SUCCESS, SpanExportResult.FAILURE)
        sender = ExporterSender(exporter)
        assert send(sender, a_record("a"), a_record("b")) == Delivered()
        assert isinstance(send(sender, a_record()), Retry)
        assert exporter.names[0] == ["a", "b"]
        sender.close()

    @pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit(3), KeyboardInterrupt()])
    def test_whatever_it_raises_is_a_counted_retry(self, error: BaseException) -> None:
        """Also what would end a thread or a program; the next call works."""
        sender = ExporterSender(Scripted(error))
        delivery = send(sender, a_record())
        assert isinstance(delivery, Retry)
        assert type(error).__name__ in delivery.reason
        assert sender.raised == 1
        assert send(sender, a_record()) == Delivered()
        sender.close()

    @pytest.mark.parametrize("nonsense", [None, True, 0, "SUCCESS"])
    def test_nonsense_is_a_counted_retry(self, nonsense: object) -> None:
        """Only the SDK's own two results count."""
        sender = ExporterSender(Scripted(nonsense))
        assert isinstance(send(sender, a_record()), Retry)
        assert sender.nonsense == 1
        sender.close()

    def test_secrets_in_what_it_raises_are_hidden(self) -> None:
        """An exception that quotes a key does not get it into our texts."""
        sender = ExporterSender(Scripted(RuntimeError("key sk-ant-REDACTED")))
        delivery = send(sender, a_record())
        assert isinstance(delivery, Retry)
        assert "abcdefghijklmnop" not in delivery.reason
        sender.close()

    def test_bytes_that_are_no_record_are_rejected(self) -> None:
        """A corrupt record is not the exporter's fault and never retried."""
        sender = ExporterSender(Scripted())
        assert isinstance(send(sender, b"junk"), Rejected)
        sender.close()

    def test_instrumentation_is_silent_meanwhile(self) -> None:
        """An exporter over an instrumented HTTP library makes no spans of its own."""
        exporter = Scripted()
        sender = ExporterSender(exporter)
        send(sender, a_record())
        assert exporter.suppressed == [True]
        assert context_api.get_value(SUPPRESS_KEY) is None
        sender.close()


class TestHanging:
    """An exporter that does not come back."""

    def test_it_costs_the_deadline_once_and_is_not_called_again_meanwhile(self) -> None:
        """One thread and one batch hang, however often we try."""
        exporter = Hanging()
        sender = ExporterSender(exporter)
        threads = threading.active_count()
        for _ in range(4):
            started = time.monotonic()
            assert isinstance(send(sender, a_record(), within_s=0.1), Retry)
            assert time.monotonic() - started < 0.4
        assert len(exporter.names) == 1
        assert threading.active_count() <= threads + 1
        exporter.go.set()
        assert send(sender, a_record()) == Delivered()
        sender.close()

    def test_what_it_delivered_late_is_not_sent_again(self) -> None:
        """The batch that hung and then arrived is known as delivered; its new neighbours go out alone."""
        exporter = Hanging()
        sender = ExporterSender(exporter)
        first, second = a_record("first"), a_record("second")
        assert isinstance(send(sender, first, within_s=0.1), Retry)
        exporter.go.set()
        assert send(sender, first, second) == Delivered()
        assert exporter.names == [["first"], ["second"]]
        sender.close()

    def test_closing_does_not_wait_for_it(self) -> None:
        """Close is bounded, safe twice, and shuts the exporter down once."""
        exporter = Hanging()
        sender = ExporterSender(exporter)
        send(sender, a_record(), within_s=0.1)
        started = time.monotonic()
        sender.close()
        sender.close()
        assert time.monotonic() - started < 2.0
        assert wait_until(lambda: exporter.shut_down == 1)
        assert isinstance(send(sender, a_record()), Retry)
        exporter.go.set()


class TestPoison:
    """One span for which the exporter raises."""

    def test_its_neighbours_are_delivered_once_and_it_is_rejected(self) -> None:
        """The batch is split by us and by the caller; only the culprit is given up."""
        exporter = Picky()
        sender = ExporterSender(exporter)
        good, bad = [a_record(f"good {number}") for number in range(3)], a_record("bad", {MARKER: 1})
        delivery = send(sender, *good, bad)
        assert isinstance(delivery, Delivered)
        assert delivery.rejected == 1
        assert [send(sender, record) for record in good] == [Delivered()] * 3
        assert isinstance(send(sender, bad), Rejected)
        arrived = [names for names in exporter.names if "bad" not in names]
        assert arrived == [["good 0"], ["good 1"], ["good 2"]]
        sender.close()

    def test_an_exporter_that_raises_for_everything_rejects_nothing(self) -> None:
        """Then the exporter is at fault, and every record is kept."""
        sender = ExporterSender(Scripted(*[ValueError("down")] * 6))
        assert isinstance(send(sender, a_record(), a_record()), Retry)
        assert isinstance(send(sender, a_record()), Retry)
        assert isinstance(send(sender, a_record()), Retry)
        sender.close()


class TestRebuiltSpans:
    """A record becomes a span again."""

    @settings(max_examples=40)
    @given(spans)
    def test_a_rebuilt_span_says_what_the_span_said(self, span: ReadableSpan) -> None:
        """Encoded officially, both give the same."""
        (rebuilt,) = rebuild_spans(encode_span(span))
        assert official(rebuilt) == official(span)

    def test_fragments_are_rebuilt_whole(self) -> None:
        """What a trace lane encodes together comes apart again."""
        batch = [a_span(f"span {number}") for number in range(3)]
        (fragment,) = encode_spans(batch)
        assert [span.name for span in rebuild_spans(fragment)] == ["span 0", "span 1", "span 2"]


class TestStockExporters:
    """The ones that people have."""

    def test_otlp_over_http_and_grpc(self) -> None:
        """Records arrive through the stock exporters, with the ids that they had."""
        with Receiver() as receiver:
            for exporter in (
                HttpExporter(endpoint=receiver.http_endpoint),
                GrpcExporter(endpoint=receiver.grpc_endpoint),
            ):
                sender = ExporterSender(exporter)
                span = a_span("stock", {"k": (1, 2)})
                assert send(sender, encode_span(span, lane="priority")) == Delivered()
                got = receiver.spans()[-1]
                context = span.get_span_context()
                assert context is not None
                assert got.span_id == f"{context.span_id:016x}"
                assert got.attributes == {"k": (1, 2), "compass.lane": "priority"}
                sender.close()

    def test_the_one_in_memory(self) -> None:
        """Tests of other people keep their exporter."""
        exporter = InMemorySpanExporter()
        sender = ExporterSender(exporter)
        assert send(sender, a_record("kept")) == Delivered()
        assert sender.send_spans([a_span("object")], time.monotonic() + 5) == Delivered()
        assert [span.name for span in exporter.get_finished_spans()] == ["kept", "object"]
        assert "InMemorySpanExporter" in sender.describe()
        sender.close()


def test_an_exporter_that_fails_at_shutdown_is_counted_and_told_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A failing shutdown of a foreign exporter costs nobody anything, is counted, and its text is not logged."""

    class Stubborn(InMemorySpanExporter):
        def shutdown(self) -> None:
            raise RuntimeError("token sk-live-0123456789abcdef")

    sender = ExporterSender(Stubborn())
    sender.close()
    assert wait_until(lambda: sender.raised == 1)
    assert wait_until(lambda: "RuntimeError" in caplog.text)
    assert "sk-live" not in caplog.text
