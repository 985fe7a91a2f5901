"""The ledger's check: each promise broken once, in small repositories made for it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from checks import ledger

ROOT = Path(__file__).resolve().parents[1]

HEAD = "| id | date | decision | status |\n|---|---|---|---|\n"
ONE = "| DL-1 | 2026-01-02 | We do. [Reasons](#dl-1) | Active |\n"
TWO = "| DL-2 | 2026-01-02 | We do too. [Reasons](#dl-2) | Active |\n"
REASONS = "\n### DL-1\n\nBecause.\n\n### DL-2\n\nBecause.\n"


@dataclass(frozen=True, slots=True)
class Repository:
    """A small repository with a ledger in its first commit."""

    path: Path

    def git(self, *arguments: str) -> str:
        """Run git as somebody, without the machine's own settings."""
        env = dict(os.environ, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull)
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-C", str(self.path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, env=env).stdout.strip()

    def commit(self, message: str, **files: str) -> str:
        """Write files, `__` standing for `/` and `_py` for an ending, and commit all; gives the commit's id."""
        for name, text in files.items():
            file = self.path / name.replace("__", "/").replace("_py", ".py").replace("_md", ".md")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture(name="repository")
def _repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "repository")
    repository.path.mkdir()
    repository.git("init", "-q", "-b", "main")
    repository.commit("Before the ledger", compass_otel__mapper_py="0")
    repository.commit("Open it\n\nLedger-impact: DL-1", DECISIONS_md=HEAD + ONE + REASONS)
    return repository


def _problems(text: str, root: Path = ROOT) -> list[str]:
    return ledger.row_problems(text, root)


@pytest.mark.checkout
def test_the_ledger_of_this_tree_holds() -> None:
    """The rows and the history of this tree pass."""
    assert ledger.check(ROOT) == []


def test_the_ledger_opens_with_the_rows_it_inherits() -> None:
    """318, 322 and 323 come first; 322 and 323 name their former ids, and 322 what it replaced."""
    table = ledger.rows((ROOT / ledger.LEDGER).read_text(encoding="utf-8"))
    assert [row.id for row in table[:3]] == ["DL-318", "DL-322", "DL-323"]
    assert "DL-319" in table[1].decision
    assert "DL-320" in table[2].decision
    assert "additive" in table[1].decision
    assert "counted placeholder" in table[1].decision


def test_a_sound_table_has_no_problems() -> None:
    """Two rows with reasons below pass, also where one supersedes the other."""
    superseded = ONE.replace("Active", "Superseded by DL-2")
    assert _problems(HEAD + ONE + TWO + REASONS) == []
    assert _problems(HEAD + superseded + TWO + REASONS) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rows"),
        (HEAD + ONE + ONE + REASONS, "DL-1 stands 2 times"),
        (HEAD + ONE.replace("2026-01-02", "January") + REASONS, "YYYY-MM-DD"),
        (HEAD + ONE.replace("Active", "Maybe") + REASONS, "'Maybe'"),
        (HEAD + ONE.replace("Active", "Superseded by DL-9") + REASONS, "DL-9"),
        (HEAD + ONE.replace(" [Reasons](#dl-1)", "") + REASONS, "no link"),
        (HEAD + ONE.replace("#dl-1", "#dl-9") + REASONS, "#dl-9 leads nowhere"),
        (HEAD + ONE.replace("#dl-1", "gone.md") + REASONS, "gone.md leads nowhere"),
        (HEAD + ONE.replace("We do.", "In `compass_otel/gone.py`.") + REASONS, "compass_otel/gone.py, which is gone"),
        (HEAD + ONE.replace("We do.", "In `gone/`.") + REASONS, "gone/, which is gone"),
        (HEAD + ONE.replace("We do.", "We | do.") + REASONS, "four cells"),
    ],
)
def test_a_broken_row_is_named(text: str, said: str) -> None:
    """A repeated id, a bad date or status, a missing reason, a dead link and a file that is gone are each a problem."""
    assert any(said in problem for problem in _problems(text))


def test_a_commit_before_the_ledger_needs_no_word(repository: Repository) -> None:
    """What was committed before the ledger began is not asked for its word."""
    assert ledger.check(repository.path) == []


@pytest.mark.parametrize(
    "name",
    [
        "proto__compass__v1__compass_md",
        "compass_otel__mapper_py",
        "compass_otel__lanes_py",
        "compass_otel__priority_lane_py",
        "compass_otel__priority_py",
        "compass_otel__sink_py",
    ],
)
@pytest.mark.parametrize("message", ["Quietly", "Quietly\n\nLedger-impact: none", "Quietly\n\nLedger-impact: DL-1"])
def test_a_governed_commit_without_a_word_fails(repository: Repository, name: str, message: str) -> None:
    """Touching the contract, the emit rule or the lanes without the ledger, or a reason why not, is a problem."""
    sha = repository.commit(message, **{name: "1"})
    (problem,) = ledger.check(repository.path)
    assert problem.startswith(sha[:10])
    assert "Ledger-impact: none, because" in problem


def test_a_governed_commit_with_a_reason_passes(repository: Repository) -> None:
    """`Ledger-impact: none, because …` is enough, also over two lines."""
    repository.commit("a\n\nLedger-impact: none, because only a comment changed", compass_otel__mapper_py="1")
    repository.commit("b\n\nLedger-impact: none, because\n  only a comment changed", compass_otel__mapper_py="2")
    assert ledger.check(repository.path) == []


def test_a_governed_commit_that_touches_the_ledger_passes(repository: Repository) -> None:
    """A change of the ledger in the same commit is its word."""
    repository.commit("a", compass_otel__sink_py="1", DECISIONS_md=HEAD + ONE + REASONS + "\nMore.\n")
    assert ledger.check(repository.path) == []


def test_other_commits_need_no_word(repository: Repository) -> None:
    """A commit that touches none of the governed files says nothing."""
    repository.commit("a", compass_otel__view_py="1")
    assert ledger.check(repository.path) == []


@pytest.mark.parametrize("said", ["", "\n\nLedger-impact: none, because it is small", "\n\nLedger-impact: DL-1"])
def test_a_commit_that_adds_rows_names_each(repository: Repository, said: str) -> None:
    """A new row that its commit does not name is a problem, whatever else the commit says."""
    repository.commit("Decide" + said, DECISIONS_md=HEAD + ONE + TWO + REASONS)
    (problem,) = ledger.check(repository.path)
    assert "DL-2" in problem


@pytest.mark.parametrize("said", ["DL-2", "DL-1, DL-2", "DL-1..DL-3", "DL-1 to DL-2"])
def test_a_commit_that_names_its_rows_passes(repository: Repository, said: str) -> None:
    """Ids may be listed or given as a range."""
    repository.commit(f"Decide\n\nLedger-impact: {said}", DECISIONS_md=HEAD + ONE + TWO + REASONS)
    assert ledger.check(repository.path) == []


def test_a_later_commit_mends_one_that_forgot(repository: Repository) -> None:
    """`Ledger-impact-of <commit>` speaks for an earlier commit and for no other."""
    first = repository.commit("a", compass_otel__mapper_py="1")
    second = repository.commit("b", compass_otel__mapper_py="2")
    repository.commit(f"Say it\n\nLedger-impact-of {first[:12]}: none, because only a comment changed")
    (problem,) = ledger.check(repository.path)
    assert problem.startswith(second[:10])


def test_a_merge_needs_no_word_for_what_its_branches_said(repository: Repository) -> None:
    """A merge without changes of its own is not asked again, and its branches' rows are not new in it."""
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("Decide\n\nLedger-impact: DL-2", DECISIONS_md=HEAD + ONE + TWO + REASONS)
    repository.git("checkout", "-q", "main")
    repository.commit("a\n\nLedger-impact: none, because only a comment changed", compass_otel__mapper_py="1")
    repository.git("merge", "-q", "--no-edit", "side")
    assert ledger.check(repository.path) == []


def test_a_shallow_clone_checks_what_is_there(repository: Repository, tmp_path: Path) -> None:
    """The commit at the edge has no parent to be compared with; the ones after it are checked."""
    repository.commit("a\n\nLedger-impact: none, because only a comment changed", compass_otel__mapper_py="1")
    clone = Repository(tmp_path / "clone")
    repository.git("clone", "-q", "--depth", "1", repository.path.as_uri(), str(clone.path))
    assert ledger.check(clone.path) == []
    clone.commit("Touch the ledger", DECISIONS_md=HEAD + ONE + REASONS + "\nMore.\n")
    sha = clone.commit("Quietly", compass_otel__mapper_py="2")
    (problem,) = ledger.check(clone.path)
    assert problem.startswith(sha[:10])


def test_a_tree_without_a_history_is_checked_by_its_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In an unpacked source distribution the rows count, and the command says that there was no history."""
    (tmp_path / ledger.LEDGER).write_text(HEAD + ONE + REASONS, encoding="utf-8")
    assert ledger.main(["--root", str(tmp_path)]) == 0
    assert "without a history" in capsys.readouterr().out
    (tmp_path / ledger.LEDGER).unlink()
    assert ledger.main(["--root", str(tmp_path)]) == 1
