"""ToolRecorder: `execute_tool` spans by call id, and `compact` spans inside and outside of runs."""

from opentelemetry.trace import SpanKind

from compass_otel import semconv, span_content
from compass_otel import span_facts as facts_of
from compass_otel.classification import Failure, classify, render_message
from compass_otel.events import CompactionEnded, CompactionStarted, ToolEnded, ToolStarted
from compass_otel.recording import Recording
from compass_otel.run_spans import OpenSpan, OpenTool, end_tool, mark_error
from compass_otel.scrubbing import cut
from compass_otel.semconv import Outcome, SpanName
from compass_otel.span_facts import Attributes
from compass_otel.span_starter import link_to

_NOT_EXECUTED = "not_executed"
_SKIPPED = "skipped"


class ToolRecorder:
    """Records tool calls and compactions."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def started(self, event: ToolStarted) -> None:
        """Record that a tool call began; a call of the same id that is still open is told as incomplete."""
        recording = self._recording
        run = recording.opened_run()
        if (unended := run.tools.pop(event.call_id, None)) is not None:
            end_tool(unended, event.at_ns, Outcome.INCOMPLETE)
            recording.count_ended(unended, max(event.at_ns, unended.start_ns))
        scrub = recording.options.scrub
        facts: Attributes = {**facts_of.tool_start_facts(event, scrub), **recording.identity.facts()}
        if recording.options.capture_content:
            facts.update(span_content.arguments_facts(event.args, scrub))
        tool_name = str(facts[semconv.GEN_AI_TOOL_NAME])
        start_ns = max(event.at_ns, run.run.start_ns)
        parent = run.tools.get(event.parent_call_id or "")
        span = recording.starter.start_child(
            f"{SpanName.EXECUTE_TOOL} {tool_name}",
            SpanKind.INTERNAL,
            parent.span if parent is not None else run.run.span,
            run.key,
            ("tool", event.call_id),
            start_ns,
            facts,
        )
        run.tools[event.call_id] = OpenTool(span, start_ns, dict(facts), name=tool_name)
        run.totals.tools += 1

    def ended(self, event: ToolEnded) -> None:
        """Record that a tool call is over; an end whose start was never seen, or came before, changes nothing."""
        run = self._recording.run
        tool = run.tools.pop(event.call_id, None) if run is not None else None
        if run is None or tool is None:
            return
        scrub = self._recording.options.scrub
        tool.set(facts_of.tool_end_facts(event, scrub))
        if self._recording.options.capture_content:
            tool.set(span_content.result_facts(event.output, scrub))
        if event.synthetic:
            end_tool(tool, event.at_ns, Outcome.INCOMPLETE)
            self._recording.count_ended(tool, max(event.at_ns, tool.start_ns))
        elif event.is_error:
            tool.failed_at_ns = max(event.at_ns, tool.start_ns)
            run.held_tools.append(tool)
            run.latest_ns = max(run.latest_ns, tool.failed_at_ns)
        else:
            end_tool(tool, event.at_ns, Outcome.COMPLETED)
            self._recording.count_ended(tool, max(event.at_ns, tool.start_ns))

    def turn_ended(self, at_ns: int) -> None:
        """Tell tools whose end never came as incomplete: no agent lets a call run past its turn."""
        run = self._recording.run
        if run is None:
            return
        unended = list(run.tools.values())
        run.tools.clear()
        for tool in unended:
            end_tool(tool, at_ns, Outcome.INCOMPLETE)
            self._recording.count_ended(tool, max(at_ns, tool.start_ns))

    def compaction_started(self, event: CompactionStarted) -> None:
        """Record that a compaction began."""
        recording = self._recording
        unended = self._take_compaction()
        if unended is not None:
            unended.set({semconv.OUTCOME: Outcome.INCOMPLETE.value})
            recording.finish(unended, event.at_ns)
        opened = self._open_compaction(event.at_ns, event.reason)
        if recording.run is not None:
            recording.run.compaction = opened
        else:
            recording.outside = opened

    def _take_compaction(self) -> OpenSpan | None:
        """Take the open compaction; one that began between two runs may end when the next has begun (omp, idle)."""
        recording = self._recording
        run = recording.run
        if run is not None and run.compaction is not None:
            inside, run.compaction = run.compaction, None
            return inside
        outside, recording.outside = recording.outside, None
        return outside

    def compaction_ended(self, event: CompactionEnded) -> None:
        """Record how a compaction ended; one whose start was never announced is a span without length."""
        recording = self._recording
        opened = self._take_compaction() or self._open_compaction(event.at_ns, event.reason)
        if recording.run is not None:
            recording.run.attempt = 1
        opened.set(_compaction_facts(event))
        if event.error_message is not None and not event.aborted:
            verdict = classify(Failure(message=event.error_message))
            text = cut(recording.options.scrub(render_message(event.error_message)), semconv.MAX_ERROR_TEXT_BYTES)
            opened.set({semconv.OUTCOME: Outcome.FAILED.value})
            mark_error(opened, str(verdict.error_type or semconv.OTHER), text, retryable=verdict.retryable)
        elif event.aborted:
            opened.set({semconv.OUTCOME: Outcome.CANCELLED.value})
        else:
            recording.compacted = not event.skipped
        recording.finish(opened, event.at_ns)

    def _open_compaction(self, at_ns: int, reason: str | None) -> OpenSpan:
        recording = self._recording
        facts: Attributes = {
            semconv.GEN_AI_OPERATION_NAME: SpanName.COMPACT.value,
            **recording.identity.facts(),
        }
        if reason is not None:
            facts[semconv.COMPACTION_REASON] = facts_of.name(reason, recording.options.scrub)
        run = recording.run
        if run is not None:
            start_ns = max(at_ns, run.run.start_ns)
            span = recording.starter.start_child(
                SpanName.COMPACT.value, SpanKind.INTERNAL, run.run.span, run.key, ("compact",), start_ns, facts
            )
            return OpenSpan(span, start_ns, dict(facts))
        previous = recording.previous_run
        links = [link_to(previous, semconv.LINK_PREVIOUS_RUN)] if previous is not None else []
        span = recording.starter.start_root(
            SpanName.COMPACT.value, recording.previous_key, ("compact",), at_ns, facts, links
        )
        return OpenSpan(span, at_ns, dict(facts))


def _compaction_facts(event: CompactionEnded) -> Attributes:
    facts: Attributes = {semconv.COMPACTION_OUTCOME: _compaction_outcome(event)}
    if event.tokens_before is not None:
        facts[semconv.COMPACTION_TOKENS_BEFORE] = event.tokens_before
    if event.tokens_after is not None:
        facts[semconv.COMPACTION_TOKENS_AFTER] = event.tokens_after
    return facts


def _compaction_outcome(event: CompactionEnded) -> str:
    if event.aborted:
        return Outcome.CANCELLED.value
    if event.error_message is not None:
        return Outcome.FAILED.value
    return _SKIPPED if event.skipped else Outcome.COMPLETED.value
