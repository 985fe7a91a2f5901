"""The one module that reads private fields of the OpenTelemetry SDK, for speed alone.

Reading a span through its public properties costs about 1.5 us more than reading its fields: a fifth of what encoding
it costs. So the fields are probed once, when this module is imported, on a span of the installed SDK; if any is missing
or says something else than its public property, everything here goes through the public properties instead. Nothing
but speed changes. `PROBE` says which way was taken and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from opentelemetry import context as context_api
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

if TYPE_CHECKING:
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status
    from opentelemetry.util.types import AnyValue

Attributes: TypeAlias = "Mapping[str, AnyValue]"
SpanFields: TypeAlias = (
    "tuple[SpanContext | None, SpanContext | None, str, SpanKind, int | None, int | None, Attributes | None,"
    " Sequence[Event], Sequence[Link], Status | None, Resource, InstrumentationScope | None]"
)
"""Context, parent, name, kind, start, end, attributes, events, links, status, resource, scope: in this order."""

_NAMES: Final = (
    ("context", "_context"),
    ("parent", "_parent"),
    ("name", "_name"),
    ("kind", "_kind"),
    ("start_time", "_start_time"),
    ("end_time", "_end_time"),
    ("attributes", "_attributes"),
    ("events", "_events"),
    ("links", "_links"),
    ("status", "_status"),
    ("resource", "_resource"),
    ("instrumentation_scope", "_instrumentation_scope"),
)
fields_public: Final = cast("Callable[[ReadableSpan], SpanFields]", attrgetter(*(public for public, _ in _NAMES)))
"""The fields of a span by its public properties: right with every SDK, and a copy where the span is still open."""
_fields_private: Final = cast("Callable[[ReadableSpan], SpanFields]", attrgetter(*(private for _, private in _NAMES)))


@dataclass(frozen=True, slots=True)
class Probe:
    """Which way the spans are read, and what stood against the fast one."""

    fast: bool
    reason: str


def plain_public(attributes: Attributes | None) -> tuple[Attributes, int]:
    """Give attributes as a plain dict, and how many the limits threw out, by public means.

    Also right while another thread sets attributes: what is returned is a copy.
    """
    if not attributes:
        return {}, getattr(attributes, "dropped", 0)
    copy = getattr(attributes, "copy", None)
    return (copy() if copy is not None else dict(attributes)), getattr(attributes, "dropped", 0)


def _plain_private(attributes: Attributes | None) -> tuple[Attributes, int]:
    if type(attributes) is BoundedAttributes:
        return attributes._dict, attributes.dropped  # noqa: SLF001 - what this module is for
    return plain_public(attributes)


def _sample_span() -> ReadableSpan:
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        resource=Resource({"probe": "resource"}),
        span_limits=SpanLimits(max_span_attributes=2),
        shutdown_on_exit=False,
    )
    span = provider.get_tracer("probe", "1").start_span("probe", Context(), attributes={"first": 1})
    span.add_event("event", {"key": "value"})
    span.set_attribute("second", "2")
    span.end()
    assert isinstance(span, ReadableSpan)  # noqa: S101 - the probe's own guard, caught below
    return span


def probe(sample: Callable[[], ReadableSpan] = _sample_span) -> Probe:
    """Compare the private fields with the public properties on a span of the installed SDK.

    Args:
        sample: Makes the span; for tests.

    Returns:
        Whether the fields may be read. Never raises.

    """
    try:
        span = sample()
        public, private = fields_public(span), _fields_private(span)
        for (name, _), by_property, by_field in zip(_NAMES, public, private, strict=True):
            if isinstance(by_property, Mapping):
                same = dict(by_property) == dict(_plain_private(cast("Attributes", by_field))[0])
            elif isinstance(by_property, Sequence) and not isinstance(by_property, str):
                same = tuple(by_property) == tuple(cast("Sequence[object]", by_field))
            else:
                same = by_property == by_field
            if not same:
                return Probe(fast=False, reason=f"field of {name} differs from its property")
        event = span.events[0]
        if dict(_plain_private(event.attributes)[0]) != {"key": "value"}:
            return Probe(fast=False, reason="attributes of an event read otherwise")
    except Exception as error:  # noqa: BLE001 - boundary: whatever another SDK release does, the public way is right
        return Probe(fast=False, reason=f"{type(error).__name__}: {error}")
    return Probe(fast=True, reason="")


PROBE: Final = probe()
"""The answer for this process."""

fields: Final = _fields_private if PROBE.fast else fields_public
"""The fields of an *ended* span; not a copy, so not for a span that another thread may still change."""
plain: Final = _plain_private if PROBE.fast else plain_public
"""Attributes of an ended span, event or link as a dict not to be changed, and the number thrown out."""


def _attributes_public(span: ReadableSpan) -> Attributes:
    return span.attributes or {}


def _attributes_private(span: ReadableSpan) -> Attributes:
    bounded = span._attributes  # noqa: SLF001 - what this module is for
    if type(bounded) is BoundedAttributes:
        return bounded._dict  # noqa: SLF001
    return cast("Attributes", bounded or {})


attributes_of: Final = _attributes_private if PROBE.fast else _attributes_public
"""Attributes of a span, open or ended, to look single keys up in; not to be walked, another thread may set some."""


def processors_beside(span: object) -> tuple[object, ...]:
    """Give the processors of the provider that a span comes from; empty where the SDK does not let them be seen.

    Args:
        span: As a processor gets it in `on_start`.

    """
    found = getattr(getattr(span, "_span_processor", None), "_span_processors", ())
    return found if isinstance(found, tuple) else ()


SUPPRESS_KEY: Final[str] = getattr(context_api, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation")
"""Context key that keeps instrumentations silent; the second name is what older instrumentations look for."""


def suppressed_context() -> Context:
    """Give the present context with instrumentation suppressed, to be attached around an export."""
    return context_api.set_value(SUPPRESS_KEY, True)


def dropped_of(span: ReadableSpan) -> tuple[int, int, int]:
    """How many attributes, events and links the limits threw out."""
    return span.dropped_attributes, span.dropped_events, span.dropped_links
