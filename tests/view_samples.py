"""Run objects of the `--json` shape for the tests of the view, built by hand and small."""

from __future__ import annotations

from typing import Any

S = 1_000_000_000
MS = 1_000_000
T0 = 1_796_052_724 * S
TRACE = "5f" * 16


def span(name: str, start_ms: int, end_ms: int | None, /, **fields: Any) -> dict[str, Any]:
    """Give one span object; *fields* replace the defaults."""
    attributes = fields.pop("attributes", {})
    attributes = {"gen_ai.operation.name": name.partition(" ")[0], **attributes}
    base: dict[str, Any] = {
        "name": name,
        "kind": "INTERNAL",
        "status": "UNSET",
        "status_message": None,
        "trace_id": TRACE,
        "span_id": f"{abs(hash((name, start_ms))) % (1 << 64):016x}",
        "parent_span_id": "a" * 16,
        "start_unix_ns": T0 + start_ms * MS,
        "end_unix_ns": None if end_ms is None else T0 + end_ms * MS,
        "attributes": attributes,
        "events": [],
    }
    return {**base, **fields}


def event(name: str, at_ms: int, **attributes: Any) -> dict[str, Any]:
    """Give one span event; underscores pairs in keys stand for dots."""
    return {
        "name": name,
        "time_unix_ns": T0 + at_ms * MS,
        "attributes": {key.replace("__", "."): value for key, value in attributes.items()},
    }


def root(end_ms: int | None, /, *, events: list[dict[str, Any]] | None = None, **attributes: Any) -> dict[str, Any]:
    """Give the run's own span."""
    facts = {
        "gen_ai.agent.name": "pi",
        "gen_ai.agent.version": "1.6.0",
        "gen_ai.conversation.id": "01a22d15-a612-76be-8435-1c3ef60b79dd",
        "compass.session.state": "ready",
        **{key.replace("__", "."): value for key, value in attributes.items()},
    }
    return span(
        "invoke_agent pi", 0, end_ms, parent_span_id=None, span_id="a" * 16, attributes=facts, events=events or []
    )


def chat(start_ms: int, end_ms: int | None, **attributes: Any) -> dict[str, Any]:
    """Give a model call that went well."""
    facts = {
        "gen_ai.provider.name": "fake",
        "gen_ai.request.model": "fake-model",
        "gen_ai.usage.input_tokens": 1200,
        "gen_ai.usage.output_tokens": 20,
        "compass.cost.usd": 0.0021,
        **{key.replace("__", "."): value for key, value in attributes.items()},
    }
    return span("chat fake-model", start_ms, end_ms, kind="CLIENT", attributes=facts)


def failed_chat(start_ms: int, end_ms: int, message: str, attempt: int = 1, **attributes: Any) -> dict[str, Any]:
    """Give a model call that failed with HTTP 503."""
    facts = {
        "gen_ai__usage__input_tokens": 0,
        "gen_ai__usage__output_tokens": 0,
        "compass__cost__usd": 0.0,
        "compass__session_error__kind": "ERROR",
        "compass__session_error__message": message,
        "compass__session_error__status": 503,
        "compass__error__retryable": True,
        "compass__attempt": attempt,
        "error__type": "overloaded",
        **attributes,
    }
    made = chat(start_ms, end_ms, **facts)
    return {**made, "status": "ERROR", "status_message": message}


def cancelled_chat(start_ms: int, end_ms: int) -> dict[str, Any]:
    """Give a model call that a person cancelled."""
    return chat(
        start_ms,
        end_ms,
        compass__session_error__kind="ABORTED",
        compass__session_error__message="Request was aborted",
        compass__outcome="cancelled",
    )


def run(outcome: str, *spans: dict[str, Any], error_type: str | None = None) -> dict[str, Any]:
    """Give a run object of these spans."""
    return {
        "outcome": outcome,
        "error_type": error_type,
        "trace_id": TRACE,
        "session_errors": [],
        "spans": list(spans),
    }


OVERLOADED = '503: {"message":"The server is overloaded, please try again later.","type":"server_error","code":null}'


def retried_run(outcome: str) -> dict[str, Any]:
    """Give a run whose first attempt failed: then all well, or failed for good."""
    retry = event("compass.retry", 60, compass__retry__delay_s=0.06, compass__attempt=1)
    if outcome == "completed":
        last = chat(120, 900, compass__attempt=2)
        head = root(900, events=[retry], compass__retry__count=1)
        return run("completed", head, failed_chat(20, 58, OVERLOADED), last)
    last = failed_chat(120, 160, OVERLOADED, attempt=2)
    head = {
        **root(160, events=[retry], compass__retry__count=1, compass__session__state="errored"),
        "status": "ERROR",
    }
    return run("failed", head, failed_chat(20, 58, OVERLOADED), last, error_type="overloaded")


def cancelled_run() -> dict[str, Any]:
    """Give a run that a person cancelled in the middle of an answer."""
    tool = span(
        "execute_tool bash",
        300,
        1200,
        attributes={"gen_ai.tool.name": "bash", "compass.tool.status": "failed", "compass.tool.exit_code": 3},
    )
    return run("cancelled", root(2400), chat(10, 290), tool, cancelled_chat(1210, 2400))
