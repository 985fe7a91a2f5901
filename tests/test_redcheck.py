"""The red check itself, on a tiny tree: it must see a test go red, and everything that only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import redcheck

ROOT = Path(__file__).resolve().parents[1]

MODULE = "def double(value: int) -> int:\n    return 2 * value\n"
TESTS = """
from compass_otel.sums import double

def test_double():
    assert double(3) == 6

def test_nothing():
    pass
"""
RED = redcheck.Row("double-doubles", "compass_otel/sums.py", "2 * value", "3 * value", ("tests/test_sums.py",))


@pytest.fixture(name="tree")
def _tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The tiny tests need no plugin, and loading all of them takes most of a run's time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    tree = tmp_path / "tree"
    for name, text in {
        "compass_otel/__init__.py": "",
        "compass_otel/sums.py": MODULE,
        "tests/test_sums.py": TESTS,
        "pytest.ini": "[pytest]\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")
    return tree


def _row(**changed: object) -> redcheck.Row:
    fields = {name: getattr(RED, name) for name in ("name", "file", "find", "replace", "tests")}
    return redcheck.Row(**{**fields, **changed})


def test_a_rule_that_a_test_guards_goes_red(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A break that a test notices is no problem; the line names the test, and the tree itself stays as it was."""
    assert redcheck.run([RED], tree, jobs=1) == []
    assert "[1/1] red double-doubles" in capsys.readouterr().out
    assert (tree / RED.file).read_text(encoding="utf-8") == MODULE


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (_row(tests=("tests/test_sums.py::test_nothing",)), "no test went red"),
        (_row(find="4 * value"), "stands 0 times"),
        (_row(find="value"), "stands 2 times"),
        (_row(file="compass_otel/gone.py"), "gone.py is gone"),
        (_row(find="def double", replace="def double("), "could not run"),
        (_row(tests=("tests/test_sums.py::test_gone",)), "not green"),
    ],
)
def test_a_row_that_proves_nothing_is_a_problem(tree: Path, row: redcheck.Row, said: str) -> None:
    """Green tests, stale text, a break so bad that no test ran, and tests that are not there are all problems."""
    (problem,) = redcheck.run([row], tree, jobs=1)
    assert said in problem


def test_a_break_that_hangs_is_a_problem(tree: Path) -> None:
    """Tests that do not end in time are ended, are named a problem, and the copy is mended."""
    row = _row(replace="next(iter(int, 1) for _ in iter(int, 1) if False)")
    verdict = redcheck.break_once(row, tree, limit_s=2.0)
    assert "did not end within 2 s" in verdict.problem
    assert (tree / row.file).read_text(encoding="utf-8") == MODULE


def test_nothing_counts_while_the_unbroken_tree_is_red(tree: Path) -> None:
    """If the tests are red before anything was broken, that is the one problem."""
    (tree / "compass_otel/sums.py").write_text(MODULE.replace("2", "2 * 1 + 1 and 5 "), encoding="utf-8")
    (problem,) = redcheck.run([_row(find="5", replace="7")], tree, jobs=1)
    assert "the unbroken tree is not green" in problem


def test_rows_run_beside_each_other_without_mixing(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two jobs have a copy each, so one row's break never colours another row."""
    green = _row(name="harmless", replace="value * 2")
    rows = [RED, green, _row(name="again"), _row(name="harmless-too", replace="value + value")]
    problems = redcheck.run(rows, tree, jobs=2)
    assert problems == ["harmless: no test went red", "harmless-too: no test went red"]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]


TABLE = '[[row]]\nname = "n"\nfile = "f"\nfind = "a"\nreplace = "b"\ntests = ["t"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TABLE + TABLE, "stands twice"),
        (TABLE.replace('"b"', '"a"'), "breaks nothing"),
        (TABLE.replace('["t"]', "[]"), "no test is to notice"),
        (TABLE.replace('file = "f"\n', ""), "row 1 has the keys"),
    ],
)
def test_a_bad_table_is_refused(text: str, said: str) -> None:
    """A table that cannot mean anything says which row is at fault."""
    with pytest.raises(redcheck.TableError, match=said):
        redcheck.read_table(text)


def test_the_command_fails_on_a_problem_and_says_the_sum(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0 when all went red, 1 when one did not; the last line counts them."""
    sound = 'file = "compass_otel/sums.py"\nfind = "2 * value"\nreplace = "0"\ntests = ["tests/test_sums.py"]\n'
    (tree / redcheck.TABLE).write_text('[[row]]\nname = "zero"\n' + sound, encoding="utf-8")
    assert redcheck.main(["--root", str(tree)]) == 0
    assert capsys.readouterr().out.endswith("all 1 rows went red\n")
    (tree / redcheck.TABLE).write_text('[[row]]\nname = "x"\n' + sound.replace("2 * value", "gone"), encoding="utf-8")
    assert redcheck.main(["--root", str(tree)]) == 1
    assert capsys.readouterr().out.endswith("1 problems\n")


def test_a_copy_holds_what_git_would_take(tree: Path) -> None:
    """The copy has tracked and new files, and nothing that is made or ignored; without git, all but what is made."""
    (tree / "build").mkdir()
    (tree / "build" / "made").write_text("", encoding="utf-8")
    redcheck.copy_tree(tree, tree.parent / "copy")
    copied = sorted(path.relative_to(tree.parent / "copy").as_posix() for path in (tree.parent / "copy").rglob("*.*"))
    assert copied == ["compass_otel/__init__.py", "compass_otel/sums.py", "pytest.ini", "tests/test_sums.py"]


@pytest.mark.checkout
def test_no_row_of_this_tree_is_stale() -> None:
    """Each row of the table finds its text in the tree as it stands, and names tests that exist."""
    table = redcheck.read_table((ROOT / redcheck.TABLE).read_text(encoding="utf-8"))
    assert [f"{row.name}: {problem}" for row in table if (problem := redcheck.stale(row, ROOT))] == []
    assert [test for row in table for test in row.tests if not (ROOT / test.partition("::")[0]).is_file()] == []
