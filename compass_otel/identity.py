"""Keeps what says whose a span is from being thrown out by the SDK's limit on attributes.

At its limit (128 by default) the Python SDK throws out the attribute that was set *first*: the conversation, the agent,
the run's state, set at the start so that samplers see them. A span with many attributes then belongs to nobody. The
keeper notes the identity when the span starts and gives back, when it ends, what is gone:

    def on_start(self, span, parent_context=None):
        keeper.note(span)

    def on_end(self, span):
        lost = keeper.lost(span)                      # None for nearly every span
        lifecycle = is_lifecycle(span) or (lost is not None and SESSION_STATE in lost)
        record = encode_span(span, extra=lost)

Thread-safe; takes no lock and does not block. Costs well under a microsecond for a span without an identity.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from compass_otel import semconv
from compass_otel.sdk_private import plain_public

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.util.types import AnyValue

IDENTITY_KEYS: Final = frozenset(
    {
        semconv.SESSION_STATE,
        semconv.GEN_AI_CONVERSATION_ID,
        semconv.GEN_AI_AGENT_NAME,
        semconv.GEN_AI_AGENT_VERSION,
        semconv.GEN_AI_OPERATION_NAME,
        semconv.GEN_AI_PROVIDER_NAME,
        semconv.GEN_AI_REQUEST_MODEL,
        semconv.GEN_AI_TOOL_NAME,
        semconv.GEN_AI_TOOL_CALL_ID,
        semconv.PARENT_SESSION,
        semconv.REPLAY_OF,
        "session.id",
        "user.id",
    }
)
"""Attributes that are set at a span's start and say whose it is; the last two are other people's names for it."""

_MAX_OPEN_SPANS: Final = 16_384  # spans that never end must not grow us; the oldest are forgotten first


class IdentityKeeper:
    """Notes the identity of spans that are open."""

    def __init__(self) -> None:
        # An OrderedDict because it can drop its oldest entry in one step that no other thread gets into.
        self._noted: OrderedDict[int, Mapping[str, AnyValue]] = OrderedDict()

    def note(self, span: ReadableSpan) -> None:
        """Note the identity of a span that starts.

        Args:
            span: As a processor gets it in `on_start`.

        """
        attributes = span.attributes
        if not attributes or IDENTITY_KEYS.isdisjoint(plain := plain_public(attributes)[0]):
            return
        context = span.get_span_context()
        if context is None:
            return
        noted = self._noted
        noted[context.span_id] = {key: plain[key] for key in IDENTITY_KEYS if key in plain}
        if len(noted) > _MAX_OPEN_SPANS:
            noted.popitem(last=False)

    @property
    def has_notes(self) -> bool:
        """Whether the identity of any open span is noted."""
        return bool(self._noted)

    def lost(self, span: ReadableSpan) -> Mapping[str, AnyValue] | None:
        """Give what the span's limit threw out of its identity, and forget the span.

        Args:
            span: As a processor gets it in `on_end`.

        Returns:
            The attributes to write again; None if there are none.

        """
        context = span.get_span_context()
        if context is None:
            return None
        noted = self._noted.pop(context.span_id, None)
        if noted is None or not span.dropped_attributes:
            return None
        left = span.attributes or {}
        return {key: value for key, value in noted.items() if key not in left} or None
