"""The recorded rows against the real package: what it was when they were recorded, and what its newest release says.

The package alone is fetched, without its dependencies: the two classifiers have none. It is kept under `build/`, the
answer to "which is the newest" for a day and the news that nothing can be fetched for an hour, so that few runs wait
for the network, and those not for long. Without node and npm, or without the package, the tests are
skipped with one line.
"""

import json
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from classification_cases import ROWS, expected, judged

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "pi-ai"
PACKAGE = "@earendil-works/pi-ai"
RECORDED = "1.6.0"

_NETWORK_S = 25
_JUDGE_S = 20
_HOUR_S = 3_600
_DAY_S = 86_400
_MIN_NODE = 18
"""First release with all that the two files use."""


def _run(*command: str, timeout_s: float, fed: str | None = None) -> str | None:
    try:
        done = subprocess.run(command, input=fed, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _npm(*command: str) -> str | None:
    """Ask npm once, within its time; after a failure not again for an hour."""
    if _fresh(KEPT / "unreachable", _HOUR_S):
        return None
    KEPT.mkdir(parents=True, exist_ok=True)
    said = _run("npm", *command, "--fetch-retries=0", timeout_s=_NETWORK_S)
    if said is None:
        (KEPT / "unreachable").touch()
    return said


def _fresh(note: Path, age_s: float) -> bool:
    return note.is_file() and time.time() - note.stat().st_mtime < age_s


def _newest() -> str | None:
    note = KEPT / "newest"
    if _fresh(note, _DAY_S):
        return note.read_text(encoding="utf-8")
    said = _npm("view", f"{PACKAGE}@^1", "version", "--json")
    if not said:
        return None
    versions = json.loads(said)
    newest = (
        versions if isinstance(versions, str) else max(versions, key=lambda one: [int(part) for part in one.split(".")])
    )
    note.write_text(newest, encoding="utf-8")
    return str(newest)


def _package(version: str) -> Path | None:
    """Return the folder of an unpacked release; several test processes may ask at once."""
    kept = KEPT / version
    if not kept.is_dir():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as scratch:
            packed = _npm("pack", f"{PACKAGE}@{version}", "--pack-destination", scratch)
            archive = next(Path(scratch).glob("*.tgz"), None)
            if packed is None or archive is None:
                return None
            with tarfile.open(archive) as opened:
                opened.extractall(scratch, filter="data")
            try:
                (Path(scratch) / "package").replace(kept)
            except OSError:  # another process was faster
                assert kept.is_dir()
    return kept


@pytest.fixture(scope="module", params=[RECORDED, "newest"])
def package(request: pytest.FixtureRequest) -> Path:
    """Return the folder of the release that the rows were recorded with, or of the newest one."""
    version = _run("node", "--version", timeout_s=_JUDGE_S) if shutil.which("npm") else None
    if version is None or int(version.lstrip("v").split(".")[0]) < _MIN_NODE:
        pytest.skip(f"needs npm and node {_MIN_NODE} or newer to ask the real {PACKAGE}")
    release = _newest() if request.param == "newest" else request.param
    folder = _package(release) if release else None
    if folder is None:
        pytest.skip(f"npm could not fetch {PACKAGE}, so the real classifiers were not asked")
    return folder


def _message(row: Mapping[str, Any]) -> dict[str, Any]:
    nothing = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    return {
        "role": "assistant",
        "stopReason": row.get("stopReason", "error"),
        "errorMessage": row.get("errorMessage"),
        "usage": row.get("usage", nothing),
        "provider": row["provider"],
        "contextWindow": row.get("contextWindow"),
    }


def _asked(package: Path, rows: list[dict[str, Any]]) -> list[dict[str, bool]]:
    judge = Path(__file__).with_name("judge.mjs")
    said = _run("node", str(judge), str(package), timeout_s=_JUDGE_S, fed=json.dumps([_message(row) for row in rows]))
    assert said is not None, f"{package.name} no longer has the two functions where {RECORDED} has them"
    return [{"overflow": overflow, "retryable": retryable} for overflow, retryable in json.loads(said)]


def test_the_real_package_says_what_was_recorded(package: Path) -> None:
    """Each row's recorded verdict is the real one; a release that changed its mind is named with those rows."""
    changed = [
        (package.name, row.get("errorMessage", row.get("note")), row["pi_1_6"], real)
        for row, real in zip(ROWS, _asked(package, ROWS), strict=True)
        if real != row["pi_1_6"]
    ]
    assert changed == []


def test_our_verdicts_are_the_real_ones_but_for_the_listed(package: Path) -> None:
    """The real functions and ours differ on the listed rows and on no other."""
    differing = [
        (package.name, row.get("errorMessage", row.get("note")))
        for row, real in zip(ROWS, _asked(package, ROWS), strict=True)
        if judged(row) != real and expected(row) == row["pi_1_6"]
    ]
    assert differing == []
