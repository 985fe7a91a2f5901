"""`compass-otel advise < messages.json`: the advisor for a host in any language.

The input is one JSON document: a list of messages, or an object:

    {"messages": [...],             the request's messages (or "input", as Responses calls them)
     "model": "provider/id",        or {"provider", "id", "contextWindow"}: where the request goes
     "now": 1790000000000,          milliseconds since the epoch, or ISO 8601; else the clock
     "failure": {"message", "status", "provider", "model", "at", "retries"}}

Lists of Pi and omp carry their failed answers, so they need no more than the messages. For a host whose lists never do,
`failure` says how the last run ended: the error text (any JSON value), and what else is known of it; `at` as `now`.
Notes that need more than one look (compaction, commands) are the library's: `compass_otel.advisor.ErrorAdvisor`.
"""

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from compass_otel.advisor import ErrorAdvisor, Note
from compass_otel.advisor_causes import NS_PER_MS, field, model_of, timestamp_ms
from compass_otel.events import AssistantMessage, MessageEnded, PromptSettled, RetryScheduled
from compass_otel.exits import Exit, WrongUseError, complain, end_stdout
from compass_otel.renderers import HostFormat, render, render_text

_TEXT: Final = "text"


def add_advise_parser(parser: ArgumentParser) -> None:
    """Declare the arguments of `compass-otel advise` on its own parser."""
    parser.add_argument("file", nargs="?", default="-", help="the messages, as JSON; - reads standard input (default)")
    parser.add_argument(
        "--format",
        choices=[_TEXT, *(each.value for each in HostFormat)],
        default=_TEXT,
        help="text: one note a line (default); otherwise a JSON list of messages in that host's format",
    )
    parser.add_argument("--whole", action="store_true", help="print the whole list, ready to be sent; not with text")
    parser.add_argument("--model", help="the model that the request goes to: provider/id; overrides the document")
    parser.add_argument("--now", help="milliseconds since the epoch or ISO 8601, in place of the clock")


def run(args: Namespace) -> int:
    """Print what the next request must tell the model.

    Args:
        args: the parsed arguments of `add_advise_parser`.

    Returns:
        `Exit.OK`, with or without notes; `Exit.TROUBLE` if the input is not such a document.

    Raises:
        WrongUseError: `--now` is no moment.

    """
    try:
        document = json.loads(_read(args.file))
    except (OSError, ValueError, RecursionError) as error:
        # The reason alone: a decoder's message may repeat the input, and the input is a conversation.
        complain(f"advise: {args.file} cannot be read as JSON: {type(error).__name__}")
        return Exit.TROUBLE
    messages = _messages(document)
    if messages is None:
        complain("advise: neither a list of messages nor an object with `messages`")
        return Exit.TROUBLE
    model = args.model or field(document, "model")
    told_ns = _moment_ns(args.now)
    if args.now is not None and told_ns is None:
        raise WrongUseError(f"--now {args.now!r} is no moment: give milliseconds since the epoch or ISO 8601")
    now_ns = told_ns or _moment_ns(field(document, "now")) or time.time_ns()
    notes = _notes(document, messages, model, now_ns)
    try:
        _print(notes, messages, args, now_ns)
    except OSError as error:
        trouble = end_stdout(error)
        if trouble is not None:
            complain(f"advise: {trouble}")
            return Exit.TROUBLE
    return Exit.OK


def _read(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


def _messages(document: object) -> Sequence[Any] | str | None:
    found = document if isinstance(document, list) else field(document, "messages") or field(document, "input")
    return found if isinstance(found, list | str) else None


def _notes(document: object, messages: Sequence[Any] | str, model: object, now_ns: int) -> tuple[Note, ...]:
    failure = field(document, "failure")
    advisor = ErrorAdvisor(lists_carry_failures=not isinstance(failure, Mapping))
    if isinstance(failure, Mapping):
        _tell(advisor, failure, now_ns)
    return advisor.advise(messages, model, now_ns)


def _tell(advisor: ErrorAdvisor, failure: Mapping[str, Any], now_ns: int) -> None:
    """Let `advisor` observe a run that ended in `failure`."""
    at_ns = _moment_ns(failure.get("at")) or now_ns
    failed_on, status, retries = model_of(failure), failure.get("status"), failure.get("retries")
    answer = AssistantMessage(
        provider=failed_on.provider,
        model=failed_on.name,
        stop_reason="error",
        error_message=failure.get("message"),
        error_status=status if isinstance(status, int) else None,
    )
    if isinstance(retries, int) and retries > 0:
        advisor.observe(MessageEnded(at_ns, answer))
        advisor.observe(RetryScheduled(at_ns=at_ns, attempt=retries))
    advisor.observe(MessageEnded(at_ns, answer))
    advisor.observe(PromptSettled(at_ns=at_ns))


def _moment_ns(value: object) -> int | None:
    text = int(value) if isinstance(value, str) and value.isdecimal() else value
    stamp_ms = timestamp_ms({"timestamp": text})
    return stamp_ms * NS_PER_MS if stamp_ms is not None else None


def _print(notes: Sequence[Note], messages: Sequence[Any] | str, args: Namespace, now_ns: int) -> None:
    if args.format == _TEXT:
        text = render_text(notes)
    elif args.whole:
        text = json.dumps(render(messages, notes, HostFormat(args.format)))
    else:
        # From an empty list only the notes' own message comes back, and Pi's carries the time of this request.
        start = [{"role": "user", "timestamp": now_ns // NS_PER_MS}] if args.format == HostFormat.PI else []
        text = json.dumps(render(start, notes, HostFormat(args.format))[len(start) :])
    if text:
        sys.stdout.buffer.write(f"{text}\n".encode())
        sys.stdout.buffer.flush()
