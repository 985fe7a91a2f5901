"""SessionRecorder: events and the frames they were mapped to, onto OpenTelemetry spans.

Contract: facts come from the event, session errors and states from its frames, so that what a subscriber sees and what
a backend shows can never disagree. Uses the OpenTelemetry API only. One short trace per prompt run; sessions are
joined by `gen_ai.conversation.id`, a run links to the session's previous run. Everything that is opened is closed.
"""

from collections.abc import Iterable

from opentelemetry._logs import LoggerProvider
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanContext, TracerProvider, get_tracer, set_span_in_context

from compass_otel import classification, scrubbing, semconv
from compass_otel._pb.compass.v1.compass_pb2 import SessionFrame
from compass_otel.classification import Classification, Failure, classify
from compass_otel.events import (
    AgentEvent,
    AssistantMessage,
    BlockStarted,
    CompactionEnded,
    CompactionStarted,
    Ending,
    InnerError,
    MessageEnded,
    MessageStarted,
    ModelFallback,
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
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from compass_otel.exception_signal import ExceptionLog
from compass_otel.frames import session_error_of, state_of
from compass_otel.ids import IdPrimer
from compass_otel.record_answers import AnswerRecorder
from compass_otel.record_runs import RunRecorder
from compass_otel.record_tools import ToolRecorder
from compass_otel.recorder_metrics import SessionMetrics
from compass_otel.recording import RecorderOptions, Recording, SessionFailure, ToldNote
from compass_otel.semconv import Outcome, SessionState
from compass_otel.span_starter import SessionIdentity, SpanStarter
from compass_otel.unmapped import Malformed, Unmapped

_NS_PER_MS = 1_000_000
_DELTAS = (TextDelta, ThinkingDelta)
"""Asked for at every event: a tuple made once, since `A | B` makes a new union each time."""


class SessionRecorder:
    """Records one session.

    Not thread-safe: fed by one caller at a time, from any thread. Never blocks, never attaches a context, so the host's
    current span is left alone.

    Args:
        tracer_provider: where spans go; None takes the host's global one.
        meter_provider: where metrics go; None takes the host's global one.
        logger_provider: where log events go, if `options` ask for them; None takes the host's global one.
        ids: gives derived ids to a provider that we own; None leaves the provider's.
        parent_context: the parent of every run; None takes the span that is current when a run starts.
        options: what to write and how.

    """

    def __init__(  # noqa: PLR0913 - the providers a host may own, each optional
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        ids: IdPrimer | None = None,
        parent_context: Context | None = None,
        options: RecorderOptions | None = None,
    ) -> None:
        classification.prepare()
        scrubbing.prepare()
        tracer = get_tracer(semconv.SCOPE_NAME, tracer_provider=tracer_provider)
        self._recording = Recording(
            SpanStarter(tracer, ids, parent_context),
            SessionMetrics(meter_provider),
            ExceptionLog(logger_provider),
            options or RecorderOptions(),
        )
        self._runs = RunRecorder(self._recording)
        self._answers = AnswerRecorder(self._recording)
        self._tools = ToolRecorder(self._recording)
        self._pending_start_ns: int | None = None
        self._waiting_states: list[tuple[SessionState, int]] = []

    def record(self, event: AgentEvent | Unmapped | Malformed, frames: Iterable[SessionFrame | Unmapped]) -> None:
        """Record one event with the frames it was mapped to, in order."""
        if isinstance(event, _DELTAS):
            # Nearly every event of a stream is one of these, and its frames hold neither failure nor state.
            self._answers.chunk(event.at_ns)
            return
        told = [frame for frame in frames if isinstance(frame, SessionFrame)]
        failures = [
            SessionFailure(error, frame.typed_event.event_id)
            for frame in told
            if (error := session_error_of(frame)) is not None
        ]
        injected = next((f for f in told if f.typed_event.WhichOneof("event") == "session_injection"), None)
        states = [state for frame in told if (state := state_of(frame)) is not None]
        # An event that ends the run changes its state first; one that opens the run can only do so afterwards.
        open_before = self._recording.run is not None
        if open_before:
            self._enter(states, event)
        self._dispatch(event, failures, injected)
        if not open_before and states:
            self._enter(states, event)

    def advised(self, notes: Iterable[ToldNote]) -> None:
        """Note what the model is told in its next request: the next chat span says so and links to the failed one."""
        self._recording.told.extend(notes)

    def tool_context(self, call_id: str) -> Context | None:
        """Return the context of a running tool call, the parent for a sub-agent's own bridge; None if none runs."""
        run = self._recording.run
        tool = run.tools.get(call_id) if run is not None else None
        return set_span_in_context(tool.span, Context()) if tool is not None else None

    @property
    def run_context(self) -> SpanContext | None:
        """The span context of the open run, None if no run is open."""
        run = self._recording.run
        return run.run.span.get_span_context() if run is not None else None

    @property
    def open_spans(self) -> int:
        """How many spans are open."""
        return self._recording.open_spans

    def _enter(self, states: list[SessionState], event: AgentEvent | Unmapped | Malformed) -> None:
        """Write states on the open run.

        WORKING at an `agent_start` waits for the next event, since Pi 0.73 tells only then whether it continues the
        run that looked finished or begins another one.
        """
        if isinstance(event, PromptRefused | Unmapped | Malformed):
            return
        if isinstance(event, RunStarted | TurnStarted):
            self._waiting_states.extend((state, event.at_ns) for state in states)
            return
        if not isinstance(event, PromptSettled):
            for state, at_ns in self._waiting_states:
                self._runs.enter_state(state, at_ns)
        self._waiting_states.clear()
        for state in states:
            self._runs.enter_state(state, event.at_ns)

    def _dispatch(  # noqa: C901, PLR0912, PLR0915 - one arm an event
        self, event: AgentEvent | Unmapped | Malformed, failures: list[SessionFailure], injected: SessionFrame | None
    ) -> None:
        runs = self._runs
        match event:
            case BlockStarted():
                self._answers.chunk(event.at_ns)
            case SessionOpened():
                self._recording.identity = SessionIdentity.of(event, self._recording.options.scrub)
            case RunStarted():
                self._pending_start_ns = event.at_ns
            case TurnStarted():
                self._pending_start_ns = self._pending_start_ns or event.at_ns
            case MessageStarted(message=UserMessage() as message) | MessageEnded(message=UserMessage() as message):
                self._user_message(event.at_ns, message, injected)
            case MessageStarted(message=AssistantMessage() as message):
                self._open_run(event.at_ns, message)
                self._answers.started(event.at_ns, message)
            case MessageEnded(message=AssistantMessage() as message):
                self._open_run(event.at_ns, message)
                self._answers.ended(event.at_ns, message, message.stop_reason or "", failures)
            case InnerError():
                self._open_run(event.at_ns, event.message)
                self._answers.ended(event.at_ns, event.message, event.reason, failures)
            case TurnEnded():
                self._late_failures(event.at_ns, (event.message,), failures)
                self._answers.turn_ended(event.at_ns, event.message)
                self._tools.turn_ended(event.at_ns)
            case RunEnded():
                self._late_failures(event.at_ns, event.messages, failures)
            case ToolStarted():
                self._open_run(event.at_ns, None)
                self._tools.started(event)
            case ToolEnded():
                self._tools.ended(event)
            case RetryScheduled():
                self._open_run(event.at_ns, None)
                runs.retry_scheduled(event)
            case RetryEnded():
                self._open_run(event.at_ns, None)
                runs.retry_ended(event, failures)
            case CompactionStarted():
                self._tools.compaction_started(event)
            case CompactionEnded():
                self._tools.compaction_ended(event)
            case ModelFallback():
                runs.fell_back(event)
            case PromptRefused():
                self._refused(event, failures)
            case PromptResult():
                self._prompt_result(event, failures)
            case PromptSettled():
                self._settled(event, failures)
            case SourceEnded() | SessionShutdown():
                self._ended(event, failures)
            case _:
                # The rest of the closed union opens, marks and ends nothing; what frames it has were noted above.
                return

    def _open_run(self, at_ns: int, message: UserMessage | AssistantMessage | None) -> None:
        if self._recording.run is None:
            self._runs.open(self._run_start_ns(at_ns, message), message)
            self._waiting_states.clear()
        self._pending_start_ns = None

    def _run_start_ns(self, at_ns: int, message: UserMessage | AssistantMessage | None) -> int:
        """Return when a run began: its `agent_start`, or its prompt's own timestamp where that is later.

        In a stored stream `agent_start` has no time of its own, only that of the record before it, which can be the
        end of a run hours ago.
        """
        announced_ns = self._pending_start_ns if self._pending_start_ns is not None else at_ns
        stamped_ns = (message.timestamp_ms or 0) * _NS_PER_MS if message is not None else 0
        return min(max(announced_ns, stamped_ns), at_ns) if stamped_ns <= at_ns else min(announced_ns, at_ns)

    def _user_message(self, at_ns: int, message: UserMessage, injected: SessionFrame | None) -> None:
        if injected is not None:
            self._runs.injected(at_ns, injected.typed_event.session_injection)
        else:
            self._open_run(at_ns, message)
        run = self._recording.run
        if run is not None and self._recording.options.capture_content and ("user", message.text) not in run.inputs:
            run.inputs.append(("user", message.text))

    def _late_failures(self, at_ns: int, messages: Iterable[object], failures: list[SessionFailure]) -> None:
        """Give each failure that only `turn_end` or `agent_end` told a chat span of its own."""
        failed = [message for message in messages if isinstance(message, AssistantMessage) and message.failed]
        for failure in failures:
            # Their order is the messages' order; those reported before have no failure here, so skip to the one meant.
            message = next((m for m in failed if self._answers.is_told_by(m, failure)), None)
            if message is not None:
                failed.remove(message)
                self._open_run(at_ns, message)
                self._answers.ended(at_ns, message, message.stop_reason or "", [failure])

    def _refused(self, event: PromptRefused, failures: list[SessionFailure]) -> None:
        verdict = classify(Failure(message=event.error_message))
        for failure in failures:
            self._runs.of_its_own(event.at_ns, failure, verdict)

    def _prompt_result(self, event: PromptResult, failures: list[SessionFailure]) -> None:
        verdict = classify(
            Failure(message=event.error_message, status=event.error_status, provider=event.provider, model=event.model)
        )
        for failure in failures:
            if self._recording.run is None:
                self._runs.of_its_own(event.at_ns, failure, verdict)
            else:
                self._runs.failed_outside_chat(event.at_ns, failure, verdict)

    def _settled(self, event: PromptSettled, failures: list[SessionFailure]) -> None:
        if self._pending_start_ns is not None and self._recording.run is None:
            self._open_run(event.at_ns, None)
        if event.ending is Ending.LOST:
            self._runs.lost(event.at_ns, failures, semconv.OTHER)
        elif event.ending is Ending.UNANSWERED:
            self._runs.settle(event.at_ns, Outcome.INCOMPLETE)
        else:
            for failure in failures:
                self._runs.failed_outside_chat(event.at_ns, failure, _cancelled())
            self._runs.settle(event.at_ns)

    def _ended(self, event: SourceEnded | SessionShutdown, failures: list[SessionFailure]) -> None:
        runs = self._runs
        if self._pending_start_ns is not None and self._recording.run is None:
            self._open_run(event.at_ns, None)
        self._pending_start_ns = None
        runs.close_outside(event.at_ns)
        if self._recording.run is None:
            return
        if isinstance(event, SourceEnded):
            runs.name_end(event)
        if self._recording.run.last is not Outcome.CANCELLED and any(not failure.aborted for failure in failures):
            runs.lost(event.at_ns, failures, semconv.PROCESS_LOST)
            return
        for failure in failures:
            runs.failed_outside_chat(event.at_ns, failure, _cancelled())
        runs.settle(event.at_ns)


def _cancelled() -> Classification:
    return classify(Failure(message="", stop_reason="aborted"))
