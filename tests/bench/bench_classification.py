"""What a verdict costs: `python tests/bench/bench_classification.py`.

Typical texts are the recorded rows and field cases; long ones are runs of one thing, a megabyte each, and a megabyte
made of every wording's words. Each figure is the best of several rounds in this thread's processor seconds; a ratio
compares a typical verdict with `json.loads` of a record that carries the same text.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.figures import Figure, Scale
from compass_otel.classification import Failure, classify

_CASES = Path(__file__).resolve().parents[1] / "cases"
_MEBIBYTE = 1 << 20
_LONG = {
    "spaces": " ", "digits": "1", "braces": "{", "quotes": '"', "backslashes": "\\", "byte escapes": "\\x41 ",
    "camel": "aB", "words": "x ", "ids": "req-", "hosts": "a.b/ ", "chinese": "余", "waits": "wait 1 s ",
    "markup": "<h1>",
}  # fmt: skip


def _best_s(work: Callable[[str], object], text: str, rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.thread_time()
        work(text)
        taken.append(time.thread_time() - began)
    return min(taken)


def _verdict(text: str) -> object:
    return classify(Failure(message=text))


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_CASES / name).read_text(encoding="utf-8").splitlines()]


def _typical() -> list[str]:
    texts = [row.get("errorMessage") for row in _rows("classification.jsonl")]
    texts += [row["input"].get("errorMessage") for row in _rows("field-cases.jsonl") if row["id"].startswith("FC-A")]
    return [text for text in texts if isinstance(text, str)]


def _long() -> dict[str, str]:
    words = [word for row in _rows("wordings.jsonl") for word in row["message"].split()]
    chance = random.Random(20261130)  # noqa: S311  (the same text in every run)
    mixed = " ".join(chance.choice(words) for _ in range(_MEBIBYTE // 8))
    return {name: unit * (_MEBIBYTE // len(unit)) for name, unit in _LONG.items()} | {"every wording": mixed}


def figures(scale: Scale) -> list[Figure]:
    """Give the costs for the table of all benches."""
    rounds = 7 if scale.full else 3
    median_us = statistics.median(_best_s(_verdict, text, rounds) * 1e6 for text in _typical())
    slowest_ms = max(_best_s(_verdict, text, rounds) * 1e3 for text in _long().values())
    return [
        Figure("classify a recorded error text, median", median_us, 200.0, "us"),
        Figure("classify a megabyte, the slowest kind", slowest_ms, 20.0, "ms"),
    ]


def main() -> int:
    """Print typical costs in microseconds and long ones in milliseconds; status 1 if a bound is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    texts = _typical()
    ours = [_best_s(_verdict, text, rounds) * 1e6 for text in texts]
    records = [json.dumps({"type": "message_end", "message": {"errorMessage": text}}) for text in texts]
    theirs = [_best_s(json.loads, record, rounds) * 1e6 for record in records]
    long_ms = {name: round(_best_s(_verdict, text, rounds) * 1e3, 2) for name, text in _long().items()}
    typical = {"median_us": round(statistics.median(ours), 1), "worst_us": round(max(ours), 1)}
    ratio = round(statistics.median(ours) / statistics.median(theirs), 1)
    sys.stdout.write(json.dumps({**typical, "to_json_loads": ratio, "long_ms": long_ms}) + "\n")
    return int(typical["median_us"] > 200 or max(long_ms.values()) > 20)


if __name__ == "__main__":
    raise SystemExit(main())
