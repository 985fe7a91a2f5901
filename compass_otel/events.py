"""AgentEvent: the closed union of typed, timed events that every source yields and every consumer matches on.

A source turns untrusted records into these values (see `compass_otel.sources`); the mapper, the recorder and the
advisor read nothing else. They are `msgspec.Struct`s and not dataclasses because one is built for each streamed
token: a frozen Struct costs about a fifth of a frozen dataclass.

Every event carries `at_ns`, wall time in nanoseconds since the epoch: arrival time on a live stream, the record's own
time in a session file, the best known time in a stored stream; never "now" for anything stored.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from compass_otel import conversation

# One vocabulary for those who match on events; messages have a module of their own because they are data, no events.
AssistantMessage = conversation.AssistantMessage
UserMessage = conversation.UserMessage
ToolResultMessage = conversation.ToolResultMessage
OtherMessage = conversation.OtherMessage
Message = conversation.Message
ToolCall = conversation.ToolCall
Usage = conversation.Usage


class SessionOpened(Struct, frozen=True, kw_only=True):
    """The source told which session this is. `session_id` is None where it states none (rpc mode)."""

    at_ns: int
    session_id: str | None = None
    agent: str = "pi"
    agent_version: str | None = None
    cwd: str | None = None
    parent_session: str | None = None


class RunStarted(Struct, frozen=True):
    """A low-level run began (`agent_start`): one prompt may be several of these."""

    at_ns: int


class RunEnded(Struct, frozen=True, kw_only=True):
    """A low-level run ended (`agent_end`); `messages` are those the agent lists."""

    at_ns: int
    messages: tuple[Message, ...] = ()


class Ending(StrEnum):
    """How a prompt came to its end, as far as the source can tell."""

    SETTLED = "settled"
    """All work is done; the outcome is that of the last answer."""
    UNANSWERED = "unanswered"
    """A later prompt followed, but the answer is not in the file: `incomplete`, status unset."""
    LOST = "lost"
    """A session file that stopped growing with the prompt open: `incomplete`, status ERROR, `_OTHER`."""


class PromptSettled(Struct, frozen=True, kw_only=True):
    """The prompt is over, with all retries and continuations. Sources make this event; no agent writes it."""

    at_ns: int
    ending: Ending = Ending.SETTLED
    aborted: bool = False
    """The agent itself says that a person aborted (Pi 1.6 `agent_settled.aborted`)."""


class TurnStarted(Struct, frozen=True):
    """A turn began: one model call and the tools it asked for."""

    at_ns: int


class TurnEnded(Struct, frozen=True, kw_only=True):
    """A turn ended."""

    at_ns: int
    message: Message | None = None
    tool_results: tuple[ToolResultMessage, ...] = ()


class MessageStarted(Struct, frozen=True):
    """A message began; it may be final already (a request that failed before any stream event)."""

    at_ns: int
    message: Message


class MessageEnded(Struct, frozen=True):
    """A message is whole."""

    at_ns: int
    message: Message


class BlockStarted(Struct, frozen=True):
    """A content block of the streaming answer began: `text`, `thinking` or `toolcall`."""

    at_ns: int
    kind: str


class TextDelta(Struct, frozen=True):
    """Text arrived."""

    at_ns: int
    delta: str


class ThinkingDelta(Struct, frozen=True):
    """Reasoning text arrived."""

    at_ns: int
    delta: str


class InnerError(Struct, frozen=True):
    """The stream's own `error` event, with the failed message; `reason` is `error` or `aborted`."""

    at_ns: int
    reason: str
    message: AssistantMessage


class FileDiff(Struct, frozen=True):
    """A file that a tool changed. `old_text` is None for a new file."""

    path: str
    new_text: str
    old_text: str | None = None


class ToolStarted(Struct, frozen=True, kw_only=True):
    """A tool call began to run."""

    at_ns: int
    call_id: str
    name: str
    args: Any = None
    parent_call_id: str | None = None


class ToolUpdated(Struct, frozen=True, kw_only=True):
    """A running tool call shows output."""

    at_ns: int
    call_id: str
    name: str = ""
    output: str = ""


class ToolEnded(Struct, frozen=True, kw_only=True):
    """A tool call is over. `synthetic`: the agent made the result up, nothing ran (omp after a failed answer)."""

    at_ns: int
    call_id: str
    name: str = ""
    is_error: bool = False
    output: str = ""
    diffs: tuple[FileDiff, ...] = ()
    duration_ms: float | None = None
    exit_code: int | None = None
    synthetic: bool = False


class RetryScheduled(Struct, frozen=True, kw_only=True):
    """The agent announced an automatic retry (`auto_retry_start`)."""

    at_ns: int
    attempt: int
    max_attempts: int | None = None
    delay_ms: float | None = None
    error_message: Any = None


class RetryEnded(Struct, frozen=True, kw_only=True):
    """Automatic retrying is over (`auto_retry_end`). `cancelled`: a person ended the wait."""

    at_ns: int
    success: bool
    attempt: int | None = None
    final_error: Any = None
    cancelled: bool = False


class CompactionStarted(Struct, frozen=True, kw_only=True):
    """The agent began to compact the conversation. `reason`: `overflow`, `threshold`, `manual`, …, or None."""

    at_ns: int
    reason: str | None = None


class CompactionEnded(Struct, frozen=True, kw_only=True):
    """Compaction is over; may come without a start (a second overflow after one recovery)."""

    at_ns: int
    reason: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    aborted: bool = False
    skipped: bool = False
    will_retry: bool = False
    error_message: Any = None
    usage: Usage | None = None
    """Of the summary calls, which are model calls without messages; only Pi 1.6 says it."""


class PromptRefused(Struct, frozen=True, kw_only=True):
    """The agent refused a prompt before any work: a failed run of its own."""

    at_ns: int
    error_message: Any = None


class PromptResult(Struct, frozen=True, kw_only=True):
    """omp's rpc answer to a prompt: `completed`, `aborted` or `error`."""

    at_ns: int
    status: str
    error_message: Any = None
    error_status: int | None = None
    provider: str | None = None
    model: str | None = None


class CommandFailed(Struct, frozen=True, kw_only=True):
    """An rpc command other than a prompt failed: a notice, not a session error."""

    at_ns: int
    command: str
    error_message: Any = None


class CommandEnd(Struct, frozen=True, kw_only=True):
    """An extension command ended; without `error` all is well (second seed, `command_end`)."""

    at_ns: int
    name: str
    args: str = ""
    error: str | None = None


class InjectionQueued(Struct, frozen=True, kw_only=True):
    """A message waits to be injected into the running run: `kind` is `steer` or `follow_up`; text None if not told."""

    at_ns: int
    kind: str
    text: str | None = None


class ModelChanged(Struct, frozen=True, kw_only=True):
    """The session now uses another model."""

    at_ns: int
    provider: str | None = None
    model: str | None = None


class ModelFallback(Struct, frozen=True, kw_only=True):
    """omp switched to another model because of a failure; `succeeded` once that model answered."""

    at_ns: int
    from_model: str | None = None
    to_model: str | None = None
    reason: str | None = None
    succeeded: bool = False


class NoticeRaised(Struct, frozen=True, kw_only=True):
    """The agent told the person something."""

    at_ns: int
    text: str
    level: str = "info"


class PlanEntry(Struct, frozen=True):
    """One entry of the agent's plan; `status` is `pending`, `in_progress` or `completed`."""

    content: str
    status: str


class PlanChanged(Struct, frozen=True):
    """The agent's plan as it stands now, whole; empty when it was cleared."""

    at_ns: int
    entries: tuple[PlanEntry, ...] = ()


class SessionShutdown(Struct, frozen=True):
    """The session was shut down in order (`session_exit`, `session_shutdown`, or our own close)."""

    at_ns: int
    reason: str | None = None


class SourceEnded(Struct, frozen=True, kw_only=True):
    """Nothing more will come. With a run open that is a lost process, unless it was ended on a person's wish."""

    at_ns: int
    exit_status: int | None = None
    signal: int | None = None
    """The signal that ended the agent's process, if known."""
    requested: bool = False
    """We passed the signal on ourselves, or got SIGINT ourselves: a cancel and not a loss."""
    reason: str | None = None
    """What ended it, where that was neither a signal nor an exit status: the name of an exception in the host."""


AgentEvent = (
    SessionOpened
    | RunStarted
    | RunEnded
    | PromptSettled
    | TurnStarted
    | TurnEnded
    | MessageStarted
    | MessageEnded
    | BlockStarted
    | TextDelta
    | ThinkingDelta
    | InnerError
    | ToolStarted
    | ToolUpdated
    | ToolEnded
    | RetryScheduled
    | RetryEnded
    | CompactionStarted
    | CompactionEnded
    | PromptRefused
    | PromptResult
    | CommandFailed
    | CommandEnd
    | InjectionQueued
    | ModelChanged
    | ModelFallback
    | NoticeRaised
    | PlanChanged
    | SessionShutdown
    | SourceEnded
)
