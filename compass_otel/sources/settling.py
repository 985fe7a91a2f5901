"""When a prompt is over, told from a stream's records.

An `agent_start` … `agent_end` pair is one low-level run; a prompt may be several: retries, continuations after
compaction. Each agent says differently when all of them are done, and Pi 0.73 does not say it at all:

* Pi 1.6: `agent_settled`. Its `agent_end` carries `willRetry`, which covers retries only and so settles nothing.
* omp: an `agent_end` with neither `isTerminal:false` nor `willContinue:true`.
* Pi 0.73: an `agent_end` is provisional. `auto_retry_start`, `compaction_start` or an `agent_start` without a user
  message takes it back; it is final at `auto_retry_end success:false`, at any other prompt, at a manual compaction
  (outside every run), at the end of input, or after two seconds of quiet.
"""

from typing import Any

from compass_otel.events import Ending, PromptSettled

QUIET_S = 2.0
"""Pi 0.73 announces a retry, and starts a compaction, within milliseconds after `agent_end`."""

_QUIET_NS = int(QUIET_S * 1e9)


class Settling:
    """Follows one stream. Methods are told of records in order and give the `PromptSettled` that each makes certain."""

    __slots__ = ("_announced", "_open", "_over_ns", "_provisional", "_restarted", "_waits")

    def __init__(self) -> None:
        self._open = False
        """A prompt is at work, or may be."""
        self._over_ns: int | None = None
        """When the latest low-level run ended, unless it is known that the prompt went on."""
        self._provisional = False
        """Nothing that was announced is outstanding, so that end may be the prompt's."""
        self._restarted = False
        """A low-level run began after that end; its first message tells whose it is."""
        self._announced = False
        """A retry was announced, so the next low-level run is the same prompt's."""
        self._waits = False
        """The agent says itself when all is done (Pi 1.6), so an `agent_end` never does."""

    def run_started(self) -> None:
        """Take `agent_start`: a new prompt, or the old one going on."""
        self._open = True
        if self._announced:
            self._goes_on()
        else:
            self._restarted = self._over_ns is not None

    def user_message(self, *, injected: bool) -> PromptSettled | None:
        """Take a user message: first after an ended run it is another prompt, unless it waited in the queue."""
        settled = None
        if self._over_ns is not None and not injected and not self._announced:
            settled = self._settle(self._over_ns)
        self._goes_on()
        return settled

    def work_seen(self) -> None:
        """Take an answer or a tool call: a run that began without a user message is the old prompt going on."""
        if self._restarted or not self._open:
            self._goes_on()

    def run_ended(self, record: dict[str, Any], at_ns: int, *, is_omp: bool) -> PromptSettled | None:
        """Take `agent_end`: decide by what it carries."""
        self._goes_on()
        if record.get("isTerminal") is False or record.get("willContinue") is True:
            return None
        if is_omp or "isTerminal" in record:
            return self._settle(at_ns)
        self._waits = self._waits or "willRetry" in record
        self._over_ns = at_ns
        self._provisional = True
        return None

    def all_done(self, at_ns: int, *, aborted: bool = False) -> PromptSettled | None:
        """Take the agent's word that all work is done."""
        return self._settle(at_ns, aborted=aborted) if self._open else None

    def retry_announced(self) -> None:
        """Take `auto_retry_start`: the prompt goes on, after a wait."""
        self._open = self._announced = True
        self._provisional = False

    def retry_over(self, at_ns: int, *, success: bool) -> PromptSettled | None:
        """Take `auto_retry_end`: after the last run's end it is Pi 0.73's last word; omp's comes before that end."""
        self._announced = False
        if success or self._waits or self._restarted or self._over_ns is None:
            return None
        return self._settle(at_ns)

    def compaction_started(self, *, manual: bool) -> PromptSettled | None:
        """Take a compaction's start: part of the prompt, unless a person asked for it."""
        if manual:
            return self._settle(self._over_ns) if self._is_over() and self._over_ns is not None else None
        self._provisional = False
        return None

    def compaction_ended(self, at_ns: int, *, manual: bool) -> None:
        """Take a compaction's end; whether the prompt goes on shows only when it does: `willRetry` proves nothing."""
        if self._over_ns is not None and not (manual or self._restarted or self._announced):
            self._over_ns = at_ns
            self._provisional = True

    def quiet(self, last_ns: int, now_ns: int) -> PromptSettled | None:
        """Take passing time without records; not counted while a retry or a run is announced, or a compaction runs."""
        return self.input_ended() if now_ns - last_ns >= _QUIET_NS else None

    def input_ended(self) -> PromptSettled | None:
        """Take the end of input: what was provisional is final, except where the agent would have said so."""
        if self._waits or not self._is_over() or self._over_ns is None:
            return None
        return self._settle(self._over_ns)

    def another_process(self, at_ns: int) -> PromptSettled | None:
        """Take a new header in the same input: what was open died with the one before."""
        settled = self.input_ended()
        if settled is None and self._open:
            settled = self._settle(at_ns, ending=Ending.LOST)
        self._restarted = self._open = False
        return settled

    def _is_over(self) -> bool:
        return self._provisional and not self._restarted

    def _goes_on(self) -> None:
        self._open = True
        self._over_ns = None
        self._provisional = self._restarted = self._announced = False

    def _settle(self, at_ns: int, *, aborted: bool = False, ending: Ending = Ending.SETTLED) -> PromptSettled:
        self._open = self._restarted
        self._over_ns = None
        self._provisional = self._restarted = self._announced = False
        return PromptSettled(at_ns=at_ns, aborted=aborted, ending=ending)
