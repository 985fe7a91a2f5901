"""Pages for the tests: of hand-made runs, and of recordings that the real command reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from command_support import compass
from compass_otel.html_page import data_block, page_frame
from compass_otel.page_run import page_run
from view_samples import OVERLOADED, cancelled_run, chat, event, failed_chat, retried_run, root, run, span

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NOTE = "[error-advisor] The previous request failed with a transient provider error."
ACTIVE = (
    "<script>window.ran=1</script>",
    "</script><script>window.ran=2</script>",
    "<img src=x onerror=window.ran=3>",
    "<svg/onload=window.ran=4>",
    "\"><iframe srcdoc='<script>parent.ran=5</script>'>",
    "<!--<script>window.ran=6",
    "javascript:window.ran=7",
    "<style>*{display:none}</style><link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "{{constructor.constructor('window.ran=8')()}}",
    "<a href=javascript:window.ran=9 autofocus onfocus=window.ran=10>here</a>",
)
DECEPTIVE = "safe\u202egnp.exe\u202c \x1b[31mred\x1b[0m \x1b]0;title\x07 \x00 a\u200bb \u2066c\u2069 \U000e0041"


def page_of(runs: Iterable[dict[str, Any]]) -> bytes:
    """Give the page of these runs."""
    made = [page_run(each, number=at, source=f"runs/{at}.jsonl") for at, each in enumerate(runs)]  # type: ignore[arg-type]
    lines = [each.line for each in sorted(made, key=lambda each: each.order)]
    start, end = page_frame(lines, ["2 lines", "about the runs"])
    return start + b"".join(data_block(f"run-{each.line['number']}", each.page) for each in made) + end


def every_kind() -> list[dict[str, Any]]:
    """Give a run of each outcome, one of them told a note, with tools, a compaction and a fallback."""
    told = chat(200, 400)
    told["events"] = [event("compass.advisor.note", 200, compass__advisor__text=NOTE)]
    tool = span("execute_tool bash", 60, 90, attributes={"gen_ai.tool.name": "bash", "compass.tool.status": "failed"})
    tool["attributes"]["compass.tool.exit_code"] = 2
    compact = span("compact", 100, 180, attributes={"compass.compaction.reason": "overflow"})
    fallback = event(
        "compass.model.fallback", 150, **{"compass.model.fallback.from": "a", "compass.model.fallback.to": "b"}
    )
    steer = event("compass.session.injection", 30, **{"compass.session.injection.kind": "STEER"})
    busy = run("completed", root(400, events=[steer, fallback]), chat(0, 50), tool, compact, told)
    lost = run("incomplete", root(100), chat(1, 100, compass__outcome="incomplete"), error_type="process_lost")
    failed = retried_run("failed")
    failed["session_errors"] = [{"kind": "ERROR", "message": OVERLOADED, "status": 503}]
    return [busy, retried_run("completed"), run("open", root(None), chat(1, None)), cancelled_run(), lost, failed]


def many(count: int, spans: int) -> list[dict[str, Any]]:
    """Give *count* runs of *spans* spans each, every fourth one failed."""
    made = []
    for at in range(count):
        chats = [
            chat(100 * each, 100 * each + 60, gen_ai__response__id=f"resp_{at}_{each}") for each in range(spans - 2)
        ]
        for each, one in enumerate(chats):
            one["span_id"] = f"{each + 1:016x}"
        bad = at % 4 == 0
        last = failed_chat(100 * spans, 100 * spans + 50, OVERLOADED) if bad else chat(100 * spans, 100 * spans + 50)
        outcome, error_type = ("failed", "overloaded") if bad else ("completed", None)
        made.append(run(outcome, root(100 * spans + 60), *chats, last, error_type=error_type))
    return made


def recorded(folder: Path, message: str, model: str = "fake-model") -> Path:
    """Record a session whose model call failed with *message*, and let the command make its page."""
    answer = {
        "role": "assistant",
        "content": [],
        "provider": "fake",
        "model": model,
        "stopReason": "error",
        "errorMessage": message,
        "timestamp": 1796052724000,
        "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    user = {"role": "user", "content": [{"type": "text", "text": "go"}], "timestamp": 1796052723000}
    records: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "s-1", "timestamp": "2026-11-30T15:32:03.000Z", "cwd": "/home/user"},
        {"type": "agent_start"},
        {"type": "message_start", "message": user},
        {"type": "message_end", "message": user},
        {"type": "message_start", "message": answer},
        {"type": "message_end", "message": answer},
        {"type": "agent_end", "messages": [user, answer]},
    ]
    source, page = folder / "run.jsonl", folder / "runs.html"
    source.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    done = compass("replay", "--html", page, source)
    assert done.returncode == 0, done.stderr
    return page
