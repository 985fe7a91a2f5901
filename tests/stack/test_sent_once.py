"""Every way of sending, and sending again: in the real Jaeger each span is there, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from command_support import CAPTURES, compass
from compass_otel import semconv
from goldens import capture_path, captured
from stack.exports import exported, sent_as, shown_as, told_as
from stack.jaeger_api import JaegerApi

if TYPE_CHECKING:
    from pathlib import Path

    from stack.programs import Stack

pytestmark = pytest.mark.stack

_WAYS: Final = [
    pytest.param("http/protobuf", "none", id="http"),
    pytest.param("http/protobuf", "gzip", id="http-gzip"),
    pytest.param("grpc", "none", id="grpc"),
    pytest.param("grpc", "gzip", id="grpc-gzip"),
]
_RUNS: Final = tuple(
    CAPTURES / agent / f"{name}.events.jsonl"
    for agent in ("pi-1.6", "omp-18")
    for name in ("f_http_503_exhausted", "i_abort_mid_stream", "q_tool_then_429_then_success")
)
_LAST: Final = CAPTURES / "pi-1.6" / "c_tool_failure.events.jsonl"


@pytest.fixture(name="empty_jaeger")
def jaeger_without_traces(stack: Stack) -> JaegerApi:
    """Give a Jaeger that has forgotten everything: what is seen then came by the way that is tested."""
    stack.jaeger.kill()
    stack.jaeger.start()
    return JaegerApi(stack.jaeger.query_url)


@pytest.mark.parametrize(("protocol", "compression"), _WAYS)
def test_every_way_of_sending_gives_the_same(
    stack: Stack, empty_jaeger: JaegerApi, protocol: str, compression: str
) -> None:
    """Session files of all captures, over gRPC and HTTP, plain and gzip, are seen as they were told."""
    files = [capture_path("session", name) for name in captured("session")]
    sent = exported(stack, *files, protocol=protocol, compression=compression)
    assert empty_jaeger.wait_for(sent.spans) == set()
    shown = empty_jaeger.traces({trace_id for trace_id, _ in sent.spans})
    assert sorted(span.key for span in shown) == sorted(sent.spans)
    for span in shown:
        assert shown_as(span) == told_as(sent.spans[span.key])
    assert {run["outcome"] for run in sent.runs} == {"completed", "failed", "cancelled", "incomplete"}


def test_all_runs_of_a_conversation_are_found(stack: Stack, empty_jaeger: JaegerApi) -> None:
    """`gen_ai.conversation.id` finds all runs of a session, of every session that had several."""
    files = [capture_path("session", name) for name in captured("session")]
    sent = exported(stack, *files)
    assert empty_jaeger.wait_for(sent.spans) == set()
    key = semconv.GEN_AI_CONVERSATION_ID
    conversations = {value: sent.traces_with(key, value) for value in sent.values(key)}
    several = {value: traces for value, traces in conversations.items() if len(traces) > 1}
    assert len(several) >= 3
    for conversation, traces in several.items():
        found = {trace for service in ("pi", "omp") for trace in empty_jaeger.search(service, {key: conversation})}
        assert found == traces


@pytest.mark.parametrize("again", [(), ("--again",)], ids=["skipped", "again"])
def test_exporting_twice_shows_each_span_once(stack: Stack, empty_jaeger: JaegerApi, again: tuple[str, ...]) -> None:
    """The same input sent a second time, by mistake or with `--again`, changes nothing that a person sees."""
    sent = exported(stack, *_RUNS)
    assert empty_jaeger.wait_for(sent.spans) == set()
    assert exported(stack, *again, *_RUNS).spans.keys() == sent.spans.keys()
    let_arrive(stack, empty_jaeger)
    shown = empty_jaeger.traces({trace_id for trace_id, _ in sent.spans})
    assert sorted(span.key for span in shown) == sorted(sent.spans)


@pytest.mark.parametrize("stream", _RUNS, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_what_was_sent_live_is_skipped_when_its_file_is_replayed(
    stack: Stack, empty_jaeger: JaegerApi, stream: Path
) -> None:
    """A live run, and then the session file that it left behind: every span is seen once, as the live one was."""
    done = compass("ingest", "--json", "--endpoint", stack.collector.http_endpoint, stdin=stream.read_bytes())
    live = sent_as(done.stdout)
    assert empty_jaeger.wait_for(live.spans) == set()
    session = stream.with_name(stream.name.replace(".events.", ".session."))
    exported(stack, session)
    let_arrive(stack, empty_jaeger)
    shown = empty_jaeger.traces({trace_id for trace_id, _ in live.spans})
    assert sorted(span.key for span in shown) == sorted(live.spans)
    for span in shown:
        assert shown_as(span) == told_as(live.spans[span.key])


def let_arrive(stack: Stack, jaeger: JaegerApi) -> None:
    """Wait until whatever was sent before is there: a run that is sent now comes after it, by both ways."""
    last = exported(stack, "--again", _LAST)
    assert jaeger.wait_for(last.spans) == set()
