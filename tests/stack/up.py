"""Starts the stack on the usual loopback ports and keeps it until Ctrl-C: `make stack-up`."""

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
    16686: "Jaeger's pages",
    9090: "Prometheus",
}
_STATE: Final = BUILD / "stack-state"
_COLLECTOR: Final = {
    "OTLP_GRPC_ENDPOINT": "127.0.0.1:4317",
    "OTLP_HTTP_ENDPOINT": "127.0.0.1:4318",
    "HEALTH_ENDPOINT": "127.0.0.1:13133",
    "COLLECTOR_METRICS_PORT": "18888",
    "COLLECTOR_STATE": str(_STATE),
    # To see all there is: nothing is thinned, and what can wait waits a moment only.
    "KEEP_PERCENT": "100",
    "DECISION_GRACE": "2s",
}
_TUNABLE: Final = ("KEEP_PERCENT", "DECISION_GRACE", "DECISION_WAIT", "SLOW_MS", "COSTLY_USD", "MEMORY_LIMIT_MIB")
"""What a person may set in the environment to try it out."""
_LINES: Final = f"""
The stack is up; Ctrl-C ends it.

  send here    http://127.0.0.1:4318 (OTLP over HTTP), http://127.0.0.1:4317 (gRPC)
  look here    http://127.0.0.1:16686/api/traces?service=pi   Jaeger's API (this build has no pages)
               http://127.0.0.1:9090/graph                    Prometheus
               http://127.0.0.1:18888/metrics                 the Collector about itself
  state        {_STATE}

  for instance compass-otel replay --export --endpoint http://127.0.0.1:4318 examples/failed-session.jsonl
"""


def taken() -> list[str]:
    """Say which of the ports somebody else listens on."""
    lines = []
    for port, what in _PORTS.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                lines.append(f"port {port} ({what}) is in use; end what listens there")
    return lines


def main() -> int:
    """Start all three, wait for Ctrl-C or SIGTERM, end all three; give the exit status."""
    problems = missing() or taken()
    for line in problems:
        print(line, file=sys.stderr)
    if problems:
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    jaeger = Jaeger(otlp_port=14317, query_port=16686)
    prometheus = Prometheus(18888, port=9090)
    collector = Collector(
        traces=jaeger.otlp_endpoint,
        metrics_url=f"{prometheus.url}/api/v1/write",
        variables={**_COLLECTOR, **{name: os.environ[name] for name in _TUNABLE if name in os.environ}},
    )
    try:
        with jaeger, prometheus, collector:
            print(_LINES, flush=True)
            while True:
                signal.pause()
    except KeyboardInterrupt:
        print("ended")
        return 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
