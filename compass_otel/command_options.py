"""The options of `replay` and `ingest`: their declaration, their values, and the combinations that make no sense."""

import argparse
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from compass_otel.exits import WrongUseError

STDIO: Final = "-"
DEFAULT_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """What both commands show, and how they end."""

    failures_only: bool = False
    as_json: bool = False
    frames: str | None = None
    """Where `AgentSessionFrame`s go: a path, `-` for standard output, None for nowhere."""
    fail_on: str | None = None
    """`failed`, `cancelled` or None."""


@dataclass(frozen=True, slots=True)
class SendOptions:
    """Where spans are sent, beyond what the standard environment variables say."""

    endpoint: str | None = None
    spool: Path | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    """How long to go on without any delivery, seconds."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The command line of `replay`."""

    paths: tuple[str, ...] = ()
    show: ShowOptions = ShowOptions()
    send: SendOptions | None = None
    """None: nothing is sent and no socket opened."""
    again: bool = False
    html: str | None = None
    """Where the page goes: a path, `-` for standard output, None for nowhere."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """The command line of `ingest`."""

    show: ShowOptions = ShowOptions()
    send: SendOptions = SendOptions()
    tee: bool = False


def add_replay_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of `replay`."""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="file or folder; - is standard input; without one, the newest session of the agents on this machine",
    )
    _add_show_arguments(parser)
    parser.add_argument(
        "--html", metavar="FILE", help="write one HTML page with all runs, for any browser; - is standard output"
    )
    sending = parser.add_argument_group("sending to a backend")
    sending.add_argument(
        "--export", action="store_true", help="send the spans over OTLP; without it no socket is opened"
    )
    _add_send_arguments(sending)
    sending.add_argument(
        "--timeout",
        type=_seconds,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="give up after so long without any delivery (default 60)",
    )
    sending.add_argument("--again", action="store_true", help="send runs that were sent before, too")


def add_ingest_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of `ingest`."""
    _add_show_arguments(parser)
    parser.add_argument("--tee", action="store_true", help="pass the input through to standard output, unchanged")
    sending = parser.add_argument_group("sending to a backend (whenever an endpoint is set)")
    _add_send_arguments(sending)


def _add_show_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--failures", action="store_true", help="show failed, cancelled and incomplete runs only")
    parser.add_argument("--json", action="store_true", help="JSON Lines: one object per input, for scripts")
    parser.add_argument(
        "--frames", metavar="FILE", help="write AgentSessionFrame messages as protobuf-JSON lines; - is standard output"
    )
    parser.add_argument(
        "--fail-on",
        choices=("failed", "cancelled"),
        help="exit with 3 if a run failed or is incomplete; cancelled: also with 4 if one was cancelled",
    )


def _add_send_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--endpoint",
        metavar="URL",
        help="where to, e.g. http://localhost:4318; else the OTEL_EXPORTER_OTLP_* variables decide",
    )
    group.add_argument("--spool", metavar="DIR", type=Path, help="keep what is not delivered yet in this folder")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no time in seconds above 0")
    return value


def replay_options(parsed: Namespace) -> ReplayOptions:
    """Read the parsed arguments of `replay`. Raises WrongUseError."""
    show = _show_options(parsed)
    if not parsed.export and (parsed.endpoint or parsed.spool or parsed.again):
        raise WrongUseError("--endpoint, --spool and --again say how to send: add --export")
    if parsed.html == STDIO and (show.as_json or show.frames == STDIO):
        raise WrongUseError("--html - needs standard output for itself: give --html a file, or the others")
    send = _send_options(parsed, parsed.timeout) if parsed.export else None
    return ReplayOptions(tuple(parsed.paths), show, send, parsed.again, parsed.html)


def ingest_options(parsed: Namespace) -> IngestOptions:
    """Read the parsed arguments of `ingest`. Raises WrongUseError."""
    show = _show_options(parsed)
    if parsed.tee and (show.as_json or show.frames == STDIO):
        raise WrongUseError("--tee needs standard output for itself: leave out --json, give --frames a file")
    return IngestOptions(show, _send_options(parsed, DEFAULT_TIMEOUT_S), parsed.tee)


def _show_options(parsed: Namespace) -> ShowOptions:
    if parsed.json and parsed.frames == STDIO:
        raise WrongUseError("--json and --frames - both want standard output: give --frames a file")
    return ShowOptions(parsed.failures, parsed.json, parsed.frames, parsed.fail_on)


def _send_options(parsed: Namespace, timeout_s: float) -> SendOptions:
    if parsed.endpoint is not None:
        check_endpoint(parsed.endpoint)
    return SendOptions(parsed.endpoint, parsed.spool, timeout_s)


def check_endpoint(url: str) -> None:
    """Refuse what is no address at all. Raises WrongUseError."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise WrongUseError(f"--endpoint {url!r} is no address: it looks like http://localhost:4318")
