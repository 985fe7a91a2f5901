"""The check of the documents: each kind of untruth once, on small documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from checks import snippets

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text("demo: x\n\ttrue\n", encoding="utf-8")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "one.py").write_text("", encoding="utf-8")
    return tmp_path


def _fence(language: str, code: str, note: str = "") -> str:
    return (f"<!-- snippet: {note} -->\n" if note else "") + f"```{language}\n{code}\n```\n"


@pytest.mark.parametrize(
    "text",
    [
        _fence("python", "x = 1"),
        _fence("python", "x = 1") + _fence("python", "print(x)", "continues"),
        _fence("python", "raise SystemExit(3)", "not run, because it would end everything"),
        _fence("sh", "git clone somewhere && cd there\nmake demo\nA=1 python3 examples/one.py"),
        _fence("console", "$ make demo | cat\nmake of the output is not a command"),
        _fence("console", "$ echo one; echo two\none\ntwo\n$ echo three\nthree", "prints"),
        _fence("json", "{"),
    ],
)
def test_a_true_document_has_no_problems(root: Path, text: str) -> None:
    """Code that runs, verbs and files that exist, and output as it is printed all pass."""
    assert snippets.problems_of("R.md", text, root) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_fence("python", "raise ValueError('x')"), "ValueError: x"),
        (_fence("python", "x = 1") + _fence("python", "print(x)"), "NameError"),
        (_fence("python", "x = 1", "not run"), "no reason given"),
        (_fence("sh", "make nothing"), "no verb `make nothing`"),
        (_fence("sh", "true && python examples/gone.py"), "no file examples/gone.py"),
        (_fence("console", "$ echo one\ntwo", "prints"), "line 2 of the block"),
        (_fence("sh", "echo 'open"), "No closing quotation"),
    ],
)
def test_an_untrue_document_is_named(root: Path, text: str, said: str) -> None:
    """Code that fails, names of nothing and output that is never printed are each a problem, with file and line."""
    (problem,) = snippets.problems_of("R.md", text, root)
    assert said in problem
    assert problem.startswith("R.md:")


def test_commands_and_options_of_the_product_are_known(root: Path) -> None:
    """A command or an option that the product does not have is a problem; what stands after `--` is another's."""
    good = _fence("sh", "pi --mode json 'hello' | compass-otel replay --failures -- --no-such")
    bad = _fence("sh", "compass-otel replay --no-such x.jsonl\ncompass-otel no-such")
    assert snippets.problems_of("R.md", good, root) == []
    first, second = snippets.problems_of("R.md", bad, root)
    assert "has no --no-such" in first
    assert "no command `compass-otel no-such`" in second


def test_the_command_reads_all_documents(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Documents at the top and among the examples count; status 1 and a line for each problem."""
    assert snippets.main(["--root", str(root)]) == 0
    (root / "examples" / "README.md").write_text(_fence("sh", "make nothing"), encoding="utf-8")
    assert snippets.main(["--root", str(root)]) == 1
    assert "examples/README.md:1: no verb" in capsys.readouterr().out
