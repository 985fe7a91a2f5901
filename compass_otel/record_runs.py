"""RunRecorder: the run span itself: its start, its lifecycle events, its retries and injections, and its end."""

from opentelemetry.trace import Status, StatusCode

from compass_otel import semconv
from compass_otel import span_facts as facts_of
from compass_otel._pb.compass.v1.compass_pb2 import SessionInjection, SessionInjectionKind
from compass_otel.classification import Classification, Failure, classify
from compass_otel.events import (
    AssistantMessage,
    ModelFallback,
    RetryEnded,
    RetryScheduled,
    SourceEnded,
    UserMessage,
)
from compass_otel.mapper_lines import signal_name
from compass_otel.recording import Recording, SessionFailure
from compass_otel.run_spans import OpenSpan, RunSpans, mark_cancelled
from compass_otel.semconv import Outcome, SessionState, SpanName
from compass_otel.span_facts import Attributes, ErrorFacts
from compass_otel.span_starter import link_to

_MS_PER_S = 1000


class RunRecorder:
    """Records runs."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def open(self, start_ns: int, message: UserMessage | AssistantMessage | None) -> None:
        """Start the run span; `message` is the first one of the run, which names it."""
        recording = self._recording
        key = recording.starter.run_key(recording.identity, message, start_ns)
        recording.run = self._start(key, start_ns)

    def of_its_own(self, at_ns: int, failure: SessionFailure, verdict: Classification) -> None:
        """Record a prompt that was refused: a run without length, beside one that may be open."""
        recording = self._recording
        key = recording.starter.run_key(recording.identity, None, at_ns)
        run = self._start((*key, "refused"), at_ns)
        error = failure.judged(verdict)
        run.run.set({semconv.SESSION_STATE: SessionState.ERRORED.value})
        recording.mark(run.run, error, at_ns)
        self._end(run, at_ns)

    def enter_state(self, state: SessionState, at_ns: int) -> None:
        """Record a lifecycle state on the open run."""
        run = self._recording.run
        if run is not None:
            run.run.set({semconv.SESSION_STATE: state.value})
            run.run.span.add_event(
                semconv.EVENT_STATE, {semconv.SESSION_STATE: state.value}, timestamp=max(at_ns, run.run.start_ns)
            )

    def injected(self, at_ns: int, injection: SessionInjection) -> None:
        """Record a user message that entered the running run."""
        run = self._recording.opened_run()
        run.totals.injections += 1
        deliver = injection.op_kind == SessionInjectionKind.SESSION_INJECTION_KIND_DELIVER
        facts: Attributes = {
            semconv.INJECTION_KIND: "DELIVER" if deliver else "STEER",
            semconv.INJECTION_MESSAGE_ID: injection.message_id,
        }
        run.run.set({semconv.SESSION_INJECTIONS: run.totals.injections})
        self._add_event(run, semconv.EVENT_INJECTION, facts, at_ns)

    def retry_scheduled(self, event: RetryScheduled) -> None:
        """Record an announced automatic retry."""
        run = self._recording.opened_run()
        run.totals.retries += 1
        run.attempt = event.attempt + 1
        run.run.set({semconv.RETRY_COUNT: run.totals.retries})
        facts: Attributes = {semconv.ATTEMPT: event.attempt}
        if event.max_attempts is not None:
            facts[semconv.RETRY_MAX] = event.max_attempts
        if event.delay_ms is not None:
            facts[semconv.RETRY_DELAY_S] = event.delay_ms / _MS_PER_S
        verdict = classify(Failure(message=event.error_message))
        facts[semconv.ERROR_TYPE] = str(verdict.error_type or semconv.OTHER)
        if verdict.status is not None:
            facts[semconv.HTTP_RESPONSE_STATUS_CODE] = verdict.status
        self._add_event(run, semconv.EVENT_RETRY, facts, event.at_ns)
        self._recording.metrics.retry(run.run.attributes)

    def retry_ended(self, event: RetryEnded, failures: list[SessionFailure]) -> None:
        """Record how automatic retrying ended; failures here are those that no message carried."""
        run = self._recording.opened_run()
        facts: Attributes = {semconv.ATTEMPT: event.attempt} if event.attempt is not None else {}
        if event.success:
            run.run.set({semconv.RETRY_RECOVERED: True})
            self._add_event(run, semconv.EVENT_RETRY_RECOVERED, facts, event.at_ns)
        elif not event.cancelled:
            run.run.set({semconv.RETRY_RECOVERED: False})
            self._add_event(run, semconv.EVENT_RETRY_EXHAUSTED, facts, event.at_ns)
        reason = "aborted" if event.cancelled else "error"
        for failure in failures:
            self.failed_outside_chat(
                event.at_ns, failure, classify(Failure(message=event.final_error, stop_reason=reason))
            )

    def fell_back(self, event: ModelFallback) -> None:
        """Record that the agent switched to another model because of a failure."""
        run = self._recording.run
        if run is None:
            return
        scrub = self._recording.options.scrub
        facts: Attributes = {}
        if event.from_model is not None:
            facts[semconv.MODEL_FALLBACK_FROM] = facts_of.name(event.from_model, scrub)
        if event.to_model is not None:
            facts[semconv.MODEL_FALLBACK_TO] = facts_of.name(event.to_model, scrub)
        run.run.set(facts)
        self._add_event(run, semconv.EVENT_FALLBACK, facts, event.at_ns)

    def failed_outside_chat(self, at_ns: int, failure: SessionFailure, verdict: Classification) -> None:
        """Note a session error with no chat to stand on; it is written on the run when the run ends so."""
        recording = self._recording
        run = recording.opened_run()
        error = failure.judged(verdict)
        run.note_error(error)
        run.error_on_run = True
        if error.aborted:
            recording.close_open(at_ns, Outcome.CANCELLED)

    def name_end(self, event: SourceEnded) -> None:
        """Write on the open run which signal or exit status ended the agent."""
        run = self._recording.opened_run()
        if event.signal is not None:
            run.run.set({semconv.SIGNAL: signal_name(event.signal)})
        if event.exit_status is not None:
            run.run.set({semconv.EXIT_STATUS: event.exit_status})

    def lost(self, at_ns: int, failures: list[SessionFailure], error_type: str) -> None:
        """End the run of a process that is gone: `incomplete`, status ERROR, and so is what was open in it."""
        recording = self._recording
        run = recording.opened_run()
        end_ns = max(at_ns, run.latest_ns)
        recording.close_open(end_ns, Outcome.INCOMPLETE, lost_type=error_type)
        for failure in failures:
            error = failure.typed(error_type)
            recording.mark(run.run, error, end_ns)
        run.run.set({semconv.OUTCOME: Outcome.INCOMPLETE.value})
        self._end(run, end_ns)
        recording.run = None

    def settle(self, at_ns: int, outcome: Outcome | None = None) -> None:
        """End the run; without `outcome` its last answer decides."""
        recording = self._recording
        run = recording.run
        if run is None:
            return
        result = outcome or run.last or Outcome.INCOMPLETE
        open_ones = Outcome.CANCELLED if result is Outcome.CANCELLED else Outcome.INCOMPLETE
        recording.close_open(max(at_ns, run.latest_ns), open_ones)
        end_ns = max(at_ns, run.latest_ns)
        run.run.set({semconv.OUTCOME: result.value})
        if run.last_error is not None and outcome is None:
            self._write_error(run, run.last_error, end_ns)
        self._end(run, end_ns)
        recording.run = None

    def close_outside(self, at_ns: int) -> None:
        """End a compaction outside of runs whose end never came."""
        outside, self._recording.outside = self._recording.outside, None
        if outside is not None:
            outside.set({semconv.OUTCOME: Outcome.INCOMPLETE.value})
            outside.end(at_ns)

    def _write_error(self, run: RunSpans, error: ErrorFacts, at_ns: int) -> None:
        """Write the run's last error: whole where it stands on the run, else its type, so that the run can be found."""
        recording = self._recording
        if run.error_on_run:
            recording.mark(run.run, error, at_ns)
        elif error.aborted:
            if recording.options.aborted_as_error:
                mark_cancelled(run.run, error, at_ns, as_error=True, with_event=False)
        else:
            facts = facts_of.failure_facts(error)
            for key in (semconv.SESSION_ERROR_KIND, semconv.SESSION_ERROR_MESSAGE, semconv.SESSION_ERROR_STATUS):
                facts.pop(key, None)
            run.run.set(facts)
            run.run.span.set_status(Status(StatusCode.ERROR, error.text))

    def _start(self, key: tuple[str, ...], start_ns: int) -> RunSpans:
        recording = self._recording
        identity = recording.identity
        facts: Attributes = {
            semconv.GEN_AI_OPERATION_NAME: SpanName.INVOKE_AGENT.value,
            **identity.facts(),
            semconv.SESSION_STATE: SessionState.WORKING.value,
        }
        if identity.agent_version is not None:
            facts[semconv.GEN_AI_AGENT_VERSION] = identity.agent_version
        if identity.parent_session is not None:
            facts[semconv.PARENT_SESSION] = identity.parent_session
        previous = recording.previous_run
        links = [link_to(previous, semconv.LINK_PREVIOUS_RUN)] if previous is not None else []
        span = recording.starter.start_run(key, start_ns, facts, links)
        span.add_event(semconv.EVENT_STATE, {semconv.SESSION_STATE: SessionState.WORKING.value}, timestamp=start_ns)
        return RunSpans(OpenSpan(span, start_ns, dict(facts)), key, latest_ns=start_ns)

    def _end(self, run: RunSpans, at_ns: int) -> None:
        totals = run.totals
        facts: Attributes = {semconv.TURN_COUNT: totals.chats, semconv.TOOL_COUNT: totals.tools}
        if totals.input_tokens or totals.output_tokens:
            facts[semconv.GEN_AI_USAGE_INPUT_TOKENS] = totals.input_tokens
            facts[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] = totals.output_tokens
        if totals.cost_usd:
            facts[semconv.COST_USD] = totals.cost_usd
        run.run.set(facts)
        end_ns = run.run.end(at_ns)
        recording = self._recording
        recording.metrics.run_ended(run.run.attributes, end_ns - run.run.start_ns)
        recording.previous_run = run.run.span.get_span_context()
        recording.previous_key = run.key

    def _add_event(self, run: RunSpans, name: str, facts: Attributes, at_ns: int) -> None:
        run.run.span.add_event(name, facts, timestamp=max(at_ns, run.run.start_ns))
