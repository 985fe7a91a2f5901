"""How the commands send: the two-lane processor that both own, what each promises about it, and the last line.

`replay` never drops: it hands over whole runs, waits for room, and gives up when nothing was delivered for a while.
`ingest` must not hold an agent up: it drops the oldest trace spans when it must, and what fails waits in the spool.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_QUEUE_SIZE, OTEL_SDK_DISABLED  # noqa: TID251  # sends

from compass_otel.collected_run import CollectedRun
from compass_otel.command_options import SendOptions
from compass_otel.errors import ConfigError
from compass_otel.exits import WrongUseError, complain
from compass_otel.otlp_settings import endpoint_is_set
from compass_otel.sampling import KeepFailures
from compass_otel.sink import TwoLaneSpanProcessor
from compass_otel.state_folder import instance_id, state_folder
from compass_otel.stats import LaneStats, Stats
from compass_otel.view_text import count_words

FINISH_QUIET_S: Final = 2.0
"""How long a live command waits at its end without any delivery: what fails is in the spool by then."""
FINISH_S: Final = 10.0
"""How long it waits at most, while deliveries go on."""
LIVE_WAIT_S: Final = 0.25
"""How long a live failure waits for its delivery; the agent's pipe buffers its output meanwhile."""
_FLUSH_STEP_S: Final = 1.0
_DEFAULT_QUEUE: Final = 2048

Tell = Callable[[str], object]
"""Takes one line about what went wrong; the exit status is 1 then."""


class Outlet:
    """What both commands send through. Not thread-safe; `processor` is."""

    def __init__(self, processor: TwoLaneSpanProcessor, spool: Path | None) -> None:
        self.processor = processor
        self.sampler = KeepFailures()
        self.instance_id = instance_id(state_folder())
        self._target = processor.describe()
        self._spool = spool

    def last_line(self) -> str:
        """Say what became of everything, by lane."""
        stats = self.processor.stats()
        return f"{self._target}: {_lane_words('priority', stats.priority)}; {_lane_words('trace', stats.trace)}"

    def abandon(self) -> None:
        """Let go of everything at once; idempotent."""
        self.processor.shutdown(0)

    def _tell_rest(self, tell: Tell) -> None:
        """Say what is not delivered, and what to do about it."""
        stats = self.processor.stats()
        lost = stats.priority.lost + stats.priority.waiting + stats.trace.lost + stats.trace.waiting
        if lost:
            tell(f"{count_words(lost, 'span')} could not be delivered: {_reasons(stats)}")
        kept = stats.priority.spooled + stats.trace.spooled
        if kept:
            tell(f"{count_words(kept, 'span')} not delivered yet, kept in {self._spool}: the next command sends them")

    def _flush_while_moving(self, quiet_s: float, at_most_s: float = float("inf")) -> bool:
        """Wait for the delivery of what was handed over, as long as there is any progress; whether all is delivered."""
        begun_s = time.monotonic()
        deadline_s = begun_s + quiet_s
        delivered = self._delivered()
        while not self.processor.force_flush(int(min(_FLUSH_STEP_S, quiet_s) * 1000)):
            now_s = time.monotonic()
            if self._delivered() > delivered:
                delivered, deadline_s = self._delivered(), now_s + quiet_s
            if now_s >= min(deadline_s, begun_s + at_most_s):
                return False
        return True

    def _delivered(self) -> int:
        stats = self.processor.stats()
        return stats.priority.delivered + stats.trace.delivered


class LiveOutlet(Outlet):
    """Sends spans as they end."""

    def finish(self, tell: Tell) -> None:
        """Wait, a bounded time, for what is on its way, and shut down."""
        done = self._flush_while_moving(FINISH_QUIET_S, FINISH_S)
        self.processor.shutdown(None if done else 0)
        self._tell_rest(tell)


class RunOutlet(Outlet):
    """Sends whole runs, waits for room, gives up after `timeout_s` without any delivery."""

    def __init__(self, processor: TwoLaneSpanProcessor, spool: Path | None, timeout_s: float, room: int) -> None:
        super().__init__(processor, spool)
        self._timeout_s = timeout_s
        self._room = room
        self._under_way = 0
        self._gave_up = False
        self._unsent_runs = 0
        self._runs_under_way = 0

    def send(self, run: CollectedRun) -> None:
        """Hand over a run. Blocks while there is no room; once it gave up, runs are only counted."""
        if self._gave_up:
            self._unsent_runs += 1
            return
        self._runs_under_way += 1
        for span in run.kept:
            if self._under_way >= self._room and not self._flush():
                return
            self.processor.on_end(span)
            self._under_way += 1
        run.kept.clear()

    def finish(self, tell: Tell) -> None:
        """Wait until all is delivered, or nothing has been for too long, and shut down."""
        if not self._gave_up:
            self._flush()
        self.processor.shutdown(0 if self._gave_up else None)
        if self._gave_up:
            runs = count_words(self._unsent_runs, "run")
            tell(
                f"gave up after {self._timeout_s:g} s without any delivery: {runs} not sent; "
                "the same command sends them later"
            )
        else:
            self._tell_rest(tell)

    def _flush(self) -> bool:
        """Wait for what is under way; gives up where nothing moves any more."""
        if not self._flush_while_moving(self._timeout_s):
            self._gave_up = True
            self._unsent_runs += self._runs_under_way
            return False
        self._under_way = self._runs_under_way = 0
        return True


def open_run_outlet(send: SendOptions) -> RunOutlet | None:
    """Make what `replay --export` sends through; None if the SDK is switched off.

    Raises:
        WrongUseError: there is no endpoint, or a setting cannot work.

    """
    if send.endpoint is None and not endpoint_is_set():
        raise WrongUseError("--export needs to know where to: give --endpoint URL or set OTEL_EXPORTER_OTLP_ENDPOINT")
    if _switched_off():
        return None
    # Nobody waits for a replay but the person who started it, and the waiting is done run by run, in `send`.
    processor = _processor(send, send.spool, priority_wait_s=0.0)
    return RunOutlet(processor, send.spool, send.timeout_s, room=max(_queue_size() // 2, 1))


def open_live_outlet(send: SendOptions) -> LiveOutlet | None:
    """Make what `ingest` sends through once an endpoint is set; None if the SDK is switched off.

    Raises:
        WrongUseError: a setting cannot work.

    """
    if _switched_off():
        return None
    spool = send.spool or default_spool()
    return LiveOutlet(_processor(send, spool, priority_wait_s=LIVE_WAIT_S), spool)


def default_spool() -> Path:
    """Say where live commands keep what is not delivered yet."""
    return state_folder() / "spool"


def _processor(send: SendOptions, spool: Path | None, *, priority_wait_s: float) -> TwoLaneSpanProcessor:
    try:
        return TwoLaneSpanProcessor(endpoint=send.endpoint, spool=spool, priority_wait_s=priority_wait_s)
    except ConfigError as error:
        raise WrongUseError(str(error)) from error


def _switched_off() -> bool:
    """Whether a person switched sending off; says so, since they may have forgotten."""
    switched_off = os.environ.get(OTEL_SDK_DISABLED, "").strip().lower() == "true"
    if switched_off:
        complain(f"{OTEL_SDK_DISABLED} is set: nothing is sent")
    return switched_off


def _queue_size() -> int:
    text = os.environ.get(OTEL_BSP_MAX_QUEUE_SIZE, "").strip()
    return int(text) if text.isdecimal() and int(text) else _DEFAULT_QUEUE


def _lane_words(name: str, lane: LaneStats) -> str:
    words = [f"{lane.delivered:,} delivered", f"{lane.spooled:,} waiting in the spool"]
    if lane.waiting:
        words.append(f"{lane.waiting:,} not delivered")
    for what, reasons in (("dropped", lane.dropped), ("rejected", lane.rejected), ("failed", lane.failed)):
        if what == "dropped" or reasons:
            words.append(f"{sum(reasons.values()):,} {what}{_in_brackets(reasons)}")
    return f"{name} {', '.join(words)}"


def _in_brackets(reasons: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{reason} {count:,}' for reason, count in sorted(reasons.items()))})" if reasons else ""


def _reasons(stats: Stats) -> str:
    told = {
        reason
        for lane in (stats.priority, stats.trace)
        for reasons in (lane.dropped, lane.rejected, lane.failed)
        for reason in reasons
    }
    return ", ".join(sorted(told)) or "no answer in time"
