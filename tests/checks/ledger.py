"""Keep the ledger of decisions true: its rows, and the commits that touch what it governs.

    python tests/checks/ledger.py           # prints what is wrong, status 1 if anything is

Rows: an id stands once, has a date, a known status and a link to its reasons, and names no file that is gone.
Commits: one that touches the contract, the emit rule's module or the lanes' either touches the ledger or says
`Ledger-impact: none, because …`; one that adds rows says `Ledger-impact: DL-…` with each of their ids. History is
never rewritten, so a commit that forgot is mended by a later one that says `Ledger-impact-of <commit>: …`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEDGER = "DECISIONS.md"
GOVERNED = (
    "proto/",
    "compass_otel/lane_pair.py",
    "compass_otel/lanes.py",
    "compass_otel/mapper.py",
    "compass_otel/priority.py",
    "compass_otel/priority_lane.py",
    "compass_otel/sink.py",
)

_ROW = re.compile(r"^\|\s*(?P<id>DL-\d+)\s*\|(?P<cells>.*)\|\s*$", re.MULTILINE)
_STATUS = re.compile(r"Active|Withdrawn|Superseded by (?P<by>DL-\d+)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\s]+)`")
_FILE_ENDINGS = ("json", "jsonl", "md", "mjs", "proto", "py", "pyi", "sh", "toml", "ts", "txt", "yaml", "yml")
_FILE = re.compile(rf"[\w.-]+(/[\w.-]+)*(/|\.({'|'.join(_FILE_ENDINGS)}))")
_HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)
_IMPACT = re.compile(r"^Ledger-impact:[ \t]*(?P<said>.+(?:\n[ \t]+.+)*)", re.MULTILINE)
_IMPACT_OF = re.compile(
    r"^Ledger-impact-of[ \t]+(?P<sha>[0-9a-f]{7,40}):[ \t]*(?P<said>.+(?:\n[ \t]+.+)*)", re.MULTILINE
)
_NONE = re.compile(r"none,\s+because\s+\S.{7,}", re.DOTALL)
_RANGE = re.compile(r"DL-(\d+)\s*(?:\.\.|to)\s*DL-(\d+)")
_ID = re.compile(r"DL-\d+")


@dataclass(frozen=True, slots=True)
class Row:
    """One decision as the table states it."""

    id: str
    date: str
    decision: str
    status: str


@dataclass(frozen=True, slots=True)
class Commit:
    """What the history check needs of one commit."""

    sha: str
    message: str
    paths: tuple[str, ...]


def rows(text: str) -> list[Row]:
    """Read the table; a row with the wrong number of cells has an empty date and fails the check of its date."""
    found = []
    for match in _ROW.finditer(text):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", match["cells"])]
        date, decision, status = cells if len(cells) == 3 else ("", match["cells"], "")
        found.append(Row(match["id"], date, decision, status))
    return found


def _anchor(heading: str) -> str:
    # The form that the usual Markdown viewers give a heading.
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def row_problems(text: str, root: Path) -> list[str]:
    """Check the table against itself and against the tree below `root`."""
    table = rows(text)
    if not table:
        return [f"{LEDGER} has no rows"]
    ids = Counter(row.id for row in table)
    anchors = {_anchor(heading) for heading in _HEADING.findall(text)}
    problems = [f"{row_id} stands {count} times" for row_id, count in ids.items() if count > 1]
    for row in table:
        problems += [f"{row.id}: {problem}" for problem in _one_row_problems(row, ids, anchors, root)]
    return problems


def _one_row_problems(row: Row, ids: Counter[str], anchors: set[str], root: Path) -> list[str]:
    problems = []
    if not _DATE.fullmatch(row.date):
        problems.append(f"the date {row.date!r} is not YYYY-MM-DD, or the row has not four cells")
    status = _STATUS.fullmatch(row.status)
    if status is None:
        problems.append(f"the status {row.status!r} is not Active, Withdrawn or Superseded by DL-…")
    elif status["by"] and not ids[status["by"]]:
        problems.append(f"it is superseded by {status['by']}, which is not in the table")
    links = _LINK.findall(row.decision)
    if not links:
        problems.append("no link to its reasons")
    problems += [f"its link {link} leads nowhere" for link in links if not _leads_somewhere(link, anchors, root)]
    named = [name for name in _CODE.findall(row.decision) if _FILE.fullmatch(name)]
    return problems + [f"it names {name}, which is gone" for name in named if not _exists(name, root)]


def _leads_somewhere(link: str, anchors: set[str], root: Path) -> bool:
    path, _, anchor = link.partition("#")
    return (root / path).exists() if path else anchor in anchors


def _exists(name: str, root: Path) -> bool:
    # A bare file name may stand for a module, as people speak of it.
    return (root / name).exists() or ("/" not in name and (root / "compass_otel" / name).exists())


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def history(root: Path) -> list[Commit]:
    """List the commits that are there, oldest first; those at the edge of a shallow clone have no parent to compare."""
    shown = _git(root, "log", "--reverse", "--cc", "--no-renames", "--name-only", "--format=%x01%H%x00%B%x00", "HEAD")
    edge = Path(_git(root, "rev-parse", "--path-format=absolute", "--git-path", "shallow").strip())
    cut = set(edge.read_text(encoding="utf-8").split()) if edge.is_file() else set()
    commits = []
    for entry in shown.split("\x01")[1:]:
        sha, message, names = entry.split("\x00")
        if sha not in cut:
            commits.append(Commit(sha, message, tuple(name for name in names.split("\n") if name)))
    return commits


def _added_ids(root: Path, sha: str) -> set[str]:
    def ids_at(revision: str) -> set[str]:
        shown = subprocess.run(
            ["git", "-C", str(root), "show", f"{revision}:{LEDGER}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        # A commit before the ledger, or without a parent, has no rows.
        return {row.id for row in rows(shown.stdout)} if shown.returncode == 0 else set()

    before: set[str] = set()
    for parent in _git(root, "rev-list", "--parents", "-n", "1", sha).split()[1:]:
        before |= ids_at(parent)
    return ids_at(sha) - before


def _named_ids(said: str) -> set[str]:
    named = set(_ID.findall(said))
    for low, high in _RANGE.findall(said):
        named |= {f"DL-{number}" for number in range(int(low), int(high) + 1)}
    return named


def history_problems(root: Path) -> list[str]:
    """Check each commit since the ledger began; without a git history there is nothing to check."""
    if not (root / ".git").exists():
        return []
    commits = history(root)
    began = next((place for place, commit in enumerate(commits) if LEDGER in commit.paths), len(commits))
    later = {match["sha"]: match["said"] for commit in commits for match in _IMPACT_OF.finditer(commit.message)}
    problems = []
    for commit in commits[began:]:
        mended = [text for sha, text in later.items() if commit.sha.startswith(sha)]
        problems += [f"{commit.sha[:10]}: {problem}" for problem in _commit_problems(root, commit, mended)]
    return problems


def _commit_problems(root: Path, commit: Commit, mended: list[str]) -> list[str]:
    problems = []
    said = [match["said"] for match in _IMPACT.finditer(commit.message)] + mended
    touches_ledger = LEDGER in commit.paths
    governed = [path for path in commit.paths if path.startswith(GOVERNED)]
    excused = any(_NONE.match(text) for text in said) or any(_ID.match(text) for text in mended)
    if governed and not touches_ledger and not excused:
        problems.append(f"touches {governed[0]} but neither {LEDGER} nor says `Ledger-impact: none, because …`")
    if touches_ledger:
        unnamed = _added_ids(root, commit.sha) - {named for text in said for named in _named_ids(text)}
        if unnamed:
            listed = ", ".join(sorted(unnamed))
            problems.append(f"adds {listed} but does not say `Ledger-impact: {listed}`")
    return problems


def check(root: Path) -> list[str]:
    """Check the rows and the history of the tree at `root`; returns one line for each problem."""
    ledger = root / LEDGER
    if not ledger.is_file():
        return [f"{LEDGER} is missing"]
    return row_problems(ledger.read_text(encoding="utf-8"), root) + history_problems(root)


def main(argv: list[str] | None = None) -> int:
    """Print what is wrong; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to check (default: this one)")
    root = parser.parse_args(argv).root.resolve()
    problems = check(root)
    for line in problems:
        print(f"ledger: {line}")
    if not problems:
        seen = "with its history" if (root / ".git").exists() else "without a history, there being none here"
        print(f"ledger: ok, {seen}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
