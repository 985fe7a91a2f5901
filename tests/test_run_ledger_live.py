"""Live commands and the ledger: a run is claimed at its start, entered when it is delivered, and counted as it goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from command_support import CAPTURES
from compass_otel.events import AssistantMessage, MessageEnded, PromptRefused, UserMessage
from compass_otel.input_pipeline import InputPipeline
from compass_otel.ledger_rows import Reader, RunFacts, Standing, message_key
from compass_otel.live_gate import LiveGate
from compass_otel.metric_sums import Service
from compass_otel.own_provider import own_provider
from compass_otel.run_accounts import RunAccount, RunAccounts
from compass_otel.run_books import FollowKeeper, LiveKeeper, RunBooks
from compass_otel.showing import RunCollector
from compass_otel.sources.reading import open_source
from compass_otel.stats import LaneStats, Stats

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

    from compass_otel.id_generator import DerivedIdGenerator

FAILED = CAPTURES / "pi-1.6" / "f_http_503_exhausted.events.jsonl"
COMPACTED = CAPTURES / "pi-1.6" / "j3_manual_compact.events.jsonl"


class Sink(SpanProcessor):
    """Takes spans, and says of them what it is told to say."""

    def __init__(self) -> None:
        self.started: list[Span] = []
        self.ended: list[ReadableSpan] = []
        self.said = Stats()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's form
        """Take it."""
        self.started.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Take it."""
        self.ended.append(span)

    def stats(self) -> Stats:
        """Say what became of them."""
        return self.said


@dataclass
class Live:
    """One live command over a state folder."""

    folder: Path
    durable: bool = True
    sink: Sink = field(default_factory=Sink)
    pokes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open the books."""
        self.books = RunBooks(self.folder)
        self.keeper = LiveKeeper(
            self.books, self.sink.stats, durable=self.durable, on_count=lambda: self.pokes.append("new")
        )
        self.accounts = self.keeper.accounts = RunAccounts(self.keeper)

    def provider(self, agent: str, ids: DerivedIdGenerator) -> TracerProvider:
        """Make the provider of the input."""
        provider = own_provider(agent, [RunCollector(), LiveGate(self.accounts, self.sink)], ids=ids, instance_id="i")
        self.accounts.belongs_to(provider.resource.attributes)
        return provider

    def read(self, path: Path, *, lines: int | None = None) -> None:
        """Read a stream, or its first lines and then nothing more."""
        with open_source(str(path)) as reading:
            pipeline = InputPipeline(reading.source, RunCollector(), self.provider, accounts=self.accounts)
            for number, decoded in enumerate(reading):
                if lines is not None and number >= lines:
                    return
                pipeline.handle(decoded)
            pipeline.handle(reading.end())

    def totals(self) -> dict[str, float]:
        """Give the sums by instrument, over all attributes."""
        unsent = self.books.sums.unsent({"pi"})
        totals: dict[str, float] = {}
        for series in unsent.series if unsent is not None else ():
            totals[series.instrument.name] = totals.get(series.instrument.name, 0) + series.total.value
        return totals

    def standing(self) -> Standing | None:
        """Tell how the run of the failing stream stands, as another command sees it."""
        entry = RunBooks(self.folder).ledger.known(failed_key())
        assert entry is not None
        return entry.standing


def failed_key() -> str:
    """Give the key of the one run of the failing stream."""
    with open_source(str(FAILED)) as reading:
        said = [event for decoded in reading for event in decoded if isinstance(event, MessageEnded)]
    message = next(event.message for event in said if isinstance(event.message, UserMessage))
    return message_key(message.timestamp_ms or 0, message.text)


@pytest.fixture(name="live")
def live_command(tmp_path: Path) -> Iterator[Live]:
    """Give a live command."""
    live = Live(tmp_path / "books")
    yield live
    live.books.close()


def test_a_run_is_claimed_at_its_start_and_entered_when_delivered(live: Live) -> None:
    """Not the end of a run puts it into the ledger but the acknowledgement of its last span."""
    live.read(FAILED, lines=8)
    assert live.standing() is Standing.ELSEWHERE
    other = Live(live.folder)
    live.sink.said = Stats(priority=LaneStats(accepted=4, waiting=1, delivered=3))
    live.read(FAILED)
    live.keeper.settle()
    assert live.standing() is Standing.ELSEWHERE
    live.sink.said = Stats(priority=LaneStats(accepted=4, delivered=4))
    live.keeper.settle()
    assert live.standing() is Standing.SENT
    other.books.close()


def test_a_run_whose_trace_spans_are_on_their_way_is_not_entered(live: Live) -> None:
    """The last span may ride either lane."""
    live.sink.said = Stats(trace=LaneStats(accepted=1, waiting=1))
    live.read(FAILED)
    live.keeper.settle()
    assert live.standing() is Standing.ELSEWHERE


def test_what_stays_in_the_spool_at_the_end_is_left_to_it(live: Live) -> None:
    """The collector is down, the command ends: the run waits in the spool, and files are told so."""
    live.read(FAILED)
    live.sink.said = Stats(priority=LaneStats(accepted=4, spooled=4))
    live.keeper.settle(last=True)
    live.books.close()
    assert live.standing() is Standing.WAITING


@pytest.mark.parametrize("durable", [True, False])
def test_what_was_lost_is_given_back(tmp_path: Path, durable: bool) -> None:
    """A run whose priority spans were lost or refused may be sent by whoever reads its file."""
    live = Live(tmp_path / "books", durable=durable)
    live.read(FAILED)
    live.sink.said = Stats(priority=LaneStats(accepted=4, delivered=3, failed={"memory_full": 1}))
    live.keeper.settle(last=True)
    live.books.close()
    assert live.standing() is None


def test_without_a_spool_what_was_not_delivered_is_free_at_the_end(tmp_path: Path) -> None:
    """Nobody keeps it, so nobody must think that somebody does."""
    live = Live(tmp_path / "books", durable=False)
    live.read(FAILED)
    live.sink.said = Stats(priority=LaneStats(accepted=4, waiting=4))
    live.keeper.settle(last=True)
    live.books.close()
    assert live.standing() is None


def test_a_live_command_leaves_a_run_to_a_follower_that_was_faster(live: Live) -> None:
    """What a living reader of files has claimed goes nowhere from here, and is neither counted nor silent."""
    follower = RunBooks(live.folder)
    follower.ledger.claim(RunFacts(failed_key(), "aa" * 16, "bb" * 8), Reader.FILE)
    live.read(FAILED)
    assert live.sink.started == []
    assert live.sink.ended == []
    assert live.totals() == {}
    assert live.books.lines() == ["1 run skipped: another command is sending them"]
    follower.close()


def test_a_follower_claims_at_the_start_and_enters_what_it_delivered(live: Live) -> None:
    """`watch` sees a run begin, so a live command leaves it alone; the follower sends it when it is whole, once."""
    follower = RunBooks(live.folder)
    account = RunAccount(RunFacts(failed_key(), "aa" * 16, "bb" * 8), 1)
    FollowKeeper(follower).opened(account)
    live.read(FAILED)
    assert live.sink.ended == []
    account.outcome = "failed"
    assert follower.admit(account, []) == []
    follower.delivered(account, Service("pi", "{}"))
    second = RunAccount(account.facts, 1, outcome="failed")
    FollowKeeper(follower).opened(second)
    assert follower.admit(second, []) is None
    follower.close()


def test_session_errors_are_counted_before_the_run_ends(live: Live) -> None:
    """A long session's failures are in the sums at once; durations wait for the end of the run."""
    seen: list[float] = []
    for lines in range(4, 60):
        one = Live(live.folder / str(lines))
        one.read(FAILED, lines=lines)
        totals = one.totals()
        one.books.close()
        if totals:
            seen.append(totals["compass.session.errors"])
            assert "compass.runs" not in totals or totals["compass.session.errors"] >= 3
            assert one.pokes
    assert seen[0] == 1
    live.read(FAILED)
    assert live.totals()["compass.runs"] == 1


def test_a_compaction_between_runs_goes_the_way_of_the_run_before(live: Live) -> None:
    """What stands between two runs passes with the first of them, and takes part in its account."""
    live.read(COMPACTED)
    compactions = [span for span in live.sink.ended if span.name == "compact"]
    assert compactions
    assert all(live.accounts.of(span) is not None for span in compactions)


# --- what belongs to which run ---


def event_pipeline(live: Live) -> InputPipeline:
    """Give a pipeline that is fed by hand."""
    with open_source(str(FAILED)) as reading:
        return InputPipeline(reading.source, RunCollector(), live.provider, accounts=live.accounts)


def user(at_ns: int, text: str, stamp: int | None) -> MessageEnded:
    """Give a prompt."""
    return MessageEnded(at_ns, UserMessage(timestamp_ms=stamp, text=text))


def claimed(live: Live) -> list[str]:
    """Give the keys in the ledger, in the order of their claims."""
    rows: Any = live.books.store.change(
        lambda connection: connection.execute("SELECT key FROM run ORDER BY id").fetchall()
    )
    return [key for (key,) in rows]


def test_a_refused_prompt_is_a_run_beside_the_open_one(live: Live) -> None:
    """Its measurements are its own; what follows belongs to the run that goes on."""
    pipeline = event_pipeline(live)
    pipeline.handle([user(10**18, "go", 10**12), PromptRefused(at_ns=10**18 + 1, error_message="busy")])
    first, refused = claimed(live)
    assert first == message_key(10**12, "go")
    assert refused.startswith("span ")
    assert live.totals()["compass.runs"] == 1
    failed = AssistantMessage(timestamp_ms=10**12 + 5, stop_reason="error", error_message="402 payment required")
    pipeline.handle([MessageEnded(10**18 + 2, failed)])
    assert live.totals()["compass.session.errors"] == 2
    assert live.totals()["compass.runs"] == 1
    pipeline.close()
    assert live.totals()["compass.runs"] == 2


def test_two_runs_that_nothing_but_their_time_tells_apart_are_two(live: Live) -> None:
    """Prompts without a timestamp, or refused ones, never hide each other: a failure too many beats one too few."""
    other = Live(live.folder)
    for each, at_ns in ((live, 10**18), (other, 10**18 + 1)):
        event_pipeline(each).handle([user(at_ns, "same", None), PromptRefused(at_ns=at_ns, error_message="busy")])
    assert len(claimed(live)) == len(set(claimed(live))) == 4
    other.books.close()
