"""Encoding a span and sending it, as ratios to the stock encoder and exporters: `python tests/bench/bench_encoding.py`.

Every pair is taken in turn in the same run, so that a noisy machine hits both alike; figures are medians, p99 beside
them. The receiver is a process of its own on loopback and answers at once. The stock exporters are those of the
installed SDK with their default transport. Status 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ["GRPC_VERBOSITY"] = "NONE"

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as stock_encode
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from bench.figures import Figure, Scale
from compass_otel import sdk_private
from compass_otel.encoding import encode_span, encode_spans
from compass_otel.otlp_settings import load_settings
from compass_otel.sender import make_sender
from receivers import Receiver

if TYPE_CHECKING:
    from collections.abc import Callable

_BATCH = 512
_DEADLINE_S = 10.0


class _Kept(SpanProcessor):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def spans_of(count: int, attributes: int, events: int) -> list[ReadableSpan]:
    """Spans as the SDK ends them: half of the attributes texts, half numbers."""
    kept = _Kept()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(kept)
    tracer = provider.get_tracer("bench", "1")
    for _ in range(count):
        values = {f"attribute.key.{n}": (f"value number {n}" if n % 2 else n * 1000) for n in range(attributes)}
        span = tracer.start_span("chat claude", attributes=values)
        for _ in range(events):
            span.add_event("exception", {"exception.type": "overloaded", "exception.message": "try again later"})
        span.end()
    return kept.spans


def compare(
    name: str, ours: Callable[[], object], stock: Callable[[], object], rounds: int, per: int
) -> dict[str, Any]:
    """Give medians and p99 in microseconds for one of `per` things, and the ratio of the medians."""
    taken: tuple[list[int], list[int]] = ([], [])
    for number in range(rounds + rounds // 10):
        for work, times in ((ours, taken[0]), (stock, taken[1])):
            began = time.perf_counter_ns()
            work()
            if number >= rounds // 10:  # the first ones load, connect and fill caches
                times.append(time.perf_counter_ns() - began)
    (our, our_p99), (their, their_p99) = (_quantiles(times, per) for times in taken)
    return {
        "what": name, "ours_us": our, "ours_p99_us": our_p99, "stock_us": their, "stock_p99_us": their_p99,
        "ratio": round(our / their, 3),
    }  # fmt: skip


def _quantiles(times_ns: list[int], per: int) -> tuple[float, float]:
    ordered = sorted(times_ns)
    return tuple(round(ordered[int(len(ordered) * share)] / per / 1000, 2) for share in (0.5, 0.99))  # type: ignore[return-value]


def encoding(rounds: int) -> list[dict[str, Any]]:
    """Encode single spans of several sizes, and one batch."""
    results = []
    for attributes, events in ((0, 0), (5, 0), (20, 0), (20, 2)):
        (span,) = spans_of(1, attributes, events)
        name = f"encode 1 span, {attributes} attributes, {events} events"
        results.append(
            compare(
                name,
                lambda span=span: encode_span(span, lane="priority"),  # type: ignore[misc]
                lambda span=span: stock_encode([span]).SerializePartialToString(),  # type: ignore[misc]
                rounds,
                1,
            )
        )
    batch = spans_of(_BATCH, 5, 0)
    results.append(
        compare(
            f"encode {_BATCH} spans, 5 attributes, a span",
            lambda: b"".join(encode_spans(batch)),
            lambda: stock_encode(batch).SerializePartialToString(),
            max(rounds // 50, 20),
            _BATCH,
        )
    )
    return results


def sending(rounds: int) -> list[dict[str, Any]]:
    """Encode and send one span, and one batch, over both protocols."""
    (one,), batch = spans_of(1, 5, 0), spans_of(_BATCH, 5, 0)
    results = []
    with Receiver() as receiver:
        http = make_sender(load_settings(endpoint=receiver.http_endpoint))
        grpc = make_sender(load_settings(endpoint=receiver.grpc_direct_endpoint, protocol="grpc"))
        stock_http = HttpExporter(endpoint=receiver.http_endpoint)
        stock_grpc = GrpcExporter(endpoint=receiver.grpc_direct_endpoint)
        for name, sender, stock in (("http", http, stock_http), ("grpc", grpc, stock_grpc)):

            def send_one(sender: Any = sender) -> object:
                return sender.send((encode_span(one, lane="priority"),), time.monotonic() + _DEADLINE_S)

            def send_batch(sender: Any = sender) -> object:
                return sender.send(encode_spans(batch), time.monotonic() + _DEADLINE_S)

            results.append(compare(f"send 1 span over {name}", send_one, lambda s=stock: s.export((one,)), rounds, 1))  # type: ignore[misc]
            results.append(
                compare(
                    f"send {_BATCH} spans over {name}, a span",
                    send_batch,
                    lambda s=stock: s.export(batch),  # type: ignore[misc]
                    max(rounds // 50, 20),
                    _BATCH,
                )
            )
            sender.close()
            stock.shutdown()
    return results


BARS = {"encode 1 span, 5 attributes, 0 events": 0.25, "send 1 span over http": 0.7}
"""Highest ratios allowed: encoding has to be cheap beside the stock encoder, and delivery beside the stock export."""


def figures(scale: Scale) -> list[Figure]:
    """Give the ratios for the table of all benches."""
    rounds = 2000 if scale.full else 400
    return [
        Figure(f"{each['what']} / stock", each["ratio"], BARS.get(each["what"]))
        for each in encoding(rounds) + sending(rounds)
    ]


def main() -> int:
    """Print one JSON object for each figure; status 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2000)
    options = parser.parse_args()
    sys.stdout.write(json.dumps({"private fields": sdk_private.PROBE.fast, "reason": sdk_private.PROBE.reason}) + "\n")
    results = encoding(options.rounds) + sending(options.rounds)
    for result in results:
        sys.stdout.write(json.dumps(result) + "\n")
    return int(any(result["ratio"] > BARS.get(result["what"], result["ratio"]) for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
