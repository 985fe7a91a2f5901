"""Gets what the tests of `examples/scale` need besides `make stack`: a Collector with Kafka's ends, and Kafka itself.

`python tests/scale/build.py`; both go to `build/` and stay there until their pins change. Kafka comes from Maven,
about 50 MB; it needs Java 17 or newer.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

# As a script it is no part of a package.
sys.path.insert(0, str(Path(__file__).parent.parent))

from stack.build import BUILD, GO_HINT, JAEGER, Program, build, has_go
from stack.build import PROGRAMS as STACK_PROGRAMS

HERE: Final = Path(__file__).parent
KAFKA_JARS: Final = BUILD / "kafka"
JAVA_HINT: Final = "Java 17 and Maven are missing: `apt-get install -y maven`, or `brew install maven`"
BUILD_HINT: Final = "the Collector for Kafka, or Kafka, is not there: `python tests/scale/build.py`"
_POM: Final = HERE / "pom.xml"
_STAMP: Final = KAFKA_JARS / "pom.xml"
_FETCH_LIMIT_S: Final = 600

COLLECTOR: Final = Program(
    "Collector for Kafka",
    HERE / "collector",
    BUILD / "otelcol-kafka",
    (("tool", "builder", "--config=manifest.yaml"),),
    HERE / "collector" / "_build" / "otelcol-kafka",
)


def has_java() -> bool:
    """Whether Java and Maven are there."""
    return shutil.which("java") is not None and shutil.which("mvn") is not None


def has_kafka() -> bool:
    """Whether Kafka is there, and of these pins."""
    return _STAMP.exists() and _STAMP.read_bytes() == _POM.read_bytes()


def missing() -> str | None:
    """Say in one line what the tests still need; None when they can start."""
    if not has_java():
        return JAVA_HINT
    if not (COLLECTOR.is_current() and has_kafka()):
        return BUILD_HINT
    jaeger = next(each for each in STACK_PROGRAMS if each.target == JAEGER)
    return None if jaeger.is_current() else "Jaeger is not built: `make stack`"


def fetch_kafka() -> None:
    """Copy Kafka and what it needs into one folder, unless it is there. Raises CalledProcessError."""
    if has_kafka():
        print(f"Kafka: {KAFKA_JARS} is current")
        return
    print("Kafka: fetching from Maven Central", flush=True)
    shutil.rmtree(KAFKA_JARS, ignore_errors=True)
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={KAFKA_JARS}")
    subprocess.run(["nice", "mvn", "-q", "-B", "-f", str(_POM), *goal], check=True, timeout=_FETCH_LIMIT_S)
    shutil.copyfile(_POM, _STAMP)


def main() -> int:
    """Get what is missing; give the exit status."""
    if not has_java():
        print(JAVA_HINT, file=sys.stderr)
        return 1
    if not COLLECTOR.is_current() and not has_go():
        print(GO_HINT, file=sys.stderr)
        return 1
    try:
        fetch_kafka()
        build(COLLECTOR)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{error}; see above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
