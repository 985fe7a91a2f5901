"""Whole traces of recorded sessions as committed files, and the one command that writes them anew.

`python tests/goldens.py` rewrites every file after a change that was meant; the difference is then read in review.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compass_otel.bridge import SessionBridge
from compass_otel.frames import kind_name, session_error_of
from compass_otel.recording import RecorderOptions
from compass_otel.sources import Source
from compass_otel.sources.pi_session import PiSession
from compass_otel.sources.pi_stream import PiStream
from compass_otel.testing import CollectingProvider

HERE = Path(__file__).parent
CAPTURES = HERE / "captures"
STREAMS = HERE / "streams"
TREES = HERE / "trees"
ENDINGS = {"stream": ".events.jsonl", "session": ".session.jsonl"}


class Recorded:
    """One input, read whole: its spans, its session errors, its counts."""

    def __init__(
        self, lines: Iterable[bytes | Mapping[str, Any]], source: Source, options: RecorderOptions | None = None
    ) -> None:
        provider = CollectingProvider()
        self.bridge = SessionBridge(
            tracer_provider=provider.tracer_provider,
            ids=provider.ids,
            source=source,
            options=options or RecorderOptions(),
        )
        self.frames = [frame for line in lines for event in source.decode(line) for frame in self.bridge.handle(event)]
        self.frames += [frame for event in source.end() for frame in self.bridge.handle(event)]
        self.spans = provider.spans
        self.trees = provider.trees()
        self.counts = source.counts
        self.open_prompt = getattr(source, "open_prompt", None)

    @property
    def closed(self) -> bool:
        """Whether no span is open; a session file may end in a prompt that is still open."""
        return self.bridge.open_spans == 0 or self.open_prompt is not None

    @property
    def session_errors(self) -> list[tuple[str, str, int | None]]:
        """Every session error in order, as kind, message and status."""
        errors = [error for frame in self.frames if (error := session_error_of(frame)) is not None]
        return [(kind_name(e), e.message, e.status if e.HasField("status") else None) for e in errors]

    @property
    def outcomes(self) -> list[Any]:
        """The outcome of each run, in the order in which they ended."""
        return [
            (span.attributes or {})["compass.outcome"] for span in self.spans if span.name.startswith("invoke_agent")
        ]


def record_file(path: Path, options: RecorderOptions | None = None) -> Recorded:
    """Record a stored stream or a session file."""
    source: Source = PiSession() if path.name.endswith(ENDINGS["session"]) else PiStream()
    with path.open("rb") as lines:
        return Recorded(lines, source, options)


def captured(kind: str) -> list[str]:
    """Return the names of all recorded inputs of a kind, `agent/scenario`."""
    return sorted(f"{p.parent.name}/{p.name.removesuffix(ENDINGS[kind])}" for p in CAPTURES.glob(f"*/*{ENDINGS[kind]}"))


def capture_path(kind: str, name: str) -> Path:
    """Return the file of a recorded input."""
    return CAPTURES / f"{name}{ENDINGS[kind]}"


def tree_path(kind: str, name: str) -> Path:
    """Return the file that holds the expected trace of a recorded input."""
    return TREES / f"{name.replace('/', '.')}.{kind}.json"


def written(trees: list[dict[str, Any]]) -> str:
    """Return trees as the committed files hold them: times relative to the first start, one line a span."""
    base_ns = min((tree["start_ns"] for tree in trees), default=0)
    lines: list[str] = []
    for tree in trees:
        _write(tree, base_ns, 0, lines)
    return "\n".join([json.dumps({"start_ns": base_ns}), *lines]) + "\n"


def _write(node: dict[str, Any], base_ns: int, depth: int, lines: list[str]) -> None:
    shown = {key: value for key, value in node.items() if key != "children"}
    shown["start_ns"], shown["end_ns"] = node["start_ns"] - base_ns, node["end_ns"] - base_ns
    shown["events"] = [{**event, "time_ns": event["time_ns"] - base_ns} for event in node.get("events", [])]
    lines.append("  " * depth + json.dumps(shown, ensure_ascii=False))
    for child in node.get("children", []):
        _write(child, base_ns, depth + 1, lines)


def rewrite() -> None:
    """Write every expected trace anew."""
    TREES.mkdir(exist_ok=True)
    for kind in ENDINGS:
        for name in captured(kind):
            tree_path(kind, name).write_text(written(record_file(capture_path(kind, name)).trees), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
