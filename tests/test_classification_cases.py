"""Classification against what was recorded: the real classifiers of Pi 1.6, public reports, and other wordings."""

from typing import Any

import pytest

from classification_cases import (
    DISAGREEMENTS,
    FIELD_CASES,
    ROWS,
    WORDINGS,
    compared,
    expected,
    failure,
    judged,
    variants,
)
from compass_otel.classification import Failure, classify


def named(row: dict[str, Any]) -> str:
    """Name a row in the report of a test."""
    return f"{row.get('provider')}-{str(row.get('errorMessage', row.get('message', row.get('note'))))[:40]}".encode(
        "ascii", "replace"
    ).decode()


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_agrees_with_pi_on_every_row_but_the_listed_ones(row: dict[str, Any]) -> None:
    """Overflow and retryable are what Pi 1.6 says, except where the list gives a reason why that is wrong."""
    assert judged(row) == expected(row)


def test_every_disagreement_is_one_and_has_its_reason() -> None:
    """The list holds no row that agrees, none that is not recorded, and no entry without a reason."""
    recorded = {(row.get("errorMessage", ""), row["provider"]): row["pi_1_6"] for row in ROWS}
    for key, row in DISAGREEMENTS.items():
        assert recorded[key] == row["pi_1_6"] != row["ours"]
        assert len(row["reason"]) > 40


@pytest.mark.parametrize("row", [row for row in ROWS if "usage" in row], ids=named)
def test_cache_writes_count_where_the_agent_counts_them(row: dict[str, Any]) -> None:
    """A silent overflow by cache writes is one for omp, whose classifier counts them."""
    facts = {name: getattr(failure(row), name) for name in Failure.__dataclass_fields__}
    assert compared(classify(Failure(**{**facts, "agent": "omp"}))) == {
        "overflow": row["omp_18"]["overflow"],
        "retryable": row["omp_18"]["retryable"],
    }


@pytest.mark.parametrize("case", FIELD_CASES, ids=lambda case: str(case["id"]))
def test_field_case_is_judged_right(case: dict[str, Any]) -> None:
    """A failure from a public report gets its class, or one that the report tolerates, and never a forbidden one."""
    told = case["expected"]
    for one in variants(case):
        verdict = classify(one)
        assert verdict.advice in {told["class"], *told.get("also_ok", ())}
        assert verdict.advice not in told.get("never", ())


@pytest.mark.parametrize(
    "case", [case for case in FIELD_CASES if "retry_after_s" in case["expected"]], ids=lambda c: c["id"]
)
def test_field_case_states_its_wait(case: dict[str, Any]) -> None:
    """The wait that a provider asks for is read from its text."""
    assert classify(failure(case["input"])).retry_after_s == case["expected"]["retry_after_s"]


@pytest.mark.parametrize("case", FIELD_CASES, ids=lambda case: str(case["id"]))
def test_field_case_is_retried_only_if_that_helps(case: dict[str, Any]) -> None:
    """Where a report says that the same request fails again, the verdict is not retryable."""
    if case["expected"]["retry_helps"] in {"no", "only_if_changed"}:
        assert not any(classify(one).retryable for one in variants(case))


@pytest.mark.parametrize(
    "case", [case for case in FIELD_CASES if case["input"].get("errorStatus")], ids=lambda c: c["id"]
)
def test_field_case_keeps_its_numeric_status(case: dict[str, Any]) -> None:
    """A status that the agent gives as a number is the status."""
    assert classify(failure(case["input"])).status == case["input"]["errorStatus"]


@pytest.mark.parametrize("row", WORDINGS, ids=named)
def test_wording_of_a_provider_or_a_runtime_gets_its_class(row: dict[str, Any]) -> None:
    """Wordings of providers, gateways and runtimes get their class."""
    verdict = classify(Failure(message=row["message"], status=row["status"], provider=row["provider"]))
    assert verdict.error_type == row["error_type"]
