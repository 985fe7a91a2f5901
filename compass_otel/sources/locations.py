"""Where the agents of this machine keep their session files, and what lies in a folder."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_SUFFIX = ".jsonl"


def session_files(folder: Path) -> Iterator[Path]:
    """Walk a folder for `*.jsonl` files, sorted, so that a session comes before its forks.

    Folders that can't be entered, and links to folders, are passed over.
    """
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(_SUFFIX):
                yield Path(where, name)


def session_folders(environment: Mapping[str, str] | None = None, home: Path | None = None) -> tuple[Path, ...]:
    """Give the folders in which Pi and oh-my-pi keep their session files; they need not be there.

    Args:
        environment: variables to obey (`PI_CODING_AGENT_DIR` moves Pi's folder); the process's own by default.
        home: the person's folder; that of the process by default.

    """
    variables = os.environ if environment is None else environment
    base = Path.home() if home is None else home
    moved = variables.get("PI_CODING_AGENT_DIR", "").strip()
    pi = Path(moved).expanduser() if moved else base / ".pi" / "agent"
    return (pi / "sessions", base / ".omp" / "agent" / "sessions")


def newest_sessions(
    limit: int = 1, *, environment: Mapping[str, str] | None = None, home: Path | None = None
) -> list[Path]:
    """Find the session files that changed last, of all agents on this machine, newest first."""
    found: list[tuple[int, Path]] = []
    for folder in session_folders(environment, home):
        for path in session_files(folder):
            try:
                found.append((path.stat().st_mtime_ns, path))
            except OSError:
                continue  # removed between the walk and the look
    found.sort(reverse=True)
    return [path for _, path in found[:limit]]
