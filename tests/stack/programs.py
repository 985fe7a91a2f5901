"""Starts, kills and restarts the real programs: Collector, Jaeger, Prometheus; each on loopback ports of its own.

with Stack() as stack:
    stack.collector.http_endpoint    # where to send
    stack.jaeger.query_url           # where to look
    stack.collector.kill()           # SIGKILL; `start` begins again, same ports, same folder
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from stack.build import COLLECTOR, HERE, JAEGER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

CONFIG: Final = HERE.parent.parent / "collector-config.yaml"
EXAMPLES: Final = HERE.parent.parent / "examples" / "collector"
_START_LIMIT_S: Final = 60.0
_STOP_LIMIT_S: Final = 30.0
_HTTP_LIMIT_S: Final = 5.0
_OK: Final = 200
# Below the range from which systems take the ports of outgoing connections, so that a program finds its port again.
_FIRST_PORT: Final = 20_000
_PORTS: Final = 10_000


def _port_numbers() -> Iterator[int]:
    first = os.getpid() * 97 % _PORTS
    return (_FIRST_PORT + (first + offset) % _PORTS for offset in itertools.count())


_numbers: Final = _port_numbers()


def free_port() -> int:
    """Give a loopback port that nobody listens on."""
    for number in _numbers:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", number))
            except OSError:
                continue
            return number
    raise AssertionError("unreachable: the numbers never end")


def fetch(url: str, *, data: bytes | None = None) -> bytes | None:
    """Give the body of a 200 answer; None for every other answer, or none."""
    try:
        with urllib.request.urlopen(url, data=data, timeout=_HTTP_LIMIT_S) as answer:  # noqa: S310 - loopback
            return bytes(answer.read()) if answer.status == _OK else None
    except (OSError, urllib.error.URLError):
        return None


class RunningProgram:
    """One program: its command, its environment, its log in a file; a process of its own, ended by its own id."""

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str], ready_url: str) -> None:
        self.name = name
        self.log = Path(tempfile.mkdtemp(prefix=f"{name}-")) / "log"
        self.command = command
        self.environment = dict(environment)
        self._ready_url = ready_url
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start, and wait until it is ready."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """End it and remove its log."""
        self.kill()
        shutil.rmtree(self.log.parent, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def start(self, *, wait: bool = True) -> Self:
        """Start, again after `kill` or `stop`. Blocks until it is ready, at most a minute."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**own, **self.environment}
            )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Wait until it answers."""
        deadline_s = time.monotonic() + _START_LIMIT_S
        while fetch(self._ready_url) is None:
            assert self._process is not None
            status = self._process.poll()
            assert status is None, f"{self.name} ended with status {status}:\n{self.log_text()[-4000:]}"
            assert time.monotonic() < deadline_s, f"{self.name} is not ready:\n{self.log_text()[-4000:]}"
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait until it has ended in order."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def log_text(self) -> str:
        """Give everything that it logged since its first start."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def warnings(self) -> list[str]:
        """Give its log lines of level warn and above."""
        levels = ("\twarn\t", "\terror\t", "\tfatal\t", "\tpanic\t")
        return [line for line in self.log_text().splitlines() if any(level in line for level in levels)]

    def rss_bytes(self) -> int:
        """Memory in use; Linux only."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024


class Jaeger(RunningProgram):
    """Jaeger with its storage in memory: it forgets at a restart."""

    def __init__(self, otlp_port: int | None = None, query_port: int | None = None) -> None:
        self.otlp_port = otlp_port or free_port()
        self.query_port = query_port or free_port()
        environment = {
            "JAEGER_OTLP_ENDPOINT": f"127.0.0.1:{self.otlp_port}",
            "JAEGER_QUERY_ENDPOINT": f"127.0.0.1:{self.query_port}",
            "JAEGER_QUERY_GRPC_ENDPOINT": f"127.0.0.1:{free_port()}",
            # It traces itself, and would send that to port 4317.
            "OTEL_TRACES_SAMPLER": "always_off",
        }
        command = [str(JAEGER), f"--config={HERE / 'jaeger.yaml'}"]
        super().__init__("jaeger", command, environment, f"{self.query_url}/api/services")

    @property
    def query_url(self) -> str:
        """Where its pages and its API are."""
        return f"http://127.0.0.1:{self.query_port}"

    @property
    def otlp_endpoint(self) -> str:
        """Where it takes OTLP over gRPC, as `host:port`."""
        return f"127.0.0.1:{self.otlp_port}"


class Prometheus(RunningProgram):
    """Prometheus that takes remote writes and reads the Collector's own metrics."""

    def __init__(self, collector_metrics_port: int, port: int | None = None, rules: Path | None = None) -> None:
        self.port = port or free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="prometheus-"))
        text = (HERE / "prometheus.yml").read_text(encoding="utf-8")
        if rules is not None:
            text += f"rule_files: [{rules}]\n"
        config = self.folder / "prometheus.yml"
        config.write_text(text.replace("@COLLECTOR_METRICS_PORT@", str(collector_metrics_port)), encoding="utf-8")
        command = [
            shutil.which("prometheus") or "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--web.enable-remote-write-receiver",
            "--enable-feature=exemplar-storage",
        ]
        super().__init__("prometheus", command, {}, f"{self.url}/-/ready")

    def __exit__(self, *_: object) -> None:
        """End it and forget what it stored."""
        super().__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """Where its pages and its API are."""
        return f"http://127.0.0.1:{self.port}"


class Collector(RunningProgram):
    """The Collector with `collector-config.yaml`, what is laid over it, and the variables that these files name."""

    def __init__(
        self,
        *overlays: Path | str,
        config: Path = CONFIG,
        traces: str = "127.0.0.1:1",
        metrics_url: str = "http://127.0.0.1:1/api/v1/write",
        wrap: tuple[str, ...] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="collector-state-"))
        environment = {
            "OTLP_GRPC_ENDPOINT": f"127.0.0.1:{free_port()}",
            "OTLP_HTTP_ENDPOINT": f"127.0.0.1:{free_port()}",
            "TRACES_ENDPOINT": traces,
            "METRICS_ENDPOINT": metrics_url,
            "COLLECTOR_STATE": str(self.folder / "state"),
            "HEALTH_ENDPOINT": f"127.0.0.1:{free_port()}",
            "COLLECTOR_METRICS_PORT": str(free_port()),
            **(variables or {}),
        }
        command = [*wrap, str(COLLECTOR), *(f"--config={source}" for source in (config, *overlays))]
        super().__init__("otelcol", command, environment, f"http://{environment['HEALTH_ENDPOINT']}/")

    def __exit__(self, *_: object) -> None:
        """End it and remove its state."""
        super().__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def http_endpoint(self) -> str:
        """The base URL of OTLP over HTTP, as a person types it."""
        return f"http://{self.environment['OTLP_HTTP_ENDPOINT']}"

    @property
    def grpc_endpoint(self) -> str:
        """The URL of OTLP over gRPC."""
        return f"http://{self.environment['OTLP_GRPC_ENDPOINT']}"

    @property
    def state_folder(self) -> Path:
        """Where its queues are."""
        return Path(self.environment["COLLECTOR_STATE"])

    @property
    def metrics_port(self) -> int:
        """The port of its own metrics."""
        return int(self.environment["COLLECTOR_METRICS_PORT"])

    def metrics(self) -> dict[str, float]:
        """Read its own metrics: sums by name, over all labels."""
        body = fetch(f"http://127.0.0.1:{self.metrics_port}/metrics") or b""
        sums: dict[str, float] = {}
        for line in body.decode().splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                sums[name.partition("{")[0]] = sums.get(name.partition("{")[0], 0.0) + float(value)
        return sums


def validate(*configs: Path, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Let the Collector check files that are laid over each other; its status and what it says."""
    return subprocess.run(
        [str(COLLECTOR), "validate", *(f"--config={config}" for config in configs)],
        capture_output=True,
        text=True,
        timeout=_START_LIMIT_S,
        check=False,
        env={**os.environ, **(environment or {})},
    )


class Stack:
    """The three together, the Collector in front of the other two."""

    def __init__(
        self, *overlays: Path | str, prometheus: bool = True, variables: Mapping[str, str] | None = None
    ) -> None:
        self.jaeger = Jaeger()
        self.collector = Collector(*overlays, traces=self.jaeger.otlp_endpoint, variables=variables)
        self.prometheus = Prometheus(self.collector.metrics_port) if prometheus else None
        if self.prometheus is not None:
            self.collector.environment["METRICS_ENDPOINT"] = f"{self.prometheus.url}/api/v1/write"
        backends: list[RunningProgram] = [self.jaeger]
        if self.prometheus is not None:
            backends.append(self.prometheus)
        self._programs = [*backends, self.collector]

    def __enter__(self) -> Self:
        """Start all, what is sent to first."""
        try:
            for program in self._programs:
                program.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all."""
        for program in reversed(self._programs):
            program.__exit__(kind, error, trace)
