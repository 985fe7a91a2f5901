"""All benches in one run and one table: `make bench`; `make bench ARGS=--full` for the sizes of the promises.

Everything is a ratio to something taken in turn in the same run, or a time with a wide bar, so that a busy machine says
little less than a quiet one. Status 1 if a bar is missed.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Final

from bench import (
    bench_classification,
    bench_encoding,
    bench_import,
    bench_pipeline,
    bench_scrubbing,
    bench_sink,
    bench_sources,
)
from bench.figures import Figure, Scale, load, table

_BENCHES: Final[dict[str, Callable[[Scale], list[Figure]]]] = {
    "import": bench_import.measure,
    "sources": bench_sources.figures,
    "pipeline": bench_pipeline.measure,
    "scrubbing": bench_scrubbing.figures,
    "classification": bench_classification.figures,
    "encoding": bench_encoding.figures,
    "sink": bench_sink.figures,
}


def main() -> int:
    """Run them one after the other, and show everything at the end."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", nargs="*", choices=[[], *_BENCHES], help="only these; all without")
    parser.add_argument("--full", action="store_true", help="the sizes of the promises, which take many minutes")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.name or _BENCHES:
        began = time.monotonic()
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        figures += _BENCHES[name](Scale(full=options.full))
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    print(table(figures))
    print(load())
    return int(any(figure.missed for figure in figures))


if __name__ == "__main__":
    raise SystemExit(main())
