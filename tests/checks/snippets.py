"""Hold the documents to what they say: run their Python, and know each command that they name.

    python tests/checks/snippets.py          # prints what is wrong, status 1 if anything is

In a fenced block of *python*, everything runs. In one of *sh* or *console*, each `make` verb, each `compass-otel`
command with its options, and each file after `python` exists. A comment on the line before a block says more:

    <!-- snippet: not run, because … -->     only with a reason
    <!-- snippet: continues -->              runs after the Python block before it
    <!-- snippet: prints -->                 a console block whose `$ ` commands run and must print what it shows
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
    r"(?:^<!-- snippet: (?P<note>.*?) -->\n)?^```(?P<language>[a-z]+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
_NOT_RUN = re.compile(r"not run, because \S.{7,}")
_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a document, and what the comment before it says."""

    where: str
    language: str
    code: str
    note: str


def blocks(name: str, text: str) -> list[Block]:
    """List the fenced blocks of a document; `name` and the line say where each stands."""
    found = []
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        found.append(Block(f"{name}:{line}", match["language"], match["code"], match["note"] or ""))
    return found


def _environment() -> dict[str, str]:
    # The commands of the environment that this interpreter belongs to, in a terminal of a known width without colour.
    folder = str(Path(sys.executable).parent)
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "COMPASS_"))}
    return {**plain, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "COLUMNS": str(_WIDTH), "NO_COLOR": "1"}


def _run(command: list[str], cwd: Path) -> tuple[int, str]:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout


@cache
def _help(*command: str) -> str | None:
    """Give the help text of a `compass-otel` command, None if there is no such command."""
    status, text = _run(["compass-otel", *command, "--help"], ROOT)
    return text if status == 0 else None


def _python_problems(block: Block, before: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        status, output = _run([sys.executable, "-c", before + block.code], Path(folder))
    return [] if status == 0 else [f"{block.where}: ends with status {status}: {output.strip()[-300:]}"]


def _lines(block: Block) -> list[str]:
    code = block.code.replace("\\\n", " ")
    if block.language == "console":
        return [line.removeprefix("$ ") for line in code.splitlines() if line.startswith("$ ")]
    return [line for line in code.splitlines() if line and not line.startswith("#")]


def _command_problems(words: list[str], root: Path) -> list[str]:
    match words:
        case ["make", verb, *_]:
            makefile = (root / "Makefile").read_text(encoding="utf-8")
            return [] if re.search(rf"^{re.escape(verb)}:", makefile, re.MULTILINE) else [f"no verb `make {verb}`"]
        case ["compass-otel", *rest]:
            return _product_problems(rest)
        case ["python" | "python3", name, *_] if name.endswith(".py"):
            return [] if (root / name).is_file() else [f"no file {name}"]
        case _:
            return []


def _product_problems(words: list[str]) -> list[str]:
    command = words[0] if words and not words[0].startswith("-") else ""
    text = _help(*([command] if command else []))
    if text is None:
        return [f"no command `compass-otel {command}`"]
    if command and len(words) > 1 and not words[1].startswith("-"):
        text += _help(command, words[1]) or ""  # a command of a command, such as `spool status`
    own = words[: words.index("--")] if "--" in words else words
    options = [word.partition("=")[0] for word in own if word.startswith("--")]
    unknown = [option for option in options if not re.search(rf"{option}(?![\w-])", text)]
    return [f"`compass-otel {command}` has no {option}" for option in unknown]


def _shell_problems(block: Block, root: Path) -> list[str]:
    problems = []
    for line in _lines(block):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            problems.append(f"{block.where}: {line}: {error}")
            continue
        command: list[str] = []
        for word in [*words, ";"]:
            if word not in {"|", "&&", "||", ";", "&"}:
                command.append(word)
                continue
            # An assignment before a command belongs to its environment.
            while command and re.match(r"\w+=", command[0]):
                command.pop(0)
            problems += [f"{block.where}: {problem}" for problem in _command_problems(command, root)]
            command = []
    return problems


def _printed_problems(block: Block, root: Path) -> list[str]:
    shown: list[str] = []
    for line in _lines(block):
        shown += [f"$ {line}", *_run(["sh", "-c", line], root)[1].splitlines()]
    want = [line.rstrip() for line in block.code.splitlines()]
    have = [line.rstrip() for line in shown]
    if want == have:
        return []
    place = next((n for n, pair in enumerate(zip(want, have, strict=False)) if pair[0] != pair[1]), len(want))
    return [
        f"{block.where}: line {place + 1} of the block is not what the command prints; it prints:\n" + "\n".join(have)
    ]


def problems_of(name: str, text: str, root: Path) -> list[str]:
    """Check one document; returns one line for each problem."""
    problems: list[str] = []
    before = ""
    for block in blocks(name, text):
        if block.note.startswith("not run"):
            if not _NOT_RUN.fullmatch(block.note):
                problems.append(f"{block.where}: not run, and no reason given")
            continue
        match block.language:
            case "python":
                earlier = before if block.note == "continues" else ""
                problems += _python_problems(block, earlier)
                before = earlier + block.code
            case "console" if block.note == "prints":
                problems += _printed_problems(block, root)
            case "sh" | "bash" | "console":
                problems += _shell_problems(block, root)
            case _:
                pass  # a block of data or of a foreign language promises nothing about this tree
    return problems


def check(root: Path) -> list[str]:
    """Check every document at the top of the tree and among the examples."""
    files = sorted([*root.glob("*.md"), *(root / "examples").rglob("*.md")])
    return [
        problem
        for file in files
        for problem in problems_of(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"), root)
    ]


def main(argv: list[str] | None = None) -> int:
    """Print what is wrong; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to check (default: this one)")
    problems = check(parser.parse_args(argv).root.resolve())
    for line in problems:
        print(f"snippets: {line}")
    if not problems:
        print("snippets: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
