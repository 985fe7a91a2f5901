"""Failures from public reports (FC-B, those given as events): what a person then sees in the trace."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from compass_otel.sources.pi_stream import PiStream
from goldens import Recorded

ROWS = {
    row["id"]: row
    for line in (Path(__file__).parent / "cases" / "field-cases.jsonl").read_text(encoding="utf-8").splitlines()
    if (row := json.loads(line))["id"].startswith("FC-B") and row["input"]["form"] == "events"
}


def facts(span: ReadableSpan) -> dict[str, Any]:
    """Return a span's attributes as a dict."""
    return dict(span.attributes or {})


def tools(recorded: Recorded) -> dict[str, ReadableSpan]:
    """Return tool spans by call id."""
    return {facts(s)["gen_ai.tool.call.id"]: s for s in recorded.spans if s.name.startswith("execute_tool")}


def run_of(recorded: Recorded) -> ReadableSpan:
    """Return the only run."""
    (run,) = [span for span in recorded.spans if span.name.startswith("invoke_agent")]
    return run


def errors_of(recorded: Recorded, kind: str) -> int:
    """Count session errors of a kind, the one for a stream that ended with its run open left out."""
    return sum(k == kind and text != "the stream ended with the run open" for k, text, _ in recorded.session_errors)


def everything(recorded: Recorded) -> str:
    """Return all that was emitted, as one text."""
    return "".join(span.to_json() for span in recorded.spans) + "".join(str(f) for f in recorded.frames)


def no_error(recorded: Recorded) -> bool:
    """Whether no span has an error status."""
    return all(span.status.status_code is not StatusCode.ERROR for span in recorded.spans)


def cancelled(recorded: Recorded) -> bool:
    """Whether the run ended cancelled, visibly, without any error status."""
    return recorded.outcomes == ["cancelled"] and no_error(recorded)


CHECKS: dict[str, Callable[[Recorded], bool]] = {
    "FC-B001": lambda r: cancelled(r) and facts(tools(r)["call_1"])["compass.outcome"] == "cancelled",
    "FC-B006": lambda r: (
        all(s.status.status_code is StatusCode.UNSET for s in r.spans) and r.outcomes == ["incomplete"]
    ),
    "FC-B007": lambda r: errors_of(r, "ERROR") == 1 and len(r.spans) == 4,
    "FC-B009": lambda r: errors_of(r, "ERROR") == 1 and r.outcomes == ["failed"],
    "FC-B010": cancelled,
    "FC-B012": cancelled,
    "FC-B013": lambda r: cancelled(r) and facts(tools(r)["call_1"])["compass.tool.status"] == "cancelled",
    "FC-B015": lambda r: errors_of(r, "ABORTED") == 0 and r.outcomes == ["completed"],
    "FC-B016": lambda r: (
        (errors_of(r, "ERROR"), errors_of(r, "ABORTED"), facts(run_of(r))["compass.retry.count"]) == (1, 1, 1)
    ),
    "FC-B018": lambda r: run_of(r).status.status_code is StatusCode.ERROR,
    "FC-B019": lambda r: facts(run_of(r))["compass.response.empty"] is True,
    "FC-B021": lambda r: errors_of(r, "ERROR") == 1 and len(r.spans) == 2,
    "FC-B022": lambda r: errors_of(r, "ERROR") == 1 and facts(run_of(r))["compass.retry.count"] == 2,
    "FC-B024": lambda r: r.outcomes[-1] == "completed",
    "FC-B025": lambda r: (
        run_of(r).status.status_code is StatusCode.ERROR
        and facts(run_of(r))["compass.retry.count"] == 2
        and facts(tools(r)["call_1"])["compass.tool.status"] == "completed"
    ),
    "FC-B027": lambda r: errors_of(r, "ERROR") == 1 and facts(run_of(r))["compass.retry.recovered"] is True,
    "FC-B028": lambda r: (
        {"compass.attempt", "compass.retry.max_attempts", "compass.retry.delay_s", "error.type"}
        <= set(next(e for e in run_of(r).events if e.name == "compass.retry").attributes or {})
        and facts(run_of(r))["compass.model.fallback.to"] == "p/m2"
    ),
    "FC-B043": lambda r: "sk-" not in everything(r) and errors_of(r, "ERROR") == 2,
    "FC-B045": lambda r: "AIza" not in everything(r) and "key=[redacted" in everything(r),
    "FC-B048": lambda r: all(
        kept in everything(r)
        for kept in ("toolu_01EXAMPLEabcdefghijklmn", "4bf92f3577b34da6a3ce929d0e0e4736", "1790000000000")
    ),
    "FC-B049": lambda r: len({text for _, text, _ in r.session_errors}) == 2 and "disk-usage.md" in everything(r),
    "FC-B052": lambda r: "\ufffd" in r.session_errors[0][1] and len(encode_spans(r.spans).SerializeToString()) > 0,
    "FC-B054": lambda r: "\0" not in everything(r) and "\\u0000" not in everything(r),
    "FC-B055": lambda r: "速率限制" in str(facts(run_of(r))) + str(run_of(r).status.description),
    "FC-B057": lambda r: len(encode_spans(r.spans).SerializeToString()) > 0,
    "FC-B058": lambda r: sum(span.parent is None for span in r.spans) == 1,
    "FC-B060": lambda r: (
        [tools(r)[c].status.status_code for c in ("call_a", "call_b")] == [StatusCode.ERROR, StatusCode.UNSET]
    ),
    "FC-B061": lambda r: len(tools(r)) == 2,
    "FC-B063": lambda r: facts(tools(r)["call_a"])["compass.outcome"] == "incomplete",
    "FC-B064": lambda r: r.outcomes == ["completed"],
    "FC-B067": lambda r: len(r.spans) == 2,
    "FC-B069": lambda r: r.outcomes == ["completed"],
}


@pytest.mark.parametrize("case", sorted(ROWS))
def test_a_reported_failure_comes_out_as_the_reporter_needed(case: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each reported case comes out as its row says; every span ends, in order, below a parent that is there."""
    caplog.set_level(logging.WARNING)
    recorded = Recorded(ROWS[case]["input"]["events"], PiStream())
    assert CHECKS[case](recorded), ROWS[case]["expected"]
    assert (recorded.bridge.open_spans, recorded.bridge.internal_errors) == (0, 0)
    known = {span.context.span_id for span in recorded.spans if span.context is not None}
    assert all(span.parent is None or span.parent.span_id in known for span in recorded.spans)
    assert all((span.end_time or 0) >= (span.start_time or 0) for span in recorded.spans)
    assert not caplog.records, "nothing may be logged, ended-span warnings of the SDK least of all"


def test_every_row_has_a_check() -> None:
    """No reported case is passed over."""
    assert set(CHECKS) == set(ROWS)
