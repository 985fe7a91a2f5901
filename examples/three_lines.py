"""Library use in three lines: a bridge on the host's own TracerProvider, a record at a time, an end.

Run it as `python examples/three_lines.py`, or with the stream of a live agent: `pi --mode json "..." | python ... -`.
"""

import sys
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from compass_otel import SessionBridge

RECORDED = Path(__file__).with_name("failed-session.jsonl")


def one_line(span: ReadableSpan) -> str:
    """Show a span as one line."""
    facts = span.attributes or {}
    return f"{span.name}: {facts.get('compass.outcome', 'completed')} {facts.get('error.type', '')}".rstrip() + "\n"


def main(path: str) -> None:
    """Bridge the records of a stream, `-` for standard input."""
    provider = TracerProvider()  # a service has one already
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=one_line)))
    with sys.stdin.buffer if path == "-" else Path(path).open("rb") as stream:
        bridge = SessionBridge(tracer_provider=provider)  # one
        for record in stream:
            bridge.feed(record)  # two: maps and records it, gives its frames
        bridge.close()  # three


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(RECORDED))
