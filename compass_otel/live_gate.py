"""LiveGate: lets through to what sends only the runs that this live command is to send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor  # noqa: TID251  # the commands' own provider

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from compass_otel.run_accounts import RunAccounts


class LiveGate(SpanProcessor):
    """A processor before another one. Not thread-safe; blocks as the other one does.

    A run is claimed before the other one hears of it, and counts as ended only after the other one has it whole: killed
    in between, it is taken for sent at worst as incomplete, never for sent when it was not.

    Args:
        accounts: Which run a span belongs to; asked and told here alone.
        sink: What sends. Flushed and shut down by its owner, not through here.

    """

    def __init__(self, accounts: RunAccounts, sink: SpanProcessor) -> None:
        self._accounts = accounts
        self._sink = sink

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Pass on the start of a span that is to be sent."""
        self._accounts.on_start(span, parent_context)
        if self._passes(span):
            self._sink.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass on a span that is to be sent."""
        if self._passes(span):
            self._sink.on_end(span)
        self._accounts.on_end(span)

    def shutdown(self) -> None:
        """Do nothing: one sink serves the providers of several agents."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002  # the SDK's own signature
        """Do nothing, as above."""
        return True

    def _passes(self, span: ReadableSpan) -> bool:
        account = self._accounts.of(span)
        return account is None or account.sent
