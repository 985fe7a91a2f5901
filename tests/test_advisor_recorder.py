"""With a recorder in the same process a person sees what the model was told, beside the failure it is about."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from compass_otel.advisor import ErrorAdvisor, Note
from compass_otel.bridge import SessionBridge
from compass_otel.recording import ToldNote
from test_advisor_captures import ALL, stream


def played(agent: str, name: str) -> tuple[list[ReadableSpan], list[Note]]:
    """Record a capture with an advisor beside the recorder; gives the chat spans and every note."""
    exporter, provider, advisor = InMemorySpanExporter(), TracerProvider(), ErrorAdvisor()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    bridge = SessionBridge(tracer_provider=provider, observer=advisor)
    told: list[Note] = []
    now_ns = 0
    for step in stream(agent, name):
        if isinstance(step, list):
            notes = advisor.advise(step, "fake/fake-model", now_ns)
            bridge.advised(tuple(ToldNote(note.error_class, note.text, note.failed_at_ns) for note in notes))
            told += notes
        else:
            now_ns = max(now_ns, step.at_ns)
            bridge.handle(step)
    bridge.close()
    assert bridge.internal_errors == 0
    return [span for span in exporter.get_finished_spans() if span.name.startswith("chat")], told


@pytest.mark.parametrize("agent", ALL)
@pytest.mark.parametrize(
    ("name", "told_class"), [("m_fail_then_success", "other"), ("j_overflow_compact_success", "overflow")]
)
def test_the_next_chat_span_says_what_the_model_was_told_and_links_to_the_failure(
    agent: str, name: str, told_class: str
) -> None:
    """One event with class and text on the chat after the failure, and one link to the failed chat."""
    chats, told = played(agent, name)
    [failed] = [chat for chat in chats if chat.status.status_code is StatusCode.ERROR]
    [(chat, event)] = [(chat, event) for chat in chats for event in chat.events if event.name == "compass.advisor.note"]
    assert event.attributes == {"compass.advisor.class": told_class, "compass.advisor.text": told[0].text}
    assert chat is not failed
    assert failed.context is not None
    assert [link.context.span_id for link in chat.links if link.attributes == {"compass.link.kind": "failed_span"}] == [
        failed.context.span_id
    ]
