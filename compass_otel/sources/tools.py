"""What tools did: exit codes, file changes, plans. Each agent says it in a place of its own.

Bash: omp `details.exitCode`, Pi 1.6 `structuredContent.exit_code`, Pi 0.73 only the sentence "Command exited with code
N". Edits: omp puts whole texts before and after into the result's details, Pi has them only in the call's arguments.
"""

from typing import Any

from compass_otel.events import FileDiff, PlanEntry
from compass_otel.patterns import pattern
from compass_otel.sources.messages import as_int, as_text

_EXIT_SENTENCE = pattern(r"(?:^|\n)Command exited with code (\d{1,10})\s*\Z")
_PATH_NAMES = ("path", "file_path", "filePath")
_PLAN_STATUS = {"pending": "pending", "blocked": "pending", "in_progress": "in_progress", "completed": "completed"}
"""omp's words. A task that was abandoned is no longer part of the plan, so it has none."""


def exit_code_of(result: dict[str, Any], output: str) -> int | None:
    """Find a command's exit code in a tool's result; None if the agent gave none."""
    for holder, name in (("details", "exitCode"), ("structuredContent", "exit_code")):
        inner = result.get(holder)
        if isinstance(inner, dict) and (code := as_int(inner.get(name))) is not None:
            return code
    sentence = _EXIT_SENTENCE.search(output[-200:])
    return int(sentence.group(1)) if sentence else None


def is_synthetic(result: dict[str, Any]) -> bool:
    """Whether omp made the result up after a failed answer; nothing ran."""
    details = result.get("details")
    return isinstance(details, dict) and details.get("__synthetic") is True


def changes_files(tool_name: str) -> bool:
    """Whether a tool of this name changes files, so that its arguments are kept until it ends."""
    name = tool_name.lower()
    return "edit" in name or "write" in name


def diffs_of(args: Any, result: dict[str, Any]) -> tuple[FileDiff, ...]:
    """Give the file changes of a tool that ended well: from its result where texts stand there, else its arguments."""
    details = result.get("details")
    if isinstance(details, dict):
        files = details.get("perFileResults")
        found = _changes(files if isinstance(files, list) and files else [details], None)
        if found:
            return found
    if not isinstance(args, dict):
        return ()
    path = _path_of(args)
    edits = args.get("edits")
    return _changes(edits if isinstance(edits, list) else [args], path)


def _changes(items: list[Any], path: str | None) -> tuple[FileDiff, ...]:
    found = (_change(item, path) for item in items if isinstance(item, dict) and item.get("isError") is not True)
    return tuple(diff for diff in found if diff is not None)


def _change(item: dict[str, Any], path: str | None) -> FileDiff | None:
    where = _path_of(item) or path
    old = _first_text(item, "oldText", "old_text", "old_string", "oldString")
    new = _first_text(item, "newText", "new_text", "new_string", "newString", "content")
    if where is None or (old is None and new is None):
        return None
    return FileDiff(path=where, new_text=new or "", old_text=old)


def _first_text(item: dict[str, Any], *names: str) -> str | None:
    return next((item[name] for name in names if isinstance(item.get(name), str)), None)


def _path_of(item: dict[str, Any]) -> str | None:
    return _first_text(item, *_PATH_NAMES)


def plan_of(raw: Any) -> tuple[PlanEntry, ...] | None:
    """Read a plan: a list of tasks, or of phases that hold tasks; None if this is none."""
    if not isinstance(raw, list):
        return None
    tasks: list[Any] = []
    for item in raw:
        held = item.get("tasks") if isinstance(item, dict) else None
        tasks.extend(held if isinstance(held, list) else [item])
    entries = (_plan_entry(task) for task in tasks)
    return tuple(entry for entry in entries if entry is not None)


def _plan_entry(item: Any) -> PlanEntry | None:
    if not isinstance(item, dict):
        return None
    content = _first_text(item, "content", "text", "title")
    status = as_text(item.get("status")) or "pending"
    known = _PLAN_STATUS.get(status.replace("-", "_"))
    return None if content is None or known is None else PlanEntry(content, known)


def plan_in(tool_name: str, args: Any, result: dict[str, Any]) -> tuple[PlanEntry, ...] | None:
    """Find the plan that a todo tool left; None for any other tool."""
    if "todo" not in tool_name.lower():
        return None
    for holder in (result.get("details"), args):
        if isinstance(holder, dict):
            for name in ("phases", "todos", "tasks"):
                plan = plan_of(holder.get(name))
                if plan is not None:
                    return plan
    return None
