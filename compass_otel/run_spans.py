"""RunSpans: the open spans of one prompt run, and what closes each of them.

Invariants: a span ends once; a child never ends after its run; nothing stays open when the run ends. A tool that failed
is held back until the next answer begins, because agents end a tool with an error *before* they say that a person
aborted the run (Pi 0.73, 1.6 and omp, measured): held back, it can still be told as cancelled.
"""

from collections.abc import Mapping

from msgspec import Struct, field
from opentelemetry.trace import Span, Status, StatusCode

from compass_otel import semconv
from compass_otel.events import Usage
from compass_otel.semconv import Outcome
from compass_otel.span_facts import (
    Attributes,
    ErrorFacts,
    cancel_facts,
    cancelled_event,
    exception_event,
    failure_facts,
)


class OpenSpan(Struct):
    """A span that was started and not ended; `start_ns` is wall time."""

    span: Span
    start_ns: int
    attributes: Attributes
    ended: bool = False

    def set(self, facts: Mapping[str, object]) -> None:
        """Add attributes, remembered for the metrics recorded at the end."""
        for key, value in facts.items():
            self.attributes[key] = value  # type: ignore[assignment] # the values come from Attributes mappings
            self.span.set_attribute(key, value)  # type: ignore[arg-type] # same

    def end(self, at_ns: int) -> int:
        """End the span, never before it began; return the end time."""
        end_ns = max(at_ns, self.start_ns)
        if not self.ended:
            self.ended = True
            self.span.end(end_time=end_ns)
        return end_ns


class OpenChat(OpenSpan):
    """An open model request."""

    streaming: bool = False
    first_chunk_ns: int | None = None


class OpenTool(OpenSpan):
    """An open tool call; `failed_at_ns` is set once it ended with an error and waits to be told apart from a cancel."""

    name: str = ""
    failed_at_ns: int | None = None


class Totals(Struct):
    """Sums over a run."""

    chats: int = 0
    tools: int = 0
    retries: int = 0
    injections: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def add(self, usage: Usage | None) -> None:
        """Add what one model request used."""
        if usage is None:
            return
        self.input_tokens += usage.input + usage.cache_read + usage.cache_write
        self.output_tokens += usage.output
        self.cost_usd += usage.cost_usd or 0.0


class RunSpans(Struct):
    """One run: its own span, what is open in it, and how its last answer went."""

    run: OpenSpan
    key: tuple[str, ...]
    chat: OpenChat | None = None
    compaction: OpenSpan | None = None
    tools: dict[str, OpenTool] = field(default_factory=dict)
    held_tools: list[OpenTool] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    attempt: int = 1
    last: Outcome | None = None
    last_error: ErrorFacts | None = None
    error_on_run: bool = False
    latest_ns: int = 0
    inputs: list[tuple[str, str]] = field(default_factory=list)

    def note_error(self, error: ErrorFacts) -> None:
        """Remember how the run stands now: its last answer failed or was cancelled."""
        self.last = Outcome.CANCELLED if error.aborted else Outcome.FAILED
        self.last_error = error

    def note_success(self) -> None:
        """Remember that the last answer was good."""
        self.last, self.last_error, self.error_on_run = Outcome.COMPLETED, None, False

    def release_held_tools(self, *, cancelled: bool) -> list[OpenTool]:
        """End the tools that ended with an error, as failed or as cancelled; return them."""
        held, self.held_tools = self.held_tools, []
        for tool in held:
            end_tool(tool, tool.failed_at_ns or tool.start_ns, Outcome.CANCELLED if cancelled else Outcome.FAILED)
        return held

    def close_children(self, at_ns: int, outcome: Outcome, *, lost_type: str | None = None) -> list[OpenSpan]:
        """End everything that is open in the run; return what was ended.

        Args:
            at_ns: when the run ended.
            outcome: `CANCELLED` or `INCOMPLETE`.
            lost_type: the `error.type` of a run whose process died; None leaves the status unset.

        """
        tools = list(self.tools.values())
        leftovers = [span for span in (self.chat, self.compaction, *tools) if span is not None]
        self.chat, self.compaction = None, None
        self.tools.clear()
        closed: list[OpenSpan] = [*self.release_held_tools(cancelled=outcome is Outcome.CANCELLED)]
        for left in leftovers:
            left.set({semconv.OUTCOME: outcome.value})
            if isinstance(left, OpenTool):
                left.set({semconv.TOOL_STATUS: outcome.value})
            if lost_type is not None:
                mark_error(left, lost_type, f"{outcome.value}: no end was seen")
            left.end(at_ns)
            closed.append(left)
        return closed


def end_tool(tool: OpenTool, at_ns: int, outcome: Outcome) -> None:
    """End a tool call's span; only a failed one carries an error status."""
    tool.set({semconv.TOOL_STATUS: outcome.value})
    if outcome is not Outcome.COMPLETED:
        tool.set({semconv.OUTCOME: outcome.value})
    if outcome is Outcome.FAILED:
        code = tool.attributes.get(semconv.TOOL_EXIT_CODE)
        mark_error(tool, semconv.TOOL_ERROR, f"{tool.name} failed" + (f" with exit code {code}" if code else ""))
    tool.end(at_ns)


def mark_error(target: OpenSpan, error_type: str, text: str, *, retryable: bool = False) -> None:
    """Set status ERROR, its type, and whether the same again may well succeed."""
    target.set({semconv.ERROR_TYPE: error_type, semconv.ERROR_RETRYABLE: retryable})
    target.span.set_status(Status(StatusCode.ERROR, text))


def mark_failed(target: OpenSpan, error: ErrorFacts, at_ns: int, *, with_event: bool) -> None:
    """Write an ERROR on a span: status, attributes and, last of all, the `exception` event.

    Last, because the SDK keeps the newest 128 events: the one that says why must not be pushed out.
    """
    target.set({semconv.OUTCOME: Outcome.FAILED.value, **failure_facts(error)})
    target.span.set_status(Status(StatusCode.ERROR, error.text))
    if with_event:
        target.span.add_event(semconv.EXCEPTION_EVENT, exception_event(error), timestamp=max(at_ns, target.start_ns))


def mark_cancelled(target: OpenSpan, error: ErrorFacts, at_ns: int, *, as_error: bool, with_event: bool = True) -> None:
    """Write an ABORTED on a span: one event, no error status (unless `as_error` asks for one)."""
    target.set({semconv.OUTCOME: Outcome.CANCELLED.value, **cancel_facts(error)})
    if with_event:
        target.span.add_event(semconv.EVENT_CANCELLED, cancelled_event(error), timestamp=max(at_ns, target.start_ns))
    if as_error:
        mark_error(target, semconv.OTHER, error.text)
