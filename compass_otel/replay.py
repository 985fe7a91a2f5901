"""`compass-otel replay`: stored streams and session files as trees, JSON or frames, and on request to a backend.

Reads one line at a time and forgets each run once it was shown and sent, so memory does not grow with the input.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import TracerProvider

from compass_otel.collected_run import CollectedRun
from compass_otel.command_options import STDIO, ReplayOptions
from compass_otel.command_output import CommandOutput
from compass_otel.exits import complain, log_to_stderr
from compass_otel.id_generator import DerivedIdGenerator
from compass_otel.input_pipeline import InputPipeline
from compass_otel.jsonout import RecordsObject
from compass_otel.own_provider import own_provider
from compass_otel.progress import Progress
from compass_otel.showing import RunCollector
from compass_otel.sources import Counts
from compass_otel.sources.locations import newest_sessions, session_files, session_folders
from compass_otel.sources.pi_session import History
from compass_otel.sources.reading import NotReadableError, Reading, open_source

if TYPE_CHECKING:
    from compass_otel.command_options import SendOptions
    from compass_otel.exporting import RunOutlet
    from compass_otel.html_page import HtmlPage
    from compass_otel.run_accounts import RunAccounts

_NO_AGENT: Final = (
    "not a stream or session file of Pi or oh-my-pi; give what `pi --mode json` printed, or a session file"
)


@dataclass(frozen=True, slots=True)
class Input:
    """One input to read: its path as the person will know it, and whether it was found rather than named."""

    path: str
    found: bool = False
    size_bytes: int = 0


def run(options: ReplayOptions) -> int:
    """Run the command; give the exit status. Raises WrongUseError."""
    log_to_stderr()
    with contextlib.ExitStack() as stack:
        outlet = _open_outlet(options.send, again=options.again) if options.send else None
        if outlet is not None:
            stack.callback(outlet.abandon)
        target = options.html
        try:
            page = _open_page(target) if target else None
            if page is not None:
                stack.callback(page.abandon)
            target = options.show.frames
            output = CommandOutput(options.show, page=page)
        except OSError as error:
            complain(f"{target}: cannot be written: {error.strerror}")
            return 1
        replay = Replay(output, outlet, wanted_whole=page is not None)
        replay.read(list(replay.inputs(options.paths)))
        if outlet is not None:
            outlet.finish(output.complain, output.say)
        if options.html:
            _finish_page(output, options.html)
        output.close()
        if outlet is not None:
            output.say(outlet.last_line())
        return output.tally.exit_status(options.show.fail_on)


def _open_outlet(send: "SendOptions", *, again: bool) -> "RunOutlet | None":
    from compass_otel.exporting import open_run_outlet  # noqa: PLC0415  # what sends is not loaded to show only

    return open_run_outlet(send, again=again)


def _open_page(target: str) -> "HtmlPage":
    from compass_otel.html_page import HtmlPage  # noqa: PLC0415  # same

    return HtmlPage(target)


def _finish_page(output: CommandOutput, target: str) -> None:
    try:
        output.finish_page()
    except OSError as error:
        output.complain(f"{target}: cannot be written: {error.strerror}")
        return
    if target != STDIO:
        output.say(f"wrote {target}; open it in a browser")


class Replay:
    """Reads the inputs of one command, one after the other. Not thread-safe.

    With *wanted_whole* it reads on when nobody reads its standard output any more: a page wants it all.
    """

    def __init__(self, output: CommandOutput, outlet: "RunOutlet | None", *, wanted_whole: bool = False) -> None:
        self._output = output
        self._outlet = outlet
        self._wanted_whole = wanted_whole or outlet is not None
        self._history = History()

    def inputs(self, paths: Sequence[str]) -> Iterator[Input]:
        """Find what is to be read: files as named, `*.jsonl` in folders, or the newest session there is."""
        if not paths:
            yield from self._newest()
        for path in paths:
            if path != STDIO and Path(path).is_dir():
                found = [
                    Input(str(file), found=True, size_bytes=_size_bytes(file)) for file in session_files(Path(path))
                ]
                if not found:
                    self._output.complain(f"{path}: no .jsonl files in this folder")
                yield from found
            else:
                yield Input(path, size_bytes=0 if path == STDIO else _size_bytes(Path(path)))

    def _newest(self) -> Iterator[Input]:
        newest = newest_sessions()
        if not newest:
            looked = " or ".join(str(folder) for folder in session_folders())
            self._output.complain(f"no session files in {looked}; name a file or a folder")
        for path in newest:
            self._output.say(f"the newest session is {path}")
            yield Input(str(path), size_bytes=_size_bytes(path))

    def read(self, inputs: Sequence[Input]) -> None:
        """Read them all; what cannot be read is said in one line, and the next one is read."""
        screen = self._output.notes if self._output.notes.moving else None
        progress = Progress(screen, sum(each.size_bytes for each in inputs), len(inputs))
        for each in inputs:
            if self._output.gone and not self._wanted_whole:
                return
            progress.next_input()
            try:
                self._read_one(each, progress, title=each.path if len(inputs) > 1 else None)
            except NotReadableError as error:
                if each.found:
                    self._output.tally.skipped_files += 1
                else:
                    self._output.complain(str(error))
            except OSError as error:
                self._output.complain(f"{each.path}: {_reason(error)}")
        progress.close()

    def _read_one(self, each: Input, progress: Progress, title: str | None) -> None:
        with open_source(each.path, history=self._history) as reading:
            self._output.begin_input(each.path, title)
            collector = RunCollector(keep_spans=self._outlet is not None)
            accounts = self._outlet.accounts() if self._outlet is not None else None
            pipeline = InputPipeline(
                reading.source,
                collector,
                partial(self._provider, collector, accounts),
                frames=self._output.write_frame if self._output.wants_frames else None,
                accounts=accounts,
            )
            self._feed(reading, pipeline, progress, accounts)
            for run in pipeline.still_open():
                self._output.add_run(run)
            self._finish_input(each, reading, pipeline)

    def _feed(
        self, reading: Reading, pipeline: InputPipeline, progress: Progress, accounts: "RunAccounts | None"
    ) -> None:
        for line, at_ns in reading.lines():
            if line is not None:
                progress.advance(len(line))
            decoded = reading.decode(line, at_ns)
            if decoded:
                self._output.note_useless(pipeline.handle(decoded))
                self._pass_on(pipeline.whole(), accounts)
                if self._output.gone and not self._wanted_whole:
                    break
        pipeline.handle(reading.end())
        self._pass_on(pipeline.rest(), accounts)
        self._output.flush()

    def _pass_on(self, runs: list[CollectedRun], accounts: "RunAccounts | None") -> None:
        for run in runs:
            self._output.add_run(run)
            if self._outlet is not None and accounts is not None:
                self._outlet.send(run, accounts)

    def _provider(
        self, collector: RunCollector, accounts: "RunAccounts | None", agent: str, ids: DerivedIdGenerator
    ) -> TracerProvider:
        if self._outlet is None or accounts is None:
            return own_provider(agent, [collector], ids=ids)
        provider = own_provider(
            agent, [collector, accounts], ids=ids, sampler=self._outlet.sampler, instance_id=self._outlet.instance_id
        )
        accounts.belongs_to(provider.resource.attributes)
        return provider

    def _finish_input(self, each: Input, reading: Reading, pipeline: InputPipeline) -> None:
        """Count the input, and say what a person should know of it."""
        counts = reading.counts
        strange = bool(counts.read) and not counts.mapped and not counts.ignored
        if strange and each.found:
            # Other programs keep .jsonl files too: whoever named only the folder does not mean them.
            self._output.skip_input()
            return
        for note in reading.notes:
            self._output.say(note)
        if strange:
            self._output.complain(f"{each.path}: {_NO_AGENT}")
        elif not counts.read and not each.found:
            self._output.say(f"{each.path}: empty, no records")
        if pipeline.internal_errors:
            self._output.complain(
                f"{each.path}: {pipeline.internal_errors} records were not understood; please report it"
            )
        self._output.end_input(records_object(counts), tell_lines=not strange)


def records_object(counts: Counts) -> RecordsObject:
    """Give the counts of an input in the documented shape."""
    return {
        "read": counts.read,
        "mapped": counts.mapped,
        "ignored": counts.ignored,
        "unmapped": counts.unmapped,
        "malformed": counts.malformed,
    }


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _reason(error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return "there is no such file; check the path"
        case PermissionError():
            return "you may not read this file; check its permissions"
        case _:
            return f"cannot be read: {error.strerror or type(error).__name__}"
