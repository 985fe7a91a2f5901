"""The table itself: every row has its source and decides its own example."""

import re

import pytest

from compass_otel.classification import ErrorType, Failure, classify, parse_status
from compass_otel.classification_kinds import Case, Rule
from compass_otel.classification_rules import RULES
from compass_otel.classification_status import status_to_judge_by
from compass_otel.classification_text import read
from compass_otel.classification_waits import stated_wait_s
from compass_otel.classification_words import BY_STATUS, Advice, advice_for

CLOSED_LIST = {
    "context_overflow", "payload_too_large", "rate_limit", "overloaded", "server_error", "timeout", "network",
    "stream_interrupted", "malformed_response", "empty_response", "auth", "permission", "billing", "quota", "not_found",
    "invalid_request", "content_filter", "tool_error", "process_lost", "_OTHER",
}  # fmt: skip

FROM_ELSEWHERE = {"tool_error", "process_lost"}
"""Classes of spans that are no answers; no text of an answer gives them."""


def deciding(rule: Rule) -> Rule | None:
    """Return the row that decides a row's example."""
    text = read(rule.example)
    status = status_to_judge_by(text, parse_status(rule.example, status=rule.example_status))
    case = Case(text, status, stated_wait_s(text.plain))
    return next((one for one in RULES if one.holds(case)), None)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name.encode("ascii", "replace").decode())
def test_a_row_decides_its_own_example(rule: Rule) -> None:
    """No earlier row takes the example away, and the verdict is what the row says."""
    assert deciding(rule) == rule
    verdict = classify(Failure(message=rule.example, status=rule.example_status))
    assert (verdict.error_type, verdict.advice) == (rule.gives, rule.advised)


def test_rows_are_told_apart_and_sourced() -> None:
    """Names are unique; every row says where its wording comes from and says something of its own."""
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.source.strip()
        assert rule.says or rule.statuses


def test_no_wording_stands_twice_in_a_row() -> None:
    """A wording that is listed twice is a mistake of the hand."""
    assert [rule.name for rule in RULES if len(set(rule.says)) != len(rule.says)] == []


def test_classes_are_the_closed_list() -> None:
    """`error.type` takes the design's values and no others, and every class of an answer can be reached."""
    assert {kind.value for kind in ErrorType} == CLOSED_LIST
    reached = {rule.gives for rule in RULES} | set(BY_STATUS.values())
    assert {kind.value for kind in ErrorType} - {kind.value for kind in reached} == FROM_ELSEWHERE


def test_a_cancelled_answer_is_the_only_advice_apart() -> None:
    """An advice other than the class's own is for cancels and for certificates alone."""
    apart = {rule.advice for rule in RULES if rule.advised != advice_for(rule.gives)}
    assert apart == {Advice.ABORTED, Advice.OTHER}


def test_patterns_repeat_nothing_without_a_bound() -> None:
    """A pattern may skip some words, never any number of them, so no text makes it slow."""
    said = [
        one.partition(" ~ ")[2] for rule in RULES for one in (*rule.says, *rule.beside, *rule.unless) if " ~ " in one
    ]
    assert said
    for expression in said:
        assert not re.search(r"[*+]", expression.replace(r"\w+", "").replace(r"\d+", ""))
