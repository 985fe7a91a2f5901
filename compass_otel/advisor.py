"""ErrorAdvisor: what the model must be told in its next request about a failure that it cannot see.

An agent shows a provider's error to the person and keeps it from the model, which then answers as if nothing had been.
The advisor observes the session's events and, asked when a request is built, gives at most two notes for the end of its
messages (`compass_otel.renderers` puts them there). Nothing is written into the session: a note lives in one request,
so exports, forks, resumes and compaction summaries are what they would be without it.

Rules and sentences follow the second seed document of the project (tiers 1 to 4, silence, H-P1 to H-P7).
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from compass_otel import classification, scrubbing
from compass_otel.advisor_causes import (
    NS_PER_MS,
    Cause,
    Reader,
    field,
    key_of,
    model_of,
    timestamp_ms,
    window_of,
    with_retries,
)
from compass_otel.advisor_memory import Memory
from compass_otel.advisor_notes import Note, NoteKind, command_note, compaction_note, provider_note
from compass_otel.events import AgentEvent
from compass_otel.scrubbing import scrub as scrub_text

__all__ = ["ErrorAdvisor", "Note", "NoteKind"]

MAX_NOTES: Final = 2
STALE_AFTER_S: Final = 15 * 60
"""A cause older than this is silent: a resumed session is not told of an ancient blip (H-P4)."""

_NS_PER_S: Final = 1_000_000_000
_SUMMARY_ROLES: Final = frozenset({"compactionSummary", "branchSummary"})
_UNFINISHED: Final = frozenset({"pending"})
# What every version of Pi retries by itself. Of the rest that may pass (a garbled or an interrupted stream) it retries
# some, by their wording, so that a missing retry says nothing.
_SURELY_RETRIED: Final = frozenset({"overloaded", "rate_limit", "server_error", "timeout", "network"})
_PI_0_RETRIES: Final = 3
"""Pi 0.73's default for `retry.maxRetries`."""


class _Trailing(Struct, frozen=True):
    """The failed message that a list ends with, but for what the person said since."""

    message: object
    good: object
    failed_before: int
    new_input: bool
    summarised_at_ns: int | None


class ErrorAdvisor:
    """Decides, per session, which failures the model is told of in its next request.

    Not thread-safe: one advisor belongs to one session, and is called by one thread at a time. Never blocks, never
    raises on what it is given (what it had to swallow is counted in `swallowed`), keeps a bounded amount of memory,
    and shares nothing with another advisor.

    Args:
        lists_carry_failures: True for a host whose message lists hold failed answers (Pi, omp: `stopReason: "error"`);
            then about provider errors the list alone decides. False for one whose lists never do (OpenAI, Anthropic);
            then what was observed of a run that *ended* in failure decides.
        clock: wall time in nanoseconds since the epoch, for calls of `advise` without `now`.
        context_window: tokens that the model can take, where the host knows; lets a silent overflow be seen.
        scrub: the door that every foreign text passes.
        command_notes: False switches the notes on failed extension commands off.
        retries_allowed: automatic retries per request that the host is set to, 0 if switched off, for a host that
            does not tell its retries. With it, a transient failure that had fewer, followed by new input, counts as a
            retry wait that a person cancelled. None takes 3 for Pi 0.x, its default, and else infers nothing.

    """

    def __init__(  # noqa: PLR0913 - all optional, each one thing that a host may know
        self,
        lists_carry_failures: bool = True,
        *,
        clock: Callable[[], int] = time.time_ns,
        context_window: int | None = None,
        scrub: Callable[[str], str] = scrub_text,
        command_notes: bool = True,
        retries_allowed: int | None = None,
    ) -> None:
        scrubbing.prepare()
        classification.prepare()
        self._lists_carry_failures = lists_carry_failures
        self._clock = clock
        self._reader = Reader(scrub, context_window)
        self._command_notes = command_notes
        self._retries_allowed = retries_allowed
        self._memory = Memory(self._reader)
        self._swallowed = 0

    @property
    def swallowed(self) -> int:
        """How many calls met an exception of their own, and were answered with nothing instead."""
        return self._swallowed

    def observe(self, event: AgentEvent) -> None:
        """Take in the next event of the session, in order.

        A `CommandEnd` without `error` means nothing; a host that knows no such event loses only those notes.
        """
        try:
            self._memory.observe(event)
        except Exception:  # noqa: BLE001 - the boundary towards the host: telemetry never hurts it
            self._swallowed += 1

    def advise(self, messages: Sequence[Any], model: object = None, now: int | None = None) -> tuple[Note, ...]:
        """Say what the request that is being built must tell the model; to be asked once for each request.

        Notes on compactions and commands are given once; a note that the limit of two kept back comes with the next
        request, unless a success, an abort, or 15 minutes came first. A provider-error note comes with every request
        until an answer lands.

        Args:
            messages: the host's messages for this request, oldest first, mappings or objects; only read.
            model: the model that the request goes to: `provider/id`, an id, or a mapping or object with `provider` and
                `id` (and `contextWindow`, in tokens); None if unknown.
            now: wall time in nanoseconds since the epoch; None asks the clock.

        Returns:
            At most two notes: compaction outcome, then provider error, then failed commands, the newest first.

        """
        try:
            return self._advise(messages, model, self._clock() if now is None else now)
        except Exception:  # noqa: BLE001 - the boundary towards the host: telemetry never hurts it
            self._swallowed += 1
            return ()

    def _advise(self, messages: Sequence[Any], model: object, now_ns: int) -> tuple[Note, ...]:
        memory = self._memory
        memory.close_compaction()
        memory.forget_before(now_ns - STALE_AFTER_S * _NS_PER_S)
        current = model_of(model) if model is not None else memory.model
        notes = []
        if memory.outcome is not None:
            notes.append(compaction_note(memory.outcome, current))
        cause = self._provider_error(_listed(messages), window_of(model), now_ns)
        if cause is not None:
            notes.append(provider_note(cause, current))
        notes = notes[:MAX_NOTES]
        memory.outcome = None
        while self._command_notes and memory.commands and len(notes) < MAX_NOTES:
            notes.append(command_note(memory.commands.pop()))
        return tuple(notes)

    def _provider_error(self, messages: Sequence[Any], window: int | None, now_ns: int) -> Cause | None:
        """Give the failed request to speak of, if any."""
        memory = self._memory
        if memory.retrying:
            return None
        if self._lists_carry_failures:
            cause = self._listed_failure(messages, window)
        else:
            # With a failure standing the run goes on, by retries that the host does not tell.
            cause = memory.ended if memory.standing is None else None
        if cause is None or cause.advice not in ("transient", "overflow", "other"):
            return None
        if cause.failed_at_ns is not None and now_ns - cause.failed_at_ns > STALE_AFTER_S * _NS_PER_S:
            return None
        answered = cause.advice == "overflow" and memory.answered is not None and memory.answered.is_after(cause)
        return None if answered else cause

    def _listed_failure(self, messages: Sequence[Any], window: int | None) -> Cause | None:
        found = _trailing(messages)
        if found is None:
            return None
        cause = self._memory.failure(key_of(found.message))
        if cause is None:
            listed = self._reader.from_listed(found.message, found.good, window)
            cause = with_retries(listed, found.failed_before)
        if self._memory.silence is not None and self._memory.silence.is_after(cause):
            return None
        if _summarised(cause, found) or self._wait_was_cancelled(cause, found):
            return None
        return cause

    def _wait_was_cancelled(self, cause: Cause, found: _Trailing) -> bool:
        """Whether a retry was due and did not come: a person ended the wait, though nothing said so."""
        allowed = self._retries_allowed
        if allowed is None and self._memory.agent is not None:
            agent, version = self._memory.agent
            allowed = _PI_0_RETRIES if agent == "pi" and (version or "").startswith("0.") else None
        if allowed is None or self._memory.retries_heard or not (cause.order and found.new_input):
            return False
        return cause.retryable and cause.error_type in _SURELY_RETRIED and cause.retries < allowed


def _listed(messages: object) -> Sequence[Any]:
    return messages if isinstance(messages, Sequence) and not isinstance(messages, str | bytes) else ()


def _trailing(messages: Sequence[Any]) -> _Trailing | None:
    """Find the last answer from the end; None unless it failed, or if a summary stands after it."""
    new_input = False
    for index in range(len(messages) - 1, -1, -1):
        role = field(messages[index], "role")
        stop = field(messages[index], "stopReason")
        if role in _SUMMARY_ROLES:
            return None
        new_input = new_input or role == "user"
        if role != "assistant" or stop in _UNFINISHED:
            continue
        if stop != "error":
            return None
        return _Trailing(
            message=messages[index],
            good=next((m for m in reversed(messages[:index]) if _went_well(m)), None),
            failed_before=_failed_in_a_row(messages, index),
            new_input=new_input,
            summarised_at_ns=max((t * NS_PER_MS for m in messages if (t := _summary_ms(m)) is not None), default=None),
        )
    return None


def _summarised(cause: Cause, found: _Trailing) -> bool:
    """Whether the list holds a summary made after the failure: kept messages stand behind it in Pi's lists."""
    if found.summarised_at_ns is None or cause.failed_at_ns is None:
        return False
    return cause.failed_at_ns <= found.summarised_at_ns


def _summary_ms(message: object) -> int | None:
    return timestamp_ms(message) if field(message, "role") in _SUMMARY_ROLES else None


def _went_well(message: object) -> bool:
    return field(message, "role") == "assistant" and field(message, "stopReason") not in ("error", "aborted", "pending")


def _failed_in_a_row(messages: Sequence[Any], index: int) -> int:
    """How many failed answers stand side by side before `index`: nothing but an automatic retry leaves that."""
    count = 0
    while index - count > 0:
        before = messages[index - count - 1]
        if field(before, "role") != "assistant" or field(before, "stopReason") != "error":
            break
        count += 1
    return count
