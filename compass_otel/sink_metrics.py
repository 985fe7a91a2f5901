"""The numbers of `stats()` as OpenTelemetry metrics, under the standard's names where it has them.

Read when the host's metric reader collects; nothing is done on the path of a span. `otel.sdk.processor.span.processed`
counts spans that are done with, lost ones with `error.type`; `compass.lane` tells the lanes apart.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Final

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider

from compass_otel import semconv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from compass_otel.lane_pair import LanePair
    from compass_otel.stats import LaneStats

_TYPE: Final = "compass_two_lane_span_processor"
_numbers = itertools.count()


class SinkMetrics:
    """Registers the instruments of one processor; holds no reference that keeps it alive.

    Args:
        pair: The lanes.
        capacity: Spans that the trace lane's queue holds.
        meter_provider: The host's; None = the global one.

    """

    def __init__(self, pair: LanePair, capacity: int, meter_provider: MeterProvider | None) -> None:
        self._pair = weakref.ref(pair)
        self._capacity = capacity
        self._common = {"otel.component.type": _TYPE, "otel.component.name": f"{_TYPE}/{next(_numbers)}"}
        meter = (meter_provider or get_meter_provider()).get_meter(semconv.SCOPE_NAME)
        meter.create_observable_counter(
            "otel.sdk.processor.span.processed",
            [self._callback(self._processed)],
            unit="{span}",
            description="Spans that are done with: delivered, or lost for the reason in error.type.",
        )
        meter.create_observable_up_down_counter(
            "otel.sdk.processor.span.queue.size",
            [self._callback(self._queue_size)],
            unit="{span}",
            description="Spans that wait in memory or in the spool.",
        )
        meter.create_observable_up_down_counter(
            "otel.sdk.processor.span.queue.capacity",
            [self._callback(self._queue_capacity)],
            unit="{span}",
            description="Spans that the queue of the trace lane holds.",
        )
        meter.create_observable_counter(
            "compass.sink.retried",
            [self._callback(self._retried)],
            unit="{span}",
            description="Sendings of spans that had to be repeated.",
        )
        meter.create_observable_counter(
            "compass.sink.notices",
            [self._callback(self._notices)],
            unit="{notice}",
            description="Warnings of the processor, by kind.",
        )

    def _callback(
        self, observe: Callable[[LanePair], Iterator[Observation]]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def callback(_: CallbackOptions) -> Iterable[Observation]:
            pair = self._pair()
            return tuple(observe(pair)) if pair is not None else ()

        return callback

    def _processed(self, pair: LanePair) -> Iterator[Observation]:
        for lane, stats in _lanes(pair):
            attributes = {**self._common, semconv.LANE: lane}
            yield Observation(stats.delivered, attributes)
            for kind, losses in (("dropped", stats.dropped), ("rejected", stats.rejected), ("failed", stats.failed)):
                for reason, number in losses.items():
                    yield Observation(number, {**attributes, semconv.ERROR_TYPE: reason, "compass.loss": kind})

    def _queue_size(self, pair: LanePair) -> Iterator[Observation]:
        for lane, stats in _lanes(pair):
            places = (("memory", stats.waiting), ("spool", stats.spooled)) if lane == "priority" else ()
            for place, number in places or (("memory", stats.waiting),):
                yield Observation(number, {**self._common, semconv.LANE: lane, "compass.place": place})

    def _queue_capacity(self, _: LanePair) -> Iterator[Observation]:
        yield Observation(self._capacity, {**self._common, semconv.LANE: "trace"})

    def _retried(self, pair: LanePair) -> Iterator[Observation]:
        for lane, stats in _lanes(pair):
            yield Observation(stats.retried, {**self._common, semconv.LANE: lane})

    def _notices(self, pair: LanePair) -> Iterator[Observation]:
        for kind, number in pair.notices.counts().items():
            yield Observation(number, {**self._common, "compass.notice": kind})


def _lanes(pair: LanePair) -> Iterator[tuple[str, LaneStats]]:
    stats = pair.stats()
    yield "priority", stats.priority
    yield "trace", stats.trace
