"""Reading and decoding a stream, as a ratio to `json.loads` over the same lines: `python tests/bench/bench_sources.py`.

Two shapes: Pi 1.6 (short deltas that repeat the usage) and Pi 0.73 (each delta repeats the whole message twice, so that
lines grow with it). Each figure is the median of several rounds, the two taken in turn, so that a noisy machine hits
both alike. `--mb 1000 --rounds 1` shows that memory stays flat: the peak is the process's.
"""

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.figures import Figure, Scale
from compass_otel.sources.reading import open_source

_WORDS = ("The ", "module ", "keeps ", "its ", "invariants ", "in ", "one ", "place ", "and ", "goes ", "on.\n\n")
CODE = (
    "    if ", "(count ", ">= 10_000", "):\n", "        return ", '{"id": ', "self._rows[", "0]", "}\n\n", "# 3rd ",
    "x1 = ", "f(a, b)", ";\n", "<div ", 'class="a-b">', "/usr/lib", "\t\\n", "&& ", "0x1F", "user@example.org",
)  # fmt: skip
"""Deltas of code: digits, punctuation and line ends, which no look at plain words lets pass."""
_USAGE = {
    "input": 1200, "output": 20, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1220,
    "cost": {"input": 0.0036, "output": 0.0003, "cacheRead": 0, "cacheWrite": 0, "total": 0.0039},
}  # fmt: skip
_DELTAS_PER_ANSWER = {"pi-1.6": 400, "pi-0.73": 250}
_START_MS = 1_790_000_000_000


def _assistant(text: str, stamp_ms: int, stop: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    return {
        "role": "assistant", "content": content, "api": "openai-completions", "provider": "fake",
        "model": "fake-model", "usage": _USAGE, "stopReason": stop, "timestamp": stamp_ms, "responseId": "chatcmpl-1",
    }  # fmt: skip


def _answer(shape: str, stamp_ms: int, words: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """One prompt and its streamed answer."""
    user = {"role": "user", "content": [{"type": "text", "text": "Go on"}], "timestamp": stamp_ms}
    yield {"type": "agent_start"}
    yield {"type": "turn_start"}
    yield {"type": "message_start", "message": user}
    yield {"type": "message_end", "message": user}
    yield {"type": "message_start", "message": _assistant("", stamp_ms + 5, "stop")}
    text = ""
    for index in range(_DELTAS_PER_ANSWER[shape]):
        delta = words[index % len(words)]
        text += delta
        inner: dict[str, Any] = {"type": "text_delta", "contentIndex": 0, "delta": delta}
        if shape == "pi-0.73":
            partial = _assistant(text, stamp_ms + 5, "stop")
            yield {"type": "message_update", "assistantMessageEvent": {**inner, "partial": partial}, "message": partial}
        else:
            yield {"type": "message_update", "usage": _USAGE, "assistantMessageEvent": inner}
    whole = _assistant(text, stamp_ms + 5, "stop")
    yield {"type": "message_end", "message": whole}
    yield {"type": "turn_end", "message": whole, "toolResults": []}
    yield {"type": "agent_end", "messages": [user, whole], **({"willRetry": False} if shape == "pi-1.6" else {})}
    if shape == "pi-1.6":
        yield {"type": "agent_settled", "aborted": False}


def write_stream(path: Path, shape: str, size_bytes: int, words: tuple[str, ...] | None = None) -> int:
    """Write a stream of one shape, about `size_bytes` long, its deltas `words` in turn; returns its number of lines."""
    stamp_ms, lines = _START_MS, 0
    with path.open("w", encoding="utf-8") as file:
        header = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-09-21T14:13:20.000Z", "cwd": "/p"}
        file.write(json.dumps(header, separators=(",", ":")) + "\n")
        while file.tell() < size_bytes:
            stamp_ms += 60_000
            for record in _answer(shape, stamp_ms, words or _WORDS):
                file.write(json.dumps(record, separators=(",", ":")) + "\n")
                lines += 1
    return lines + 1


def _with_json(path: Path) -> int:
    count = 0
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
            count += 1
    return count


def _with_source(path: Path) -> int:
    with open_source(path) as reading:
        for _ in reading:
            pass
        return reading.counts.read


def _seconds(work: Callable[[Path], int], path: Path, lines: int) -> float:
    began = time.perf_counter()
    if work(path) != lines:
        raise AssertionError(f"{work.__name__} lost lines of {path.name}")
    return time.perf_counter() - began


def measure(shape: str, size_bytes: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Give medians in seconds, the ratio of them, and microseconds for each line."""
    path = folder / f"{shape}.jsonl"
    lines = write_stream(path, shape, size_bytes)
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(_seconds(_with_json, path, lines))
        ours.append(_seconds(_with_source, path, lines))
    our, their = statistics.median(ours), statistics.median(theirs)
    path.unlink()
    return {
        "shape": shape, "mb": size_bytes / 1e6, "lines": lines, "source_s": round(our, 3),
        "json_loads_s": round(their, 3), "ratio": round(our / their, 3),
        "source_us_per_line": round(our / lines * 1e6, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }  # fmt: skip


def figures(scale: Scale) -> list[Figure]:
    """Give the ratios for the table of all benches."""
    size_bytes, rounds = (100_000_000, 5) if scale.full else (20_000_000, 3)
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(shape, size_bytes, rounds, Path(folder)) for shape in _DELTAS_PER_ANSWER]
    return [Figure(f"decode / json.loads: {each['shape']}, {each['mb']:g} MB", each["ratio"], 1.0) for each in results]


def main() -> int:
    """Print one JSON object for each shape; status 1 if a ratio is above 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=float, default=100.0, help="size of each stream")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(shape, int(options.mb * 1e6), options.rounds, Path(folder)) for shape in _DELTAS_PER_ANSWER]
    for result in results:
        sys.stdout.write(json.dumps(result) + "\n")
    return int(any(result["ratio"] > 1 for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
