"""Memory: what an advisor has observed of one session and not yet said, and what silenced it.

Fed with the session's events in order, it keeps the last failures, the outcome of the last compaction begun for
overflow, and the failed commands; a success, an abort and a manual or threshold compaction forget whatever is older.
Everything in it is bounded, and no clock and no outside state is read.
"""

from collections import deque
from typing import Final, assert_never

from msgspec import Struct

from compass_otel import events as ev
from compass_otel.advisor_causes import Cause, Key, Mark, Model, Reader, with_retries
from compass_otel.advisor_notes import CompactionOutcome, FailedCommand
from compass_otel.advisor_quote import quote, scrubbed
from compass_otel.classification import render_message
from compass_otel.failure_sightings import FailureSightings

_FAILURES_KEPT: Final = 32
_COMMANDS_KEPT: Final = 8
_MAX_NAME_CHARS: Final = 60
# omp calls it `incomplete` when an answer filled the window; Pi calls the same `overflow`.
_OVERFLOW_REASONS: Final = frozenset({"overflow", "incomplete"})


class _Compaction(Struct):
    """A compaction that began and whose end is not known; `told` once a note has called it not completed."""

    started_at_ns: int
    for_overflow: bool
    cause: Cause | None
    told: bool = False


class Memory:
    """What was observed of one session. Not thread-safe; one advisor owns it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._order = 0
        self._session_id: str | None = None
        self._sightings = FailureSightings()
        self._failures: deque[Cause] = deque(maxlen=_FAILURES_KEPT)
        self._retries = 0
        self._failed_in_a_row = 0
        self._good_usage: ev.Usage | None = None
        self._compaction: _Compaction | None = None
        self._beside: type[ev.CompactionStarted | ev.CompactionEnded] | None = None
        self._overflowed = False
        self._overflow_cause: Cause | None = None
        self.standing: Cause | None = None
        """The failure that nothing has followed yet in the running prompt."""
        self.ended: Cause | None = None
        """The failure in which the last prompt ended."""
        self.outcome: CompactionOutcome | None = None
        self.commands: deque[FailedCommand] = deque(maxlen=_COMMANDS_KEPT)
        self.silence: Mark | None = None
        """Everything older is settled."""
        self.answered: Mark | None = None
        """Every overflow that is older was answered by a compaction whose outcome was, or will be, told."""
        self.retrying = False
        """An automatic retry was announced and is not over."""
        self.retries_heard = False
        self.model = Model()
        self.agent: tuple[str, str | None] | None = None

    def observe(self, event: ev.AgentEvent) -> None:
        """Take in the next event of the session."""
        self._order += 1
        if not isinstance(event, ev.CompactionStarted | ev.CompactionEnded | ev.NoticeRaised):
            self._beside = None
        match event:
            case ev.MessageStarted() | ev.MessageEnded() | ev.InnerError():
                self._message_event(event)
            case ev.TurnEnded() | ev.RunEnded():
                self._ending_event(event)
            case ev.CompactionStarted() | ev.CompactionEnded():
                self._compaction_event(event)
            case ev.RunStarted() | ev.RetryScheduled() | ev.RetryEnded():
                self._retry_event(event)
            case ev.PromptSettled() | ev.PromptRefused() | ev.PromptResult():
                self._prompt_event(event)
            case ev.SessionOpened() | ev.SessionShutdown() | ev.SourceEnded() | ev.ModelChanged() | ev.CommandEnd():
                self._session_event(event)
            case (
                ev.TurnStarted()
                | ev.BlockStarted()
                | ev.TextDelta()
                | ev.ThinkingDelta()
                | ev.ToolStarted()
                | ev.ToolUpdated()
                | ev.ToolEnded()
                | ev.CommandFailed()
                | ev.InjectionQueued()
                | ev.ModelFallback()
                | ev.NoticeRaised()
                | ev.PlanChanged()
            ):
                pass
            case _:
                assert_never(event)

    def failure(self, key: Key) -> Cause | None:
        """Find the observed failure that a message list shows again, the newest first."""
        return next((cause for cause in reversed(self._failures) if _matches(cause.key, key)), None)

    def close_compaction(self) -> None:
        """Note that the next request is being built: a compaction for overflow that has not ended did not complete."""
        running = self._compaction
        if running is None or not running.for_overflow or running.told:
            return
        running.told = True
        self._conclude(running.started_at_ns, completed=False, reason=None, cause=running.cause)

    def forget_before(self, oldest_ns: int) -> None:
        """Drop what failed before `oldest_ns`."""
        if self.outcome is not None and self.outcome.at_ns < oldest_ns:
            self.outcome = None
        if self.ended is not None and self.ended.failed_at_ns is not None and self.ended.failed_at_ns < oldest_ns:
            self.ended = None
        for command in [command for command in self.commands if command.at_ns < oldest_ns]:
            self.commands.remove(command)

    # --- messages ---

    def _message_event(self, event: ev.MessageStarted | ev.MessageEnded | ev.InnerError) -> None:
        match event:
            case ev.MessageStarted(message=ev.UserMessage()) | ev.MessageEnded(message=ev.UserMessage()):
                self._new_prompt()
            case ev.MessageStarted(message=ev.AssistantMessage()):
                self._sightings.expect_new()
            case ev.MessageEnded(at_ns=at_ns, message=ev.AssistantMessage() as answer):
                if not answer.failed:
                    self._succeeded(at_ns, answer)
                elif self._sightings.is_new(answer):
                    self._failed(at_ns, answer)
            case ev.InnerError(at_ns=at_ns, reason=reason, message=answer):
                if self._sightings.is_new(answer):
                    self._failed(at_ns, answer, aborted=reason == "aborted")
            case _:
                pass

    def _ending_event(self, event: ev.TurnEnded | ev.RunEnded) -> None:
        """Take the answer that a turn's or a run's end repeats; some agents tell an abort nowhere else."""
        told = event.messages if isinstance(event, ev.RunEnded) else (event.message,)
        answer = next((message for message in reversed(told) if isinstance(message, ev.AssistantMessage)), None)
        if answer is not None and answer.failed and self._sightings.is_unseen(answer):
            self._failed(event.at_ns, answer)

    def _failed(self, at_ns: int, answer: ev.AssistantMessage, *, aborted: bool = False) -> None:
        if aborted or answer.stop_reason == "aborted":
            self._settle(at_ns)
            return
        cause = self._reader.from_event(answer, at_ns, self._order, self._good_usage)
        if cause.advice == "aborted":
            self._settle(at_ns)
            return
        self._remember(cause)

    def _remember(self, cause: Cause) -> None:
        self._failed_in_a_row += 1
        cause = with_retries(cause, max(self._retries, self._failed_in_a_row - 1))
        self._failures.append(cause)
        self.standing = cause
        self._overflowed = cause.advice == "overflow"
        self._overflow_cause = cause if self._overflowed else None

    def _succeeded(self, at_ns: int, answer: ev.AssistantMessage) -> None:
        self._settle(at_ns)
        self._overflowed = self._reader.is_silent_overflow(answer)
        if answer.usage is not None and not self._overflowed:
            self._good_usage = answer.usage

    def _settle(self, at_ns: int) -> None:
        """Forget what is older: a success, an abort, or a compaction that nobody needs to hear of came."""
        self.silence = Mark(self._order, at_ns)
        self.standing = self.ended = self.outcome = self._compaction = None
        self.commands.clear()
        self._calm()

    def _calm(self) -> None:
        self._retries = self._failed_in_a_row = 0
        self.retrying = self._overflowed = False
        self._overflow_cause = None

    def _new_prompt(self) -> None:
        self._sightings.new_prompt()
        self._calm()

    # --- retries ---

    def _retry_event(self, event: ev.RunStarted | ev.RetryScheduled | ev.RetryEnded) -> None:
        match event:
            case ev.RunStarted():
                self._sightings.expect_new()
            case ev.RetryScheduled(at_ns=at_ns, attempt=attempt, error_message=error):
                if self.standing is None:
                    self._remember(self._reader.from_text(error, at_ns, self._order))
                self._sightings.retry_announced()
                self._retries = max(self._retries + 1, attempt)
                self.retrying = self.retries_heard = True
            case ev.RetryEnded(at_ns=at_ns):
                self._retry_ended(event, at_ns)
            case _:
                assert_never(event)

    def _retry_ended(self, event: ev.RetryEnded, at_ns: int) -> None:
        self.retries_heard = True
        self.retrying = False
        if event.success or event.cancelled:
            self._settle(at_ns)
        elif self._sightings.retry_error_unseen() and event.final_error is not None:
            self._remember(self._reader.from_text(event.final_error, at_ns, self._order))

    # --- compaction ---

    def _compaction_event(self, event: ev.CompactionStarted | ev.CompactionEnded) -> None:
        # omp tells each start and each end twice, side by side, the second time without a reason.
        beside, self._beside = self._beside, type(event)
        running = self._compaction
        match event:
            case ev.CompactionStarted(at_ns=at_ns, reason=reason):
                if beside is ev.CompactionStarted and reason is None:
                    return
                begun = self._begin(at_ns, reason)
                if running is not None and running.for_overflow and not running.told and not begun.for_overflow:
                    self._conclude(at_ns, completed=False, reason=None, cause=running.cause)
                self._compaction = begun
            case ev.CompactionEnded(at_ns=at_ns, reason=reason):
                self._compaction = None
                if running is not None or beside is not ev.CompactionEnded:
                    self._compaction_ended(event, running or self._begin(at_ns, reason))
            case _:
                assert_never(event)

    def _begin(self, at_ns: int, reason: str | None) -> _Compaction:
        for_overflow = self._is_for_overflow(reason)
        return _Compaction(at_ns, for_overflow, self._overflow_cause if for_overflow else None)

    def _is_for_overflow(self, reason: str | None) -> bool:
        return self._overflowed if reason is None else reason in _OVERFLOW_REASONS

    def _compaction_ended(self, event: ev.CompactionEnded, running: _Compaction) -> None:
        completed = not event.skipped and not render_message(event.error_message)
        if event.aborted:
            self._settle(event.at_ns)
        elif running.told:
            return
        elif running.for_overflow:
            self._conclude(event.at_ns, completed=completed, reason=event.error_message, cause=running.cause)
        elif completed:
            self._settle(event.at_ns)

    def _conclude(self, at_ns: int, *, completed: bool, reason: object, cause: Cause | None) -> None:
        said = self._reader.say(reason)
        self.outcome = CompactionOutcome(completed=completed, at_ns=at_ns, order=self._order, reason=said, cause=cause)
        self.answered = Mark(self._order, at_ns)
        if completed:
            self.standing = None
        self._calm()

    # --- prompts, sessions, commands ---

    def _prompt_event(self, event: ev.PromptSettled | ev.PromptRefused | ev.PromptResult) -> None:
        match event:
            case ev.PromptSettled(at_ns=at_ns, ending=ending, aborted=aborted):
                if aborted:
                    self._settle(at_ns)
                elif ending is ev.Ending.SETTLED and self.standing is not None:
                    self.ended = self.standing
                self.standing = None
                self._calm()
            case ev.PromptRefused(at_ns=at_ns, error_message=error):
                self.ended = self._reader.from_text(error, at_ns, self._order)
            case ev.PromptResult(at_ns=at_ns, status="aborted"):
                self._settle(at_ns)
            case ev.PromptResult(at_ns=at_ns, status="error", error_message=error, error_status=status):
                if not self._sightings.any_in_prompt:
                    self._sightings.counted()
                    self.ended = self._reader.from_text(error, at_ns, self._order, status)
            case _:
                pass

    def _session_event(
        self,
        event: ev.SessionOpened | ev.SessionShutdown | ev.SourceEnded | ev.ModelChanged | ev.CommandEnd,
    ) -> None:
        match event:
            case ev.SessionOpened():
                self._opened(event)
            case ev.SessionShutdown() | ev.SourceEnded():
                self.standing = None
                self._calm()
            case ev.ModelChanged(provider=provider, model=model):
                self.model = Model(provider, model)
            case ev.CommandEnd(at_ns=at_ns, name=name, error=error):
                if error is not None:
                    quoted = quote(scrubbed(name, self._reader.scrub), _MAX_NAME_CHARS)
                    said = self._reader.say(error)
                    self.commands.append(FailedCommand(name=quoted, at_ns=at_ns, order=self._order, said=said))
            case _:
                assert_never(event)

    def _opened(self, event: ev.SessionOpened) -> None:
        """Begin another session: of the old one nothing is told in it, and what was settled stays settled."""
        self.agent = (event.agent, event.agent_version)
        if None not in (self._session_id, event.session_id) and event.session_id != self._session_id:
            self.standing = self.ended = self.outcome = self._compaction = None
            self.commands.clear()
            self._good_usage = None
            self._calm()
        self._session_id = event.session_id or self._session_id


def _matches(observed: Key, listed: Key) -> bool:
    """One failure seen twice; where one side states no timestamp the text alone decides."""
    return observed[1] == listed[1] and (observed[0] == listed[0] or observed[0] is None or listed[0] is None)
