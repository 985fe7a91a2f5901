"""Rows: a process that is killed, that ends in any other way, or gets a signal in the middle of a flush."""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from faults.driver import PROTOCOLS, Host, deliver_rest, endpoint_of, names_in
from faults.pipeline import Setup
from faults.report import OURS, PLAIN, Report
from faults.work_ends import ENDS
from receivers import Mode, Receiver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_EXIT_S: Final = 2.0
_SLACK_S: Final = 0.8  # from the end of the exit hooks to the end of the process, on a busy machine
_ORDERLY: Final = ("normal exit", "sys.exit", "sys.exit in a thread", "unhandled exception", "SIGINT")


@contextmanager
def nobody() -> Iterator[str]:
    """Give an HTTP address that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1/traces"


def kills(times: int = 200, protocols: Sequence[str] = PROTOCOLS) -> Report:
    """SIGKILL right after a failure ended, receiver up and down."""
    report = Report(
        f"SIGKILL right after a failure ended, {times} times",
        ("processor", "protocol", "receiver", "killed", "delivered before the next start", "after it", "arrived twice"),
    )
    for protocol in protocols:
        for up in (True, False):
            for plain in (True, False):
                _kill(report, protocol, times, up=up, plain=plain)
    return report


def _kill(report: Report, protocol: str, times: int, *, up: bool, plain: bool) -> None:
    with Receiver() as receiver, nobody() as closed, tempfile.TemporaryDirectory() as folder:
        endpoint = endpoint_of(receiver, protocol) if up else closed.removesuffix("/v1/traces" * (protocol == "grpc"))
        setup = Setup("kills", endpoint, protocol, plain, None if plain else folder, options={"times": times})
        host = Host(setup)
        host.wait_ready()
        killed = host.result(30 + times * 2)["killed"]
        before = len(names_in(receiver))
        if not plain:
            deliver_rest(receiver, Path(folder))
        stored = names_in(receiver)
    twice = sum(stored.values()) - len(stored)
    where = "up" if up else "down"
    report.add(PLAIN if plain else OURS, protocol, where, killed, before, len(stored) if not plain else "never", twice)
    if not plain:
        report.expect(killed == times, f"{protocol}, {where}: {killed} of {times} were killed as meant")
        report.expect(len(stored) == times, f"{protocol}, {where}: {len(stored)} of {times} delivered")
        # A process is killed with one record in flight at most: its own, or the one of the process before it.
        report.expect(twice <= (times if up else 0), f"{protocol}, {where}: {twice} arrived twice")


def runs(times: int = 50) -> Report:
    """SIGKILL in the middle of a run."""
    report = Report(
        f"SIGKILL in the middle of a run, {times} times",
        ("processor", "receiver", "killed", "runs delivered", "as incomplete, process_lost", "arrived twice"),
    )
    for up in (True, False):
        for plain in (True, False):
            with Receiver() as receiver, nobody() as closed, tempfile.TemporaryDirectory() as folder:
                endpoint = receiver.http_endpoint if up else closed
                options = {"times": times, "run": True}
                host = Host(Setup("kills", endpoint, plain=plain, spool=None if plain else folder, options=options))
                host.wait_ready()
                killed = host.result(30 + times * 2)["killed"]
                if not plain:
                    deliver_rest(receiver, Path(folder))
                    deliver_rest(receiver, Path(folder))  # once means: not at the start after that either
                found = [span for span in receiver.spans() if span.name.startswith("run")]
            lost = [
                span
                for span in found
                if span.attributes.get("compass.outcome") == "incomplete"
                and span.attributes.get("error.type") == "process_lost"
            ]
            names = Counter(span.name for span in found)
            twice = sum(names.values()) - len(names)
            where = "up" if up else "down"
            report.add(PLAIN if plain else OURS, where, killed, len(names), len(lost), twice)
            if not plain:
                held = (killed, len(names), len(lost)) == (times, times, times + twice)
                report.expect(held, f"{where}: {len(names)} runs, {len(lost)} incomplete, {twice} twice, of {times}")
                # With the receiver up the next start is the next one to be killed, with the run before in flight.
                report.expect(twice <= (times if up else 0), f"{where}: {twice} arrived twice")
    return report


def ends(times: int = 5, names: Sequence[str] = tuple(ENDS), *, plain: bool = True) -> Report:
    """Every other way to end, receiver up, down and hanging."""
    report = Report(
        f"Ends of a process: 5 failures and 20 other spans; ours {times} times each",
        ("end", "receiver", "processor", "longest exit s", "failures delivered", "after the next start", "other spans"),
    )
    for name in names:
        for state in ("up", "down", "hangs"):
            for is_plain in (True, False) if plain else (False,):
                # The plain SDK's exit takes half a minute where nobody answers: once tells it.
                _end(report, name, state, 1 if is_plain else times, plain=is_plain)
    return report


def _end(report: Report, name: str, state: str, times: int, *, plain: bool) -> None:
    with Receiver() as receiver, nobody() as closed, tempfile.TemporaryDirectory() as folder:
        if state == "hangs":
            receiver.behave(Mode("silent"))
        endpoint = closed if state == "down" else receiver.http_endpoint
        longest, before, after, others = 0.0, 0, 0, 0
        for number in range(times):
            spool = None if plain else f"{folder}/{number}"
            host = Host(Setup("ends", endpoint, plain=plain, spool=spool, options={"end": name}))
            begin = host.wait_ready()
            host.wait_end(60)
            longest = max(longest, time.monotonic() - begin)
        stored = names_in(receiver)
        before = sum(count for key, count in stored.items() if key.startswith("E"))
        others = sum(count for key, count in stored.items() if key.startswith("t"))
        if not plain:
            if state == "hangs":
                receiver.restart()
            for number in range(times):
                deliver_rest(receiver, Path(folder) / str(number))
        after = sum(count for key, count in names_in(receiver).items() if key.startswith("E"))
    wanted = times * 5
    delivered, later = f"{before} of {wanted}", "never" if plain else f"{after} of {wanted}"
    figures = (f"{longest:.2f}", delivered, later, f"{others} of {times * 20}")
    report.add(name, state, PLAIN if plain else OURS, *figures)
    if not plain:
        report.expect(after == wanted, f"{name}, {state}: {after} of {wanted} failures after the next start")
        report.expect_in_time(longest < _EXIT_S + _SLACK_S, f"{name}, {state}: the exit took {longest:.2f} s")
        if state == "up" and name in _ORDERLY:
            report.expect(others == times * 20, f"{name}, up: {others} of {times * 20} other spans")


def handlers(*, plain: bool = True) -> Report:
    """Flush or shut down in a signal handler in the middle of a flush or a shutdown; the receiver hangs."""
    report = Report(
        "A signal handler flushes (400 ms) in the middle of a flush (3 s), the receiver hanging",
        ("handler calls", "in the middle of", "processor", "handler took s", "the whole took s"),
    )
    for handler in ("force_flush", "shutdown"):
        for during in ("force_flush", "shutdown"):
            for is_plain in (True, False) if plain else (False,):
                _handle(report, handler, during, plain=is_plain)
    return report


def _handle(report: Report, handler: str, during: str, *, plain: bool) -> None:
    with Receiver() as receiver, tempfile.TemporaryDirectory() as folder:
        receiver.behave(Mode("hang"))
        options = {"handler": handler, "during": during}
        host = Host(Setup("handlers", receiver.http_endpoint, plain=plain, spool=folder, options=options))
        host.wait_ready()
        status, output = host.wait_end(20)
    if status:
        report.add(handler, during, PLAIN if plain else OURS, "never", "killed after 20 s")
        report.expect(plain, f"{handler} in {during}: the process ended with {status} after {host.took_s:.0f} s")
        return

    took = json.loads(output.splitlines()[-1])
    report.add(handler, during, PLAIN if plain else OURS, f"{took['handler_s']:.2f}", f"{took['whole_s']:.2f}")
    if not plain:
        where = f"{handler} in {during}"
        report.expect_in_time(took["handler_s"] < 1.5, f"{where}: the handler took {took['handler_s']:.1f} s")
        report.expect_in_time(took["whole_s"] < 3.9, f"{where}: the whole took {took['whole_s']:.1f} s")
