"""Run the tests against what ships: the wheel in `dist/`, from the unpacked source distribution beside it.

    python tests/checks/wheel.py             # after `make dist`

The unpacked tree loses its package folder, so only the installed wheel can be imported. Tests that look at the source
tree or its history (`checkout`) mean nothing there and are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = "not checkout and not slow and not faults and not stack and not npm"


def _one(pattern: str) -> Path:
    found = sorted((ROOT / "dist").glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"wheel: wanted one dist/{pattern}, found {len(found)}; run `make dist`")
    return found[0]


def _unpack(archive: Path, target: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(target, filter="data")
    (tree,) = target.iterdir()
    return tree


def missing_from_wheel(wheel: Path, package: Path) -> list[str]:
    """List the files of the package folder that the wheel does not hold."""
    held = set(zipfile.ZipFile(wheel).namelist())
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(name for path in files if (name := path.relative_to(package.parent).as_posix()) not in held)


def main() -> int:
    """Install, look where the package comes from, run the suite; returns its exit status."""
    work = ROOT / "build" / "wheel"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    wheel = _one("*.whl")
    tree = _unpack(_one("*.tar.gz"), work / "sdist")
    missing = missing_from_wheel(wheel, tree / "compass_otel")
    if missing:
        print(f"wheel: {wheel.name} lacks {', '.join(missing)}")
        return 1
    shutil.rmtree(tree / "compass_otel")

    venv = work / "venv"
    subprocess.run([os.environ.get("PYTHON", sys.executable), "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    print(f"wheel: installing {wheel.name} with its extra `test`", flush=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel}[test]"], check=True)
    where = subprocess.run(
        [python, "-c", "import compass_otel; print(compass_otel.__file__)"],
        cwd=tree,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    if not where.startswith(str(venv)):
        print(f"wheel: the tests would import {where.strip()}, not the installed wheel")
        return 1
    command = [python, "-m", "pytest", "-n", os.environ.get("WORKERS", "auto"), "--dist", "worksteal", "-m", LEFT_OUT]
    env = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    env["PATH"] = f"{venv / 'bin'}{os.pathsep}{env['PATH']}"
    return subprocess.run([*command, *sys.argv[1:]], cwd=tree, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
