"""Records to send, each different, and senders to send them with."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, TraceFlags

from compass_otel.encoding import encode_span
from compass_otel.otlp_settings import load_settings
from compass_otel.sender import make_sender

if TYPE_CHECKING:
    from compass_otel.delivery import Delivery, Sender
    from receivers import Receiver

MARKER = "test.poison"
"""Attribute key that receivers are told to refuse."""

_numbers = itertools.count(1)
_RESOURCE = Resource({"service.name": "test"})


def a_span(name: str = "span", attributes: dict[str, Any] | None = None) -> ReadableSpan:
    """Make an ended span with ids of its own."""
    context = SpanContext(next(_numbers), next(_numbers), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return ReadableSpan(name, context, resource=_RESOURCE, attributes=attributes or {}, start_time=1, end_time=2)


def a_record(name: str = "span", attributes: dict[str, Any] | None = None) -> bytes:
    """Encode such a span."""
    return encode_span(a_span(name, attributes))


def sender_to(receiver: Receiver, protocol: str, **settings: Any) -> Sender:
    """Make a sender for one of the receiver's ports."""
    endpoint = receiver.http_endpoint if protocol == "http/protobuf" else receiver.grpc_endpoint
    return make_sender(load_settings(**{"endpoint": endpoint, "protocol": protocol, **settings}))


def send(sender: Sender, *records: bytes, within_s: float = 5.0) -> Delivery:
    """Send, and check that the answer is there by the deadline."""
    deadline = time.monotonic() + within_s
    delivery = sender.send(records, deadline)
    assert time.monotonic() < deadline + 2.0, "the answer came after the deadline"
    return delivery
