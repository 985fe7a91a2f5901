"""The import direction: the tree keeps it, and each forbidden import is noticed on a copy that has it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


@pytest.fixture(name="copy")
def _copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "compass_otel", tmp_path / "compass_otel", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def _add_import(copy: Path, module: str, line: str) -> None:
    # Inside a function too an import is an import: laziness is no way around the direction.
    file = copy / "compass_otel" / f"{module}.py"
    with file.open("a", encoding="utf-8") as out:
        out.write(f"\n\ndef _late() -> None:\n    {line}\n")


def _lint_imports(copy: Path) -> tuple[int, str]:
    done = subprocess.run(
        [str(BIN / "lint-imports"), "--no-logo", "--no-cache"],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_tree_keeps_the_direction() -> None:
    """Every module has a row, and imports only from the rows above its own."""
    status, said = _lint_imports(ROOT)
    assert status == 0, said


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("semconv", "from compass_otel import events"),
        ("events", "from compass_otel import frames"),
        ("frames", "from compass_otel import mapper"),
        ("mapper", "from compass_otel import recorder"),
        ("mapper", "from compass_otel import sink"),
        ("mapper", "from compass_otel import advisor"),
        ("recorder", "from compass_otel import mapper"),
        ("recorder", "from compass_otel import sink"),
        ("sink", "from compass_otel import recorder"),
        ("advisor", "from compass_otel import mapper"),
        ("bridge", "from compass_otel import cli"),
        ("mapper", "import opentelemetry.trace"),
        ("advisor", "import opentelemetry.trace"),
        ("sources/pi_stream", "import opentelemetry.trace"),
    ],
)
def test_an_import_against_the_direction_is_noticed(copy: Path, module: str, line: str) -> None:
    """An import from the same row or from one below, and OpenTelemetry where it has no place, break a contract."""
    _add_import(copy, module, line)
    status, said = _lint_imports(copy)
    assert status == 1
    assert "BROKEN" in said
    importer, imported = module.replace("/", r"\."), line.rsplit(maxsplit=1)[-1].partition(".")[0]
    assert re.search(rf"compass_otel\.{importer} -> (compass_otel\.)?{imported}\b", said)


def test_a_module_without_a_row_is_noticed(copy: Path) -> None:
    """A new module belongs to no row until somebody says where it stands."""
    (copy / "compass_otel" / "newcomer.py").write_text('"""New."""\n', encoding="utf-8")
    status, said = _lint_imports(copy)
    assert status == 1
    assert "newcomer" in said


@pytest.mark.parametrize("module", ["mapper", "recorder", "advisor"])
@pytest.mark.parametrize("line", ["import opentelemetry.sdk.trace", "from opentelemetry.sdk.trace import Span"])
def test_the_sdk_is_banned_where_a_host_owns_the_provider(copy: Path, module: str, line: str) -> None:
    """Mapper, recorder and advisor run on a host's tracer, so importing the SDK there is a finding."""
    _add_import(copy, module, line)
    command = [str(BIN / "ruff"), "check", "--no-cache", "--select", "TID251", f"compass_otel/{module}.py"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "opentelemetry.sdk" in done.stdout
