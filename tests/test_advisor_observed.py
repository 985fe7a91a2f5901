"""Sequences for hosts whose lists never carry failures (OpenAI, Anthropic), and exactly what each is told."""

from __future__ import annotations

from typing import Any

import pytest

from advisor_scenes import (
    AUTH_NOTE,
    COMPACTED_NOTE,
    EXHAUSTED_NOTE,
    OVERFLOW,
    OVERLOADED,
    SUMMARY_FAILED_NOTE,
    TRANSIENT_NOTE,
    UNAUTHORISED,
    Ask,
    aborted,
    answer,
    answered,
    at,
    compacted,
    compacting,
    failed,
    listed,
    play,
    retry,
    said,
    settled,
    user,
)
from compass_otel import events as ev

SILENT: tuple[str, ...] = ()

CHAT: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go on"}]

# Lists of OpenAI and Anthropic: the same list always, so only what was observed decides.
BY_OBSERVATION: dict[str, list[Any]] = {
    "nothing observed": [Ask(1, CHAT, SILENT)],
    "success": [said(0), answered(1), settled(1), Ask(2, CHAT, SILENT)],
    "run still going on after a failure": [said(0), failed(1), Ask(2, CHAT, SILENT)],
    "between automatic retries": [said(0), failed(1), retry(1.1), Ask(2, CHAT, SILENT)],
    "retry then success, then a tool result": [
        said(0),
        failed(1),
        retry(1.1),
        answered(3, tool_calls=(ev.ToolCall("c", "read"),)),
        Ask(4, [*CHAT, {"role": "tool", "tool_call_id": "c", "content": "x"}], SILENT),
    ],
    "run that ended in failure": [
        said(0),
        failed(1),
        settled(2),
        said(3),
        Ask(3, CHAT, [TRANSIENT_NOTE]),
        answered(4),
        Ask(5, CHAT, SILENT),
    ],
    "exhausted retries": [
        said(0),
        failed(1),
        retry(1.1, 1),
        failed(3),
        retry(3.1, 2),
        failed(6),
        ev.RetryEnded(at_ns=at(6), success=False, attempt=2, final_error=OVERLOADED),
        settled(7),
        Ask(8, CHAT, [EXHAUSTED_NOTE]),
    ],
    "exhausted retries whose error no message carried": [
        said(0),
        retry(1, 1),
        ev.RetryEnded(at_ns=at(6), success=False, attempt=2, final_error=OVERLOADED),
        settled(7),
        Ask(8, CHAT, [EXHAUSTED_NOTE]),
    ],
    "run going on after one that ended in failure": [
        said(0),
        failed(1, UNAUTHORISED),
        settled(2),
        said(3),
        Ask(3, CHAT, [AUTH_NOTE]),
        failed(4),
        Ask(5, CHAT, SILENT),
        answered(6),
        settled(7),
        Ask(8, CHAT, SILENT),
    ],
    "abort": [said(0), aborted(1), settled(1), Ask(2, CHAT, SILENT)],
    "abort in the retry wait": [said(0), failed(1), retry(1.1), settled(2, aborted=True), Ask(3, CHAT, SILENT)],
    "answer that the file does not hold": [
        said(0),
        failed(1),
        settled(2, ending=ev.Ending.UNANSWERED),
        Ask(3, CHAT, SILENT),
    ],
    "other failure": [said(0), failed(1, UNAUTHORISED), settled(2), Ask(3, CHAT, [AUTH_NOTE])],
    "refused prompt": [ev.PromptRefused(at_ns=at(1), error_message=UNAUTHORISED), Ask(2, CHAT, [AUTH_NOTE])],
    "prompt result without a message": [
        said(0),
        ev.PromptResult(at_ns=at(1), status="error", error_message=UNAUTHORISED, error_status=401),
        Ask(2, CHAT, [AUTH_NOTE]),
    ],
    "prompt result after an abort": [
        said(0),
        failed(1),
        retry(1.1),
        ev.RetryEnded(at_ns=at(2), success=False, cancelled=True),
        settled(2),
        ev.PromptResult(at_ns=at(2), status="error", error_message=OVERLOADED),
        Ask(3, CHAT, SILENT),
    ],
    "stale": [said(0), failed(1), settled(2), Ask(1000, CHAT, SILENT)],
    "failure told by an inner error and again by the message, the turn and the run": [
        said(0),
        ev.InnerError(at(1), "error", answer(1, stop_reason="error", error_message=UNAUTHORISED)),
        failed(1, UNAUTHORISED),
        ev.TurnEnded(at_ns=at(1), message=answer(1, stop_reason="error", error_message=UNAUTHORISED)),
        ev.RunEnded(at_ns=at(1), messages=(answer(1, stop_reason="error", error_message=UNAUTHORISED),)),
        settled(2),
        Ask(3, CHAT, [AUTH_NOTE]),
    ],
    "abort that only the run's end tells": [
        said(0),
        failed(1),
        ev.RunEnded(at_ns=at(2), messages=(answer(2, stop_reason="aborted", error_message="Interrupted by user"),)),
        settled(2),
        Ask(3, CHAT, SILENT),
    ],
    "overflow, compacted": [
        said(0),
        failed(1, OVERFLOW),
        compacting(2),
        compacted(3),
        Ask(3.1, CHAT, [COMPACTED_NOTE]),
        Ask(3.2, CHAT, SILENT),
    ],
    "overflow, compaction failed: one cause, one note": [
        said(0),
        failed(1, OVERFLOW),
        compacting(2),
        compacted(3, error_message="Summarization failed: 400"),
        settled(4),
        Ask(5, CHAT, [SUMMARY_FAILED_NOTE]),
        Ask(6, CHAT, SILENT),
    ],
    "a list of the wrong kind is no ground": [Ask(3, [user(0), listed(1), user(3)], SILENT)],
}


@pytest.mark.parametrize("steps", BY_OBSERVATION.values(), ids=BY_OBSERVATION.keys())
def test_lists_without_failures_give_notes_only_on_ended_runs(steps: list[Any]) -> None:
    """A host whose lists never carry failures is told of a run that ended in failure, and of nothing else."""
    play(steps, lists_carry_failures=False)
