"""What importing costs, as ratios to `import opentelemetry.sdk.trace`: `python tests/bench/bench_import.py`.

Each figure is the processor time of a whole process less that of one that imports nothing. All are taken in turn in the
same run, so that a noisy machine hits them alike; a ratio is that of the medians. Bytecode is kept, as in an installed
package, in a folder of its own. Status 1 if a bar is missed.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.figures import Figure, Scale, cpu_s, run_alone, with_bytecode

_SDK = "import opentelemetry.sdk.trace"
_ALL = "import compass_otel as c\nfor name in c.__all__: getattr(c, name)"
_CODE = {"bare": "pass", "sdk": _SDK, "front door": "import compass_otel", "every name": _ALL}
_HELP = ("-m", "compass_otel", "--help")


def _cpu_ms(folder: str, *arguments: str) -> float:
    before = cpu_s()
    command = (sys.executable, *arguments)
    subprocess.run(command, env=with_bytecode(folder), check=True, stdout=subprocess.DEVNULL)
    return (cpu_s() - before) * 1000


def _wall_ms(folder: str, *arguments: str) -> float:
    began = time.perf_counter()
    _cpu_ms(folder, *arguments)
    return (time.perf_counter() - began) * 1000


def measure(scale: Scale) -> list[Figure]:
    """Import in new processes, in turn."""
    rounds = 31 if scale.full else 11
    taken: dict[str, list[float]] = {name: [] for name in _CODE}
    shown = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for name, code in _CODE.items():
                cost = _cpu_ms(folder, "-c", code)
                if number:  # the first round compiles
                    taken[name].append(cost)
            shown.append(_wall_ms(folder, *_HELP))
    bare, sdk, door, every = (statistics.median(taken[name]) for name in _CODE)
    return [
        Figure("import compass_otel / opentelemetry.sdk.trace", (door - bare) / (sdk - bare), 1.2),
        Figure("import every public name / opentelemetry.sdk.trace", (every - bare) / (sdk - bare), 2.0),
        Figure("import every public name, beyond the SDK", every - sdk, None, "ms"),
        Figure("compass-otel --help, start to end", statistics.median(shown[1:]), 300.0, "ms"),
    ]


if __name__ == "__main__":
    raise SystemExit(run_alone(__doc__, measure))
