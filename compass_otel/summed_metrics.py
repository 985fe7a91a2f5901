"""The commands' MeterProvider: it adds up in memory, for sums that outlive the process.

A command lives for seconds, and a counter that begins at 0 in each of a hundred processes says nothing. So what is
measured here is only what has *grown*; `metric_sums` adds it to the sums in the state folder, and `metrics_sender`
sends those. Counters and histograms are kept; the API's other instruments do nothing here, since the recorder has none.
"""

from __future__ import annotations

import json
import math
import threading
from bisect import bisect_left
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider, NoOpMeter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.util.types import Attributes

MAX_SERIES: Final = 2000
"""Sets of attributes, over all instruments: OpenTelemetry's default limit of cardinality."""
OVERFLOW_ATTRIBUTES: Final = '{"otel.metric.overflow":true}'
"""Where measurements beyond the limit are counted, as the OpenTelemetry specification says."""
DEFAULT_BOUNDS: Final = (
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0, 10_000.0,
)  # fmt: skip
"""Buckets of a histogram that names none, as the specification says."""
_MAX_TEXT_CHARS: Final = 256


class Kind(StrEnum):
    """What an instrument is."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Instrument:
    """An instrument; `bounds` are a histogram's upper bucket bounds, ascending."""

    name: str
    kind: Kind
    unit: str = ""
    description: str = ""
    bounds: tuple[float, ...] = ()


@dataclass(slots=True)
class Growth:
    """By how much one series grew."""

    value: float = 0
    """Sum; stays an `int` as long as only those are added."""
    count: int = 0
    buckets: list[int] = field(default_factory=list)

    def add(self, other: Growth) -> None:
        """Grow by as much again."""
        self.value += other.value
        self.count += other.count
        self.buckets = [mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)]


class Increments:
    """By how much series grew, by instrument and attributes. Not thread-safe. Bounded: see `MAX_SERIES`."""

    def __init__(self, max_series: int = MAX_SERIES) -> None:
        self._max_series = max_series
        self._series: dict[tuple[Instrument, str], Growth] = {}

    def __bool__(self) -> bool:
        return bool(self._series)

    def __iter__(self) -> Iterator[tuple[Instrument, str, Growth]]:
        for (instrument, attributes), growth in self._series.items():
            yield instrument, attributes, growth

    def names(self) -> set[str]:
        """Give the names of the instruments that grew."""
        return {instrument.name for instrument, _ in self._series}

    def add(self, instrument: Instrument, attributes: str, growth: Growth) -> None:
        """Add to one series; `attributes` as `attributes_text` gives them."""
        key = (instrument, attributes)
        if key not in self._series and len(self._series) >= self._max_series:
            key = (instrument, OVERFLOW_ATTRIBUTES)
        known = self._series.get(key)
        if known is None:
            self._series[key] = Growth(growth.value, growth.count, list(growth.buckets))
        else:
            known.add(growth)

    def merge(self, other: Increments) -> None:
        """Add all of another's."""
        for instrument, attributes, growth in other:
            self.add(instrument, attributes, growth)


class SummedMeterProvider(MeterProvider):
    """Takes measurements and gives away what has grown. Thread-safe; never blocks, never raises on a value."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._grown = Increments()
        self.ignored = 0
        """Measurements that no sum can take: negative for a counter, not a number, infinite."""

    def get_meter(
        self,
        name: str,
        version: str | None = None,
        schema_url: str | None = None,
        attributes: Attributes | None = None,  # noqa: ARG002 - the API's form
    ) -> Meter:
        """Give a meter; all of them count into the same series, since names of instruments are ours alone."""
        return _SummedMeter(self, name, version, schema_url)

    def take(self) -> Increments:
        """Give what has grown since the last call."""
        with self._lock:
            grown, self._grown = self._grown, Increments()
            return grown

    def measured(self, instrument: Instrument, amount: float, attributes: Attributes | None) -> None:
        """Take one measurement."""
        if not math.isfinite(amount) or (instrument.kind is Kind.COUNTER and amount < 0):
            self.ignored += 1
            return
        growth = Growth(amount, 1)
        if instrument.kind is Kind.HISTOGRAM:
            growth.buckets = [0] * (len(instrument.bounds) + 1)
            growth.buckets[bisect_left(instrument.bounds, amount)] = 1
        with self._lock:
            self._grown.add(instrument, attributes_text(attributes), growth)


class _SummedMeter(NoOpMeter):
    """A meter whose counters and histograms count."""

    def __init__(self, owner: SummedMeterProvider, name: str, version: str | None, schema_url: str | None) -> None:
        super().__init__(name, version, schema_url)
        self._owner = owner

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Counter:
        return _SummedCounter(self._owner, Instrument(name, Kind.COUNTER, unit, description))

    def create_histogram(
        self,
        name: str,
        unit: str = "",
        description: str = "",
        *,
        explicit_bucket_boundaries_advisory: Sequence[float] | None = None,
    ) -> Histogram:
        given = explicit_bucket_boundaries_advisory
        bounds = tuple(float(bound) for bound in given) if given is not None else DEFAULT_BOUNDS
        return _SummedHistogram(self._owner, Instrument(name, Kind.HISTOGRAM, unit, description, bounds))


class _SummedCounter(Counter):
    def __init__(self, owner: SummedMeterProvider, instrument: Instrument) -> None:
        self._owner = owner
        self._instrument = instrument

    def add(self, amount: float, attributes: Attributes | None = None, context: Context | None = None) -> None:  # noqa: ARG002 - the API's form
        self._owner.measured(self._instrument, amount, attributes)


class _SummedHistogram(Histogram):
    def __init__(self, owner: SummedMeterProvider, instrument: Instrument) -> None:
        self._owner = owner
        self._instrument = instrument

    def record(self, amount: float, attributes: Attributes | None = None, context: Context | None = None) -> None:  # noqa: ARG002 - the API's form
        self._owner.measured(self._instrument, amount, attributes)


def attributes_text(attributes: Mapping[str, Any] | None) -> str:
    """Write attributes in the one way that names a series: JSON, keys sorted, texts cut at 256 characters."""
    plain = {str(key): _plain(value) for key, value in (attributes or {}).items()}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value).encode("utf-8", "replace").decode()[:_MAX_TEXT_CHARS]
