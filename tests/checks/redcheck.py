"""Break the code once per listed rule, on a copy of the tree, and fail unless a test goes red each time.

    python tests/checks/redcheck.py                 # all rows of tests/redchecks.toml
    python tests/checks/redcheck.py --only NAME     # some of them; may be given more than once
    python tests/checks/redcheck.py --list

A row is *red* if one of its tests failed. It is a problem if they stayed green, if its text is gone or stands more than
once, if the tests could not run at all, or if they did not end in time.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[2]
TABLE = "tests/redchecks.toml"
ROW_LIMIT_S = 180.0
_KEYS = {"name", "file", "find", "replace", "tests"}
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_TESTS_FAILED = 1  # pytest's status for "ran, and some failed"; others mean that nothing was judged


@dataclass(frozen=True, slots=True)
class Row:
    """One way to break the code, and the tests that must notice."""

    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one row; `problem` is empty if a test went red."""

    row: Row
    problem: str
    noticed_by: str
    took_s: float


class TableError(Exception):
    """The table cannot be used; its text says which row and why."""


def read_table(text: str) -> list[Row]:
    """Read the rows.

    Raises:
        TableError: a key is missing or unknown, a name stands twice, or a row breaks nothing.

    """
    table: list[Row] = []
    for number, entry in enumerate(tomllib.loads(text).get("row", []), start=1):
        if set(entry) != _KEYS:
            raise TableError(f"row {number} has the keys {sorted(entry)}, wanted {sorted(_KEYS)}")
        row = Row(entry["name"], entry["file"], entry["find"], entry["replace"], tuple(entry["tests"]))
        if row.find == row.replace or not row.find or not row.tests:
            raise TableError(f"{row.name}: it breaks nothing, or no test is to notice")
        if row.name in {other.name for other in table}:
            raise TableError(f"{row.name}: the name stands twice")
        table.append(row)
    return table


def copy_tree(root: Path, target: Path) -> None:
    """Copy what belongs to the tree: by git's own list if there is one, else all but what is made or kept aside."""
    if (root / ".git").exists():
        listing = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, capture_output=True, text=True, check=True, timeout=60).stdout
        for name in filter(None, listed.split("\0")):
            if (root / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, target / name)
        return
    made = shutil.ignore_patterns(".venv*", "build", "dist", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(root, target, ignore=made, dirs_exist_ok=True)


def stale(row: Row, root: Path) -> str:
    """Say why a row cannot be applied to the tree at `root`; empty if it can."""
    file = root / row.file
    if not file.is_file():
        return f"stale: {row.file} is gone"
    count = file.read_text(encoding="utf-8").count(row.find)
    return "" if count == 1 else f"stale: its text stands {count} times in {row.file}"


def _pytest(tree: Path, tests: tuple[str, ...], limit_s: float) -> tuple[int | None, str]:
    """Run tests in `tree` against the code there; the status is None if they did not end in time."""
    # No bytecode: a file broken and mended within one second would otherwise be taken from its cache.
    env = dict(os.environ, PYTHONPATH=str(tree), PYTHONDONTWRITEBYTECODE="1", CI="true")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", *tests]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        process = subprocess.Popen(
            command,
            cwd=tree,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: int | None
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end_group(process)
        out.seek(0)
        return status, out.read()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    # Tests may have started processes of their own; the group holds nothing but what this row started.
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # all of them had ended
    process.wait()


def break_once(row: Row, tree: Path, limit_s: float = ROW_LIMIT_S) -> Verdict:
    """Break the copy at `tree` as `row` says, run the tests, and mend it again."""
    began = time.monotonic()
    problem, noticed_by = stale(row, tree), ""
    if not problem:
        file = tree / row.file
        sound = file.read_text(encoding="utf-8")
        file.write_text(sound.replace(row.find, row.replace), encoding="utf-8")
        try:
            status, output = _pytest(tree, row.tests, limit_s)
        finally:
            file.write_text(sound, encoding="utf-8")
        problem, noticed_by = _judge(status, output, limit_s)
    return Verdict(row, problem, noticed_by, time.monotonic() - began)


def _judge(status: int | None, output: str, limit_s: float) -> tuple[str, str]:
    if status is None:
        return f"the tests did not end within {limit_s:.0f} s", ""
    if status == 0:
        return "no test went red", ""
    failed = _FAILED.search(output)
    # An interpreter that could not even start has the same status as tests that failed: only a named test counts.
    if status != _TESTS_FAILED or failed is None:
        last = (output.strip().splitlines() or [""])[-1]
        return f"the tests could not run (status {status}): {last}", ""
    return "", failed[1]


def _sound_problem(table: list[Row], tree: Path) -> str:
    """Say what is red before anything was broken; empty if nothing is."""
    tests = tuple(sorted({test for row in table for test in row.tests}))
    if not tests:
        return ""  # pytest without a name would run everything
    status, output = _pytest(tree, tests, ROW_LIMIT_S * 2)
    return "" if status == 0 else f"the unbroken tree is not green (pytest's status {status}):\n{output}"


def run(table: list[Row], root: Path, jobs: int) -> list[str]:
    """Break the tree at `root` once per row, `jobs` rows at a time, printing a line for each.

    Returns:
        One line for each problem; empty if each row made a test go red.

    """
    with tempfile.TemporaryDirectory(prefix="redcheck-") as folder, ThreadPoolExecutor(jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            tree = Path(folder) / f"tree{number}"
            copy_tree(root, tree)
            trees.put(tree)
        problem = _sound_problem([row for row in table if not stale(row, root)], Path(folder) / "tree0")
        if problem:
            return [problem]

        def one(row: Row) -> Verdict:
            tree = trees.get()
            try:
                return break_once(row, tree)
            finally:
                trees.put(tree)

        problems = []
        for number, verdict in enumerate(pool.map(one, table), start=1):
            word = "NOT RED" if verdict.problem else "red"
            said = verdict.problem or verdict.noticed_by
            print(f"[{number}/{len(table)}] {word} {verdict.row.name} {verdict.took_s:.1f} s  {said}", flush=True)
            if verdict.problem:
                problems.append(f"{verdict.row.name}: {verdict.problem}")
        return problems


def main(argv: list[str] | None = None) -> int:
    """Run the rows; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to break a copy of (default: this one)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only the row with this name")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="rows at a time (default: 2)")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and end")
    options = parser.parse_args(argv)
    root = options.root.resolve()
    try:
        table = read_table((root / TABLE).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, TableError) as error:
        print(f"redcheck: {TABLE}: {error}")
        return 1
    if options.only:
        table = [row for row in table if row.name in options.only]
    if options.list:
        print(*[row.name for row in table], sep="\n")
        return 0
    if not table:
        print("redcheck: no rows to break")
        return 1
    problems = run(table, root, max(1, options.jobs))
    for problem in problems:
        print(f"redcheck: {problem}")
    print(f"redcheck: {len(problems)} problems" if problems else f"redcheck: all {len(table)} rows went red")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
