"""How the commands send: the two-lane processor that both own, what each promises about it, and the last line.

`replay` never drops: it hands over whole runs, waits for room, and gives up when nothing was delivered for a while.
`ingest` must not hold an agent up: it drops the oldest trace spans when it must, and what fails waits in the spool.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_QUEUE_SIZE, OTEL_SDK_DISABLED  # noqa: TID251  # sends
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor  # noqa: TID251  # same

from compass_otel.collected_run import CollectedRun
from compass_otel.command_options import SendOptions
from compass_otel.errors import ConfigError
from compass_otel.exits import WrongUseError, complain
from compass_otel.live_gate import LiveGate
from compass_otel.metric_sums import Service
from compass_otel.metrics_pump import MetricsPump
from compass_otel.metrics_sender import MetricsSender, metrics_settings
from compass_otel.otlp_settings import OtlpSettings, endpoint_is_set
from compass_otel.run_accounts import RunAccount, RunAccounts
from compass_otel.run_books import LiveKeeper, RunBooks
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
METRICS_AFTER_TROUBLE_S: Final = 1.0
"""How long sending metrics may take where spans could not be delivered; the sums are kept all the same."""
_FLUSH_STEP_S: Final = 1.0
_DEFAULT_QUEUE: Final = 2048

Tell = Callable[[str], object]
"""Takes one line about what went wrong; the exit status is 1 then."""


class Outlet:
    """What both commands send through. Not thread-safe; `processor` is."""

    def __init__(
        self, processor: TwoLaneSpanProcessor, spool: Path | None, metrics: OtlpSettings | None, *, again: bool = False
    ) -> None:
        folder = state_folder()
        self.processor = processor
        self.sampler = KeepFailures()
        self.instance_id = instance_id(folder)
        self.books = RunBooks(folder, again=again)
        self._metrics = MetricsSender.to(metrics, self.books.sums, folder) if metrics is not None else None
        self._target = processor.describe()
        self._spool = spool

    def last_line(self) -> str:
        """Say what became of everything, by lane."""
        stats = self.processor.stats()
        return f"{self._target}: {_lane_words('priority', stats.priority)}; {_lane_words('trace', stats.trace)}"

    def abandon(self) -> None:
        """Let go of everything at once; idempotent."""
        self.processor.shutdown(0)
        self.books.close()

    def _close_books(self, say: Tell, metrics_s: float) -> None:
        """Send the sums, say what a person should know of the books, and give everything back."""
        if self._metrics is not None:
            report = self._metrics.send(self.books.services, time.monotonic() + metrics_s)
            self._metrics.close()
            if report.problem:
                say(report.problem)
        for line in self.books.lines():
            say(line)
        self.books.close()

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

    def __init__(self, processor: TwoLaneSpanProcessor, spool: Path | None, metrics: OtlpSettings | None) -> None:
        super().__init__(processor, spool, metrics)
        self._pump = MetricsPump(self._metrics, self.books.services.copy) if self._metrics is not None else None
        self._keepers: list[LiveKeeper] = []

    def accounts(self) -> RunAccounts:
        """Make the accounts of an input."""
        poke = self._pump.poke if self._pump is not None else lambda: None
        keeper = LiveKeeper(self.books, self.processor.stats, durable=self._spool is not None, on_count=poke)
        self._keepers.append(keeper)
        keeper.accounts = RunAccounts(keeper)
        return keeper.accounts

    def gate(self, accounts: RunAccounts) -> SpanProcessor:
        """Make what the input's provider hands its spans to."""
        return LiveGate(accounts, self.processor)

    def finish(self, tell: Tell, say: Tell) -> None:
        """Wait, a bounded time, for what is on its way, and shut down.

        Args:
            tell: Takes lines about what is not delivered.
            say: Takes lines that are no trouble.

        """
        done = self._flush_while_moving(FINISH_QUIET_S, FINISH_S)
        self.processor.shutdown(None if done else 0)
        for keeper in self._keepers:
            keeper.settle(last=True)
        self._tell_rest(tell)
        if self._pump is not None:
            self._pump.close()
        self._close_books(say, FINISH_QUIET_S if done else METRICS_AFTER_TROUBLE_S)


class RunOutlet(Outlet):
    """Sends whole runs, waits for room, gives up after `timeout_s` without any delivery."""

    def __init__(  # noqa: PLR0913 - the parts of one command
        self,
        processor: TwoLaneSpanProcessor,
        spool: Path | None,
        metrics: OtlpSettings | None,
        *,
        timeout_s: float,
        room: int,
        again: bool,
    ) -> None:
        super().__init__(processor, spool, metrics, again=again)
        self._timeout_s = timeout_s
        self._room = room
        self._under_way = 0
        self._gave_up = False
        self._unsent_runs = 0
        self._begun: RunAccount | None = None
        self._handed: list[tuple[RunAccount, Service]] = []
        self._lost = 0

    def accounts(self) -> RunAccounts:
        """Make the accounts of an input."""
        return RunAccounts()

    def send(self, run: CollectedRun, accounts: RunAccounts) -> None:
        """Hand over a run that is not in the ledger. Blocks while there is no room; later runs are only counted."""
        account = accounts.of(run.root)
        if account is not None:
            accounts.forget(account)
            if self._gave_up:
                self._unsent_runs += not self.books.stands(account)
            elif (spans := self.books.admit(account, run.kept)) is not None:
                self._hand_over(account, spans, accounts.service)
        run.kept.clear()

    def _hand_over(self, account: RunAccount, spans: Sequence[ReadableSpan], service: Service) -> None:
        self._begun = account
        for span in spans:
            if self._under_way >= self._room and not self._flush():
                return
            self.processor.on_end(span)
            self._under_way += 1
        self._begun = None
        self._handed.append((account, service))

    def finish(self, tell: Tell, say: Tell) -> None:
        """Wait until all is delivered, or nothing has been for too long, and shut down.

        Args:
            tell: Takes lines about what is not delivered.
            say: Takes lines that are no trouble.

        """
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
        self._close_books(say, METRICS_AFTER_TROUBLE_S if self._gave_up else FINISH_S)

    def _flush(self) -> bool:
        """Wait for what is under way; gives up where nothing moves any more."""
        delivered = self._flush_while_moving(self._timeout_s)
        stats = self.processor.stats()
        lanes = (stats.priority, stats.trace)
        lost = sum(sum(reasons.values()) for lane in lanes for reasons in (lane.dropped, lane.failed))
        if delivered and lost == self._lost:
            for account, service in self._handed:
                self.books.delivered(account, service)
        else:
            given_back = [account for account, _ in self._handed]
            self._gave_up = not delivered
            if self._gave_up:
                given_back += [self._begun] if self._begun is not None else []
                self._begun = None
                self._unsent_runs += len(given_back)
            self.books.given_back(given_back)
        self._lost = lost
        self._handed.clear()
        self._under_way = 0
        return delivered


def open_run_outlet(send: SendOptions, *, again: bool) -> RunOutlet | None:
    """Make what `replay --export` sends through; None if the SDK is switched off.

    Args:
        send: Where to.
        again: Send runs that were sent before, too.

    Raises:
        WrongUseError: there is no endpoint, or a setting cannot work.

    """
    if send.endpoint is None and not endpoint_is_set():
        raise WrongUseError("--export needs to know where to: give --endpoint URL or set OTEL_EXPORTER_OTLP_ENDPOINT")
    if _switched_off():
        return None
    # Nobody waits for a replay but the person who started it, and the waiting is done run by run, in `send`.
    processor = _processor(send, send.spool, priority_wait_s=0.0)
    room = max(_queue_size() // 2, 1)
    return RunOutlet(processor, send.spool, _metrics(send), timeout_s=send.timeout_s, room=room, again=again)


def open_live_outlet(send: SendOptions) -> LiveOutlet | None:
    """Make what `ingest` sends through once an endpoint is set; None if the SDK is switched off.

    Raises:
        WrongUseError: a setting cannot work.

    """
    if _switched_off():
        return None
    spool = send.spool or default_spool()
    return LiveOutlet(_processor(send, spool, priority_wait_s=LIVE_WAIT_S), spool, _metrics(send))


def default_spool() -> Path:
    """Say where live commands keep what is not delivered yet."""
    return state_folder() / "spool"


def _processor(send: SendOptions, spool: Path | None, *, priority_wait_s: float) -> TwoLaneSpanProcessor:
    try:
        return TwoLaneSpanProcessor(endpoint=send.endpoint, spool=spool, priority_wait_s=priority_wait_s)
    except ConfigError as error:
        raise WrongUseError(str(error)) from error


def _metrics(send: SendOptions) -> OtlpSettings | None:
    """Read where metrics go; a mistake there is no reason to send no spans."""
    try:
        return metrics_settings(send.endpoint)
    except ConfigError as error:
        complain(f"no metrics are sent: {error}")
        return None


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
