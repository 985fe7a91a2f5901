"""Record an agent's events on the spans of your own service.

Runs offline: the records stand for what the agent writes, and the provider prints its spans instead of sending them.

Run: python examples/library.py
"""

from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from compass_otel import SessionBridge

RECORDS: list[dict[str, Any]] = [
    {"type": "agent_start"},
    {"type": "message_start", "message": {"role": "user", "content": "hello", "timestamp": 1790000000000}},
    {
        "type": "message_end",
        "message": {
            "role": "assistant",
            "content": [],
            "provider": "anthropic",
            "model": "model-x",
            "stopReason": "error",
            "errorMessage": "529 Overloaded",
            "timestamp": 1790000000100,
        },
    },
    {"type": "agent_end", "messages": []},
]


def main() -> None:
    """Feed the records and print the session errors and the spans."""
    provider = TracerProvider()
    line = "{0.name}: {0.status.status_code.name} {0.status.description}\n".format
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=line)))

    bridge = SessionBridge(tracer_provider=provider)
    for record in RECORDS:
        for frame in bridge.feed(record):
            if frame.typed_event.WhichOneof("event") == "session_error":
                print("told to subscribers:", frame.typed_event.session_error.message)
    bridge.close()


if __name__ == "__main__":
    main()
