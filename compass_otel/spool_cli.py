"""`compass-otel spool`: the state of a spool, sending what waits, closing what dead processes left, each record."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from compass_otel.exits import Exit, complain
from compass_otel.scrubbing import scrub
from compass_otel.spool_file import SpoolError
from compass_otel.state_folder import state_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from compass_otel.spool_admin import FlushResult, ShownRecord, SpoolStatus

_DEFAULT_TIMEOUT_S: Final = 30.0
_NAME_COLUMNS: Final = 40
_EXAMPLES: Final = """\
examples:
  compass-otel spool status                 how much waits, and for whom
  compass-otel spool flush --endpoint http://localhost:4318
  compass-otel spool show --set-aside       what a backend refused for good
  compass-otel spool recover /var/spool/my-service
"""


def add_spool_parser(parser: ArgumentParser) -> None:
    """Declare the arguments of `compass-otel spool` on its own parser."""
    parser.epilog = _EXAMPLES
    parser.formatter_class = RawDescriptionHelpFormatter
    actions = parser.add_subparsers(dest="spool_command", required=True, metavar="ACTION", title="actions")
    for name, help_ in (
        ("status", "say how much waits; changes nothing"),
        ("flush", "send what waits, of living processes too"),
        ("recover", "close the runs that dead processes left open; sends nothing"),
        ("show", "show each record"),
    ):
        action = actions.add_parser(name, help=help_, description=help_[0].upper() + help_[1:] + ".")
        action.add_argument(
            "folder", nargs="?", type=Path, metavar="DIR", help="the spool's folder; else the one of the commands"
        )
        action.add_argument("--json", action="store_true", help="one JSON object a line, for scripts")
        if name == "flush":
            action.add_argument("--endpoint", metavar="URL", help="where to; else the OTEL_EXPORTER_OTLP_* variables")
            action.add_argument("--protocol", choices=("http/protobuf", "grpc"), help="else the variables decide")
            action.add_argument(
                "--timeout",
                type=_seconds,
                default=_DEFAULT_TIMEOUT_S,
                metavar="SECONDS",
                help=f"give up after so long (default {_DEFAULT_TIMEOUT_S:g})",
            )
        if name == "show":
            action.add_argument("--set-aside", action="store_true", help="what a backend refused for good")


def run(args: Namespace) -> int:
    """Do what `compass-otel spool` was asked for.

    Args:
        args: The parsed arguments of `add_spool_parser`.

    Returns:
        `Exit.OK`; `Exit.TROUBLE` if the spool can't be used, or `flush` could not send everything.

    """
    folder = args.folder if args.folder is not None else state_folder() / "spool"
    actions: dict[str, Callable[[Path, Namespace], int]] = {
        "status": _status,
        "flush": _flush,
        "recover": _recover,
        "show": _show,
    }
    try:
        return actions[args.spool_command](folder, args)
    except SpoolError as error:
        complain(scrub(f"spool: {folder}: {error}"))
        return Exit.TROUBLE


def _status(folder: Path, args: Namespace) -> int:
    from compass_otel.spool_admin import status  # noqa: PLC0415 - --help must be quick

    found = status(folder)
    if args.json:
        _print_json(found)
        return Exit.OK
    _print(f"spool {folder}" + ("" if found.exists else ": empty, nothing was ever kept here"))
    if found.exists:
        for line in _status_lines(found):
            _print(f"  {line}")
    for name in found.unreadable:
        _print(f"  unreadable file, set aside: {name}")
    return Exit.OK


def _status_lines(found: SpoolStatus) -> list[str]:
    ranks = ", ".join(f"{number} {rank.replace('_', ' ')}" for rank, number in sorted(found.by_rank.items()))
    oldest = f"; the oldest for {_age(found.oldest_at_ns)}" if found.oldest_at_ns is not None else ""
    bound = f" of {_bytes(found.bound_bytes)}" if found.bound_bytes else ""
    lost = [f"LOST at the bound: {found.given_up}, the last {_age((found.given_up_at_s or 0) * 10**9)} ago"]
    return [
        f"waiting: {found.waiting}" + (f" ({ranks}){oldest}" if found.waiting else ""),
        f"set aside, refused by a backend: {found.set_aside}",
        f"open runs: {found.open_runs}",
        f"size: {_bytes(found.size_bytes)}{bound}",
        f"processes: {found.living_owners} living, {found.dead_owners} dead"
        + (" (the next process, or `spool recover`, takes over)" if found.dead_owners else ""),
        *(lost if found.given_up else []),
    ]


def _flush(folder: Path, args: Namespace) -> int:
    from compass_otel.otlp_settings import load_settings  # noqa: PLC0415 - --help must be quick
    from compass_otel.sender import make_sender  # noqa: PLC0415 - same
    from compass_otel.spool_admin import FlushResult, flush, status  # noqa: PLC0415 - same

    if not status(folder).exists:
        result = FlushResult()
    else:
        sender = make_sender(load_settings(endpoint=args.endpoint, protocol=args.protocol))
        try:
            result = flush(folder, sender, args.timeout)
        finally:
            sender.close()
    if args.json:
        _print_json(result)
    else:
        _print(_flush_line(result))
    return Exit.TROUBLE if result.left or result.rejected else Exit.OK


def _flush_line(result: FlushResult) -> str:
    line = f"{result.delivered} delivered, {result.rejected} refused for good, {result.left} still waiting"
    return f"{line}: {result.reason}" if result.left and result.reason else line


def _recover(folder: Path, args: Namespace) -> int:
    from compass_otel.spool_admin import recover, status  # noqa: PLC0415 - --help must be quick

    records = runs = 0
    if status(folder).exists:
        found = recover(folder)
        records, runs = found.records, found.runs
    if args.json:
        _print(json.dumps({"records": records, "runs": runs}))
    else:
        _print(f"{records} records of dead processes taken over, {runs} open runs among them closed as incomplete")
    return Exit.OK


def _show(folder: Path, args: Namespace) -> int:
    from compass_otel.spool_admin import show  # noqa: PLC0415 - --help must be quick

    empty = True
    for record in show(folder, set_aside=args.set_aside):
        empty = False
        if args.json:
            _print_json(record)
        else:
            _print(_record_line(record))
    if not args.json and empty:
        _print("nothing is set aside" if args.set_aside else "nothing waits")
    return Exit.OK


def _record_line(record: ShownRecord) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.at_ns / 1e9))
    if record.unreadable:
        return f"{when}  {record.state}  unreadable: {record.unreadable}"
    facts = [record.error_type, record.status, record.reason]
    details = "  ".join(fact for fact in facts if fact)
    name = record.span_name[:_NAME_COLUMNS]
    return f"{when}  {record.state:9}  {name:{_NAME_COLUMNS}}  {record.service}  trace {record.trace_id}  {details}"


def _print_json(value: Any) -> None:
    _print(json.dumps(asdict(value), ensure_ascii=False))


def _print(line: str) -> None:
    """Write one line; all of them may hold text of others, so all are scrubbed."""
    text = " ".join(scrub(line).splitlines())
    sys.stdout.write(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace").decode() + "\n")


def _age(at_ns: int | None) -> str:
    seconds = max(time.time() - (at_ns or 0) / 1e9, 0.0)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _bytes(number: int) -> str:
    return f"{number / (1 << 20):.1f} MiB" if number >= 1 << 20 else f"{number / 1024:.1f} KiB"


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no time in seconds above 0")
    return value
