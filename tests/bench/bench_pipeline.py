"""From bytes to spans, as ratios to `json.loads` over the same lines: `python tests/bench/bench_pipeline.py`.

Three streams: Pi 1.6 with plain words, the same with deltas of code (digits, punctuation, line ends), and the quadratic
shape of Pi 0.73. For each, what a bridge does: reading and mapping, and the same with spans recorded on the plain SDK;
frames of streamed text are left out, as `replay` does where nobody asked for frames, and shown beside. Work is taken in
turn in the same run, so that a noisy machine hits all alike; figures are ratios of the medians of processor time. With
`--full` the streams have 100 MB, and one of 1 GB shows that memory stays flat.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from opentelemetry.sdk.trace import TracerProvider

from bench.bench_sources import CODE, write_stream
from bench.figures import Figure, Scale, cpu_s, run_alone, with_bytecode
from compass_otel import SessionBridge
from compass_otel.mapper import EventMapper
from compass_otel.sources.reading import open_source

_SHAPES = {"Pi 1.6": ("pi-1.6", None), "Pi 1.6, code": ("pi-1.6", CODE), "Pi 0.73": ("pi-0.73", None)}
_MB = 1_000_000
_PEAK = (
    "import resource, sys; from compass_otel.cli import main; status = main(sys.argv[1:]);"
    " print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(status)"
)


def _parse(path: Path) -> None:
    import json  # noqa: PLC0415 - the yardstick, named where it is used

    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def _map(path: Path, *, text_frames: bool = False) -> None:
    mapper = EventMapper(text_frames=text_frames)
    with open_source(path) as reading:
        for events in reading:
            for event in events:
                mapper.map(event)


def _record(path: Path, *, text_frames: bool = False) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    with open_source(path) as reading:
        bridge = SessionBridge(tracer_provider=provider, source=reading.source, text_frames=text_frames)
        for events in reading:
            for event in events:
                bridge.handle(event)
        bridge.close()
    if bridge.internal_errors:
        raise AssertionError("the bridge met errors of its own")


def _map_with_frames(path: Path) -> None:
    _map(path, text_frames=True)


def _record_with_frames(path: Path) -> None:
    _record(path, text_frames=True)


def _replay(path: Path) -> int:
    """Replay with the command, as a process of its own; returns its peak of memory in bytes."""
    command = (sys.executable, "-c", _PEAK, "replay", str(path))
    environ = with_bytecode(str(path.parent / "bytecode"))
    done = subprocess.run(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True
    )
    return int(done.stderr.split()[-1]) * 1024


def _cpu_s(work: Callable[[Path], object], path: Path) -> float:
    """Time of the processor, children included: of a busy machine it says less than a clock would."""
    before = cpu_s()
    work(path)
    return cpu_s() - before


def _shape(name: str, size_bytes: int, rounds: int, folder: Path) -> list[Figure]:
    shape, words = _SHAPES[name]
    path = folder / "stream.jsonl"
    write_stream(path, shape, size_bytes, words)
    works: tuple[Callable[[Path], object], ...] = (
        _parse,
        _map,
        _record,
        _map_with_frames,
        _record_with_frames,
        _replay,
    )
    taken = [[_cpu_s(work, path) for work in works] for _ in range(rounds)]
    theirs, mapped, recorded, framed, both, replayed = (statistics.median(times) for times in zip(*taken, strict=True))
    path.unlink()
    what = f"{name}, {size_bytes // _MB} MB"
    return [
        Figure(f"read and map / json.loads: {what}", mapped / theirs, 1.0),
        Figure(f"read, map and record spans / json.loads: {what}", recorded / theirs, 2.0),
        Figure(f"read and map, text as frames too / json.loads: {what}", framed / theirs, 1.0),
        Figure(f"the same and spans / json.loads: {what}", both / theirs, 2.0),
        Figure(f"compass-otel replay, whole command / json.loads: {what}", replayed / theirs),
    ]


def measure(scale: Scale) -> list[Figure]:
    """Measure all shapes, and with `full` the memory for 1 GB."""
    size_bytes, rounds = (100 * _MB, 5) if scale.full else (20 * _MB, 3)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in _SHAPES:
            figures += _shape(name, size_bytes, rounds, Path(folder))
        path = Path(folder) / "long.jsonl"
        long_bytes = 1000 * _MB if scale.full else 100 * _MB
        write_stream(path, "pi-1.6", long_bytes)
        peak_mb = _replay(path) / _MB
        figures.append(Figure(f"peak memory of replaying {long_bytes // _MB} MB", peak_mb, 150.0, "MB"))
        path.unlink()
    return figures


if __name__ == "__main__":
    raise SystemExit(run_alone(__doc__, measure))
