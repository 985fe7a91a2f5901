"""RunAccounts: which run each span and each measurement of an input belongs to, and what names that run.

A run is sent or skipped as a whole: with its children, and with what stands between it and the next run, such as a
compaction, since files and streams differ in what of that they call a part of the run. Measurements are made while an
event is being recorded, and every event belongs to one run: the one that it opens, else the one that was open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor  # noqa: TID251  # the commands' own provider

from compass_otel import semconv
from compass_otel.events import (
    AssistantMessage,
    InnerError,
    MessageEnded,
    MessageStarted,
    PromptRefused,
    PromptResult,
    UserMessage,
)
from compass_otel.ledger_rows import MAX_KEPT_SPANS, RunFacts, message_key, span_key
from compass_otel.metric_sums import Service
from compass_otel.summed_metrics import Increments, SummedMeterProvider

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from opentelemetry.context import Context

    from compass_otel.events import AgentEvent


@dataclass(slots=True, eq=False)
class RunAccount:
    """One run of an input."""

    facts: RunFacts
    root_id: int
    measured: Increments = field(default_factory=Increments)
    outcome: str | None = None
    """How it ended; None while it is open."""
    whole: list[str] = field(default_factory=list)
    """Ids of its children that ended and were not incomplete, up to one more than the ledger keeps."""
    claimed: bool = False
    """Whether it was claimed at its start, for a reader that sends it when it is whole."""
    sent: bool = True
    """Whether its spans go out."""
    counted: bool = False
    """Whether its metrics are in the sums already."""


class AccountKeeper(Protocol):
    """Is told of runs as they happen; for live commands."""

    def opened(self, account: RunAccount) -> None:
        """Decide, before anything of it goes out, whether it is sent: set `account.sent`."""

    def recorded(self, account: RunAccount) -> None:
        """Take what was measured and how it ended, after each event that changed either."""


class RunAccounts(SpanProcessor):
    """Keeps the accounts of one input. Not thread-safe: the recorder of a command runs on one thread.

    Args:
        keeper: Is told of each run; None for commands that ask at the end.

    """

    def __init__(self, keeper: AccountKeeper | None = None) -> None:
        self.meters = SummedMeterProvider()
        """What the recorder measures with."""
        self.service = Service("", "{}")
        """Whose measurements these are."""
        self._keeper = keeper
        self._accounts: dict[int, RunAccount] = {}
        self._changed: list[RunAccount] = []
        self._open: RunAccount | None = None
        self._opened: RunAccount | None = None
        self._last: RunAccount | None = None
        self._message: UserMessage | AssistantMessage | None = None
        self._refuses = False

    def belongs_to(self, resource: Mapping[str, Any]) -> None:
        """Say whose input it is: the resource of its provider."""
        self.service = Service.of(resource)

    # --- around each event ---

    def begin(self, event: AgentEvent | None) -> None:
        """Take note of an event that is about to be recorded; None for an end without one."""
        self._opened = None
        self._refuses = isinstance(event, PromptRefused | PromptResult)
        match event:
            case MessageStarted(message=message) | MessageEnded(message=message) | InnerError(message=message):
                self._message = message if isinstance(message, UserMessage | AssistantMessage) else None
            case _:
                self._message = None

    def done(self) -> None:
        """Give what was measured since `begin` to its run, and tell the keeper what changed."""
        account = self._opened or self._open
        grown = self.meters.take()
        if account is not None and grown:
            account.measured.merge(grown)
            self._changed.append(account)
        changed, self._changed = self._changed, []
        for each in dict.fromkeys(changed):
            if self._keeper is not None:
                self._keeper.recorded(each)
        if self._open is not None and self._open.outcome is not None:
            self._open = None

    # --- what the provider calls ---

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002  # the SDK's
        """Find the run of a span that starts, or open one."""
        if semconv.SESSION_STATE in (span.attributes or {}):
            owner: RunAccount | None = self._new(span)
        else:
            owner = self._accounts.get(span.parent.span_id) if span.parent is not None else None
            owner = owner or self._last
        if owner is not None:
            self._accounts[span.get_span_context().span_id] = owner

    def on_end(self, span: ReadableSpan) -> None:
        """Note how a run ended, and which of its children did."""
        account = self.of(span)
        context = span.get_span_context()
        if account is None or context is None:
            return
        outcome = str((span.attributes or {}).get(semconv.OUTCOME, semconv.Outcome.COMPLETED))
        if context.span_id != account.root_id:
            if outcome != semconv.Outcome.INCOMPLETE and len(account.whole) <= MAX_KEPT_SPANS:
                account.whole.append(f"{context.span_id:016x}")
            return
        account.outcome = outcome
        self._changed.append(account)

    def shutdown(self) -> None:
        """Do nothing."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002  # the SDK's own signature
        """Do nothing."""
        return True

    # --- what those who send ask ---

    def of(self, span: ReadableSpan) -> RunAccount | None:
        """Give the run of a span; None before the first run, and for what was forgotten."""
        context = span.get_span_context()
        return self._accounts.get(context.span_id) if context is not None else None

    def forget(self, account: RunAccount) -> None:
        """Forget the spans of a run that was sent or skipped."""
        self._accounts = {key: value for key, value in self._accounts.items() if value is not account}

    def _new(self, span: Span) -> RunAccount:
        context = span.get_span_context()
        account = RunAccount(
            RunFacts(self._key(span), f"{context.trace_id:032x}", f"{context.span_id:016x}"), context.span_id
        )
        if self._keeper is not None and self._last is not None and self._last.outcome is not None:
            self.forget(self._last)  # nothing of it can come any more
        self._opened = self._last = account
        if not self._refuses:  # a refused prompt is a run beside the open one
            self._open = account
        if self._keeper is not None:
            self._keeper.opened(account)
        return account

    def _key(self, span: Span) -> str:
        """Name a run: by its first user message where it has one with a time, else by its span id.

        That id is derived from the session and the time of the first answer. Where there is no time, different sessions
        may share it, and the run's own start tells them apart.
        """
        message, span_id = self._message, span.get_span_context().span_id
        stamp = message.timestamp_ms if message is not None else None
        if isinstance(message, UserMessage) and stamp is not None:
            return message_key(stamp, message.text)
        return span_key(span_id, None if stamp is not None else span.start_time)
