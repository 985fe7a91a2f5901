"""What the advisor would have told the model in the request after a failed run; for runs that carry no note. Pure."""

from compass_otel import semconv
from compass_otel.advisor import ErrorAdvisor
from compass_otel.events import AssistantMessage, MessageEnded, PromptSettled, RetryScheduled
from compass_otel.jsonout import RunObject, SpanObject
from compass_otel.view_facts import root_span

_ADVISED: str = semconv.Outcome.FAILED.value


def would_tell(run: RunObject) -> list[str]:
    """Give the notes that a request right after the run would have carried, had the advisor been in the host.

    Args:
        run: A run in the `--json` shape. Only one that ended in failure is advised: a cancel is the person's own will,
            and of a lost process nobody knows what its next request was.

    """
    failed = _last_failure(run)
    if run["outcome"] != _ADVISED or not run["session_errors"]:
        return []
    error = run["session_errors"][-1]
    attributes = failed["attributes"] if failed else {}
    at_ns = root_span(run)["end_unix_ns"] or 0
    answer = AssistantMessage(
        provider=attributes.get(semconv.GEN_AI_PROVIDER_NAME),
        model=attributes.get(semconv.GEN_AI_REQUEST_MODEL),
        stop_reason="error",
        error_message=error["message"],
        error_status=error["status"],
    )
    advisor = ErrorAdvisor(lists_carry_failures=False)
    retries = (attributes.get(semconv.ATTEMPT) or 1) - 1
    if retries:
        advisor.observe(MessageEnded(at_ns, answer))
        advisor.observe(RetryScheduled(at_ns=at_ns, attempt=retries))
    advisor.observe(MessageEnded(at_ns, answer))
    advisor.observe(PromptSettled(at_ns=at_ns))
    return [note.text for note in advisor.advise([], None, at_ns)]


def _last_failure(run: RunObject) -> SpanObject | None:
    failed = [span for span in run["spans"] if span["attributes"].get(semconv.SESSION_ERROR_KIND) == "ERROR"]
    return max(failed, key=lambda span: span["start_unix_ns"]) if failed else None
