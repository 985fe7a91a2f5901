"""The recorded cases of classification, as the tests read them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from compass_otel.classification import Classification, Failure, classify

CASES = Path(__file__).parent / "cases"


def lines(name: str) -> list[dict[str, Any]]:
    """Read one file of cases."""
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


ROWS = lines("classification.jsonl")
DISAGREEMENTS = {(row["errorMessage"], row["provider"]): row for row in lines("disagreements.jsonl")}
WORDINGS = lines("wordings.jsonl")
FIELD_CASES = [case for case in lines("field-cases.jsonl") if case["id"].startswith("FC-A")]


def failure(facts: Mapping[str, Any], *, message: object = None) -> Failure:
    """Build the failure that a recorded row or field case describes."""
    if message is None:
        message = facts.get("errorMessage")
    for part, times in facts.get("errorMessageParts") or ():
        message = (message or "") + part * times
    return Failure(
        message=message,
        status=facts.get("errorStatus"),
        provider=facts.get("provider"),
        model=facts.get("model"),
        stop_reason=facts.get("stopReason", "error"),
        usage=facts.get("usage"),
        last_good_usage=facts.get("lastGoodUsage"),
        context_window=facts.get("contextWindow"),
        stop_details=facts.get("stopDetails"),
    )


def variants(case: Mapping[str, Any]) -> Iterator[Failure]:
    """Yield the failure of a field case and each of its variants."""
    facts = case["input"]
    yield failure(facts)
    for message in facts.get("variants", ()):
        yield failure(facts, message=message)


def compared(verdict: Classification) -> dict[str, bool]:
    """Return a verdict in the words of the recorded rows."""
    return {"overflow": verdict.advice == "overflow", "retryable": verdict.retryable}


def judged(row: Mapping[str, Any]) -> dict[str, bool]:
    """Return our verdict on a recorded row, in its words."""
    return compared(classify(failure(row)))


def expected(row: Mapping[str, Any]) -> dict[str, bool]:
    """Return what we mean to say of a row: what the real classifiers say, or what stands in the list."""
    listed = DISAGREEMENTS.get((row.get("errorMessage", ""), row["provider"]))
    verdict: dict[str, bool] = listed["ours"] if listed else row["pi_1_6"]
    return verdict
