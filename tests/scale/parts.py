"""Starts and kills the four parts of `examples/scale`: host Collector, Kafka, consumers, storage; loopback only."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from scale.build import COLLECTOR, HERE, KAFKA_JARS
from stack.build import JAEGER
from stack.programs import CONFIG, Collector, Jaeger, RunningProgram, free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EXAMPLES: Final = HERE.parent.parent / "examples" / "scale"
HOST: Final = EXAMPLES / "host.yaml"
CONSUMER: Final = EXAMPLES / "consumer.yaml"
PRIORITY_TOPIC: Final = "agent-priority"
SPANS_TOPIC: Final = "agent-spans"
PARTITIONS: Final = 4
_START_LIMIT_S: Final = 90.0
_COMMAND_LIMIT_S: Final = 60
_JAVA: Final = ("java", "-Xms96m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{KAFKA_JARS}/*")
_STARTED: Final = "Kafka Server started"
_SETTINGS: Final = "kafka.properties"


class Kafka(RunningProgram):
    """One Kafka node that is broker and controller; its log is on disk and survives `kill`."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-"))
        self._settings = self.folder / _SETTINGS
        self._log_read = 0
        text = (HERE / _SETTINGS).read_text(encoding="utf-8")
        values = {"BROKER_PORT": self.port, "CONTROLLER_PORT": free_port(), "FOLDER": self.folder / "log"}
        for name, value in values.items():
            text = text.replace(f"@{name}@", str(value))
        self._settings.write_text(text, encoding="utf-8")
        super().__init__("kafka", [*_JAVA, "kafka.Kafka", str(self._settings)], {}, ready_url="")

    def __enter__(self) -> Self:
        """Format its folder, start it, and make the topics."""
        cluster = str(uuid.UUID(int=1))
        self._tool("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings))
        self.start()
        self.make_topics()
        return self

    def __exit__(self, *_: object) -> None:
        """End it and forget what it kept."""
        super().__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def brokers(self) -> str:
        """Where it listens, as the Collectors are told."""
        return f"127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True) -> Self:
        """Start, again after `kill`; it says by itself when it is ready."""
        self._log_read = len(self.log_text())
        return super().start(wait=wait)

    def wait_ready(self) -> None:
        """Wait until it says that it has started, and takes connections."""
        deadline_s = time.monotonic() + _START_LIMIT_S
        while not (_STARTED in self.log_text()[self._log_read :] and self._listens()):
            assert self.is_running(), f"Kafka ended:\n{self.log_text()[-4000:]}"
            assert time.monotonic() < deadline_s, f"Kafka is not ready:\n{self.log_text()[-4000:]}"
            time.sleep(0.05)

    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def make_topics(self) -> None:
        """Make both topics, with partitions to share."""
        for topic in (PRIORITY_TOPIC, SPANS_TOPIC):
            self._tool(
                "org.apache.kafka.tools.TopicCommand",
                *("--bootstrap-server", self.brokers, "--create", "--topic", topic),
                *("--partitions", str(PARTITIONS), "--config", "max.message.bytes=5242880"),
            )

    def _tool(self, name: str, *arguments: str) -> str:
        done = subprocess.run(
            [*_JAVA, name, *arguments], capture_output=True, text=True, timeout=_COMMAND_LIMIT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class Storage(Jaeger):
    """Jaeger with its storage on disk: it remembers through `kill`."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="storage-"))
        self.environment["STORAGE_FOLDER"] = str(self.folder)
        self.command = [str(JAEGER), f"--config={HERE / 'storage.yaml'}"]

    def __exit__(self, *_: object) -> None:
        """End it and forget what it stored."""
        super().__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)


class HostCollector(Collector):
    """The Collector of one host, as `examples/scale/host.yaml` says."""

    def __init__(self, kafka: Kafka, *overlays: Path | str, variables: Mapping[str, str] | None = None) -> None:
        super().__init__(
            HOST, *overlays, config=CONFIG, variables={"KAFKA_BROKERS": kafka.brokers, **(variables or {})}
        )
        self.command[0] = str(COLLECTOR.target)


class Consumer(Collector):
    """One consumer, as `examples/scale/consumer.yaml` says."""

    def __init__(
        self, name: str, kafka: Kafka, traces: str, *overlays: Path | str, variables: Mapping[str, str] | None = None
    ) -> None:
        self.consumer_name = name
        own = {"KAFKA_BROKERS": kafka.brokers, "CONSUMER_NAME": name, **(variables or {})}
        super().__init__(*overlays, config=CONSUMER, traces=traces, variables=own)
        self.command[0] = str(COLLECTOR.target)


class Parts:
    """All of it: a host, Kafka, two consumers of one group, storage."""

    def __init__(
        self, *consumer_overlays: Path | str, variables: Mapping[str, str] | None = None, consumers: int = 2
    ) -> None:
        self.kafka = Kafka()
        self.storage = Storage()
        self.host = HostCollector(self.kafka, variables=variables)
        names = (f"consumer-{number}" for number in range(consumers))
        self.consumers = [self._consumer(name, consumer_overlays, variables) for name in names]
        self._stack = ExitStack()

    def _consumer(self, name: str, overlays: Iterable[Path | str], variables: Mapping[str, str] | None) -> Consumer:
        return Consumer(name, self.kafka, self.storage.otlp_endpoint, *overlays, variables=variables)

    def __enter__(self) -> Self:
        """Start all, what is sent to first."""
        programs: tuple[RunningProgram, ...] = (self.kafka, self.storage, *self.consumers, self.host)
        with ExitStack() as starting:
            for program in programs:
                starting.push(program.__exit__)
                program.__enter__()
            self._stack = starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End all."""
        self._stack.close()
