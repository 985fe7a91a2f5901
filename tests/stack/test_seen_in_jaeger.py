"""What a person sees in the real Jaeger, behind the real Collector: what `replay --json` tells, and found by search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from compass_otel import semconv
from goldens import capture_path, captured
from stack.exports import Sent, exported, shown_as, told_as
from stack.jaeger_api import JaegerApi

if TYPE_CHECKING:
    from stack.programs import Stack

pytestmark = pytest.mark.stack

_SERVICES: Final = ("omp", "pi")
_KINDS: Final = (
    "auth",
    "billing",
    "content_filter",
    "context_overflow",
    "invalid_request",
    "malformed_response",
    "network",
    "overloaded",
    "process_lost",
    "quota",
    "rate_limit",
    "server_error",
    "stream_interrupted",
    "tool_error",
)


@pytest.fixture(scope="module", name="sent")
def everything_sent(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Sent:
    """Send every recorded stream."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPASS_OTEL_STATE", str(tmp_path_factory.mktemp("sent")))
        sent = exported(stack, *(capture_path("stream", name) for name in captured("stream")))
    assert JaegerApi(stack.jaeger.query_url).wait_for(sent.spans) == set()
    return sent


def found(jaeger: JaegerApi, key: str, value: str) -> set[str]:
    """Search as a person does: a service, an attribute and its value."""
    return {trace_id for service in _SERVICES for trace_id in jaeger.search(service, {key: value})}


def test_every_recorded_stream_is_seen_as_it_was_told(sent: Sent, jaeger: JaegerApi) -> None:
    """Tree, outcome, error type, status, events, attributes, times and ids in Jaeger are those of `replay --json`."""
    shown = jaeger.traces({trace_id for trace_id, _ in sent.spans})
    assert sorted(span.key for span in shown) == sorted(sent.spans)
    for span in shown:
        assert shown_as(span) == told_as(sent.spans[span.key])
    assert len(sent.runs) >= len(captured("stream"))


def test_agents_are_the_services(sent: Sent, jaeger: JaegerApi) -> None:
    """The list of services that a person chooses from names the agents, and nothing else."""
    assert sent.runs
    assert jaeger.services() == set(_SERVICES)


@pytest.mark.parametrize("outcome", ["failed", "cancelled", "incomplete", "completed"])
def test_runs_are_found_by_their_outcome(sent: Sent, jaeger: JaegerApi, outcome: str) -> None:
    """`compass.outcome=failed` finds every failed run and no other; so do the other outcomes."""
    wanted = sent.traces_with(semconv.OUTCOME, outcome)
    assert wanted
    assert found(jaeger, semconv.OUTCOME, outcome) == wanted


@pytest.mark.parametrize("kind", _KINDS)
def test_each_kind_of_failure_is_found(sent: Sent, jaeger: JaegerApi, kind: str) -> None:
    """`error.type=rate_limit` finds every run with such a failure, also one that a retry repaired."""
    wanted = sent.traces_with(semconv.ERROR_TYPE, kind)
    assert wanted
    assert found(jaeger, semconv.ERROR_TYPE, kind) == wanted


def test_every_kind_that_was_recorded_has_its_search(sent: Sent) -> None:
    """The kinds searched for above are all that the captures hold."""
    assert sent.values(semconv.ERROR_TYPE) == set(_KINDS)


@pytest.mark.parametrize("status", ["401", "429", "503"])
def test_failures_are_found_by_their_http_status(sent: Sent, jaeger: JaegerApi, status: str) -> None:
    """`http.response.status_code=429` finds the runs that were refused so."""
    wanted = sent.traces_with(semconv.HTTP_RESPONSE_STATUS_CODE, status)
    assert wanted
    assert found(jaeger, semconv.HTTP_RESPONSE_STATUS_CODE, status) == wanted


def test_failures_of_one_model_are_found(sent: Sent, jaeger: JaegerApi) -> None:
    """Two attributes at once narrow a search: one kind of failure at one model."""
    wanted = {
        span["trace_id"]
        for span in sent.spans.values()
        if span["attributes"].get(semconv.ERROR_TYPE) == "overloaded"
        and span["attributes"].get(semconv.GEN_AI_REQUEST_MODEL) == "fake-model"
    }
    tags = {semconv.ERROR_TYPE: "overloaded", semconv.GEN_AI_REQUEST_MODEL: "fake-model"}
    assert wanted
    assert {trace_id for service in _SERVICES for trace_id in jaeger.search(service, tags)} == wanted


def test_retried_runs_are_found(sent: Sent, jaeger: JaegerApi) -> None:
    """`compass.retry.count=1` finds the runs that were retried once."""
    wanted = sent.traces_with(semconv.RETRY_COUNT, "1")
    assert wanted
    assert found(jaeger, semconv.RETRY_COUNT, "1") == wanted


def test_cancelled_spans_carry_no_error_mark(sent: Sent, jaeger: JaegerApi) -> None:
    """What was cancelled has neither the mark nor the status of an error, and no error type."""
    cancelled = sent.traces_with(semconv.OUTCOME, "cancelled")
    spans = [s for s in jaeger.traces(cancelled) if s.attributes.get(semconv.OUTCOME) == "cancelled"]
    assert len({span.trace_id for span in spans}) == len(cancelled) > 0
    for span in spans:
        assert not span.marked_as_error
        assert span.status == "UNSET"
        assert semconv.ERROR_TYPE not in span.attributes


def test_failed_runs_carry_the_error_mark_and_say_why(sent: Sent, jaeger: JaegerApi) -> None:
    """A failed run is marked, and names its kind of error and its text without anybody opening an event."""
    spans = jaeger.traces(sent.traces_with(semconv.OUTCOME, "failed"))
    runs = [
        span for span in spans if span.name.startswith("invoke_agent") and span.attributes[semconv.OUTCOME] == "failed"
    ]
    assert runs
    for run in runs:
        assert run.marked_as_error
        assert run.attributes[semconv.ERROR_TYPE] in _KINDS
    assert all(run.status_text for run in runs)
