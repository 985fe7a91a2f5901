"""Session files of Pi 0.73, Pi 1.x and oh-my-pi: a header, then one entry a line, each a child of another.

A file is read in its own order, which is the order in which things happened, whatever branch they belong to, so nothing
is counted twice within a file. It gives the events that the live stream gave, with the entries' own times, as far as a
file can tell: retries and compactions leave only traces, and omp removes the messages of recovered failures.
"""

from typing import Any

from msgspec.structs import replace

from compass_otel.events import AgentEvent, Ending, SessionOpened, SourceEnded, UserMessage
from compass_otel.sources import Counts, Decoded, Format, Line
from compass_otel.sources import pi_entries as on
from compass_otel.sources.messages import as_text
from compass_otel.sources.records import parse
from compass_otel.sources.timing import iso_to_ns
from compass_otel.unmapped import Malformed, Unmapped

LOST_AFTER_S = 600.0
"""A file with an open prompt that has not grown for this long will not grow again."""

SETTLED_AFTER_S = 10.0
"""While a file is followed: an answer that nothing follows for this long is the last one."""

_LOST_AFTER_NS = int(LOST_AFTER_S * 1e9)
_SETTLED_AFTER_NS = int(SETTLED_AFTER_S * 1e9)


class History:
    """The entries that one replay has seen, so that a fork's copy of its parent's history is not counted twice.

    Entries are told by id and time, and belong to the session that showed them first. Pass one to all sources of a
    replay; parents should be read before their forks (file names begin with the time, so sorted order does it).
    """

    def __init__(self) -> None:
        self._owner: dict[int, str | None] = {}

    def is_copy(self, entry: dict[str, Any], session_id: str | None) -> bool:
        """Whether another session showed this entry already; remembers it otherwise."""
        raw = entry.get("message")
        message = raw if isinstance(raw, dict) else {}
        stamps = entry.get("timestamp"), message.get("timestamp")
        if stamps == (None, None):
            return False
        key = repr((entry.get("id"), stamps, message.get("role"), message.get("toolCallId")))
        return self._owner.setdefault(hash(key), session_id) != session_id


class PiSession:
    """Decodes one session file. Not thread-safe; never blocks, never raises on input.

    Args:
        history: what other sources of the same replay have seen; None to look at this file alone.
        last_change_ns: when the file last grew (its modification time), to judge whether an open prompt is lost.

    """

    format = Format.PI_SESSION

    def __init__(self, *, history: History | None = None, last_change_ns: int | None = None) -> None:
        self._state = on.EntryState()
        self._history = history
        self.last_change_ns = last_change_ns
        self._line = self._mapped = self._ignored = self._unmapped = self._malformed = 0
        self.inherited = 0
        self._session_id: str | None = None
        self._forked_ns: int | None = None
        self._ended = False

    @property
    def agent(self) -> str:
        """`omp` if the file shows it, else `pi`."""
        return self._state.agent

    @property
    def counts(self) -> Counts:
        """What became of the records so far; inherited entries are among the ignored."""
        return Counts(self._mapped, self._ignored, self._unmapped, self._malformed)

    @property
    def open_prompt(self) -> UserMessage | None:
        """The prompt whose answer is not in the file yet; None if there is none."""
        return self._state.open_prompt()

    def decode(self, line: Line, at_ns: int | None = None) -> tuple[Decoded, ...]:
        """Decode one entry; `at_ns`, if given, tells only when the file grew. See `Source.decode`."""
        self._line += 1
        if at_ns is not None:
            self.last_change_ns = at_ns
        record = parse(line)
        if record is None:
            return ()
        if isinstance(record, Malformed):
            self._malformed += 1
            return (replace(record, line=self._line),)
        outcome = self._outcome(record)
        if outcome is None:
            self._ignored += 1
            return ()
        if isinstance(outcome, Unmapped):
            self._unmapped += 1
            return (replace(outcome, line=self._line),)
        self._mapped += 1
        return outcome

    def reject(self, reason: str) -> tuple[Malformed]:
        """Count a line that was not even read; see `Source.reject`."""
        self._line += 1
        self._malformed += 1
        return (Malformed(reason, self._line),)

    def tick(self, now_ns: int) -> tuple[AgentEvent, ...]:
        """Settle the prompt of a file that is followed, once it has not grown for long enough; see `Source.tick`."""
        quiet_ns = now_ns - self._last_change_ns()
        final, failed = self._state.answer_is_final(), self._state.answer_failed()
        if final and quiet_ns >= (_LOST_AFTER_NS if failed else _SETTLED_AFTER_NS):
            return self._state.close(Ending.SETTLED)
        if not final and quiet_ns >= _LOST_AFTER_NS:
            return self._state.close(Ending.LOST)
        return ()

    def end(
        self,
        at_ns: int | None = None,
        *,
        exit_status: int | None = None,
        signal: int | None = None,
        requested: bool = False,
    ) -> tuple[AgentEvent, ...]:
        """Settle the last prompt and say that the input is over; see `Source.end`.

        A prompt whose answer is not in the file stays open, and nothing is said, unless `at_ns` (the present) is given
        and the file has not grown for ten minutes: then the prompt is lost.
        """
        if self._ended:
            return ()
        if self.open_prompt is None:
            events = self._state.close(Ending.SETTLED)
        elif at_ns is not None and at_ns - self._last_change_ns() >= _LOST_AFTER_NS:
            events = self._state.close(Ending.LOST)
        else:
            return ()
        self._ended = True
        last = SourceEnded(
            at_ns=self._state.timeline.last_ns, exit_status=exit_status, signal=signal, requested=requested
        )
        return (*events, last)

    def _last_change_ns(self) -> int:
        return self._state.timeline.last_ns if self.last_change_ns is None else self.last_change_ns

    def _outcome(self, record: dict[str, Any]) -> on.Outcome:
        kind = record.get("type")
        if not isinstance(kind, str) or not kind:
            return Unmapped("", "no_type")
        if kind == "session":
            return self._header(record)
        if self._is_inherited(record):
            self.inherited += 1
            return None
        handler = on.HANDLERS.get(kind)
        if handler is not None:
            return handler(self._state, record)
        return None if kind in on.IGNORED_ENTRIES else Unmapped(kind, "unknown_type")

    def _header(self, record: dict[str, Any]) -> tuple[AgentEvent, ...]:
        """Open the session. A title line before the header, or a title in it, is omp's."""
        now = self._state.timeline.at(None, iso_to_ns(record.get("timestamp")))
        parent = as_text(record.get("parentSession"))
        if "title" in record:
            self._state.agent = "omp"
        self._session_id = as_text(record.get("id"))
        self._forked_ns = None if parent is None else iso_to_ns(record.get("timestamp"))
        opened = SessionOpened(
            at_ns=now,
            session_id=self._session_id,
            agent=self._state.agent,
            cwd=as_text(record.get("cwd")),
            parent_session=parent,
        )
        return (*self._state.close(Ending.UNANSWERED), opened)

    def _is_inherited(self, entry: dict[str, Any]) -> bool:
        """Whether a fork copied this entry: it is older than the fork, or another file of this replay showed it."""
        stamp = iso_to_ns(entry.get("timestamp"))
        if self._forked_ns is not None and stamp is not None and stamp < self._forked_ns:
            return True
        return self._history is not None and self._history.is_copy(entry, self._session_id)
