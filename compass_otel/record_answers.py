"""AnswerRecorder: one `chat` span for each model request, ended when its answer is whole and at once when it fails."""

from opentelemetry.trace import Link, SpanKind

from compass_otel import semconv, span_content
from compass_otel import span_facts as facts_of
from compass_otel.classification import render_message
from compass_otel.events import AssistantMessage, Message
from compass_otel.recording import Recording, SessionFailure
from compass_otel.run_spans import OpenChat
from compass_otel.semconv import Outcome, SpanName
from compass_otel.span_facts import Attributes
from compass_otel.span_starter import link_to

_NS_PER_MS = 1_000_000
_MS_PER_S = 1000
_CUT_GENERATION = ["error"]
"""The conventions' finish reason for a generation that was expected and did not end."""


class AnswerRecorder:
    """Records model requests into the open run."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def started(self, at_ns: int, message: AssistantMessage) -> None:
        """Record that an answer began; a chat that never ended before is told as incomplete."""
        run = self._recording.opened_run()
        if run.chat is not None:
            self._abandon(run.chat, at_ns)
        if message.stop_reason != "aborted":
            self._recording.release_held_tools(cancelled=False)
        run.last = None
        run.chat = self._open(at_ns, message)
        run.chat.streaming = not message.failed

    def chunk(self, at_ns: int) -> None:
        """Record that part of the answer arrived."""
        run = self._recording.run
        if run is not None and run.chat is not None and run.chat.first_chunk_ns is None:
            run.chat.first_chunk_ns = at_ns

    def ended(self, at_ns: int, message: AssistantMessage, reason: str, failures: list[SessionFailure]) -> None:
        """Record that an answer is whole, failed or was aborted; further sightings of a failure change nothing."""
        run = self._recording.opened_run()
        if reason in ("error", "aborted"):
            for failure in failures:
                self._failed(at_ns, message, reason, failure)
            return
        chat = run.chat or self._open(at_ns, message)
        run.chat = None
        self._recording.release_held_tools(cancelled=False)
        self._describe(chat, message)
        chat.set(
            {semconv.GEN_AI_RESPONSE_FINISH_REASONS: [facts_of.finish_reason(message, self._recording.options.scrub)]}
        )
        if message.empty:
            chat.set({semconv.RESPONSE_EMPTY: True})
            run.run.set({semconv.RESPONSE_EMPTY: True})
        run.note_success()
        run.attempt = 1
        if message.usage is not None:
            self._recording.last_good_usage = message.usage
        self._recording.finish(chat, at_ns, message.usage)

    def turn_ended(self, at_ns: int, message: Message | None) -> None:
        """End a chat whose `message_end` never came, from what the turn says of it."""
        run = self._recording.run
        if run is None or run.chat is None:
            return
        if isinstance(message, AssistantMessage) and not message.failed:
            self.ended(at_ns, message, message.stop_reason or "", [])

    def is_told_by(self, message: AssistantMessage, failure: SessionFailure) -> bool:
        """Whether `failure` is the session error of `message`: same kind, same text."""
        same_kind = failure.aborted == (message.stop_reason == "aborted")
        text = self._recording.options.scrub(render_message(message.error_message))
        return same_kind and failure.error.message == text

    def _failed(self, at_ns: int, message: AssistantMessage, reason: str, failure: SessionFailure) -> None:
        recording = self._recording
        run = recording.opened_run()
        chat = run.chat or self._open(at_ns, message)
        run.chat = None
        cut_short = chat.streaming or bool(message.text or message.thinking or message.tool_calls)
        self._describe(chat, message)
        if cut_short or not failure.aborted:
            chat.set({semconv.GEN_AI_RESPONSE_FINISH_REASONS: _CUT_GENERATION})
        verdict = facts_of.judge(message, reason, recording.last_good_usage, recording.identity.agent)
        error = failure.judged(verdict)
        recording.mark(chat, error, at_ns)
        run.note_error(error)
        recording.finish(chat, at_ns, message.usage)
        if failure.aborted:
            recording.close_open(at_ns, Outcome.CANCELLED)
        else:
            recording.release_held_tools(cancelled=False)

    def _open(self, at_ns: int, message: AssistantMessage) -> OpenChat:
        recording = self._recording
        run = recording.opened_run()
        facts: Attributes = {
            **facts_of.request_facts(message, recording.options.scrub),
            **recording.identity.facts(),
            semconv.ATTEMPT: run.attempt,
        }
        if recording.compacted:
            facts[semconv.GEN_AI_CONVERSATION_COMPACTED] = True
            recording.compacted = False
        model = facts.get(semconv.GEN_AI_REQUEST_MODEL)
        name = f"{SpanName.CHAT} {model}" if model else SpanName.CHAT.value
        start_ns = self._request_start_ns(at_ns, message)
        stamp = str(message.timestamp_ms) if message.timestamp_ms is not None else f"#{run.totals.chats}"
        span = recording.starter.start_child(
            name, SpanKind.CLIENT, run.run.span, run.key, ("chat", stamp), start_ns, facts, self._note_links()
        )
        chat = OpenChat(span, start_ns, dict(facts))
        self._write_notes(chat)
        run.totals.chats += 1
        run.run.set(facts_of.pick(facts, semconv.GEN_AI_PROVIDER_NAME, semconv.GEN_AI_REQUEST_MODEL))
        if recording.options.capture_content:
            chat.set(span_content.input_facts(run.inputs, recording.options.scrub))
        run.inputs.clear()
        return chat

    def _request_start_ns(self, at_ns: int, message: AssistantMessage) -> int:
        """Return when the request began: the message's own timestamp where it is plausible, else when it was seen.

        Agents stamp an assistant message when they send the request; its first event arrives later.
        """
        run = self._recording.opened_run()
        stamped_ns = (message.timestamp_ms or 0) * _NS_PER_MS
        earliest_ns = max(run.run.start_ns, run.latest_ns)
        return stamped_ns if earliest_ns <= stamped_ns <= at_ns else max(run.run.start_ns, at_ns)

    def _describe(self, chat: OpenChat, message: AssistantMessage) -> None:
        scrub = self._recording.options.scrub
        chat.set(facts_of.response_facts(message, scrub))
        late = facts_of.request_facts(message, scrub)
        chat.set({key: value for key, value in late.items() if key not in chat.attributes})
        self._recording.opened_run().totals.add(message.usage)
        if message.time_to_first_chunk_ms is not None:
            chat.set({semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: message.time_to_first_chunk_ms / _MS_PER_S})
        elif chat.first_chunk_ns is not None and chat.first_chunk_ns > chat.start_ns:
            elapsed_s = (chat.first_chunk_ns - chat.start_ns) / (_NS_PER_MS * _MS_PER_S)
            chat.set({semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: elapsed_s})
        if self._recording.options.capture_content:
            chat.set(span_content.output_facts(message, scrub))

    def _abandon(self, chat: OpenChat, at_ns: int) -> None:
        self._recording.opened_run().chat = None
        chat.set({semconv.OUTCOME: Outcome.INCOMPLETE.value})
        self._recording.finish(chat, at_ns)

    def _note_links(self) -> list[Link]:
        failed = self._recording.failed_spans
        wanted = [note.failed_at_ns for note in self._recording.told if note.failed_at_ns is not None]
        contexts = [failed[failed_at_ns] for failed_at_ns in wanted if failed_at_ns in failed]
        return [link_to(context, semconv.LINK_FAILED_SPAN) for context in contexts]

    def _write_notes(self, chat: OpenChat) -> None:
        for note in self._recording.told:
            chat.span.add_event(
                semconv.EVENT_ADVISOR_NOTE,
                {semconv.ADVISOR_CLASS: note.note_class, semconv.ADVISOR_TEXT: note.text},
                timestamp=chat.start_ns,
            )
        self._recording.told.clear()
