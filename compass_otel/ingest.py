"""`compass-otel ingest`: a live stream from standard input as a tree that grows, and to the backend if one is set.

The input may be passed through. The reader never ends an agent: Ctrl-C is the agent's, and it reads the agent's last
words; only a reader of its own that went away, or SIGTERM, end it before the input does.
"""

import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.trace import TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from compass_otel.collected_run import CollectedRun
from compass_otel.command_options import STDIO, IngestOptions
from compass_otel.command_output import CommandOutput
from compass_otel.events import BlockStarted, TextDelta, ThinkingDelta
from compass_otel.exits import PROGRAM, Exit, WrongUseError, complain, log_to_stderr
from compass_otel.growing import GrowingTree
from compass_otel.id_generator import DerivedIdGenerator
from compass_otel.input_pipeline import InputPipeline
from compass_otel.interrupts import Interrupts
from compass_otel.own_provider import own_provider
from compass_otel.replay import records_object
from compass_otel.showing import RunCollector
from compass_otel.sources.reading import NotReadableError, Reading, open_source

if TYPE_CHECKING:
    from compass_otel.command_options import SendOptions
    from compass_otel.exporting import LiveOutlet

_NAME: Final = "standard input"
_NO_AGENT: Final = "not the stream of an agent; start the agent with `--mode json`, or in rpc mode"


def run(options: IngestOptions) -> int:
    """Run the command; give the exit status. Raises WrongUseError. For the main thread alone."""
    log_to_stderr()
    outlet = _open_outlet(options.send)
    try:
        output = CommandOutput(options.show, tee=options.tee)
    except OSError as error:
        complain(f"{options.show.frames}: cannot be written: {error.strerror}")
        return Exit.TROUBLE
    with Interrupts() as interrupts:
        Ingest(output, outlet, interrupts).read()
        if outlet is not None:
            outlet.finish(output.complain, output.say)
        output.close()
        if outlet is not None:
            output.say(outlet.last_line())
    return output.tally.exit_status(options.show.fail_on)


def _open_outlet(send: "SendOptions") -> "LiveOutlet | None":
    from compass_otel.otlp_settings import endpoint_is_set  # noqa: PLC0415  # what sends is loaded only to send

    if send.endpoint is None and not endpoint_is_set():
        if send.spool is not None:
            raise WrongUseError("--spool keeps what is to be sent: give --endpoint URL too")
        return None
    from compass_otel.exporting import open_live_outlet  # noqa: PLC0415  # same

    return open_live_outlet(send)


class Ingest:
    """Reads one live input to its end. Not thread-safe."""

    def __init__(self, output: CommandOutput, outlet: "LiveOutlet | None", interrupts: Interrupts) -> None:
        self._output = output
        self._outlet = outlet
        self._interrupts = interrupts
        self._accounts = outlet.accounts() if outlet is not None else None
        grows = output.screen is not None and not output.show.failures_only
        self._collector = RunCollector(keep_rows=grows)
        self._tree = GrowingTree(output.screen, self._collector) if output.screen is not None and grows else None

    def read(self) -> None:
        """Read, show and send until the input ends or somebody ends the reader."""
        if sys.stdin.isatty():
            self._output.say(f"reading from the terminal; meant is: pi --mode json ... | {PROGRAM} ingest")
        self._output.begin_input(STDIO, None)
        try:
            reading = open_source(STDIO, live=True, tap=self._output.pass_through, stopped=self._stopped)
        except NotReadableError as error:
            self._output.complain(str(error))
            return
        pipeline = InputPipeline(
            reading.source,
            self._collector,
            partial(self._provider),
            frames=self._output.write_frame if self._output.wants_frames else None,
            parent_context=inherited_context(),
            accounts=self._accounts,
        )
        try:
            self._feed(reading, pipeline)
        except OSError as error:
            self._output.complain(f"{_NAME}: cannot be read: {error.strerror}")
        self._end(reading, pipeline)

    def _stopped(self) -> bool:
        return self._interrupts.over or self._output.gone

    def _feed(self, reading: Reading, pipeline: InputPipeline) -> None:
        for line, at_ns in reading.lines():
            decoded = reading.decode(line, at_ns)
            if decoded:
                self._output.note_useless(pipeline.handle(decoded))
            streaming = decoded and all(isinstance(each, TextDelta | ThinkingDelta | BlockStarted) for each in decoded)
            if not streaming:
                self._show(pipeline)
            if line is None:
                self._output.flush()
            if self._output.gone:
                return

    def _end(self, reading: Reading, pipeline: InputPipeline) -> None:
        if self._interrupts.interrupted:
            pipeline.handle(reading.end(signal=signal.SIGINT, requested=True))
        elif self._stopped():
            pipeline.close()
        else:
            pipeline.handle(reading.end())
        self._show(pipeline)
        for run in (*pipeline.rest(), *pipeline.still_open()):
            self._finish_run(run)
        counts = reading.counts
        strange = bool(counts.read) and not counts.mapped and not counts.ignored
        if strange:
            self._output.complain(f"{_NAME}: {_NO_AGENT}")
        elif not counts.read:
            self._output.say(f"{_NAME}: empty, no records")
        self._output.end_input(records_object(counts), tell_lines=not strange)

    def _show(self, pipeline: InputPipeline) -> None:
        if self._tree is None:
            for run in pipeline.whole():
                self._output.add_run(run)
            return
        finished = pipeline.finished()
        self._output.grow(self._tree, finished)

    def _finish_run(self, run: CollectedRun) -> None:
        if self._tree is None:
            self._output.add_run(run)
        else:
            self._output.grow(self._tree, [run])

    def _provider(self, agent: str, ids: DerivedIdGenerator) -> TracerProvider:
        if self._outlet is None or self._accounts is None:
            return own_provider(agent, [self._collector], ids=ids)
        provider = own_provider(
            agent,
            [self._collector, self._outlet.gate(self._accounts)],
            ids=ids,
            sampler=self._outlet.sampler,
            instance_id=self._outlet.instance_id,
        )
        self._accounts.belongs_to(provider.resource.attributes)
        return provider


def inherited_context() -> Context | None:
    """Give the context that `TRACEPARENT` of the environment names; None without one, or with a broken one."""
    carrier = {name: os.environ[name.upper()] for name in ("traceparent", "tracestate") if os.environ.get(name.upper())}
    context = TraceContextTextMapPropagator().extract(carrier, Context())
    return context or None
