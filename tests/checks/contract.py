"""Keep the wire contract, its generated code and its baseline in step.

    python tests/checks/contract.py check   # drift, lint, breaking: prints what is wrong, status 1 if anything is
    python tests/checks/contract.py gen     # write the generated code, and take additions into the baseline

*Drift*: the committed code is what the generator makes of the contract. *Lint*: buf's STANDARD rules. *Breaking*: every
program that was built against the baseline goes on working. The baseline is the contract as last accepted, as a buf
image in JSON so that a reviewer can read its difference; `gen` adds to it and refuses to take anything away.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The generator sees the contract under the path that the code has inside the package, so its imports need no rewriting.
PACKAGE_DIR = "compass_otel/_pb"
PROTO_DIR = "proto"
CONTRACT = "compass/v1/compass.proto"
BASELINE = "proto/baseline.json"
GENERATED = ("compass/v1/compass_pb2.py", "compass/v1/compass_pb2.pyi")


def _run(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    # The tools stand beside the interpreter: the one of the environment, never whatever the machine has.
    tool = Path(sys.executable).parent / name
    return subprocess.run([str(tool), *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


def _complaints(done: subprocess.CompletedProcess[str], check: str) -> list[str]:
    if done.returncode == 0:
        return []
    lines = (done.stdout + done.stderr).splitlines()
    return [f"{check}: {line}" for line in lines if line] or [f"{check}: ended with status {done.returncode}"]


def generate(root: Path, into: Path) -> list[str]:
    """Write the generated code of `root`'s contract below `into`.

    Returns:
        What the generator complained of; empty if the code was written.

    """
    done = _run(
        "protoc",
        f"-I{PACKAGE_DIR}={PROTO_DIR}",
        f"--python_out={into}",
        f"--pyi_out={into}",
        f"{PACKAGE_DIR}/{CONTRACT}",
        cwd=root,
    )
    return _complaints(done, "generate")


def drift(root: Path) -> list[str]:
    """Compare the committed code with what the generator makes now."""
    with tempfile.TemporaryDirectory() as fresh:
        problems = generate(root, Path(fresh))
        if problems:
            return problems
        for name in GENERATED:
            committed, made = root / PACKAGE_DIR / name, Path(fresh) / PACKAGE_DIR / name
            if not committed.is_file() or committed.read_bytes() != made.read_bytes():
                problems.append(f"drift: {PACKAGE_DIR}/{name} is not what the contract generates; run `make gen`")
    return problems


def lint(root: Path) -> list[str]:
    """Hold the contract against buf's STANDARD rules."""
    return _complaints(_run("buf", "lint", PROTO_DIR, cwd=root), "lint")


def breaking(root: Path) -> list[str]:
    """Hold the contract against its baseline; an addition that the baseline does not have yet is not protected."""
    if not (root / BASELINE).is_file():
        return [f"breaking: {BASELINE} is missing"]
    problems = _complaints(_run("buf", "breaking", PROTO_DIR, "--against", BASELINE, cwd=root), "breaking")
    if not problems and (root / BASELINE).read_text(encoding="utf-8") != _image(root):
        problems.append(f"breaking: {BASELINE} does not know all of the contract; run `make gen`")
    return problems


def _image(root: Path) -> str:
    done = _run("buf", "build", PROTO_DIR, "--exclude-source-info", "-o", "-#format=json", cwd=root)
    if done.returncode != 0:
        raise SystemExit("\n".join(_complaints(done, "build")))
    return json.dumps(json.loads(done.stdout), indent=1) + "\n"


def check(root: Path) -> list[str]:
    """Run all three checks.

    Returns:
        One line for each thing that is wrong; empty if the contract holds.

    """
    return [*lint(root), *drift(root), *breaking(root)]


def gen(root: Path) -> list[str]:
    """Write the generated code and take additions into the baseline; on a breaking change the baseline stays."""
    problems = generate(root, root)
    baseline = root / BASELINE
    if baseline.is_file():
        problems += _complaints(_run("buf", "breaking", PROTO_DIR, "--against", BASELINE, cwd=root), "breaking")
    if not problems:
        baseline.write_text(_image(root), encoding="utf-8")
    return problems


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["check", "gen"])
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to work on (default: this one)")
    options = parser.parse_args(argv)
    problems = (check if options.verb == "check" else gen)(options.root.resolve())
    for line in problems:
        print(line)
    if not problems:
        print(f"contract: {options.verb} ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
