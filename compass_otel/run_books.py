"""RunBooks: the ledger of runs and the commands' sums, kept together: a run is entered and counted in one transaction.

Readers of files ask when they have a whole run, and enter it once it was delivered: `admit`, then `delivered` or
`given_back`; those that follow a growing file claim a run when they see it begin, too: `FollowKeeper`. Live commands
ask when a run begins and count as it goes: `LiveKeeper`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from compass_otel import semconv
from compass_otel.ledger_rows import Reader, Standing
from compass_otel.metric_sums import MetricSums
from compass_otel.run_ledger import RunLedger
from compass_otel.same_run import once_more
from compass_otel.state_store import StateStore
from compass_otel.summed_metrics import Increments
from compass_otel.view_text import count_words

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan  # noqa: TID251  # the type alone

    from compass_otel.metric_sums import Service
    from compass_otel.run_accounts import RunAccount, RunAccounts
    from compass_otel.stats import Stats

_SKIPPED: Final = {
    Standing.SENT: "{runs} skipped: sent before; --again sends them all the same",
    Standing.WAITING: "{runs} skipped: in the spool of a live command; `compass-otel spool flush` sends them",
    Standing.ELSEWHERE: "{runs} skipped: another command is sending them",
}


class RunBooks:
    """What one command knows and writes of runs. Thread-safe as the store is. Never raises because of a file.

    Args:
        folder: The state folder.
        again: A person asks for runs that were sent before, too.

    """

    def __init__(self, folder: Path, *, again: bool = False) -> None:
        self.folder = folder
        self.store = StateStore(folder)
        self.ledger = RunLedger(self.store)
        self.sums = MetricSums(self.store)
        self.services: set[str] = set()
        """Names of the services that this command counted for."""
        self.skipped: Counter[Standing] = Counter()
        """Runs that were not sent, by reason."""
        self._again = again

    def admit(self, account: RunAccount, spans: Sequence[ReadableSpan]) -> Sequence[ReadableSpan] | None:
        """Ask whether a run that was read whole is to be sent.

        Args:
            account: The run.
            spans: Its ended spans.

        Returns:
            What to send, now claimed; None if it is to be skipped, which is counted.

        """
        if account.claimed:
            return spans
        claim = self.ledger.claim(account.facts, Reader.FILE, outcome=account.outcome, again=self._again)
        account.counted = claim.counted
        if claim.standing is not Standing.OURS:
            self.skip(account, claim.standing)
            return None
        return spans if claim.earlier is None else once_more(spans, account.root_id, claim.earlier)

    def skip(self, account: RunAccount, standing: Standing) -> None:
        """Count a run that is not sent."""
        account.sent = False
        self.skipped[standing] += 1

    def delivered(self, account: RunAccount, service: Service) -> None:
        """Enter a run whose last span was acknowledged, and count it unless that was done."""
        outcome = account.outcome or semconv.Outcome.COMPLETED.value
        self.count(account, service, lambda also: self.ledger.enter(account.facts, outcome, account.whole, also))

    def stands(self, account: RunAccount) -> bool:
        """Whether a run that is not being sent any more had been sent before; then it is counted as skipped."""
        entry = self.ledger.known(account.facts.key)
        if entry is None or entry.standing not in (Standing.SENT, Standing.WAITING) or self._again:
            return False
        self.skip(account, entry.standing)
        return True

    def given_back(self, accounts: Iterable[RunAccount]) -> None:
        """Release what was not delivered: it is neither entered nor counted."""
        self.ledger.release(account.facts.key for account in accounts)

    def lines(self) -> list[str]:
        """Give what a person should know: runs that were skipped, trouble with the folder; each line once."""
        told, self.skipped = self.skipped, Counter()
        lines = [_SKIPPED[standing].format(runs=count_words(count, "run")) for standing, count in told.items() if count]
        return [*lines, *self.store.take_warnings()]

    def close(self) -> None:
        """Give everything back; idempotent."""
        self.ledger.close()
        self.store.close()

    def count(
        self,
        account: RunAccount,
        service: Service,
        change: Callable[[Callable[[sqlite3.Connection], object]], object],
    ) -> None:
        """Change the ledger, and add what was measured in the same transaction, unless that was done.

        Args:
            account: The run.
            service: Whose it is.
            change: Makes the change, and calls what it gets within the transaction.

        """
        grown, account.measured = account.measured, Increments()

        def count(connection: sqlite3.Connection) -> None:
            if not account.counted:
                self.sums.add(connection, service, grown)
                self.ledger.mark_counted(connection, account.facts.key)

        change(count)
        if grown and not account.counted:
            self.services.add(service.name)


class FollowKeeper:
    """Claims runs for a reader that follows files, as soon as they begin; an `AccountKeeper`. Not thread-safe.

    What is not to be had then is asked for again by `RunBooks.admit`, when its end is known.
    """

    def __init__(self, books: RunBooks) -> None:
        self._books = books

    def opened(self, account: RunAccount) -> None:
        """Claim a run that begins."""
        claim = self._books.ledger.claim(account.facts, Reader.FILE)
        account.claimed, account.counted = claim.standing is Standing.OURS, claim.counted

    def recorded(self, account: RunAccount) -> None:
        """Do nothing: what was measured is counted when the run is delivered."""


class LiveKeeper:
    """Keeps the books of a live command as its runs happen; an `AccountKeeper`. Not thread-safe.

    What is read live is happening now: it is counted, whatever stands in the ledger, unless it is not sent.

    Args:
        books: The books.
        stats: What became of the spans so far.
        durable: A spool keeps run spans through the death of this process.
        on_count: Called when there is something new to send.

    """

    def __init__(
        self, books: RunBooks, stats: Callable[[], Stats], *, durable: bool, on_count: Callable[[], object]
    ) -> None:
        self.accounts: RunAccounts | None = None
        self._books = books
        self._stats = stats
        self._durable = durable
        self._on_count = on_count
        self._ended: list[RunAccount] = []
        self._lost = 0

    def opened(self, account: RunAccount) -> None:
        """Claim a run that begins; settle those before it, if all that was handed over is delivered."""
        self.settle()
        claim = self._books.ledger.claim(account.facts, Reader.STREAM, durable=self._durable)
        if claim.standing is not Standing.OURS:
            self._books.skip(account, claim.standing)

    def recorded(self, account: RunAccount) -> None:
        """Count at once what must be seen at once: session errors, and runs that ended."""
        if not account.sent:
            account.measured = Increments()
            return
        books, service = self._books, self._service()
        if account.outcome is not None:
            outcome = account.outcome
            books.count(account, service, lambda also: books.ledger.ended(account.facts, outcome, also))
            self._ended.append(account)
        elif semconv.METRIC_SESSION_ERRORS in account.measured.names():
            books.count(account, service, books.store.change)
        else:
            return
        self._on_count()

    def settle(self, *, last: bool = False) -> None:
        """Enter the runs that ended, if everything that was handed over is delivered.

        Args:
            last: Nothing more is delivered by this process. Then what its spool keeps stays claimed until the books are
                closed, and what was lost is given back.

        """
        if not self._ended:
            return
        stats = self._stats()
        lost = sum(stats.priority.failed.values()) + sum(stats.priority.rejected.values())
        waits = stats.priority.undelivered if last else stats.priority.undelivered + stats.trace.undelivered
        if waits and not (last and lost > self._lost):
            return
        ended, self._ended = self._ended, []
        if lost > self._lost:
            self._books.given_back(ended)
        else:
            for account in ended:
                self._books.delivered(account, self._service())
        self._lost = lost

    def _service(self) -> Service:
        assert self.accounts is not None  # noqa: S101 - set where both are made
        return self.accounts.service
