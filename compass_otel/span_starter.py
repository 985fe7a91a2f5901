"""SpanStarter: starts the spans of one session with the right parent, names, ids and identity.

What identifies a span (operation, agent, conversation) is set at its start, because samplers see nothing else and
because an identity set first must be there whatever comes later.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Tracer, set_span_in_context

from compass_otel import semconv
from compass_otel.events import AssistantMessage, SessionOpened, UserMessage
from compass_otel.ids import IdPrimer, Occurrences, derive_span_id, derive_trace_id, prepare, text_digest
from compass_otel.span_facts import Attributes, name


class SessionIdentity(Struct, frozen=True):
    """Who is speaking: as much as the source told."""

    session_id: str | None = None
    agent: str = "agent"
    agent_version: str | None = None
    parent_session: str | None = None

    @classmethod
    def of(cls, event: SessionOpened, scrub: Callable[[str], str]) -> "SessionIdentity":
        """Read the identity from the event that opens a session; whoever wrote the stream wrote these, too."""

        def clean(told: str | None) -> str | None:
            return None if told is None else name(told, scrub)

        return cls(
            clean(event.session_id), name(event.agent, scrub), clean(event.agent_version), clean(event.parent_session)
        )

    def facts(self) -> Attributes:
        """Return the attributes that stand on every span of the session. A conversation id is never invented."""
        facts: Attributes = {semconv.GEN_AI_AGENT_NAME: self.agent}
        if self.session_id is not None:
            facts[semconv.GEN_AI_CONVERSATION_ID] = self.session_id
        return facts


class SpanStarter:
    """Starts spans; with an `IdPrimer` their ids are derived, else they are the provider's."""

    def __init__(self, tracer: Tracer, ids: IdPrimer | None, parent_context: Context | None) -> None:
        prepare()
        self._tracer = tracer
        self._ids = ids
        self._parent_context = parent_context
        self._runs = Occurrences()
        self._spans = Occurrences()

    def run_key(
        self, identity: SessionIdentity, message: UserMessage | AssistantMessage | None, at_ns: int
    ) -> tuple[str, ...]:
        """Return what names a run: the session and its first message's time, else a digest of that message."""
        stamp = message.timestamp_ms if message is not None else None
        when = str(stamp) if stamp is not None else f"at {at_ns}"
        if identity.session_id is not None:
            key: tuple[str, ...] = (identity.session_id, when)
        else:
            key = (text_digest(when, message.text if message is not None else ""),)
        return (*key, self._runs.number(*key))

    def start_run(self, key: tuple[str, ...], start_ns: int, facts: Attributes, links: Sequence[Link]) -> Span:
        """Start a run span: a child of the current span of the host, or of the parent context that was given."""
        name = f"{semconv.SpanName.INVOKE_AGENT} {facts[semconv.GEN_AI_AGENT_NAME]}"
        return self._start(name, SpanKind.INTERNAL, self._parent_context, key, ("run",), start_ns, facts, links)

    def start_child(  # noqa: PLR0913 - what a span is made of
        self,
        name: str,
        kind: SpanKind,
        parent: Span,
        key: tuple[str, ...],
        parts: tuple[str, ...],
        start_ns: int,
        facts: Attributes,
        links: Sequence[Link] = (),
    ) -> Span:
        """Start a span under `parent`."""
        return self._start(name, kind, set_span_in_context(parent, Context()), key, parts, start_ns, facts, links)

    def start_root(  # noqa: PLR0913 - same
        self,
        name: str,
        key: tuple[str, ...],
        parts: tuple[str, ...],
        start_ns: int,
        facts: Attributes,
        links: Sequence[Link],
    ) -> Span:
        """Start a span outside any run."""
        return self._start(name, SpanKind.INTERNAL, self._parent_context, (*key, *parts), parts, start_ns, facts, links)

    def _start(  # noqa: PLR0913 - same
        self,
        name: str,
        kind: SpanKind,
        context: Context | None,
        key: tuple[str, ...],
        parts: tuple[str, ...],
        start_ns: int,
        facts: Attributes,
        links: Sequence[Link],
    ) -> Span:
        if self._ids is not None:
            named = (*key, *parts)
            number = self._spans.number(*named)
            self._ids.prime(derive_trace_id(*key), derive_span_id(*named, number))
        try:
            return self._tracer.start_span(
                name, context, kind, attributes=facts, links=list(links), start_time=start_ns
            )
        finally:
            if self._ids is not None:
                self._ids.clear()


def link_to(context: SpanContext, kind: str) -> Link:
    """Link to another span, saying what it is to this one."""
    return Link(context, {semconv.LINK_KIND: kind})
