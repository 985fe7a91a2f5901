"""Builds the Collector and Jaeger from pinned Go modules, and finds Prometheus: `make stack`.

Each program has a folder with its own `go.mod` here, since their modules would drag each other along. A program is
built again only when something in its folder changed; the first build takes minutes and about 6 GB of Go's caches.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
BUILD: Final = HERE.parent.parent / "build"
COLLECTOR: Final = BUILD / "otelcol"
JAEGER: Final = BUILD / "jaeger"
PROMETHEUS_HINT: Final = "Prometheus is missing: `apt-get install -y prometheus`, or `brew install prometheus`"
GO_HINT: Final = "Go 1.21 or newer is missing, which fetches the release that the modules ask for: https://go.dev/dl"

_OLDEST_GO_MINOR: Final = 21
_JAEGER_PACKAGE: Final = "github.com/jaegertracing/jaeger/cmd/jaeger"
_JAEGER_VERSION: Final = "v2.13.0"
"""What the module v1.76.0 calls itself; a build from the module cache does not know."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to build: the folder that pins it, where it goes, and the Go commands that make it there."""

    name: str
    folder: Path
    target: Path
    commands: tuple[tuple[str, ...], ...]
    made: Path

    def stamp(self) -> Path:
        """Give the file that tells what *target* was built from."""
        return self.target.with_suffix(".stamp")

    def pins(self) -> str:
        """Digest what decides about the binary."""
        digest = hashlib.sha256(repr(self.commands).encode())
        for path in sorted(self.folder.iterdir()):
            if path.is_file():
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def is_current(self) -> bool:
        """Tell whether the binary is there and stems from these pins."""
        return self.target.exists() and self.stamp().exists() and self.stamp().read_text() == self.pins()


PROGRAMS: Final = (
    Program(
        "Collector",
        HERE / "collector",
        COLLECTOR,
        (("tool", "builder", "--config=manifest.yaml"),),
        HERE / "collector" / "_build" / "otelcol",
    ),
    Program(
        "Jaeger",
        HERE / "jaeger",
        JAEGER,
        (
            (
                "build",
                "-trimpath",
                f"-ldflags=-s -w -X github.com/jaegertracing/jaeger/internal/version.latestVersion={_JAEGER_VERSION}",
                "-o",
                "_build/jaeger",
                _JAEGER_PACKAGE,
            ),
        ),
        HERE / "jaeger" / "_build" / "jaeger",
    ),
)


def missing() -> list[str]:
    """Say, a line each, what the stack still needs; empty when it can start."""
    lines = [f"{each.name} is not built: `make stack`" for each in PROGRAMS if not each.is_current()]
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        lines.append(PROMETHEUS_HINT)
    return lines


def has_go() -> bool:
    """Whether there is a Go that can fetch newer ones of itself."""
    if shutil.which("go") is None:
        return False
    version = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"go1\.(\d+)", version)
    return match is not None and int(match[1]) >= _OLDEST_GO_MINOR


def build(program: Program) -> None:
    """Build one program, unless it is current. Blocks for minutes; raises CalledProcessError."""
    if program.is_current():
        print(f"{program.name}: {program.target} is current")
        return
    print(f"{program.name}: building from {program.folder / 'go.mod'}; the first time takes minutes", flush=True)
    began_s = time.monotonic()
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -buildvcs=false"}
    for command in program.commands:
        subprocess.run(["nice", "go", *command], cwd=program.folder, check=True, env=environment)
    BUILD.mkdir(exist_ok=True)
    program.made.replace(program.target)
    shutil.rmtree(program.made.parent)
    program.stamp().write_text(program.pins())
    size_mb = program.target.stat().st_size / 1e6
    print(f"{program.name}: {program.target}, {size_mb:.0f} MB, after {time.monotonic() - began_s:.0f} s")


def main() -> int:
    """Build what is missing; give the exit status."""
    outdated = [each for each in PROGRAMS if not each.is_current()]
    if outdated and not has_go():
        print(GO_HINT, file=sys.stderr)
        return 1
    for program in PROGRAMS:
        try:
            build(program)
        except subprocess.CalledProcessError as error:
            print(f"{program.name}: go ended with status {error.returncode}; see above", file=sys.stderr)
            return 1
    lacking = missing()
    for line in lacking:
        print(line, file=sys.stderr)
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
