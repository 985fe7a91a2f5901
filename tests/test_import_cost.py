"""Importing stays cheap: counted, not timed, so that a busy machine changes nothing."""

import json
import subprocess
import sys

from compass_otel.sink import DEFAULT_SPOOL_BYTES
from compass_otel.spool import DEFAULT_MAX_BYTES

_MOST_MODULES = 75
_WEIGHTS = (
    "sqlite3", "ssl", "grpc", "requests", "hashlib", "rich", "opentelemetry.exporter", "opentelemetry.proto",
    "compass_otel.spool", "compass_otel.sender", "compass_otel.lanes", "compass_otel.otlp_settings",
    "compass_otel.classification_rules",
)  # fmt: skip
_LOOK = """
import json, re, sys
import opentelemetry.sdk.trace
compiled, known = [], set(sys.modules)
real = re._compiler.compile
def count(source, flags=0):
    frame = sys._getframe(1)
    while "/re/" in frame.f_code.co_filename: frame = frame.f_back
    if frame.f_globals["__name__"].startswith("compass_otel"): compiled.append(str(source))
    return real(source, flags)
re._compiler.compile = count
import compass_otel
for name in CHOSEN: getattr(compass_otel, name)
print(json.dumps({"modules": sorted(set(sys.modules) - known), "compiled": compiled}))
"""


def _loaded(chosen: str) -> dict[str, list[str]]:
    """Tell what a new process loads and compiles for some names of the front door, the SDK left aside."""
    code = _LOOK.replace("CHOSEN", chosen)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    seen: dict[str, list[str]] = json.loads(told.stdout)
    return seen


def test_the_front_door_alone_loads_nothing_but_itself() -> None:
    """`import compass_otel` is one module and compiles no expression."""
    seen = _loaded("()")
    assert seen == {"modules": ["compass_otel"], "compiled": []}


def test_every_public_name_without_what_it_needs_later() -> None:
    """Importing all public names loads no sender, spool, database, TLS or table of rules, compiles nothing of ours."""
    seen = _loaded("compass_otel.__all__")
    heavy = [name for name in seen["modules"] if name in _WEIGHTS or name.startswith(tuple(f"{w}." for w in _WEIGHTS))]
    assert not heavy
    assert not seen["compiled"]
    assert len([name for name in seen["modules"] if name.startswith("compass_otel")]) <= _MOST_MODULES


def test_a_made_object_has_nothing_left_to_compile() -> None:
    """What a bridge, an advisor and a processor need is built with them, not at the first failure."""
    code = """
import re, sys
from compass_otel import ErrorAdvisor, Failure, SessionBridge, TwoLaneSpanProcessor, classify, scrub
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
made = [ErrorAdvisor(), SessionBridge(), TwoLaneSpanProcessor(InMemorySpanExporter())]
def late(source, flags=0): raise AssertionError(f"compiled late: {source!r}")
re._compiler.compile = late
scrub("Bearer sk-ant-api03-Ab3dEf6hIj9lMn2pQr5tUv8xAA for https://jane:secret@host/?key=1 \\x1b[1m \\ufeff %22a%22")
classify(Failure(message="429 Too many requests, retry after 20 s"))
made[2].shutdown()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


def test_both_defaults_of_the_spool_are_one() -> None:
    """The processor's own default, there so that it need not load the spool, is the spool's."""
    assert DEFAULT_SPOOL_BYTES == DEFAULT_MAX_BYTES
