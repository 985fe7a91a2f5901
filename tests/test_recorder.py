"""SessionRecorder and SessionBridge: what stands on spans, for a host's own providers, under each option."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from compass_otel import RecorderOptions, SessionBridge, ToldNote, scrub
from compass_otel.exception_signal import ExceptionSignal
from compass_otel.frames import session_error_of
from compass_otel.recorder_settings import options_from_environment
from compass_otel.sources.pi_stream import PiStream
from compass_otel.testing import CollectingProvider, ManualClock
from goldens import Recorded

MS = 1_790_000_000_000
USER = {"role": "user", "content": [{"type": "text", "text": "do it"}], "timestamp": MS + 1}


def assistant(stop: str | None = "stop", *, at: int = 10, text: str = "done", **more: Any) -> dict[str, Any]:
    """Build an assistant message as Pi writes it."""
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}] if text else [],
        "provider": "anthropic",
        "model": "model-x",
        "stopReason": stop,
        "timestamp": MS + at,
        "usage": {
            "input": 100,
            "output": 10,
            "cacheRead": 5,
            "cacheWrite": 2,
            "cost": {"total": 0.25},
        },
        **more,
    }


def whole(trees: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield every span of the trees, parents first."""
    for tree in trees:
        yield tree
        yield from whole(tree.get("children", []))


def begin() -> list[dict[str, Any]]:
    """Return the records that begin a prompt."""
    return [
        {"type": "session", "id": "s-1", "version": 3, "timestamp": "2026-09-21T14:13:20.000Z", "cwd": "/p"},
        {"type": "agent_start"},
        {"type": "message_start", "message": USER},
        {"type": "message_end", "message": USER},
    ]


def answer(**given: Any) -> list[dict[str, Any]]:
    """Return the records of one answer."""
    message = assistant(**given)
    return [
        {"type": "message_start", "message": {**message, "stopReason": "pending"}},
        {"type": "message_end", "message": message},
    ]


SETTLED: list[dict[str, Any]] = [
    {"type": "agent_end", "messages": [], "willRetry": False},
    {"type": "agent_settled", "aborted": False},
]
FAILED: dict[str, Any] = {"stop": "error", "text": "", "errorMessage": "529 Overloaded"}


def test_a_good_run_whole() -> None:
    """One good answer is a run with one chat: every attribute, event and time as listed, and nothing else."""
    recorded = Recorded([*begin(), *answer(), *SETTLED], PiStream())
    (run,) = recorded.trees
    (chat,) = run.pop("children")
    identity = {"gen_ai.agent.name": "pi", "gen_ai.conversation.id": "s-1"}
    assert run == {
        "name": "invoke_agent pi",
        "kind": "INTERNAL",
        "status": "UNSET",
        "start_ns": (MS + 1) * 1_000_000,
        "end_ns": (MS + 10) * 1_000_000,
        "trace_id": run["trace_id"],
        "span_id": run["span_id"],
        "attributes": {
            **identity,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "model-x",
            "gen_ai.usage.input_tokens": 107,
            "gen_ai.usage.output_tokens": 10,
            "compass.chats": 1,
            "compass.cost.usd": 0.25,
            "compass.outcome": "completed",
            "compass.session.state": "ready",
            "compass.tools": 0,
        },
        "events": [
            {
                "name": "compass.session.state",
                "time_ns": (MS + at) * 1_000_000,
                "attributes": {"compass.session.state": state},
            }
            for at, state in ((1, "working"), (10, "ready"))
        ],
    }
    assert chat["attributes"] == {
        **identity,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "model-x",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 107,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.usage.cache_write.input_tokens": 2,
        "gen_ai.usage.cache_creation.input_tokens": 2,
        "compass.attempt": 1,
        "compass.cost.usd": 0.25,
    }
    assert (chat["name"], chat["kind"], chat["status"]) == ("chat model-x", "CLIENT", "UNSET")


def test_a_failed_chat_whole() -> None:
    """ERROR stands as status, as attributes and as one event called exception, last."""
    recorded = Recorded([*begin(), *answer(**FAILED), *SETTLED], PiStream())
    chat = recorded.trees[0]["children"][0]
    assert chat["status"] == "ERROR: 529 Overloaded"
    assert chat["attributes"] | {} == chat["attributes"] | {
        "error.type": "overloaded",
        "http.response.status_code": 529,
        "compass.error.retryable": True,
        "compass.outcome": "failed",
        "compass.session_error.kind": "ERROR",
        "compass.session_error.message": "529 Overloaded",
        "compass.session_error.status": 529,
        "gen_ai.response.finish_reasons": ["error"],
    }
    assert "error" not in chat["attributes"], "Jaeger reads any attribute called error as a failure"
    assert chat["events"][-1] == {
        "name": "exception",
        "time_ns": (MS + 10) * 1_000_000,
        "attributes": {
            "exception.type": "overloaded",
            "exception.message": "529 Overloaded",
            "compass.session_error.kind": "ERROR",
            "compass.session_error.status": 529,
            "compass.event_id": "1",
        },
    }
    run = recorded.trees[0]
    assert (run["status"], run["attributes"]["error.type"]) == ("ERROR: 529 Overloaded", "overloaded")


def test_a_retried_failure_marks_only_its_own_chat() -> None:
    """A failure that a retry repaired leaves the run unset, with the retry counted and recovered."""
    retry: list[dict[str, Any]] = [
        {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 60, "errorMessage": "529 Overloaded"},
        {"type": "agent_start"},
    ]
    good = [{"type": "auto_retry_end", "success": True, "attempt": 1}]
    recorded = Recorded([*begin(), *answer(**FAILED), *retry, *answer(at=20), *good, *SETTLED], PiStream())
    (run,) = recorded.trees
    assert run["status"] == "UNSET"
    assert (run["attributes"]["compass.retry.count"], run["attributes"]["compass.retry.recovered"]) == (1, True)
    assert [(c["status"], c["attributes"]["compass.attempt"]) for c in run["children"]] == [
        ("ERROR: 529 Overloaded", 1),
        ("UNSET", 2),
    ]


def test_the_switch_aborted_as_error() -> None:
    """With the switch a cancelled chat and its run carry an error status; the kind stays ABORTED."""
    options = RecorderOptions(aborted_as_error=True)
    abort = answer(stop="aborted", text="", errorMessage="Request was aborted")
    recorded = Recorded([*begin(), *abort, *SETTLED], PiStream(), options)
    run = recorded.trees[0]
    chat = run["children"][0]
    assert (run["status"], chat["status"]) == ("ERROR: Request was aborted", "ERROR: Request was aborted")
    assert chat["attributes"]["compass.session_error.kind"] == "ABORTED"


def test_content_only_when_asked_for() -> None:
    """Prompts, answers, arguments and results are on spans only with content capture, scrubbed."""
    tool: list[dict[str, Any]] = [
        {"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash", "args": {"command": "echo sesame"}},
        {
            "type": "tool_execution_end",
            "toolCallId": "c1",
            "toolName": "bash",
            "result": {"content": [{"type": "text", "text": "sesame opens"}]},
            "isError": False,
        },
    ]
    records = [*begin(), *answer(text="the answer"), *tool, *SETTLED]
    quiet = str(Recorded(records, PiStream()).trees)
    assert not any(word in quiet for word in ("do it", "the answer", "sesame"))
    loud = str(Recorded(records, PiStream(), RecorderOptions(capture_content=True)).trees)
    assert all(word in loud for word in ("do it", "the answer", "echo sesame", "sesame opens"))


@pytest.mark.parametrize(
    ("signal", "events", "logs"),
    [(ExceptionSignal.EVENTS, 1, 0), (ExceptionSignal.LOGS, 0, 1), (ExceptionSignal.BOTH, 1, 1)],
)
def test_the_exception_signal_opt_in(signal: ExceptionSignal, events: int, logs: int) -> None:
    """A failure is told as span event, log event or both, each once; the log stands in the span's context."""
    exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call] # the SDK left it untyped
    logger_provider = LoggerProvider(shutdown_on_exit=False)
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    provider = CollectingProvider()
    bridge = SessionBridge(
        tracer_provider=provider.tracer_provider,
        logger_provider=logger_provider,
        options=RecorderOptions(exception_signal=signal),
    )
    for record in [*begin(), *answer(**FAILED), *SETTLED]:
        bridge.feed(record)
    bridge.close()
    chat = next(span for span in provider.spans if span.name.startswith("chat"))
    written = exporter.get_finished_logs()
    assert sum(event.name == "exception" for event in chat.events) == events
    assert [log.log_record.event_name for log in written] == ["gen_ai.client.operation.exception"] * logs
    assert chat.context is not None
    assert all(log.log_record.span_id == chat.context.span_id for log in written)


def test_options_follow_the_standard_variables() -> None:
    """The variables of the conventions are obeyed; unset ones leave content off and exceptions as span events."""
    assert options_from_environment({}) == RecorderOptions()
    chosen = options_from_environment(
        {
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
            "OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN": "http, logs/dup",
            "COMPASS_OTEL_ABORTED_AS_ERROR": "true",
        }
    )
    assert (chosen.capture_content, chosen.exception_signal, chosen.aborted_as_error) == (True, "logs/dup", True)
    assert not options_from_environment(
        {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "NO_CONTENT"}
    ).capture_content


def metrics_of(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    """Return data points by metric name."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_metrics_of_a_host() -> None:
    """Durations, tokens, errors, retries and runs are recorded on the host's MeterProvider, with outcome and type."""
    reader = InMemoryMetricReader()
    provider = CollectingProvider()
    bridge = SessionBridge(
        tracer_provider=provider.tracer_provider,
        meter_provider=MeterProvider([reader], shutdown_on_exit=False),
    )
    retry = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 1, "delayMs": 1, "errorMessage": "529 Overloaded"}
    for record in [*begin(), *answer(**FAILED), retry, {"type": "agent_start"}, *answer(at=20), *SETTLED]:
        bridge.feed(record)
    found = metrics_of(reader)
    (error,) = found["compass.session.errors"]
    assert (error.value, dict(error.attributes)) == (
        1,
        {
            "compass.session_error.kind": "ERROR",
            "error.type": "overloaded",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "model-x",
        },
    )
    assert [point.value for point in found["compass.retries"]] == [1]
    assert sum(point.count for point in found["gen_ai.client.operation.duration"]) == 2
    assert {p.attributes["gen_ai.token.type"]: p.sum for p in found["gen_ai.client.token.usage"]} == {
        "input": 107,
        "output": 10,
    }
    (run,) = found["compass.runs"]
    assert run.attributes["compass.outcome"] == "completed"


def test_what_metrics_tell_of_a_run_that_a_retry_saved() -> None:
    """Cost counts the failed request too; the run says its provider, its model and that a retry repaired it."""
    reader = InMemoryMetricReader()
    bridge = SessionBridge(
        tracer_provider=CollectingProvider().tracer_provider,
        meter_provider=MeterProvider([reader], shutdown_on_exit=False),
    )
    retry = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 1, "delayMs": 1, "errorMessage": "529 Overloaded"}
    saved = {"type": "auto_retry_end", "success": True, "attempt": 1}
    for record in [*begin(), *answer(**FAILED), retry, {"type": "agent_start"}, *answer(at=20), saved, *SETTLED]:
        bridge.feed(record)
    found = metrics_of(reader)
    model = {"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "model-x"}
    assert [(point.value, dict(point.attributes)) for point in found["compass.cost.usd"]] == [(0.5, model)]
    (run,) = found["compass.runs"]
    facts = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "pi",
        **model,
        "compass.outcome": "completed",
    }
    assert dict(run.attributes) == {**facts, "compass.retry.recovered": True}
    (duration,) = found["gen_ai.invoke_agent.duration"]
    assert dict(duration.attributes) == facts


def test_runs_of_a_session_link_back() -> None:
    """Each run links to the session's previous run and shares its conversation id, in a trace of its own."""
    other = {**USER, "timestamp": MS + 50}
    again: list[dict[str, Any]] = [{"type": "agent_start"}, {"type": "message_start", "message": other}]
    recorded = Recorded([*begin(), *answer(), *SETTLED, *again, *answer(at=60), *SETTLED], PiStream())
    first, second = recorded.trees
    assert second["links"] == [
        {"span_id": first["span_id"], "attributes": {"compass.link.kind": "previous_run"}},
    ]
    assert first["trace_id"] != second["trace_id"]


def test_a_host_span_is_the_parent_and_stays_current() -> None:
    """Inside an instrumented service a run is a child of the current span, which stays what it was."""
    provider = CollectingProvider()
    tracer = provider.tracer_provider.get_tracer("host")
    with tracer.start_as_current_span("request") as request:
        with SessionBridge(tracer_provider=provider.tracer_provider) as bridge:
            for record in [*begin(), *answer()]:
                bridge.feed(record)
                assert trace.get_current_span() is request
        assert trace.get_current_span() is request
    run = next(span for span in provider.spans if span.name == "invoke_agent pi")
    assert run.parent is not None
    assert run.parent.span_id == request.get_span_context().span_id


def test_a_sub_agent_sits_under_its_tool_call() -> None:
    """A child agent's own bridge, given the tool's context, records below that call; two children do not mix."""
    provider = CollectingProvider()
    parent = SessionBridge(tracer_provider=provider.tracer_provider)
    calls: list[dict[str, Any]] = [
        {"type": "tool_execution_start", "toolCallId": call, "toolName": "task", "args": {}} for call in ("c1", "c2")
    ]
    for record in [*begin(), *answer(stop="toolUse"), *calls]:
        parent.feed(record)
    assert parent.tool_context("nothing") is None
    for call, failing in (("c1", True), ("c2", False)):
        child = SessionBridge(tracer_provider=provider.tracer_provider, parent_context=parent.tool_context(call))
        for record in [*begin(), *answer(**(FAILED if failing else {})), *SETTLED]:
            child.feed(record)
        child.close()
    parent.close()
    (root,) = provider.trees()
    tools = [c for c in root["children"] if c["name"] == "execute_tool task"]
    statuses = [[run["status"] for run in tool["children"]] for tool in tools]
    assert statuses == [["ERROR: 529 Overloaded"], ["UNSET"]]


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_cancel_that_passes_by_ends_the_run_cancelled(error: type[BaseException]) -> None:
    """A cancel of the host ends the run as cancelled, names itself, and goes on unchanged."""
    provider = CollectingProvider()
    raised = error()
    with (  # noqa: PT012 - the records before it are what it cancels
        pytest.raises(error) as caught,
        SessionBridge(tracer_provider=provider.tracer_provider) as bridge,
    ):
        for record in [*begin(), answer()[0]]:
            bridge.feed(record)
        raise raised
    assert caught.value is raised
    (run,) = provider.trees()
    assert (run["status"], run["attributes"]["compass.outcome"]) == ("UNSET", "cancelled")
    assert error.__name__ in run["attributes"]["compass.session_error.message"]


def test_a_host_that_fails_leaves_the_run_lost() -> None:
    """An exception of the host is no cancel: the run is incomplete, with the exception's name."""
    provider = CollectingProvider()
    with (  # noqa: PT012 - same
        pytest.raises(ValueError, match="boom"),
        SessionBridge(tracer_provider=provider.tracer_provider) as bridge,
    ):
        for record in begin():
            bridge.feed(record)
        raise ValueError("boom")
    (run,) = provider.trees()
    assert (run["attributes"]["compass.outcome"], run["attributes"]["error.type"]) == ("incomplete", "process_lost")
    assert run["status"] == "ERROR: the host ended with the run open: ValueError"


def test_close_twice_and_close_unused() -> None:
    """Closing is safe twice and on a bridge that never saw a record."""
    provider = CollectingProvider()
    bridge = SessionBridge(tracer_provider=provider.tracer_provider)
    assert [frame.state for frame in bridge.close()] == [4]
    assert bridge.close() == ()
    assert provider.spans == ()


def test_close_after_a_prompt_that_looked_finished_is_no_cancel() -> None:
    """Pi 0.73 never says that it settled: closing takes its last agent_end as the end of the run."""
    provider = CollectingProvider()
    bridge = SessionBridge(tracer_provider=provider.tracer_provider)
    for record in [*begin(), *answer(**FAILED), {"type": "agent_end", "messages": []}]:
        bridge.feed(record)
    bridge.close()
    assert provider.trees()[0]["attributes"]["compass.outcome"] == "failed"


def test_sampled_out_spans_change_nothing_for_the_subscriber() -> None:
    """With a sampler that drops everything the frames are the same and nothing fails."""
    records = [*begin(), *answer(**FAILED), *SETTLED]
    told = []
    for provider in (
        TracerProvider(shutdown_on_exit=False),
        TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False),
    ):
        bridge = SessionBridge(tracer_provider=provider, clock=ManualClock())
        told.append([str(frame) for record in records for frame in bridge.feed(record)])
        assert bridge.internal_errors == 0
    assert told[0] == told[1]


def test_without_any_provider_nothing_is_opened() -> None:
    """Without a provider, an exporter or a variable the frames still come."""
    before = set(threading.enumerate())
    bridge = SessionBridge(clock=ManualClock())
    frames = [frame for record in [*begin(), *answer(**FAILED)] for frame in bridge.feed(record)]
    assert any(session_error_of(frame) for frame in frames)
    assert set(threading.enumerate()) <= before


def test_records_may_come_from_another_thread_and_task() -> None:
    """Records fed from another thread, or by a generator closed in another task, disturb no context."""
    provider = CollectingProvider()
    bridge = SessionBridge(tracer_provider=provider.tracer_provider)

    async def follow() -> Any:
        with bridge:
            for record in [*begin(), *answer()]:
                yield bridge.feed(record)

    async def main() -> None:
        generator = follow()
        await asyncio.create_task(anext(generator))
        await asyncio.create_task(generator.aclose())

    asyncio.run(main())
    gc.collect()
    thread = threading.Thread(target=lambda: bridge.feed(SETTLED[0]))
    thread.start()
    thread.join()
    assert (bridge.open_spans, bridge.internal_errors) == (0, 0)
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_flood_of_one_failure_is_one_failure() -> None:
    """A retry loop that repeats one error two hundred thousand times is told once, the rest is counted."""
    message = assistant(**FAILED)
    record = {"type": "message_update", "assistantMessageEvent": {"type": "error", "reason": "error", "error": message}}

    def flood() -> Iterator[dict[str, Any]]:
        yield from begin()
        for _ in range(20_000):
            yield record

    recorded = Recorded(flood(), PiStream())
    assert len([e for e in recorded.session_errors if e[1] == "529 Overloaded"]) == 1
    assert len(recorded.spans) == 2


def test_many_records_leave_identity_and_no_dropped_attribute() -> None:
    """A run of hundreds of answers keeps a small set of attributes, the conversation id among them."""
    answers = [record for n in range(200) for record in answer(at=10 + n)]
    recorded = Recorded([*begin(), *answers, *SETTLED], PiStream())
    run = next(span for span in recorded.spans if span.name.startswith("invoke_agent"))
    assert (run.attributes or {})["gen_ai.conversation.id"] == "s-1"
    assert run.dropped_attributes == 0
    assert len(run.attributes or {}) < 32


def test_the_model_was_told_stands_on_the_next_chat() -> None:
    """A note is an event on the next chat span, which links to the span that failed."""
    provider = CollectingProvider()
    clock = ManualClock()
    bridge = SessionBridge(tracer_provider=provider.tracer_provider, clock=clock)
    for record in [*begin(), *answer(**FAILED), *SETTLED]:
        bridge.feed(record)
    bridge.advised((ToldNote("transient", "[error-advisor] it failed", failed_at_ns=clock.now_ns),))
    again: list[dict[str, Any]] = [
        {"type": "agent_start"},
        {"type": "message_start", "message": {**USER, "timestamp": MS + 99}},
    ]
    for record in [*again, *answer(at=100), *answer(at=110), *SETTLED]:
        bridge.feed(record)
    failed, told, later = (span for span in provider.spans if span.name == "chat model-x")
    assert failed.context is not None
    assert [(e.name, dict(e.attributes or {})) for e in told.events] == [
        (
            "compass.advisor.note",
            {"compass.advisor.class": "transient", "compass.advisor.text": "[error-advisor] it failed"},
        )
    ]
    assert [link.context.span_id for link in told.links] == [failed.context.span_id]
    assert later.events == ()


def test_internal_errors_are_counted_and_kept_from_the_host(caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong inside is counted and logged a bounded number of times; the host sees no exception."""

    class Broken:
        def observe(self, event: object) -> None:  # noqa: ARG002 - the observer's signature
            raise RuntimeError("broken observer")

    bridge = SessionBridge(observer=Broken(), tracer_provider=TracerProvider(shutdown_on_exit=False))
    for _ in range(30):
        bridge.feed({"type": "turn_start"})
    assert bridge.internal_errors == 30
    assert len(caplog.records) == 10


def test_no_run_is_a_child_where_a_root_was_asked_for() -> None:
    """An empty parent context makes every run a root, whatever span is current."""
    provider = CollectingProvider()
    with provider.tracer_provider.get_tracer("host").start_as_current_span("request"):
        bridge = SessionBridge(tracer_provider=provider.tracer_provider, parent_context=Context())
        for record in [*begin(), *answer(), *SETTLED]:
            bridge.feed(record)
    run = next(span for span in provider.spans if span.name == "invoke_agent pi")
    assert run.parent is None
    assert run.status.status_code is StatusCode.UNSET


def test_every_failed_span_says_whether_the_same_again_may_help() -> None:
    """error.type and retryable stand on failed runs, chats, tools and compactions, and on what a dead process left."""
    records = [
        *begin(),
        {"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash", "args": {}},
        {"type": "tool_execution_end", "toolCallId": "c1", "toolName": "bash", "result": {}, "isError": True},
        *answer(**FAILED),
        {"type": "compaction_start", "reason": "overflow"},
        {"type": "compaction_end", "reason": "overflow", "aborted": False, "errorMessage": "503 busy"},
        {"type": "agent_start"},
        {"type": "message_start", "message": assistant(None, at=20)},
        {"type": "tool_execution_start", "toolCallId": "c2", "toolName": "bash", "args": {}},
    ]
    failed = {
        (span["name"], attributes["error.type"]): attributes["compass.error.retryable"]
        for span in whole(Recorded(records, PiStream()).trees)
        for attributes in (span["attributes"],)
        if span["status"].startswith("ERROR")
    }
    assert failed == {
        ("invoke_agent pi", "process_lost"): False,
        ("chat model-x", "overloaded"): True,
        ("chat model-x", "process_lost"): False,
        ("execute_tool bash", "tool_error"): False,
        ("execute_tool bash", "process_lost"): False,
        ("compact", "server_error"): True,
    }


def test_who_speaks_goes_through_the_same_door_as_what_is_said() -> None:
    """No secret and no control character reaches a span in the id or the parent of a session."""
    hostile = "s-1\x1b[31m\u202e\x00 sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCd"
    header, *rest = begin()
    recorded = Recorded([{**header, "id": hostile, "parentSession": hostile}, *rest, *answer(), *SETTLED], PiStream())
    attributes = recorded.trees[0]["attributes"]
    assert attributes["gen_ai.conversation.id"] == attributes["compass.session.parent_id"] == scrub(hostile)


START = {"type": "compaction_start", "reason": "manual"}
END = {"type": "compaction_end", "reason": "manual", "result": {"summary": "s", "tokensBefore": 9}, "aborted": False}


@pytest.mark.parametrize(
    ("records", "outcomes"),
    [
        ([*begin(), *answer(), *SETTLED, START, *begin()[1:], *answer(at=20)], ["incomplete"]),
        ([*begin(), *answer(), *SETTLED, START, *begin()[1:], END, *answer(at=20)], [None]),
        ([*begin(), *answer(), *SETTLED, START, START, END], ["incomplete", None]),
        ([*begin(), START, START, END, *answer()], ["incomplete", None]),
    ],
    ids=["never ended", "ended in the next run", "begun twice between runs", "begun twice in a run"],
)
def test_every_compaction_is_one_span_that_ends(records: list[dict[str, Any]], outcomes: list[str | None]) -> None:
    """However starts and ends of compactions lie to runs and to each other, none is left open and none told twice."""
    recorded = Recorded(records, PiStream())
    recorded.bridge.close()
    assert recorded.closed
    compactions = [span for span in whole(recorded.trees) if span["name"] == "compact"]
    assert [span["attributes"].get("compass.outcome") for span in compactions] == outcomes
