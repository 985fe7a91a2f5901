"""What scrubbing costs: `python tests/bench/bench_scrubbing.py`.

Short texts are the recorded and reported error texts; long ones are a megabyte of ordinary prose, records and base64,
and a megabyte of one hostile thing over and over. Each figure is the best of several rounds in this thread's processor
seconds. Status 1 if a typical text takes more than 50 us, an ordinary megabyte more than 100 ms, or a hostile one more
than a second.
"""

import argparse
import base64
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.figures import Figure, Scale
from compass_otel.scrubbing import cut, scrub
from test_scrubbing_properties import HOSTILE

_CASES = Path(__file__).resolve().parents[1] / "cases"
_MEGABYTE = 1_000_000
_BARS_S = {"typical": 50e-6, "ordinary": 0.1, "hostile": 1.0}
_RECORD = '{"type":"error","error":{"message":"prompt is too long: 213462 tokens > 200000"},"request_id":"req_011C"}\n'


def _repeated(unit: str) -> str:
    return unit * (_MEGABYTE // len(unit))


def _ordinary() -> dict[str, str]:
    octets = base64.b64encode(bytes((7 * at * at + 3 * at) % 251 for at in range(750_000))).decode()
    return {
        "prose": _repeated("the quick brown fox jumps over the lazy dog; request failed with code 500. "),
        "records": _repeated(_RECORD),
        "base64": octets,
        "base64 in lines": "\n".join(octets[at : at + 76] for at in range(0, len(octets), 76)),
        "chinese": _repeated("您的账户已达到速率限制"),
    }


def _best_s(text: str, rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.thread_time()
        scrub(text)
        taken.append(time.thread_time() - began)
    return min(taken)


def _typical() -> list[str]:
    rows = (_CASES / "field-cases.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(row)["input"].get("errorMessage") for row in rows]
    return [text for text in texts if isinstance(text, str) and text]


def figures(scale: Scale) -> list[Figure]:
    """Give the costs for the table of all benches."""
    rounds = 5 if scale.full else 2
    typical_us = statistics.median(_best_s(text, rounds * 20) * 1e6 for text in _typical())
    ordinary_ms = max(_best_s(text, rounds) * 1e3 for text in _ordinary().values())
    hostile_ms = max(_best_s(_repeated(unit), 1) * 1e3 for unit in HOSTILE)
    return [
        Figure("scrub a reported error text, median", typical_us, _BARS_S["typical"] * 1e6, "us"),
        Figure("scrub an ordinary megabyte, the slowest kind", ordinary_ms, _BARS_S["ordinary"] * 1e3, "ms"),
        Figure("scrub a hostile megabyte, the slowest kind", hostile_ms, _BARS_S["hostile"] * 1e3, "ms"),
    ]


def main() -> int:
    """Measure, print, and say by the status whether every bar was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds per text; the best counts (default: 5)")
    rounds = parser.parse_args().rounds
    short = sorted(_best_s(text, rounds * 20) for text in _typical())
    typical = statistics.median(short)
    print(
        f"typical    median {typical * 1e6:7.1f} us  p95 {short[int(len(short) * 0.95)] * 1e6:7.1f} us  of {len(short)}"
    )
    kept = typical <= _BARS_S["typical"]
    for kind, texts in (("ordinary", _ordinary()), ("hostile", {unit: _repeated(unit) for unit in HOSTILE})):
        for name, text in texts.items():
            taken = _best_s(text, 1 if kind == "hostile" else rounds)
            kept &= taken <= _BARS_S[kind]
            print(f"{kind:10} {taken * 1e3:8.1f} ms  {ascii(name)[:40]}")
    began = time.thread_time()
    cut(_repeated("x"), 2048)
    print(f"cut        {(time.thread_time() - began) * 1e3:8.2f} ms  a megabyte to 2048 bytes")
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
