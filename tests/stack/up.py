"""Starts the stack on the usual loopback ports and keeps it until Ctrl-C: `make stack-up`.

`--any-ports` takes ports that are free, where something listens on the usual ones.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Final

# Started as a file, not as a part of the package.
sys.path.insert(0, str(Path(__file__).parent.parent))

from stack.build import BUILD, missing
from stack.programs import Collector, Jaeger, Prometheus

_PORTS: Final = {
    4317: "the Collector's OTLP over gRPC",
    4318: "the Collector's OTLP over HTTP",
    13133: "the Collector's health",
    18888: "the Collector's own metrics",
    14317: "Jaeger's OTLP",
    16686: "Jaeger's API",
    9090: "Prometheus",
}
_USUAL: Final = {
    "OTLP_GRPC_ENDPOINT": "127.0.0.1:4317",
    "OTLP_HTTP_ENDPOINT": "127.0.0.1:4318",
    "HEALTH_ENDPOINT": "127.0.0.1:13133",
    "COLLECTOR_METRICS_PORT": "18888",
    "COLLECTOR_STATE": str(BUILD / "stack-state"),
}
_TRYING_OUT: Final = {"KEEP_PERCENT": "100", "DECISION_GRACE": "2s"}
"""Who tries it out wants to see everything, and soon."""
_TUNABLE: Final = ("KEEP_PERCENT", "DECISION_GRACE", "DECISION_WAIT", "SLOW_MS", "COSTLY_USD", "MEMORY_LIMIT_MIB")
"""What a person may set in the environment."""


def taken() -> list[str]:
    """Say which of the usual ports somebody else listens on."""
    lines = []
    for port, what in _PORTS.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                lines.append(f"port {port} ({what}) is in use: end what listens there, or add --any-ports")
    return lines


def programs(*, usual_ports: bool) -> tuple[Jaeger, Prometheus, Collector]:
    """Make the three, the Collector in front of the other two."""
    jaeger = Jaeger(otlp_port=14317, query_port=16686) if usual_ports else Jaeger()
    tuned = {name: os.environ[name] for name in _TUNABLE if name in os.environ}
    variables = {**(_USUAL if usual_ports else {}), **_TRYING_OUT, **tuned}
    collector = Collector(traces=jaeger.otlp_endpoint, variables=variables)
    prometheus = Prometheus(collector.metrics_port, port=9090 if usual_ports else None)
    collector.environment["METRICS_ENDPOINT"] = f"{prometheus.url}/api/v1/write"
    return jaeger, prometheus, collector


def directions(jaeger: Jaeger, prometheus: Prometheus, collector: Collector) -> str:
    """Say where to send and where to look."""
    return f"""
The stack is up; Ctrl-C ends it.

  send here    {collector.http_endpoint} (OTLP over HTTP), {collector.grpc_endpoint} (gRPC)
  look here    {jaeger.query_url}/api/traces?service=pi&lookback=1y   Jaeger (no pages in this build)
               {prometheus.url}/graph   Prometheus
               http://127.0.0.1:{collector.metrics_port}/metrics   the Collector about itself
  state        {collector.state_folder}

  for instance compass-otel replay --export --endpoint {collector.http_endpoint} examples/failed-session.jsonl
               JAEGER_URL={jaeger.query_url} python tests/stack/look.py
"""


def main() -> int:
    """Start all three, wait for Ctrl-C or SIGTERM, end all three; give the exit status."""
    usual_ports = "--any-ports" not in sys.argv[1:]
    problems = missing() or (taken() if usual_ports else [])
    for line in problems:
        print(line, file=sys.stderr)
    if problems:
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Started in the background, a shell has told us to ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    jaeger, prometheus, collector = programs(usual_ports=usual_ports)
    try:
        with jaeger, prometheus, collector:
            print(directions(jaeger, prometheus, collector), flush=True)
            while True:
                signal.pause()
    except KeyboardInterrupt:
        print("ended")
        return 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
