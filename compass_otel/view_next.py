"""What happened after a failure, read from the spans and run events that follow it. Pure."""

from dataclasses import dataclass
from typing import Final

from compass_otel import semconv
from compass_otel.jsonout import EventObject, SpanObject
from compass_otel.view_marks import Fate
from compass_otel.view_text import count_words, duration_words

_SLACK_NS: Final = 1_000_000
"""Stored streams know times to the millisecond: what follows a failure may seem to begin within the same one."""

_END_WORDS: Final = {
    Fate.COMPLETED: "the run completed all the same",
    Fate.CANCELLED: "then cancelled by the user",
    Fate.OPEN: "nothing has followed yet",
    Fate.INCOMPLETE: "nothing came after it",
}


@dataclass(frozen=True, slots=True)
class Follow:
    """The run that a failure stands in."""

    root: SpanObject
    top: list[SpanObject]
    """The spans right under the run, by start."""
    fate: Fate
    """What became of the run."""


def what_next(at_ns: int, kind: str, span: SpanObject | None, follow: Follow) -> tuple[Fate, str]:
    """Tell what a failure at *at_ns* led to: its fate in the tree, and the words for its card.

    Args:
        at_ns: When it happened, nanoseconds since the epoch.
        kind: `ERROR`, `ABORTED` or `COMPACTION`.
        span: The span that failed; None when it stands on the run itself.
        follow: The run around it.

    """
    later_chat = _later(follow.top, at_ns, span, semconv.SpanName.CHAT)
    if kind == "ABORTED":
        return Fate.CANCELLED, _cancel_words(follow, later_chat)
    retry = _retry_event(follow.root["events"], at_ns, span, later_chat)
    if later_chat is not None:
        return _went_on(at_ns, span, retry, later_chat, follow)
    if retry is not None:
        return Fate.FAILED, _waiting_words(retry, follow)
    return _end(at_ns, span, follow)


def _later(top: list[SpanObject], at_ns: int, span: SpanObject | None, operation: str) -> SpanObject | None:
    for each in top:
        if each is span or each["attributes"].get(semconv.GEN_AI_OPERATION_NAME) != operation:
            continue
        start_ns = each["start_unix_ns"]
        if start_ns > at_ns or (span is not None and start_ns >= at_ns - _SLACK_NS and _order(each) > _order(span)):
            return each
    return None


def _order(span: SpanObject) -> tuple[int, int]:
    return span["start_unix_ns"], span["attributes"].get(semconv.ATTEMPT) or 0


def _retry_event(
    events: list[EventObject], at_ns: int, span: SpanObject | None, later_chat: SpanObject | None
) -> EventObject | None:
    """Find the retry that was announced after the failure; its number is that of the attempt that failed."""
    attempt = (span["attributes"].get(semconv.ATTEMPT) if span else None) or 1
    until_ns = later_chat["start_unix_ns"] + _SLACK_NS if later_chat else None
    for event in events:
        at = event["time_unix_ns"]
        if event["name"] != semconv.EVENT_RETRY or at < at_ns - _SLACK_NS:
            continue
        if event["attributes"].get(semconv.ATTEMPT, attempt) == attempt and (until_ns is None or at <= until_ns):
            return event
    return None


def _cancel_words(follow: Follow, later_chat: SpanObject | None) -> str:
    if later_chat is not None:
        return "cancelled by the user, then the run went on"
    signal = follow.root["attributes"].get(semconv.SIGNAL)
    return f"cancelled: the agent was ended by {signal}" if signal else "cancelled by the user"


def _went_on(
    at_ns: int, span: SpanObject | None, retry: EventObject | None, later_chat: SpanObject, follow: Follow
) -> tuple[Fate, str]:
    attempt = later_chat["attributes"].get(semconv.ATTEMPT)
    if retry is not None:
        return Fate.RETRIED, f"{_retry_words(retry)}{f': attempt {attempt}' if attempt else ''}"
    compaction = _later(follow.top, at_ns, span, semconv.SpanName.COMPACT)
    if compaction is not None and compaction["start_unix_ns"] <= later_chat["start_unix_ns"] + _SLACK_NS:
        return Fate.WENT_ON, "the conversation was compacted, then the run went on"
    failed_attempt = (span["attributes"].get(semconv.ATTEMPT) if span else None) or 1
    if attempt and attempt > failed_attempt:
        return Fate.RETRIED, f"retried: attempt {attempt}"
    return Fate.WENT_ON, "the run went on"


def _retry_words(retry: EventObject) -> str:
    delay_s = retry["attributes"].get(semconv.RETRY_DELAY_S)
    return f"retried after {duration_words(int(delay_s * 1e9))}" if delay_s is not None else "retried"


def _waiting_words(retry: EventObject, follow: Follow) -> str:
    delay_s = retry["attributes"].get(semconv.RETRY_DELAY_S)
    wait = f" of {duration_words(int(delay_s * 1e9))}" if delay_s is not None else ""
    if follow.fate is Fate.CANCELLED or _cancelled_after(follow.root["events"], retry["time_unix_ns"]):
        return f"the wait{wait} before the retry was cancelled by the user"
    if follow.fate is Fate.OPEN:
        return f"waiting{wait} before the retry"
    return f"a retry was announced (wait{wait}), none came"


def _cancelled_after(events: list[EventObject], at_ns: int) -> bool:
    return any(event["name"] == semconv.EVENT_CANCELLED and event["time_unix_ns"] >= at_ns for event in events)


def _end(at_ns: int, span: SpanObject | None, follow: Follow) -> tuple[Fate, str]:
    """Tell of a failure that no model call follows."""
    if follow.fate is Fate.INCOMPLETE and span is None:
        # The loss itself: the card's message says what is known of it.
        return Fate.INCOMPLETE, ""
    return Fate.WENT_ON if follow.fate is Fate.COMPLETED else Fate.FAILED, _end_words(at_ns, span, follow)


def _end_words(at_ns: int, span: SpanObject | None, follow: Follow) -> str:
    if follow.fate in _END_WORDS:
        return _END_WORDS[follow.fate]
    attempt = (span or follow.root)["attributes"].get(semconv.ATTEMPT) or 1
    if attempt > 1:
        return f"gave up after {count_words(attempt, 'attempt')}"
    compaction = _later(follow.top, at_ns, span, semconv.SpanName.COMPACT)
    if compaction is not None and compaction["status"] == "ERROR":
        return "the compaction that should have made room failed too, the run ended"
    return "the run ended here, without a retry"
