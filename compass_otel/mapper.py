"""EventMapper: AgentEvent to frames.

Contract: pure but for its own counters. The same events give the same frames, whoever calls and whenever. It is the
single construction point of a `SessionEvent` (one monotonic `event_id`, one source of `at_unix_ms`), so no two frames
can disagree about order. What it does not know comes back as a value (`Unmapped`), never as an exception.

The emit rule (DL-322): a failure is a session error of kind ERROR and then, as a frame of its own, the state ERRORED;
a cancel is a session error of kind ABORTED and nothing else, since an abort is no crash.
"""

from collections.abc import Callable
from typing import assert_never

from compass_otel import mapper_lines as lines
from compass_otel._pb.compass.v1.compass_pb2 import (
    AgentToolCallStatus,
    SessionErrorKind,
    SessionEvent,
    SessionFrame,
    SessionInjectionKind,
)
from compass_otel.classification import parse_status, render_message
from compass_otel.events import (
    AgentEvent,
    AssistantMessage,
    BlockStarted,
    CommandEnd,
    CommandFailed,
    CompactionEnded,
    CompactionStarted,
    Ending,
    InjectionQueued,
    InnerError,
    MessageEnded,
    MessageStarted,
    ModelChanged,
    ModelFallback,
    NoticeRaised,
    PlanChanged,
    PromptRefused,
    PromptResult,
    PromptSettled,
    RetryEnded,
    RetryScheduled,
    RunEnded,
    RunStarted,
    SessionOpened,
    SessionShutdown,
    SourceEnded,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from compass_otel.failure_sightings import FailureSightings
from compass_otel.frames import state_frame
from compass_otel.injections import InjectionQueue
from compass_otel.scrubbing import prepare, scrub
from compass_otel.semconv import Outcome, SessionState
from compass_otel.unmapped import Malformed, Unmapped

Frames = tuple[SessionFrame | Unmapped, ...]

_NONE: Frames = ()


class EventMapper:
    """Turns the events of one session into frames, in order.

    Not thread-safe: one mapper belongs to one session and is fed by one caller at a time. Never blocks.

    Args:
        first_event_id: number of the first `SessionEvent`; later ones count up by one.
        scrub: the door that every text passes on its way into a frame.
        text_frames: False leaves out the frames of streamed text and thinking, for a caller that wants none of them;
            their event ids are counted all the same, so every other frame is what it would have been.

    """

    def __init__(
        self, *, first_event_id: int = 1, scrub: Callable[[str], str] = scrub, text_frames: bool = True
    ) -> None:
        prepare()
        self._text_frames = text_frames
        self._next_event_id = first_event_id
        self._scrub = scrub
        self._state: SessionState | None = None
        self._open = False
        self._answering = False
        self._last: Outcome | None = None
        self._sightings = FailureSightings()
        self._injections = InjectionQueue()
        self._message_id = ""
        self._user_seen_ms: int | None = None
        self._streamed_text = False
        self._streamed_thinking = False
        self.unmapped_count = 0

    @property
    def repeated_sightings(self) -> int:
        """How many further sightings of failures already reported were seen."""
        return self._sightings.repeated

    def map(self, event: AgentEvent | Unmapped | Malformed) -> Frames:  # noqa: C901, PLR0911, PLR0912 - one arm an event
        """Map one event.

        Returns:
            The frames in order; `Unmapped` stands for an event that nobody maps.

        """
        match event:
            case TextDelta() | ThinkingDelta():
                return self._delta(event)
            case RunStarted():
                self._sightings.expect_new()
                return self._begin_work()
            case TurnStarted():
                return self._begin_work()
            case MessageStarted():
                return self._message_started(event)
            case MessageEnded():
                return self._message_ended(event)
            case InnerError():
                return self._inner_error(event)
            case TurnEnded() | RunEnded():
                return self._repeated_messages(event)
            case ToolStarted() | ToolUpdated() | ToolEnded():
                return (self._tool(event),)
            case RetryScheduled():
                self._sightings.retry_announced()
                return self._notice(event.at_ns, lines.retry_scheduled(event))
            case RetryEnded():
                return self._retry_ended(event)
            case PromptSettled():
                return self._prompt_settled(event)
            case PromptRefused():
                return self._error(event.at_ns, event.error_message, None)
            case PromptResult():
                return self._prompt_result(event)
            case SourceEnded():
                return self._source_ended(event)
            case SessionShutdown():
                return self._shut_down(event)
            case PlanChanged():
                return (self._plan(event),)
            case InjectionQueued():
                self._injections.queued(event)
                return _NONE
            case CompactionStarted() | CompactionEnded() | ModelFallback() | NoticeRaised() | CommandFailed():
                return self._notice(event.at_ns, lines.notice_line(event))
            case CommandEnd():
                return self._notice(event.at_ns, lines.command_line(event)) if event.error is not None else _NONE
            case SessionOpened() | BlockStarted() | ModelChanged():
                return _NONE
            case Unmapped():
                self.unmapped_count += 1
                return (event,)
            case Malformed():
                return _NONE
            case _:
                assert_never(event)

    # --- construction points ---

    def _event(self, at_ns: int) -> SessionEvent:
        event = SessionEvent()
        self._stamp(event, at_ns)
        return event

    def _stamp(self, event: SessionEvent, at_ns: int) -> None:
        event.event_id = str(self._next_event_id)
        event.at_unix_ms = at_ns // 1_000_000
        self._next_event_id += 1

    def _enter(self, state: SessionState) -> Frames:
        if state is self._state:
            return _NONE
        self._state = state
        return (state_frame(state),)

    def _error(self, at_ns: int, message: object, status: int | None) -> Frames:
        event = self._session_error(at_ns, SessionErrorKind.SESSION_ERROR_KIND_ERROR, message, status)
        self._last = Outcome.FAILED
        self._state = SessionState.ERRORED
        return SessionFrame(typed_event=event), state_frame(SessionState.ERRORED)

    def _aborted(self, at_ns: int, message: object, status: int | None) -> Frames:
        event = self._session_error(at_ns, SessionErrorKind.SESSION_ERROR_KIND_ABORTED, message, status)
        self._last = Outcome.CANCELLED
        return (SessionFrame(typed_event=event),)

    def _session_error(self, at_ns: int, kind: SessionErrorKind, message: object, status: int | None) -> SessionEvent:
        event = self._event(at_ns)
        event.session_error.kind = kind
        event.session_error.message = self._scrub(render_message(message))
        known = parse_status(message, status=status)
        if known is not None:
            event.session_error.status = known
        return event

    def _notice(self, at_ns: int, text: str | None) -> Frames:
        if text is None:
            return _NONE
        event = self._event(at_ns)
        event.notice.text = " ".join(self._scrub(text).split())
        return (SessionFrame(typed_event=event),)

    # --- streaming ---

    def _delta(self, event: TextDelta | ThinkingDelta) -> Frames:
        if not event.delta:
            return _NONE
        thinking = isinstance(event, ThinkingDelta)
        if thinking:
            self._streamed_thinking = True
        else:
            self._streamed_text = True
        if not self._text_frames:
            self._next_event_id += 1
            return _NONE
        frame = SessionFrame()
        # In place: building the event first and copying it into the frame costs twice as much, for each token.
        made = frame.typed_event
        self._stamp(made, event.at_ns)
        part = made.thinking if thinking else made.assistant_text
        part.text = self._scrub(event.delta)
        part.message_id = self._message_id
        return (frame,)

    def _begin_work(self) -> Frames:
        if not self._open:
            self._open = True
            self._answering = False
            self._last = None
            self._sightings.new_prompt()
        return self._enter(SessionState.WORKING)

    def _message_started(self, event: MessageStarted) -> Frames:
        message = event.message
        if isinstance(message, UserMessage):
            return self._user_message(event.at_ns, message)
        if not isinstance(message, AssistantMessage):
            return _NONE
        frames = self._begin_work()
        self._sightings.expect_new()
        self._answering = True
        self._last = None
        self._begin_message(message)
        return frames

    def _begin_message(self, message: AssistantMessage) -> None:
        self._message_id = lines.message_id("assistant", message, self._scrub)
        self._streamed_text = self._streamed_thinking = False

    def _message_ended(self, event: MessageEnded) -> Frames:
        message = event.message
        if isinstance(message, UserMessage):
            return self._user_message(event.at_ns, message)
        if not isinstance(message, AssistantMessage):
            return _NONE
        frames = self._begin_work() if not self._open else _NONE
        self._answering = True
        if message.failed:
            return frames + self._failure(event.at_ns, message, message.stop_reason)
        self._last = Outcome.COMPLETED
        return frames + self._unstreamed(event.at_ns, message)

    def _unstreamed(self, at_ns: int, message: AssistantMessage) -> Frames:
        """Emit what a whole answer holds where no delta brought it (session files, non-streaming hosts)."""
        frames: Frames = _NONE
        if not self._message_id:
            self._begin_message(message)
        if message.thinking and not self._streamed_thinking:
            frames += self._delta(ThinkingDelta(at_ns, message.thinking))
        if message.text and not self._streamed_text:
            frames += self._delta(TextDelta(at_ns, message.text))
        self._message_id = ""
        self._streamed_text = self._streamed_thinking = False
        return frames

    def _user_message(self, at_ns: int, message: UserMessage) -> Frames:
        """Tell a message injected into a running run from the prompt itself, once for its start and its end."""
        repeated = message.timestamp_ms is not None and message.timestamp_ms == self._user_seen_ms
        self._user_seen_ms = message.timestamp_ms
        if repeated or not (self._open and self._answering):
            return _NONE
        made = self._event(at_ns)
        kind = self._injections.delivered(message.text)
        made.session_injection.op_kind = (
            SessionInjectionKind.SESSION_INJECTION_KIND_DELIVER
            if kind == "follow_up"
            else SessionInjectionKind.SESSION_INJECTION_KIND_STEER
        )
        made.session_injection.message_id = lines.message_id("user", message, self._scrub)
        made.session_injection.from_handle = "user"
        return (SessionFrame(typed_event=made),)

    # --- failures ---

    def _inner_error(self, event: InnerError) -> Frames:
        frames = self._begin_work() if not self._open else _NONE
        self._answering = True
        return frames + self._failure(event.at_ns, event.message, event.reason)

    def _failure(self, at_ns: int, message: AssistantMessage, reason: str | None) -> Frames:
        if not self._sightings.is_new(message):
            return _NONE
        return self._report(at_ns, message, reason)

    def _report(self, at_ns: int, message: AssistantMessage, reason: str | None) -> Frames:
        make = self._aborted if reason == "aborted" else self._error
        return make(at_ns, message.error_message, message.error_status)

    def _repeated_messages(self, event: TurnEnded | RunEnded) -> Frames:
        """Report what only `turn_end` or `agent_end` tells: an omp abort between turns has no other sighting."""
        messages = event.messages if isinstance(event, RunEnded) else (event.message,)
        frames: Frames = _NONE
        for message in messages:
            if not isinstance(message, AssistantMessage):
                continue
            if message.failed and self._sightings.is_unseen(message):
                frames += self._report(event.at_ns, message, message.stop_reason)
        return frames

    def _retry_ended(self, event: RetryEnded) -> Frames:
        if event.cancelled:
            return self._aborted(event.at_ns, event.final_error, None)
        frames: Frames = _NONE
        if not event.success and self._sightings.retry_error_unseen():
            frames = self._error(event.at_ns, event.final_error, None)
        return frames + self._notice(event.at_ns, lines.retry_ended(event))

    def _prompt_result(self, event: PromptResult) -> Frames:
        if event.status != "error" or self._sightings.any_in_prompt:
            return _NONE
        self._sightings.counted()
        return self._error(event.at_ns, event.error_message, event.error_status)

    # --- ends ---

    def _prompt_settled(self, event: PromptSettled) -> Frames:
        frames: Frames = _NONE
        if event.ending is Ending.LOST:
            frames = self._error(event.at_ns, "the session file ends with the run open", None)
        elif event.aborted and self._last not in (Outcome.CANCELLED, Outcome.FAILED):
            frames = self._aborted(event.at_ns, None, None)
        self._open = False
        self._injections.clear()
        if self._last is Outcome.FAILED:
            return frames
        return frames + self._enter(SessionState.READY)

    def _source_ended(self, event: SourceEnded) -> Frames:
        was_open, self._open = self._open, False
        if not was_open:
            return self._enter(SessionState.STOPPED) if lines.orderly(event) else _NONE
        if self._last is Outcome.CANCELLED:
            return _NONE
        if lines.ended_on_request(event):
            return self._aborted(event.at_ns, lines.end_text(event), None)
        return self._error(event.at_ns, lines.end_text(event), None)

    def _shut_down(self, event: SessionShutdown) -> Frames:
        frames: Frames = _NONE
        if self._open and self._last is not Outcome.CANCELLED:
            why = f": {event.reason}" if event.reason else ""
            frames = self._aborted(event.at_ns, f"the session was shut down with the run open{why}", None)
        self._open = False
        return frames + self._enter(SessionState.STOPPED)

    # --- tools and plans ---

    def _tool(self, event: ToolStarted | ToolUpdated | ToolEnded) -> SessionFrame:
        made = self._event(event.at_ns)
        if isinstance(event, ToolStarted):
            made.tool_call.tool_call_id = lines.label(event.call_id, self._scrub)
            made.tool_call.title = lines.tool_title(event, self._scrub)
            made.tool_call.status = AgentToolCallStatus.AGENT_TOOL_CALL_STATUS_IN_PROGRESS
            return SessionFrame(typed_event=made)
        update = made.tool_call_update
        update.tool_call_id = lines.label(event.call_id, self._scrub)
        update.output = lines.tool_output(event.output, self._scrub)
        update.status = lines.tool_status(event)
        if isinstance(event, ToolEnded):
            for diff in event.diffs:
                added = update.diffs.add(path=self._scrub(diff.path), new_text=self._scrub(diff.new_text))
                if diff.old_text is not None:
                    added.old_text = self._scrub(diff.old_text)
        return SessionFrame(typed_event=made)

    def _plan(self, event: PlanChanged) -> SessionFrame:
        made = self._event(event.at_ns)
        made.plan.SetInParent()
        for entry in event.entries:
            made.plan.entries.add(content=self._scrub(entry.content), status=lines.plan_status(entry.status))
        return SessionFrame(typed_event=made)
