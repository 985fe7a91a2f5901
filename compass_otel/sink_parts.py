"""What a two-lane processor is made of, put together when one is made.

A module of its own so that importing the processor's class loads no sender, spool, database or TLS.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from compass_otel import semconv
from compass_otel.encoding import encode_span
from compass_otel.errors import ConfigError
from compass_otel.lane_pair import LanePair, survive_forks
from compass_otel.lanes import TraceLane
from compass_otel.open_runs import OpenRuns
from compass_otel.priority_lane import PriorityLane
from compass_otel.sender import make_sender
from compass_otel.sender_exporter import ExporterSender
from compass_otel.shared_sender import SharedSender
from compass_otel.sink_metrics import SinkMetrics
from compass_otel.waiting import WaitGate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.trace import ReadableSpan  # noqa: TID251 - the types alone
    from opentelemetry.sdk.trace.export import SpanExporter  # noqa: TID251

    from compass_otel.delivery import Sender
    from compass_otel.notices import Notices
    from compass_otel.otlp_settings import OtlpSettings
    from compass_otel.sink_settings import QueueSettings
    from compass_otel.spool import Spool


def otlp_senders(settings: OtlpSettings) -> tuple[Sender, Sender]:
    """Make one sender for each lane, the priority lane's first.

    Raises:
        ConfigError: A setting cannot work.

    """
    return make_sender(settings), make_sender(settings)


def exporter_senders(exporter: SpanExporter) -> tuple[Sender, Sender]:
    """Make the sender that both lanes share, since an exporter takes one call at a time.

    Raises:
        ConfigError: It is no exporter.

    """
    if not callable(getattr(exporter, "export", None)):
        raise ConfigError("exporter", exporter, "a SpanExporter, or None for OTLP")
    shared = SharedSender(ExporterSender(exporter))
    return shared, shared


def lane_pair(  # noqa: PLR0913 - a part each
    senders: tuple[Sender, Sender],
    queue: QueueSettings,
    spool: Spool | None,
    *,
    memory_bytes: int,
    wait_s: float,
    wait_on_event_loop: bool,
    notices: Notices,
    exit_timeout_s: float,
    meter_provider: MeterProvider | None,
) -> LanePair:
    """Put the two lanes together, watched by metrics and kept whole through forks; nothing is sent before `begin`.

    Args:
        senders: The priority lane's and the trace lane's.
        queue: Bounds and times of the trace lane.
        spool: Keeps the priority records; None = memory.
        memory_bytes: Bound of priority records in memory.
        wait_s: Longest wait of one record for its delivery, seconds.
        wait_on_event_loop: Wait on threads that run an event loop too.
        notices: Told of what goes wrong.
        exit_timeout_s: How long an exit takes, seconds.
        meter_provider: Gets the numbers; None = the global one.

    """
    trace = TraceLane(senders[1], queue, notices)
    priority = PriorityLane(
        senders[0],
        spool,
        memory_bytes=memory_bytes,
        gate=WaitGate(wait_s, on_event_loop=wait_on_event_loop, clock=time.monotonic),
        export_timeout_s=queue.export_timeout_s,
        notices=notices,
    )
    pair = LanePair(trace, priority, OpenRuns(priority.store, notices), notices, senders, exit_timeout_s)
    SinkMetrics(pair, queue.max_queue_size, meter_provider)
    survive_forks(pair)
    return pair


def encode_priority(span: ReadableSpan, extra: Mapping[str, Any] | None) -> bytes:
    """Encode an ended span for the priority lane."""
    return encode_span(span, lane=semconv.LANE_PRIORITY, extra=extra)
