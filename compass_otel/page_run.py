"""One run as the HTML page shows it: its line in the list of runs, and all that stands on the run itself.

Pure: run objects of the `--json` shape in, plain JSON values out. The words are those of the terminal view.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypedDict

from compass_otel import semconv
from compass_otel.jsonout import RunObject, SpanObject
from compass_otel.page_advice import would_tell
from compass_otel.page_timeline import TimelineValue, card_value, timeline
from compass_otel.view_card import card_facts
from compass_otel.view_facts import Card, Node, RunFacts, run_facts
from compass_otel.view_marks import UNICODE_MARKS, WORDS, Fate
from compass_otel.view_text import count_words, duration_words, one_line

FATE_ORDER: Final = (Fate.FAILED, Fate.INCOMPLETE, Fate.CANCELLED, Fate.OPEN, Fate.COMPLETED)
"""Fates of runs, what needs a person first."""
_TEXT_STYLE: Final = "\ufe0e"
"""Asks for the plain form of a mark, where a system would draw a coloured picture."""
_MAX_SEARCHED_CHARS: Final = 6000
"""Texts of one run that the search looks through."""


class FateValue(TypedDict):
    """How a fate is shown."""

    word: str
    mark: str


class LineValue(TypedDict):
    """A run in the list; `number` names its data in the page, `start_ms` is since the epoch, 0 when unknown."""

    number: int
    fate: str
    title: str
    why: str
    about: list[str]
    start_ms: int
    types: list[str]
    text: str


class StepValue(TypedDict):
    """What one of several alike failures led to."""

    attempt: str
    next: str


class FailureValue(TypedDict):
    """Failures in a row that say the same, as one."""

    fate: str
    facts: list[str]
    message: str
    steps: list[StepValue]


class NoteValue(TypedDict):
    """What the model was told; `would` marks what it would have been told."""

    text: str
    would: bool


class PageValue(TypedDict):
    """A run opened; `failures` begins with the one that decided how the run ended."""

    fate: str
    agent: str
    models: list[str]
    headline: str
    start_ms: int
    length: str
    totals: list[str]
    session: str
    trace: str
    source: str
    hidden: str
    failures: list[FailureValue]
    notes: list[NoteValue]
    timeline: TimelineValue


@dataclass(frozen=True, slots=True)
class PageRun:
    """A run in both forms, and what orders it among the others."""

    order: tuple[int, int]
    line: LineValue
    page: PageValue


def fate_values() -> dict[str, FateValue]:
    """Give word and mark of every fate."""
    return {fate.value: {"word": WORDS[fate].lower(), "mark": UNICODE_MARKS.fates[fate] + _TEXT_STYLE} for fate in Fate}


def page_run(run: RunObject, *, number: int, source: str, hidden: int = 0) -> PageRun:
    """Read one run.

    Args:
        run: What to show; at least one span.
        number: What names the run in this page.
        source: The path that it was read from, scrubbed.
        hidden: How many of its spans are left out of `run`.

    """
    facts = run_facts(run)
    failures = _failures(list(_cards(facts.nodes)))
    line = _line(facts, run, failures, source)
    page = _page(facts, run, failures)
    line["number"] = number
    page["source"] = source
    page["hidden"] = f"{count_words(hidden, 'span')} that went well not shown here, see --json" if hidden else ""
    return PageRun((FATE_ORDER.index(facts.fate), -facts.start_ns), line, page)


def _line(facts: RunFacts, run: RunObject, failures: list[FailureValue], source: str) -> LineValue:
    types = dict.fromkeys(str(span["attributes"][semconv.ERROR_TYPE]) for span in _typed(run["spans"]))
    searched = [facts.headline, facts.agent, *facts.models, facts.session_id or "", facts.trace_id, source, *types]
    searched += dict.fromkeys(node.name for node in facts.nodes)
    searched += [failure["message"] for failure in failures]
    title, why = _title(facts, run, failures)
    return {
        "number": 0,
        "fate": facts.fate,
        "title": title,
        "why": why,
        "about": [text for text in (facts.agent, *facts.models[:2], _length(facts)) if text],
        "start_ms": facts.start_ns // 1_000_000,
        "types": list(types),
        "text": one_line("\n".join(searched))[:_MAX_SEARCHED_CHARS],
    }


def _typed(spans: list[SpanObject]) -> Iterator[SpanObject]:
    return (span for span in spans if semconv.ERROR_TYPE in span["attributes"])


def _title(facts: RunFacts, run: RunObject, failures: list[FailureValue]) -> tuple[str, str]:
    """Part the headline into what it was and what came of it, so that a list can be read down its left side."""
    if not facts.headline:
        return _quiet_title(facts, run["spans"][0]), _repaired(failures)
    known = [run["error_type"] or "", *(fact for failure in failures[:1] for fact in failure["facts"])]
    parts = facts.headline.split(", ")
    size = next((at for at, part in enumerate(parts) if part not in known), len(parts)) or 1
    return ", ".join(parts[:size]), ", ".join(parts[size:])


def _repaired(failures: list[FailureValue]) -> str:
    """Tell of the last failure that did not end the run."""
    if not failures:
        return ""
    told = (failures[0]["facts"][1:2] or failures[0]["facts"])[0]
    return f"after {told}" + "".join(f": {step['next']}" for step in failures[0]["steps"][-1:])


def _quiet_title(facts: RunFacts, root: SpanObject) -> str:
    retries = root["attributes"].get(semconv.RETRY_COUNT)
    after = f", after {count_words(retries, 'retry', 'retries')}" if retries else ""
    return WORDS[facts.fate].lower() + after


def _length(facts: RunFacts) -> str:
    return duration_words(max(facts.end_ns - facts.start_ns, 0)) if facts.end_ns is not None else ""


def _page(facts: RunFacts, run: RunObject, failures: list[FailureValue]) -> PageValue:
    return {
        "fate": facts.fate,
        "agent": facts.agent,
        "models": list(facts.models),
        "headline": facts.headline,
        "start_ms": facts.start_ns // 1_000_000,
        "length": _length(facts),
        "totals": list(facts.totals),
        "session": facts.session_id or "",
        "trace": facts.trace_id,
        "source": "",
        "hidden": "",
        "failures": failures,
        "notes": _notes(run),
        "timeline": timeline(run),
    }


def _cards(nodes: tuple[Node, ...]) -> Iterator[Card]:
    for node in nodes:
        if node.card:
            yield node.card
        yield from _cards(node.children)


def _failures(cards: list[Card]) -> list[FailureValue]:
    """Join cards in a row that say the same; put first the one that decided, as the headline does."""
    groups: list[list[Card]] = []
    for card in cards:
        if groups and _sameness(groups[-1][0]) == _sameness(card):
            groups[-1].append(card)
        else:
            groups.append([card])
    decided = [group for group in groups if group[0].kind != "COMPACTION"][-1:] or groups[-1:]
    return [_failure(group) for group in [*decided, *(group for group in groups if group not in decided)]]


def _sameness(card: Card) -> tuple[object, ...]:
    return card.kind, card.error_type, card.http_status, card.message, card.retryable


def _failure(group: list[Card]) -> FailureValue:
    last = card_value(group[-1])
    if len(group) == 1:
        steps: list[StepValue] = [{"attempt": "", "next": last["next"]}] if last["next"] else []
        return {"fate": last["fate"], "facts": last["facts"], "message": last["message"], "steps": steps}
    facts = [*card_facts(replace(group[-1], attempt=None)), f"{len(group)} times"]
    steps = [
        {"attempt": f"attempt {card.attempt}" if card.attempt else f"time {index}", "next": card.next_words}
        for index, card in enumerate(group, 1)
    ]
    return {"fate": last["fate"], "facts": facts, "message": last["message"], "steps": steps}


def _notes(run: RunObject) -> list[NoteValue]:
    told = [
        str(event["attributes"].get(semconv.ADVISOR_TEXT, ""))
        for span in run["spans"]
        for event in span["events"]
        if event["name"] == semconv.EVENT_ADVISOR_NOTE
    ]
    notes: list[NoteValue] = [{"text": text, "would": False} for text in told]
    return notes + [{"text": text, "would": True} for text in would_tell(run)]
