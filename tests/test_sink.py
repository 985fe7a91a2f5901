"""TwoLaneSpanProcessor on a real provider, against real receivers: which lane, what arrives, what the host feels."""

from __future__ import annotations

import gc
import logging
import threading
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import Status, StatusCode

from compass_otel import semconv
from compass_otel.errors import ConfigError
from compass_otel.notices import Notice
from compass_otel.priority import is_failure
from compass_otel.sampling import KeepFailures
from compass_otel.sink import TwoLaneSpanProcessor
from compass_otel.spool import Spool
from receivers import Receiver, wait_until
from sink_support import ERROR_ATTRIBUTES, provider_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import SpanProcessor

SECRET = "sk-ant-api03-EXAMPLEfake0EXAMPLEfake0EXAMPLEfake0AA"  # noqa: S105 - made up
RUN = {semconv.SESSION_STATE: "working", semconv.GEN_AI_OPERATION_NAME: "invoke_agent", "gen_ai.conversation.id": "c1"}


@pytest.fixture(name="receiver", scope="module")
def _receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(name="memory")
def _memory() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def sink_of(exporter: SpanExporter | None, **settings: Any) -> tuple[TwoLaneSpanProcessor, trace.Tracer]:
    """Make a processor and a tracer of a provider that has it."""
    sink = TwoLaneSpanProcessor(exporter, **settings)
    return sink, provider_of(sink).get_tracer("test")


def names(memory: InMemorySpanExporter) -> list[str]:
    """Names of what was exported."""
    return sorted(span.name for span in memory.get_finished_spans())


def our_threads(besides: frozenset[threading.Thread] = frozenset()) -> list[str]:
    """Names of the threads that we started and that run, those of earlier tests left out."""
    running = frozenset(threading.enumerate()) - besides
    return [thread.name for thread in running if thread.name.startswith("compass-otel")]


@pytest.mark.parametrize(
    ("attributes", "lane"),
    [
        ({semconv.SESSION_ERROR_KIND: "ERROR"}, "priority"),
        ({semconv.SESSION_ERROR_KIND: "ABORTED"}, "priority"),
        ({semconv.SESSION_STATE: "ready"}, "priority"),
        ({semconv.SESSION_INJECTIONS: 2}, "priority"),
        ({"http.request.method": "GET"}, "trace"),
        ({}, "trace"),
    ],
)
def test_each_span_takes_its_lane(memory: InMemorySpanExporter, attributes: dict[str, Any], lane: str) -> None:
    """Session errors, cancels, run spans and injections are priority; everything else, whatever its scope, is trace."""
    sink, tracer = sink_of(memory)
    tracer.start_span("s", attributes=attributes).end()
    stats = sink.stats()
    assert (stats.priority.accepted, stats.trace.accepted) == ((1, 0) if lane == "priority" else (0, 1))
    assert sink.shutdown()
    (span,) = memory.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes.get(semconv.LANE) == ("priority" if lane == "priority" else None)


def test_a_services_predicate_adds_to_the_rule_and_one_that_raises_makes_priority(memory: InMemorySpanExporter) -> None:
    """`is_failure` makes every failure priority; a broken predicate rather keeps too much, and is counted."""
    sink, tracer = sink_of(memory, is_priority=is_failure)
    with pytest.raises(ValueError, match="boom"), tracer.start_as_current_span("failed"):
        raise ValueError("boom")
    tracer.start_span("fine").end()
    assert (sink.stats().priority.accepted, sink.stats().trace.accepted) == (1, 1)
    sink.shutdown()

    def broken(span: ReadableSpan) -> bool:
        raise KeyError(span.name)

    sink, tracer = sink_of(InMemorySpanExporter(), is_priority=broken)
    tracer.start_span("any").end()
    tracer.start_span("run", attributes=RUN).end()
    assert sink.stats().priority.accepted == 2
    assert sink.notices()[Notice.PREDICATE_RAISED] == 2
    sink.shutdown()


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("spooled", [True, False])
def test_spans_of_both_lanes_arrive_once_over_otlp(
    receiver: Receiver, tmp_path: Path, protocol: str, *, spooled: bool
) -> None:
    """Over HTTP and gRPC everything arrives once, failures before `end` returns."""
    endpoint = receiver.http_endpoint if protocol.startswith("http") else receiver.grpc_endpoint
    sink, tracer = sink_of(None, endpoint=endpoint, protocol=protocol, spool=tmp_path / "s" if spooled else None)
    before = len(receiver.keys())
    for number in range(10):
        tracer.start_span(f"t{number}").end()
        tracer.start_span(f"e{number}", attributes=ERROR_ATTRIBUTES).end()
    assert sink.stats().priority.delivered == 10
    assert sink.force_flush()
    assert sink.shutdown()
    arrived = receiver.keys()[before:]
    assert len(arrived) == len(set(arrived)) == 20
    stats = sink.stats()
    assert (stats.priority.delivered, stats.trace.delivered, stats.priority.undelivered) == (10, 10, 0)


def test_the_stock_exporter_is_a_supported_way(receiver: Receiver, tmp_path: Path) -> None:
    """The official OTLP exporter, and with it any `SpanExporter`, delivers both lanes, spool included."""
    sink, tracer = sink_of(OTLPSpanExporter(endpoint=receiver.http_endpoint), spool=tmp_path / "s")
    before = len(receiver.keys())
    for number in range(5):
        tracer.start_span(f"t{number}").end()
        tracer.start_span(f"e{number}", attributes=ERROR_ATTRIBUTES).end()
    assert sink.force_flush(10_000)
    assert sink.shutdown()
    arrived = receiver.keys()[before:]
    assert len(arrived) == len(set(arrived)) == 10


class Failing(SpanExporter):
    """An exporter that fails in a chosen way, then works."""

    def __init__(self, how: Any) -> None:
        self.how = how
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Fail or take."""
        if callable(self.how):
            return self.how(spans)  # type: ignore[no-any-return]
        if self.how is not None:
            return self.how  # type: ignore[no-any-return]
        self.spans += spans
        return SpanExportResult.SUCCESS


def raising(_: Sequence[ReadableSpan]) -> SpanExportResult:
    """Raise."""
    raise OSError("exporter is broken")


@pytest.mark.parametrize("how", [SpanExportResult.FAILURE, raising, "nonsense", True])
def test_an_exporter_that_fails_raises_or_answers_nonsense_costs_nothing(how: Any) -> None:
    """Whatever an exporter does, the host goes on, and what it did not take is delivered when it works again."""
    exporter = Failing(how)
    sink, tracer = sink_of(exporter)
    tracer.start_span("e", attributes=ERROR_ATTRIBUTES).end()
    tracer.start_span("t").end()
    assert sink.force_flush(300) is False
    exporter.how = None
    assert wait_until(lambda: sink.force_flush(500), 10)
    assert sorted({span.name for span in exporter.spans}) == ["e", "t"]
    assert sink.shutdown()


def test_a_span_that_makes_the_exporter_raise_costs_itself_alone() -> None:
    """The poisoned span is found among its neighbours, which are delivered."""

    def picky(spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if any(span.name == "poison" for span in spans):
            raise ValueError("can't")
        exporter.spans += spans
        return SpanExportResult.SUCCESS

    exporter = Failing(picky)
    sink, tracer = sink_of(exporter)
    for name in ("a", "poison", "b"):
        tracer.start_span(name).end()
        tracer.start_span(name, attributes=ERROR_ATTRIBUTES).end()
    assert wait_until(
        lambda: sink.force_flush(1000) or not sum((sink.stats().trace.waiting, sink.stats().priority.waiting)), 30
    )
    assert sorted({span.name for span in exporter.spans}) == ["a", "b"]
    assert len(exporter.spans) == 4
    stats = sink.stats()
    assert sum(stats.priority.rejected.values()) == 1
    assert sum(stats.trace.rejected.values()) == 1
    sink.shutdown()


def test_a_hanging_exporter_bounds_flush_and_shutdown() -> None:
    """An exporter that never returns costs the host what it allowed, and no more."""
    leave = threading.Event()

    def hang(_: Sequence[ReadableSpan]) -> SpanExportResult:
        leave.wait(30)
        return SpanExportResult.SUCCESS

    sink, tracer = sink_of(Failing(hang), exit_timeout_s=0.5)
    start = time.monotonic()
    tracer.start_span("e", attributes=ERROR_ATTRIBUTES).end()
    tracer.start_span("t").end()
    assert time.monotonic() - start < 0.6
    assert sink.force_flush(300) is False
    assert sink.shutdown() is False
    assert time.monotonic() - start < 4
    stats = sink.stats()
    assert (stats.priority.failed, stats.trace.dropped) == ({"shutdown": 1}, {"shutdown": 1})
    leave.set()


def test_flush_and_shutdown_tell_the_truth(memory: InMemorySpanExporter) -> None:
    """True only after delivery; never started, twice, and after shutdown they answer at once."""
    sink, _ = sink_of(memory)
    assert sink.force_flush()
    assert sink.shutdown()
    assert sink.shutdown()
    assert sink.force_flush()

    down = TwoLaneSpanProcessor(endpoint="http://127.0.0.1:9", exit_timeout_s=0.3)
    tracer = provider_of(down).get_tracer("t")
    tracer.start_span("t").end()
    start = time.monotonic()
    assert down.force_flush(300) is False
    assert down.shutdown() is False
    assert time.monotonic() - start < 2
    assert down.shutdown() is False
    assert down.force_flush(100) is True, "what is counted as lost is not waited for"
    assert down.stats().trace.dropped == {"shutdown": 1}


def test_after_shutdown_spans_are_counted_and_nothing_is_raised(memory: InMemorySpanExporter) -> None:
    """A span that ends too late is in the numbers."""
    sink, tracer = sink_of(memory)
    sink.shutdown()
    tracer.start_span("t").end()
    tracer.start_span("e", attributes=ERROR_ATTRIBUTES).end()
    stats = sink.stats()
    assert (stats.trace.dropped, stats.priority.failed) == ({"already_shutdown": 1}, {"already_shutdown": 1})


def test_on_end_never_raises(memory: InMemorySpanExporter) -> None:
    """Whatever a host hands over, the fault stays here and is counted."""
    sink = TwoLaneSpanProcessor(memory)
    poison: Any
    for poison in (None, object(), "span"):
        sink.on_start(poison)
        sink.on_end(poison)
    assert sink.notices()[Notice.PROCESSOR_RAISED] >= 3
    assert sink.shutdown()


def test_unsampled_spans_are_exported_if_they_are_priority(memory: InMemorySpanExporter) -> None:
    """With the sampler that keeps failures, a failure of an unsampled trace arrives; the rest is no loss."""
    sink = TwoLaneSpanProcessor(memory, is_priority=is_failure)
    provider = TracerProvider(sampler=KeepFailures(ALWAYS_OFF), shutdown_on_exit=False)
    provider.add_span_processor(sink)
    tracer = provider.get_tracer("t")
    tracer.start_span("fine").end()
    failed = tracer.start_span("failed")
    failed.set_status(StatusCode.ERROR)
    failed.end()
    tracer.start_span("cancelled", attributes={semconv.SESSION_ERROR_KIND: "ABORTED"}).end()
    assert sink.shutdown()
    assert names(memory) == ["cancelled", "failed"]
    assert sink.stats().trace.accepted == 0


def test_the_run_span_says_how_many_spans_of_its_trace_had_been_dropped(memory: InMemorySpanExporter) -> None:
    """Where a trace has holes, its run span says so."""
    sink, tracer = sink_of(memory, max_queue_size=2, max_export_batch_size=2)
    sink._trace._is_batch_due = lambda now: False  # type: ignore[method-assign]  # noqa: ARG005 - its name is
    with tracer.start_as_current_span("run", attributes=RUN):
        for number in range(7):
            tracer.start_span(f"t{number}").end()
    (run,) = memory.get_finished_spans()
    assert run.attributes is not None
    assert run.attributes[semconv.DROPPED_SPANS] == 5
    assert sink.stats().trace.dropped == {"queue_full": 5}
    sink.shutdown(100)


def test_identity_survives_the_limit_on_attributes(memory: InMemorySpanExporter) -> None:
    """The attribute set first is not the one that is lost: conversation, state and with it the lane stay."""
    sink = TwoLaneSpanProcessor(memory)
    provider = TracerProvider(sampler=ALWAYS_ON, span_limits=SpanLimits(max_span_attributes=8), shutdown_on_exit=False)
    provider.add_span_processor(sink)
    for name, attributes in (("run", RUN), ("chat", {"gen_ai.conversation.id": "c1"})):
        live = provider.get_tracer("t").start_span(name, attributes=attributes)
        live.set_attributes({f"k{number}": number for number in range(20)})
        live.end()
    assert sink.shutdown()
    assert sink.stats().priority.delivered == 1
    for span in memory.get_finished_spans():
        assert span.attributes is not None
        assert span.attributes["gen_ai.conversation.id"] == "c1"


@pytest.mark.parametrize("second", ["batch", "simple", "two-lane"])
def test_a_second_otlp_processor_on_the_provider_is_reported_once(
    memory: InMemorySpanExporter, caplog: pytest.LogCaptureFixture, second: str
) -> None:
    """Whoever adds this processor beside the stock one is told that everything arrives twice, once."""
    sink = TwoLaneSpanProcessor(endpoint="http://127.0.0.1:9", exit_timeout_s=0.1)
    exporter = OTLPSpanExporter(endpoint="http://127.0.0.1:9", timeout=0.1)
    make: dict[str, Callable[[], SpanProcessor]] = {
        "batch": lambda: BatchSpanProcessor(exporter),
        "simple": lambda: SimpleSpanProcessor(exporter),
        "two-lane": lambda: TwoLaneSpanProcessor(endpoint="http://127.0.0.1:9", exit_timeout_s=0.1),
    }
    other = make[second]()
    provider = provider_of(sink, SimpleSpanProcessor(memory))
    with caplog.at_level(logging.WARNING, "compass_otel.sink"):
        provider.get_tracer("t").start_span("before")
        assert Notice.SECOND_PROCESSOR not in sink.notices()
        provider.add_span_processor(other)
        for _ in range(5):
            provider.get_tracer("t").start_span("s")
        sink.shutdown()
    assert sink.notices()[Notice.SECOND_PROCESSOR] == 1
    assert sum("arrives twice" in record.message for record in caplog.records) == 1
    other.shutdown()


def test_a_span_that_our_own_sending_starts_is_counted_and_not_sent() -> None:
    """An exporter that traces itself does not feed itself for ever."""

    def tracing(spans: Sequence[ReadableSpan]) -> SpanExportResult:
        tracer.start_span("made by the export").end()
        tracer.start_span("failure made by the export", attributes=ERROR_ATTRIBUTES).end()
        exporter.spans += spans
        return SpanExportResult.SUCCESS

    exporter = Failing(tracing)
    sink, tracer = sink_of(exporter)
    tracer.start_span("e", attributes=ERROR_ATTRIBUTES).end()
    tracer.start_span("t").end()
    assert sink.force_flush(5000)
    assert sink.shutdown()
    assert sorted(span.name for span in exporter.spans) == ["e", "t"]
    assert sink.stats().trace.dropped == {"reentry": 4}


def test_a_span_that_a_collector_run_ends_arrives(memory: InMemorySpanExporter) -> None:
    """A span ended by a destructor, on whatever thread the collector runs, is a span like any other."""
    sink, tracer = sink_of(memory)

    class Holder:
        def __init__(self) -> None:
            self.me = self
            self.span = tracer.start_span("collected", attributes=ERROR_ATTRIBUTES)

        def __del__(self) -> None:
            self.span.end()

    for _ in range(50):
        Holder()
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for number in range(50):
            Holder()
            tracer.start_span(f"e{number}", attributes=ERROR_ATTRIBUTES).end()
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert sink.shutdown()
    assert names(memory).count("collected") == 100


def test_an_open_run_is_noted_and_rewritten_when_a_chat_of_it_starts(tmp_path: Path, receiver: Receiver) -> None:
    """What would be said of a run if the process died grows with the run, and is gone when the run ended."""
    sink, tracer = sink_of(None, endpoint="http://127.0.0.1:9", spool=tmp_path / "s", exit_timeout_s=0.1)
    run = tracer.start_span("invoke_agent", attributes=RUN)
    context = trace.set_span_in_context(run)
    run.add_event("compass.session.injection")
    run.set_attribute(semconv.SESSION_INJECTIONS, 1)
    chat = tracer.start_span("chat m", context, attributes={semconv.GEN_AI_OPERATION_NAME: "chat"})
    other = tracer.start_span("execute_tool t", context, attributes={semconv.GEN_AI_OPERATION_NAME: "execute_tool"})
    store = sink._priority.store
    assert store is not None
    with store.spool._handles.working() as connection:
        ((note,),) = connection.execute("SELECT body FROM open_run").fetchall()
    from sink_support import spans_of  # noqa: PLC0415 - beside the one use

    (noted,) = spans_of(note)
    assert noted.name == "invoke_agent"
    assert [event.name for event in noted.events] == ["compass.session.injection"]
    assert noted.attributes is not None
    assert noted.attributes[semconv.SESSION_INJECTIONS] == 1
    assert noted.attributes[semconv.OUTCOME] == "incomplete"
    assert noted.attributes[semconv.ERROR_TYPE] == "process_lost"
    assert noted.attributes[semconv.LANE] == "priority"
    assert noted.status.status_code is StatusCode.ERROR
    assert noted.end_time is not None
    assert noted.end_time >= (noted.start_time or 0)
    for span in (chat, other, run):
        span.end()
    with store.spool._handles.working() as connection:
        assert connection.execute("SELECT count(*) FROM open_run").fetchone() == (0,)
    sink.shutdown()
    assert receiver is not None


def test_waiting_records_are_delivered_from_construction_on(tmp_path: Path, receiver: Receiver) -> None:
    """A new process delivers what an earlier one left, before it has ended a span of its own."""
    first, tracer = sink_of(None, endpoint="http://127.0.0.1:9", spool=tmp_path / "s", exit_timeout_s=0.1)
    tracer.start_span("left", attributes=ERROR_ATTRIBUTES).end()
    assert first.shutdown() is False
    assert first.stats().priority.spooled == 1
    before = len(receiver.keys())
    second = TwoLaneSpanProcessor(endpoint=receiver.http_endpoint, spool=str(tmp_path / "s"))
    assert second.stats().priority.recovered == 1
    assert wait_until(lambda: second.stats().priority.delivered == 1)
    assert len(receiver.keys()) == before + 1
    assert second.shutdown()


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"priority_wait_s": -1}, "priority_wait_s"),
        ({"priority_wait_s": "soon"}, "priority_wait_s"),
        ({"exit_timeout_s": float("nan")}, "exit_timeout_s"),
        ({"max_queue_size": 0}, "max_queue_size"),
        ({"max_queue_size": 10, "max_export_batch_size": 11}, "max_export_batch_size"),
        ({"schedule_delay_millis": 0}, "schedule_delay_millis"),
        ({"export_timeout_millis": -5}, "export_timeout_millis"),
        ({"spool": ""}, "spool"),
        ({"spool": b"bytes"}, "spool"),
        ({"spool": 7}, "spool"),
        ({"spool_max_bytes": 10}, "spool_max_bytes"),
        ({"memory_max_bytes": True}, "memory_max_bytes"),
        ({"is_priority": 3}, "is_priority"),
        ({"exporter": object()}, "exporter"),
        ({"protocol": "carrier pigeon"}, "protocol"),
    ],
)
def test_wrong_settings_fail_at_construction_by_name(settings: dict[str, Any], setting: str) -> None:
    """A setting that can't work is named at once, with what was given and what is allowed."""
    with pytest.raises(ConfigError, match="allowed") as caught:
        TwoLaneSpanProcessor(**settings)
    assert setting in caught.value.setting


def test_a_spool_path_that_is_a_file_is_wrong(tmp_path: Path) -> None:
    """A file where the folder should be is a mistake in the set-up, not a fault of the disk."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        TwoLaneSpanProcessor(spool=tmp_path / "file" / "below")


def test_the_standard_variables_are_obeyed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """`OTEL_BSP_*` set the trace lane; one that can't work is reported and its default used."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "7")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1234")
    monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "many")
    sink = TwoLaneSpanProcessor(InMemorySpanExporter())
    settings = sink._trace._settings
    assert (settings.max_queue_size, settings.max_export_batch_size, settings.schedule_delay_s) == (7, 7, 1.234)
    assert settings.export_timeout_s == 30
    assert "OTEL_BSP_EXPORT_TIMEOUT" in caplog.text
    sink.shutdown()


def test_no_text_form_shows_a_credential(caplog: pytest.LogCaptureFixture) -> None:
    """`repr`, `str` and `describe` show where spans go and no key."""
    sink = TwoLaneSpanProcessor(
        endpoint=f"http://user:{SECRET}@127.0.0.1:9/v1/traces?key={SECRET}",
        headers={"authorization": f"Bearer {SECRET}"},
        exit_timeout_s=0.2,
    )
    tracer = provider_of(sink).get_tracer("t")
    tracer.start_span("e", attributes=ERROR_ATTRIBUTES).end()
    sink.shutdown()
    for text in (repr(sink), str(sink), sink.describe(), caplog.text):
        assert SECRET not in text
    assert "127.0.0.1:9" in repr(sink)


def test_the_numbers_are_metrics_too(memory: InMemorySpanExporter) -> None:
    """The standard's names carry what `stats()` says, by lane and reason."""
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    sink, tracer = sink_of(memory, meter_provider=meters, max_queue_size=100)
    tracer.start_span("e", attributes=ERROR_ATTRIBUTES).end()
    tracer.start_span("t").end()
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        (metric.name, point.attributes[semconv.LANE], point.attributes.get("compass.place")): point.value  # type: ignore[union-attr, index]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name.startswith("otel.")
        for point in metric.data.data_points
    }
    assert points["otel.sdk.processor.span.processed", "priority", None] == 1
    assert points["otel.sdk.processor.span.processed", "trace", None] == 0
    assert points["otel.sdk.processor.span.queue.size", "trace", "memory"] == 1
    assert points["otel.sdk.processor.span.queue.size", "priority", "spool"] == 0
    assert points["otel.sdk.processor.span.queue.capacity", "trace", None] == 100
    sink.shutdown()
    tracer.start_span("late").end()
    data = reader.get_metrics_data()
    assert data is not None
    assert '"error.type": "already_shutdown"' in data.to_json()
    meters.shutdown()


def test_a_processor_dropped_without_shutdown_warns_delivers_and_leaves_no_thread(
    memory: InMemorySpanExporter,
) -> None:
    """Forgetting `shutdown` costs a ResourceWarning, no span and no thread."""
    before = frozenset(threading.enumerate())
    sink, tracer = sink_of(memory)
    tracer.start_span("t").end()
    tracer.start_span("e", attributes=ERROR_ATTRIBUTES).end()
    dead = weakref.ref(sink)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del sink, tracer
        gc.collect()
        assert dead() is None
    assert [warning.category for warning in caught] == [ResourceWarning]
    assert wait_until(lambda: names(memory) == ["e", "t"])
    assert wait_until(lambda: not our_threads(before)), our_threads(before)


def test_a_processor_that_was_shut_down_leaves_no_thread_and_no_warning(memory: InMemorySpanExporter) -> None:
    """After `shutdown` nothing of ours runs."""
    before = frozenset(threading.enumerate())
    sink, tracer = sink_of(memory)
    tracer.start_span("t").end()
    tracer.start_span("e", attributes=ERROR_ATTRIBUTES).end()
    sink.shutdown()
    del sink, tracer
    gc.collect()
    assert wait_until(lambda: not our_threads(before)), our_threads(before)


def test_construction_opens_no_connection_and_starts_no_thread(tmp_path: Path) -> None:
    """Until the first span nothing runs: a preloading server pays nothing."""
    before = threading.active_count()
    sink = TwoLaneSpanProcessor(endpoint="http://127.0.0.1:9", spool=tmp_path / "s")
    assert threading.active_count() == before
    assert sink.shutdown()


def test_a_clock_set_back_and_forth_changes_nothing(
    memory: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waits and delays follow the monotonic clock alone."""
    sink, tracer = sink_of(memory)
    for jump in (-1e9, 1e9):
        monkeypatch.setattr(time, "time", lambda jump=jump: 1.7e9 + jump)
        monkeypatch.setattr(time, "time_ns", lambda jump=jump: int((1.7e9 + jump) * 1e9))
        start = time.monotonic()
        tracer.start_span("e", attributes=ERROR_ATTRIBUTES).end()
        tracer.start_span("t").end()
        assert sink.force_flush(5000)
        assert time.monotonic() - start < 1
    assert sink.shutdown()


def test_a_spool_that_cannot_be_opened_is_reported_and_memory_is_used(
    memory: InMemorySpanExporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that fails at construction is no reason for the host to fail: counted, warned, delivered from memory."""
    from compass_otel.spool_file import SpoolError, SpoolFault  # noqa: PLC0415 - beside the one use

    def broken(*_: object) -> None:
        raise SpoolError(SpoolFault.READ_ONLY, "injected")

    for method in ("append", "adopt", "lease", "note", "tidy"):
        monkeypatch.setattr(Spool, method, broken)
    sink, tracer = sink_of(memory, spool=tmp_path / "s")
    run = tracer.start_span("run", attributes=RUN)
    tracer.start_span("e", attributes=ERROR_ATTRIBUTES).end()
    run.end()
    assert sink.force_flush(5000)
    assert names(memory) == ["e", "run"]
    assert sink.notices()[Notice.SPOOL_UNAVAILABLE] >= 1
    assert sum("spool" in record.message for record in caplog.records) == 1
    assert sink.shutdown()


def test_text_that_no_encoding_takes_costs_nobody_anything(receiver: Receiver, tmp_path: Path) -> None:
    """Lone surrogates, endless integers, 10 MB, 10,000 attributes: made valid or refused alone; neighbours arrive."""
    sink, tracer = sink_of(None, endpoint=receiver.http_endpoint, spool=tmp_path / "s")
    bad = "bad \ud83e"
    before = len(receiver.keys())
    for attributes in ({}, dict(ERROR_ATTRIBUTES)):
        for number in range(3):
            tracer.start_span(f"ok{number}", attributes=attributes).end()
        span = tracer.start_span(bad, attributes={**attributes, bad: bad, "n": 2**80})
        span.add_event(bad, {bad: bad})
        span.set_status(Status(StatusCode.ERROR, bad))
        span.end()
        tracer.start_span("huge", attributes={**attributes, "x": "x" * 10_000_000}).end()
        many = tracer.start_span("many", attributes=attributes)
        many.set_attributes({f"k{n}": "v" for n in range(10_000)})
        many.end()
    sink.force_flush(20_000)
    stats = sink.stats()
    assert stats.priority.undelivered == stats.trace.undelivered == 0
    arrived = receiver.keys()[before:]
    assert len(set(arrived)) == stats.priority.delivered + stats.trace.delivered >= 10
    sink.shutdown()
