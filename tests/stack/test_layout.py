"""What `collector-config.yaml` does with spans, in the real Collector: what is kept, whole, once, without secrets."""

from __future__ import annotations

import json
import stat
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import StatusCode, set_span_in_context

from compass_otel.sink import TwoLaneSpanProcessor
from receivers import Receiver, refusal, wait_until
from stack.programs import Collector, fetch
from stack.runs import CANCELLED, FAILED, GOOD, Agents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.trace import Span

    from stack.runs import Key

pytestmark = pytest.mark.stack

_MS = 1_000_000
_GRACE_S = 1.0
_SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"  # noqa: S105 - an invented one


@pytest.fixture(scope="module", name="backend")
def recording_backend() -> Iterator[Receiver]:
    """Give a backend that records what the Collector passes on."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module", name="collector")
def strict_collector(backend: Receiver) -> Iterator[Collector]:
    """Give a Collector that keeps no good run, and decides a second after the end of a run."""
    traces = f"127.0.0.1:{backend.grpc_port}"
    with Collector(traces=traces, variables={"KEEP_PERCENT": "0", "DECISION_GRACE": f"{_GRACE_S:g}s"}) as collector:
        yield collector


class Sender:
    """A provider with the product's sink towards a Collector, and spans by hand."""

    def __init__(self, collector: Collector) -> None:
        self.sink = TwoLaneSpanProcessor(endpoint=f"{collector.http_endpoint}/v1/traces")
        self.agents = Agents(self.sink)
        self.tracer = self.agents.provider.get_tracer("test")
        self._now_ns = time.time_ns()

    def trace(self, duration_ms: int = 100, **attributes: Any) -> tuple[Span, set[Key]]:
        """Make a good run with two children, all ended but for the run; `__` stands for a dot in a key."""
        facts = {"compass.session.state": "ready", "compass.outcome": "completed"}
        facts |= {key.replace("__", "."): value for key, value in attributes.items()}
        run = self.tracer.start_span("invoke_agent pi", attributes=facts, start_time=self._now_ns)
        context = set_span_in_context(run)
        children = [self.tracer.start_span(f"child {n}", context, start_time=self._now_ns) for n in range(2)]
        for child in children:
            child.end(self._now_ns + duration_ms * _MS // 2)
        return run, {key_of(span) for span in (run, *children)}

    def end(self, run: Span, duration_ms: int = 100) -> None:
        """End the run, and wait until the Collector has everything."""
        run.end(self._now_ns + duration_ms * _MS)
        self.flush()

    def flush(self) -> None:
        """Wait until the Collector has everything."""
        assert self.sink.force_flush(10_000)


@pytest.fixture(name="sender")
def product_sender(collector: Collector) -> Iterator[Sender]:
    """Give a sender to the strict Collector."""
    sender = Sender(collector)
    yield sender
    sender.sink.shutdown()


def key_of(span: Span) -> Key:
    """Give trace id and span id as text."""
    context = span.get_span_context()
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def arrived(backend: Receiver, keys: set[Key]) -> bool:
    """Wait until all these spans have arrived."""
    return wait_until(lambda: keys <= set(backend.keys()), 20.0)


def among(backend: Receiver, keys: set[Key]) -> list[Key]:
    """Give those of these spans that have arrived, as often as they did."""
    return sorted(span.key for span in backend.spans() if span.key in keys)


def let_pass(seconds: float) -> None:
    """Let time pass: what is tested is what the Collector does after a wait."""
    threading.Event().wait(seconds)


def sampling_settled(collector: Collector, since: float) -> bool:
    """Wait until the Collector has decided about more traces than *since*."""
    return wait_until(lambda: decided(collector) > since, 20.0)


def decided(collector: Collector) -> float:
    """How many traces the Collector has decided about."""
    return collector.metrics().get("otelcol_processor_tail_sampling_global_count_traces_sampled", 0.0)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"compass__outcome": "failed"}, id="failed"),
        pytest.param({"compass__outcome": "cancelled"}, id="cancelled"),
        pytest.param({"compass__outcome": "incomplete"}, id="incomplete"),
        pytest.param({"compass__retry__count": 1}, id="retried"),
        pytest.param({"compass__cost__usd": 1.5}, id="costly"),
        pytest.param({"duration_ms": 301_000}, id="slow"),
    ],
)
def test_a_run_worth_keeping_is_kept_whole(sender: Sender, backend: Receiver, facts: dict[str, Any]) -> None:
    """Failed, cancelled, incomplete, retried, costly and slow runs arrive with all their children, each span once."""
    run, keys = sender.trace(**facts)
    if facts.get("compass__outcome") == "failed":
        run.set_status(StatusCode.ERROR, "it failed")
    sender.end(run, facts.get("duration_ms", 100))
    assert arrived(backend, keys)
    assert among(backend, keys) == sorted(keys)


def test_of_a_good_run_only_the_run_span_is_kept(sender: Sender, backend: Receiver, collector: Collector) -> None:
    """With a share of 0 a good run is its run span alone: sampling thins what is below, and never the run."""
    before = decided(collector)
    run, keys = sender.trace()
    sender.end(run)
    assert arrived(backend, {key_of(run)})
    assert sampling_settled(collector, before)
    let_pass(_GRACE_S)  # what was kept leaves in batches
    assert set(backend.keys()) & keys == {key_of(run)}


def test_a_failure_does_not_wait_for_a_decision(collector: Collector, backend: Receiver) -> None:
    """An error of a sender that marks nothing, under a root that never ends, is passed on at once."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{collector.http_endpoint}/v1/traces")))
    tracer = provider.get_tracer("test")
    root = tracer.start_span("never ends")
    failed = tracer.start_span("failed", set_span_in_context(root))
    failed.set_status(StatusCode.ERROR, "it failed")
    failed.end()
    assert arrived(backend, {key_of(failed)})


def test_a_run_longer_than_the_grace_is_kept_whole(sender: Sender, backend: Receiver) -> None:
    """Children that came long before the end of their run, and one that comes after the decision, are kept with it."""
    run, keys = sender.trace(compass__outcome="failed")
    run.set_status(StatusCode.ERROR, "it failed")
    sender.flush()
    let_pass(2.5 * _GRACE_S)
    sender.end(run)
    assert arrived(backend, keys)
    late = sender.tracer.start_span("late", set_span_in_context(run))
    late.end()
    sender.flush()
    assert arrived(backend, {key_of(late)})
    assert among(backend, keys) == sorted(keys)


@pytest.mark.parametrize("kind", [FAILED, CANCELLED, GOOD])
def test_recorded_runs_arrive_by_these_rules(sender: Sender, backend: Receiver, kind: str) -> None:
    """Of recorded agents, failed and cancelled runs arrive whole and once; of good ones at least the run."""
    sender.agents.run(kind)
    sender.flush()
    seen = sender.agents.seen
    assert arrived(backend, seen.priority | (seen.rest if kind != GOOD else set()))
    found = among(backend, seen.priority | seen.rest)
    assert len(found) == len(set(found))


def test_a_share_of_the_good_runs_is_kept_whole(backend: Receiver) -> None:
    """With `KEEP_PERCENT` a share of the good runs keeps its children; every run keeps its run span."""
    traces = f"127.0.0.1:{backend.grpc_port}"
    with Collector(traces=traces, variables={"KEEP_PERCENT": "30", "DECISION_GRACE": "1s"}) as collector:
        sender = Sender(collector)
        runs = [sender.trace() for _ in range(200)]
        for run, _ in runs:
            run.end()
        sender.flush()
        assert arrived(backend, {key_of(run) for run, _ in runs})
        assert wait_until(lambda: decided(collector) >= len(runs), 20.0)
        collector.stop()  # in order: what waits for its batch leaves now
        sender.sink.shutdown()
    have = set(backend.keys())
    whole = sum(1 for _, keys in runs if keys <= have)
    assert 30 <= whole <= 90
    assert all(keys <= have or keys & have == {key_of(run)} for run, keys in runs)


def test_secrets_of_other_senders_are_hidden(collector: Collector, backend: Receiver) -> None:
    """Attributes of span, event and resource, and the status text, lose a secret; marks of our own scrubbing stay."""
    resource = Resource({"service.name": "leaky", "deployment": f"key {_SECRET}"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{collector.http_endpoint}/v1/traces")))
    span = provider.get_tracer("test").start_span("leaky", attributes={"note": f"Authorization: Bearer {_SECRET}"})
    span.set_attribute("ours", "password=[redacted: password], Authorization: [redacted: authorization]")
    span.set_attribute("url", "https://user:hunter2hunter2@host.example/?sig=0123456789abcdef")
    span.add_event("exception", {"exception.message": f"401 for {_SECRET}"})
    span.set_status(StatusCode.ERROR, f"refused: api_key={_SECRET}; password: hunter2hunter2")
    span.end()
    assert arrived(backend, {key_of(span)})
    (found,) = [each for each in backend.spans() if each.key == key_of(span)]
    told = json.dumps([found.attributes, found.status_message, found.events, found.resource])
    assert _SECRET not in told
    assert "hunter2" not in told
    assert "0123456789abcdef" not in told
    assert found.status_message == "refused: api_key=****; ****"
    assert found.events[0][1]["exception.message"] == "401 for ****"
    assert found.attributes["ours"] == "password=[redacted: password], Authorization: [redacted: authorization]"
    assert "collector.status_text" not in found.attributes


def test_requests_larger_than_a_backend_takes_arrive(sender: Sender, backend: Receiver) -> None:
    """Priority records of 9 MB in all, sent at once, are split on the way and none is lost."""
    big = "x" * 1_000_000
    keys = set()
    for _ in range(9):
        span = sender.tracer.start_span("big", attributes={"compass.session_error.kind": "ERROR", "text": big})
        span.end()
        keys.add(key_of(span))
    sender.flush()
    assert arrived(backend, keys)
    assert sender.sink.stats().priority.lost == 0


def test_what_a_backend_refuses_for_good_is_counted_where_an_alert_sees_it() -> None:
    """The one loss that the Collector cannot prevent shows in its own metrics."""
    with Receiver() as strict:
        strict.behave(refusal(401, "UNAUTHENTICATED", "no"))
        with Collector(traces=f"127.0.0.1:{strict.grpc_port}") as collector:
            sender = Sender(collector)
            sender.agents.run(FAILED)
            sender.flush()
            failed = "otelcol_exporter_send_failed_spans"
            assert wait_until(lambda: collector.metrics().get(failed, 0) > 0, 20.0)
            sender.sink.shutdown()


def test_the_state_folder_is_made_and_private(collector: Collector) -> None:
    """`COLLECTOR_STATE` is made when absent, with both queues in it, and nobody else reads it."""
    state = collector.state_folder
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert {"priority", "rest"} <= {part for path in state.iterdir() for part in path.name.split("_")}


def test_health_and_own_metrics_are_where_the_variables_say(collector: Collector) -> None:
    """The Collector answers for its health, and tells its queues, refusals and sampling as metrics."""
    assert fetch(f"http://{collector.environment['HEALTH_ENDPOINT']}/") is not None
    names = set(collector.metrics())
    assert {
        "otelcol_exporter_queue_size",
        "otelcol_exporter_queue_capacity",
        "otelcol_exporter_sent_spans",
        "otelcol_receiver_accepted_spans",
        "otelcol_process_memory_rss",
    } <= names
