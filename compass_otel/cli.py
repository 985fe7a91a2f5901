"""The command `compass-otel`: parses, calls, gives the exit status; a command imports what it needs when it runs."""

import os
import sys
from argparse import Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from compass_otel.exits import EXIT_HELP, MISSING_EXTRA, PROGRAM, Exit, WrongUseError, clean, complain

_DESCRIPTION: Final = """\
See what a coding agent did, failures first: in the terminal without any backend,
and over OTLP in the backend you have.
"""
_EXAMPLES: Final = f"""\
examples:
  {PROGRAM} replay                        the newest session on this machine
  {PROGRAM} replay --failures sessions/   what went wrong in a folder of sessions
  pi --mode json "fix the tests" | {PROGRAM} ingest
  {PROGRAM} replay --export --endpoint http://localhost:4318 session.jsonl

{EXIT_HELP}"""


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its line in the overview, what declares its arguments, what runs it."""

    summary: str
    declare: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    epilog: str = EXIT_HELP


def _declare_replay(parser: ArgumentParser) -> None:
    from compass_otel.command_options import add_replay_arguments  # noqa: PLC0415  # --help must be quick

    add_replay_arguments(parser)


def _run_replay(parsed: Namespace) -> int:
    from compass_otel.command_options import replay_options  # noqa: PLC0415  # same

    options = replay_options(parsed)
    from compass_otel.replay import run  # noqa: PLC0415  # same

    return run(options)


def _declare_ingest(parser: ArgumentParser) -> None:
    from compass_otel.command_options import add_ingest_arguments  # noqa: PLC0415  # same

    add_ingest_arguments(parser)


def _run_ingest(parsed: Namespace) -> int:
    from compass_otel.command_options import ingest_options  # noqa: PLC0415  # same

    options = ingest_options(parsed)
    from compass_otel.ingest import run  # noqa: PLC0415  # same

    return run(options)


def _declare_spool(parser: ArgumentParser) -> None:
    from compass_otel.spool_cli import add_spool_parser  # noqa: PLC0415  # same

    add_spool_parser(parser)


def _run_spool(parsed: Namespace) -> int:
    from compass_otel.spool_cli import run  # noqa: PLC0415  # same

    return run(parsed)


def _declare_advise(parser: ArgumentParser) -> None:
    from compass_otel.advise_cli import add_advise_parser  # noqa: PLC0415  # same

    add_advise_parser(parser)


def _run_advise(parsed: Namespace) -> int:
    from compass_otel.advise_cli import run  # noqa: PLC0415  # same

    return run(parsed)


COMMANDS: Final = {
    "replay": Command("show recorded streams and session files", _declare_replay, _run_replay),
    "ingest": Command("show a live stream from standard input", _declare_ingest, _run_ingest),
    "advise": Command("say what the next request must tell the model", _declare_advise, _run_advise),
    "spool": Command("look into the spool, send what waits", _declare_spool, _run_spool),
}


def _open_missing_streams() -> None:
    """Let a standard stream that the caller closed (`<&-`) be one that is empty and keeps nothing."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115  # for as long as we live


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv*, without the program's name; None takes that of the process.

    Returns:
        The exit status, see `compass_otel.exits`. Wrong use found by the parser exits the process with 2.

    """
    # gRPC writes handshakes that failed to standard error, on its own; the command says it in one line that helps.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    _open_missing_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    parsed = _parser(arguments).parse_args(arguments)
    try:
        return COMMANDS[parsed.command].run(parsed)
    except WrongUseError as wrong:
        complain(str(wrong))
        return Exit.WRONG_USE
    except KeyboardInterrupt:
        complain("interrupted")
        return Exit.TROUBLE
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != "rich":
            raise
        complain(MISSING_EXTRA)
        return Exit.WRONG_USE


class _Parser(ArgumentParser):
    """A parser whose complaints are cleaned of secrets: they repeat what was typed."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(Exit.WRONG_USE, f"{self.prog}: error: {clean(message)}\n")


def _parser(arguments: Sequence[str]) -> ArgumentParser:
    """Build the parser; only the command that is asked for declares its arguments, the others cost nothing."""
    parser = _Parser(
        prog=PROGRAM, description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    wanted = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=command.summary,
            description=command.summary[0].upper() + command.summary[1:] + ".",
            epilog=command.epilog,
            formatter_class=RawDescriptionHelpFormatter,
        )
        if name == wanted:
            command.declare(sub)
    return parser


class _ShowVersion(Action):
    """Looks the version up only when it is asked for: the look-up takes longer than the rest of `--help`."""

    def __call__(self, parser: ArgumentParser, *_unused: object) -> NoReturn:
        from importlib.metadata import version  # noqa: PLC0415  # see above

        parser.exit(message=f"{PROGRAM} {version(PROGRAM)}\n")
