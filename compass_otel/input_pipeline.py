"""InputPipeline: one input of a command, from decoded events to finished runs and frames.

Composes the bridge on a provider of its own with the collector that shows; `replay` and `ingest` only read and draw.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry.context import Context
from opentelemetry.trace import TracerProvider

from compass_otel import semconv
from compass_otel._pb.compass.v1.compass_pb2 import SessionFrame
from compass_otel.bridge import SessionBridge
from compass_otel.collected_run import CollectedRun
from compass_otel.events import SessionOpened, TextDelta, ThinkingDelta
from compass_otel.frames import frame_json, kind_name, session_error_of, subscriber_frame
from compass_otel.id_generator import DerivedIdGenerator
from compass_otel.jsonout import SessionErrorObject
from compass_otel.scrubbing import scrub
from compass_otel.showing import RunCollector
from compass_otel.sources import Decoded, Source
from compass_otel.unmapped import Malformed, Unmapped

if TYPE_CHECKING:
    from compass_otel.run_accounts import RunAccounts

_DELTAS: Final = (TextDelta, ThinkingDelta)
_USELESS: Final = (Malformed, Unmapped)
"""Asked for at every event: a tuple made once, since `A | B` makes a new union each time."""

FrameLines = Callable[[str], object]
"""Takes one frame as a line of JSON without its end."""


class ProviderMaker(Protocol):
    """Makes the provider of an input once its agent is known."""

    def __call__(self, agent: str, ids: DerivedIdGenerator) -> TracerProvider:
        """Make it, the collector among its processors."""


class InputPipeline:
    """One input. Not thread-safe; blocks only as the provider's processors do.

    Args:
        source: What decodes the input; it names the agent.
        collector: Where the provider's spans are collected.
        make_provider: Called once, at the first event.
        frames: Takes the frames as JSON lines, None for nowhere.
        parent_context: Parent of every run; None makes each run a trace of its own.
        accounts: Keeps apart what belongs to which run, where runs are sent and counted; among the processors of the
            provider.

    """

    def __init__(  # noqa: PLR0913 - the parts of one input, most of them optional
        self,
        source: Source,
        collector: RunCollector,
        make_provider: ProviderMaker,
        *,
        frames: FrameLines | None = None,
        parent_context: Context | None = None,
        accounts: "RunAccounts | None" = None,
    ) -> None:
        self._source = source
        self._collector = collector
        self._make_provider = make_provider
        self._frames = frames
        self._parent_context = parent_context or Context()
        self._accounts = accounts
        self._bridge: SessionBridge | None = None
        self._session_id = ""
        self._errors: dict[str, SessionErrorObject] = {}
        self._held: list[CollectedRun] = []

    @property
    def internal_errors(self) -> int:
        """Errors of our own that were kept from ending the command."""
        return self._bridge.internal_errors if self._bridge else 0

    def handle(self, decoded: Iterable[Decoded]) -> list[Malformed | Unmapped]:
        """Map and record what a line was decoded to; give what is of no use to anybody."""
        useless: list[Malformed | Unmapped] = []
        for event in decoded:
            if isinstance(event, _USELESS):
                useless.append(event)
                continue
            bridge = self._bridge or self._begin()
            if isinstance(event, SessionOpened):
                self._session_id = scrub(event.session_id or "")
            if self._accounts is not None:
                self._accounts.begin(event)
            frames = bridge.handle(event)
            if self._accounts is not None:
                self._accounts.done()
            if frames and not isinstance(event, _DELTAS):
                self._note_errors(frames)
            if self._frames:
                self._write(frames)
        return useless

    def close(self) -> None:
        """End the session in order: an open run is a cancel."""
        if self._bridge is not None:
            frames = self._bridge.close()
            if self._accounts is not None:
                self._accounts.done()
            self._note_errors(frames)
            if self._frames:
                self._write(frames)

    def _begin(self) -> SessionBridge:
        ids = DerivedIdGenerator()
        self._bridge = SessionBridge(
            tracer_provider=self._make_provider(self._source.agent, ids),
            meter_provider=self._accounts.meters if self._accounts is not None else None,
            source=self._source,
            ids=ids,
            parent_context=self._parent_context,
            text_frames=self._frames is not None,
        )
        return self._bridge

    def _note_errors(self, frames: tuple[SessionFrame, ...]) -> None:
        for frame in frames:
            error = session_error_of(frame)
            if error is not None:
                self._errors[frame.typed_event.event_id] = {
                    "kind": kind_name(error),
                    "message": error.message,
                    "status": error.status if error.HasField("status") else None,
                }

    def _write(self, frames: tuple[SessionFrame, ...]) -> None:
        for frame in frames:
            self._frames(frame_json(subscriber_frame(frame, self._session_id)))  # type: ignore[misc]  # asked before

    def finished(self) -> list[CollectedRun]:
        """Give the runs that ended since the last call, each with its session errors."""
        runs = self._collector.take_finished()
        for index, run in enumerate(runs):
            alone = index == len(runs) - 1 and not self._collector.open_runs
            self._give_errors(run, everything=alone)
        return runs

    def whole(self) -> list[CollectedRun]:
        """Give the runs that are whole: another one has ended since, so no compaction can join them any more.

        Use either this, and `rest` at the end, or `finished`.
        """
        if not self._collector.has_finished:
            return []
        runs = [*self._held, *self.finished()]
        self._held = runs[-1:]
        return runs[:-1]

    def rest(self) -> list[CollectedRun]:
        """Give the run that `whole` kept back; for the end of an input."""
        runs = [*self._held, *self.finished()]
        self._held = []
        return runs

    def still_open(self) -> list[CollectedRun]:
        """Give the runs that have not ended, with the session errors that they had so far; for the end of an input."""
        runs = self._collector.open_runs
        for run in runs:
            self._give_errors(run, everything=run is runs[-1])
        return runs

    def _give_errors(self, run: CollectedRun, *, everything: bool) -> None:
        """Move a run's session errors to it: spans name them by event id, so a refused prompt takes its own."""
        for event_id in list(self._errors):
            named = f'"{semconv.EVENT_ID}":"{event_id}"'.encode()
            if everything or any(named in span for span in run.encoded):
                run.session_errors.append(self._errors.pop(event_id))
