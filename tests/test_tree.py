"""What must be true of the tree as a whole, whatever a file is about."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = [
    pytest.mark.checkout,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="an unpacked source distribution has no list of its files"),
]

LONGEST = 400

# A module may be longer only with a reason that stands here, and never longer than the number beside it.
LONGER: dict[str, tuple[int, str]] = {}

# Recorded by real agents or reported from the field: their paths are data, and other people's.
RECORDED = ("examples/failed-session.jsonl", "tests/captures/", "tests/cases/")

# Built from parts, so that this file holds none of what it looks for.
_FOLDERS = ("work", "tmp", "root", "mnt")
MACHINE_PATH = re.compile(r"(?<![\w.~$}/:-])/(?:" + "|".join(_FOLDERS) + r")/[A-Za-z0-9._-]{2,}")
REGISTRY = re.compile(
    "|".join(
        re.escape(".".join(parts))
        for parts in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("registry", "npmjs", "org"),
            ("proxy", "golang", "org"),
            ("sum", "golang", "org"),
            ("crates", "io"),
            ("repo1", "maven", "org"),
            ("deb", "debian", "org"),
        )
    )
)


def tracked() -> list[str]:
    """List the files that are in git, and the new ones that would be."""
    listing = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, capture_output=True, text=True, check=True, timeout=30).stdout.split("\0")
    return sorted({name for name in names if name and (ROOT / name).is_file()})


def _lines(name: str) -> list[tuple[int, str]]:
    text = (ROOT / name).read_bytes()
    if b"\0" in text or name.startswith(RECORDED):
        return []
    return list(enumerate(text.decode("utf-8", "replace").splitlines(), start=1))


def test_no_file_names_a_folder_of_some_machine() -> None:
    """A path that exists on one machine alone has no place in a committed file."""
    found = [
        f"{name}:{n}: {m[0]}" for name in tracked() for n, line in _lines(name) for m in MACHINE_PATH.finditer(line)
    ]
    assert found == []


def test_no_file_names_a_package_registry() -> None:
    """Where packages come from is the machine's business: clients are used as they are set up."""
    found = [f"{name}:{n}: {m[0]}" for name in tracked() for n, line in _lines(name) for m in REGISTRY.finditer(line)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see /ro" + "ot/notes.txt", True),
        ("'/wo" + "rk/shared'", True),
        ("(/mn" + "t/it)", True),
        ("https://example.com/wo" + "rk/it", False),
        ("docs/wo" + "rk/it", False),
        ("~/tm" + "p/it", False),
        ("work and tmp", False),
    ],
)
def test_a_machine_path_is_told_from_what_looks_like_one(text: str, found: bool) -> None:
    """Absolute paths are found; URLs, relative paths and words are not."""
    assert bool(MACHINE_PATH.search(text)) is found


def test_modules_stay_short() -> None:
    """A module has at most 400 lines, or its reason and its own bound stand in the list; the list holds no others."""
    lengths = {
        name: len((ROOT / name).read_text(encoding="utf-8").splitlines())
        for name in tracked()
        if name.endswith(".py") and name.startswith("compass_otel/") and not name.startswith("compass_otel/_pb/")
    }
    too_long = {name: n for name, n in lengths.items() if n > LONGER.get(name, (LONGEST, ""))[0]}
    assert too_long == {}
    assert [name for name in LONGER if lengths.get(name, 0) <= LONGEST] == []
