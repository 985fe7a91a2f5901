"""A run that is sent once more: it went out as incomplete, and its end has been seen since.

Its run span goes out again under a new id, linked to the old one, since a backend that has a span keeps it as it was.
Its children that were whole are there already; the others hang under the new run span. In the same trace a person
sees both: what was known then, and how it ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan  # noqa: TID251  # the commands' own provider
from opentelemetry.trace import Link, SpanContext

from compass_otel import semconv
from compass_otel.ids import derive_span_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compass_otel.ledger_rows import Earlier


def once_more(spans: Sequence[ReadableSpan], root_id: int, earlier: Earlier) -> list[ReadableSpan]:
    """Give what of a run is to be sent once more.

    Args:
        spans: The run's ended spans as they are read now.
        root_id: Span id of the run's own.
        earlier: What was sent of it.

    Returns:
        The run span under a new id, and those children that were not sent whole; what is derived is the same each time.

    """
    whole = earlier.spans or frozenset()
    wanted = [span for span in spans if _hex(span) not in whole]
    known = earlier.spans is not None  # then those that are left may be there as incomplete, and need new ids too
    renamed = {
        context.span_id: derive_span_id(earlier.trace_id, _hex(span), "once more")
        for span in wanted
        if (context := span.get_span_context()) is not None and (known or context.span_id == root_id)
    }
    return [_renamed(span, renamed, earlier if _id(span) == root_id else None) for span in wanted]


def _renamed(span: ReadableSpan, renamed: dict[int, int], earlier: Earlier | None) -> ReadableSpan:
    attributes, links = dict(span.attributes or {}), list(span.links)
    if earlier is not None:
        old = SpanContext(int(earlier.trace_id, 16), int(earlier.span_id, 16), is_remote=False)
        links.append(Link(old, {semconv.LINK_KIND: semconv.LINK_SAME_RUN}))
        attributes[semconv.REPLAY_OF] = earlier.span_id
    context = span.get_span_context()
    return ReadableSpan(
        span.name,
        context=_with_id(context, renamed) if context is not None else None,
        parent=_with_id(span.parent, renamed) if span.parent is not None else None,
        resource=span.resource,
        attributes=attributes,
        events=span.events,
        links=links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _with_id(context: SpanContext, renamed: dict[int, int]) -> SpanContext:
    span_id = renamed.get(context.span_id, context.span_id)
    return SpanContext(context.trace_id, span_id, context.is_remote, context.trace_flags, context.trace_state)


def _id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    return context.span_id if context is not None else 0


def _hex(span: ReadableSpan) -> str:
    return f"{_id(span):016x}"
