"""The timeline of a run for the HTML page: a row for each span and event, where it stands on the scale, and the ticks.

Pure: run objects of the `--json` shape in, plain JSON values out. Words come from the terminal view, so that both say
the same; a place on the scale is a share of the run's length, 0 at its start and 1 at its end.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from compass_otel import semconv
from compass_otel.jsonout import EventObject, RunObject, SpanObject
from compass_otel.scrubbing import cut
from compass_otel.view_card import NO_MESSAGE, card_facts
from compass_otel.view_facts import Card, Node, event_node, outcome_fate, root_span, span_node
from compass_otel.view_marks import Fate
from compass_otel.view_next import Follow
from compass_otel.view_text import duration_words

_MAX_VALUE_BYTES: Final = 4096
"""Of one attribute; prompts and tool results, where they are recorded at all, may be as long as a book."""
_MAX_TICKS: Final = 6
_STEPS: Final = (1, 2, 5)
_MINUTE_NS: Final = 60_000_000_000
_STEPS_OF_60: Final = (1, 2, 5, 10, 15, 30)
_HOUR_NS: Final = 60 * _MINUTE_NS
_SLACK_NS: Final = 1_000_000
"""Stored streams know times to the millisecond."""


class CardValue(TypedDict):
    """One failure in words; `next` is what it led to, empty when nothing is known."""

    fate: str
    facts: list[str]
    message: str
    next: str


class MomentValue(TypedDict):
    """One event of a span: `at` in words, counted from the start of the run."""

    name: str
    at: str
    attributes: dict[str, str]


class RowValue(TypedDict):
    """One row; `left`, `width` and `wait` (the announced wait before a retry, after its end) are shares of the run."""

    fate: str
    kind: str
    name: str
    details: list[str]
    begins: str
    length: str
    left: float
    width: float
    wait: float
    card: CardValue | None
    attributes: dict[str, str]
    events: list[MomentValue]
    rows: list["RowValue"]


class TickValue(TypedDict):
    """One mark of the scale."""

    left: float
    words: str


class TimelineValue(TypedDict):
    """The rows, the run's own first, and their scale."""

    rows: list[RowValue]
    ticks: list[TickValue]


@dataclass(frozen=True, slots=True)
class Scale:
    """From times to shares of the run."""

    start_ns: int
    length_ns: int

    def share(self, at_ns: int) -> float:
        """Give the place of a time; what lies outside the run stands at its edge."""
        return round(min(max((at_ns - self.start_ns) / self.length_ns, 0), 1), 5)

    def words(self, at_ns: int) -> str:
        """Say how long after the start it was."""
        return duration_words(max(at_ns - self.start_ns, 0))


def timeline(run: RunObject) -> TimelineValue:
    """Lay out a run; needs at least one span."""
    root = root_span(run)
    scale = _scale(root, run["spans"])
    children = _children(run["spans"], root)
    follow = Follow(root, children.get(root["span_id"], []), outcome_fate(run["outcome"]))
    top = [*_span_rows(follow.top, children, follow, scale), *_event_rows(follow, scale)]
    first = _row(_root_node(root, follow.fate), root, scale, [])
    ticks: list[TickValue] = [
        {"left": scale.share(scale.start_ns + at_ns), "words": duration_words(at_ns)}
        for at_ns in _ticks_ns(scale.length_ns)
    ]
    return {"rows": [first, *(row for _, row in sorted(top, key=lambda each: each[0]))], "ticks": ticks}


def _scale(root: SpanObject, spans: list[SpanObject]) -> Scale:
    """Take the run's own length; that of an open one goes as far as anything in it is known to have gone."""
    start_ns, end_ns = root["start_unix_ns"], root["end_unix_ns"]
    if end_ns is None:
        end_ns = max(span["end_unix_ns"] or span["start_unix_ns"] for span in spans)
    return Scale(start_ns, max(end_ns - start_ns, 1))


def _children(spans: list[SpanObject], root: SpanObject) -> dict[str, list[SpanObject]]:
    """Spans by their parent; whoever's parent is not here (a compaction between runs) stands under the run."""
    known = {span["span_id"] for span in spans}
    children: dict[str, list[SpanObject]] = {}
    for span in sorted(spans, key=lambda each: (each["start_unix_ns"], each["end_unix_ns"] or 0)):
        if span is not root:
            parent = span["parent_span_id"]
            children.setdefault(parent if parent and parent in known else root["span_id"], []).append(span)
    return children


def _root_node(root: SpanObject, fate: Fate) -> Node:
    return Node(fate, root["name"], root["start_unix_ns"], root["end_unix_ns"])


def _span_rows(
    spans: list[SpanObject], children: dict[str, list[SpanObject]], follow: Follow, scale: Scale
) -> Iterator[tuple[int, RowValue]]:
    for span in spans:
        # Without children of its own the node brings what stands in the span's events, and we know its span.
        node = span_node(span, {}, follow)
        below = [row for _, row in _span_rows(children.get(span["span_id"], []), children, follow, scale)]
        notes = [_row(each, None, scale, []) for each in node.children]
        row = _row(node, span, scale, [*notes, *below])
        row["wait"] = _wait_share(span, follow, scale)
        yield span["start_unix_ns"], row


def _event_rows(follow: Follow, scale: Scale) -> Iterator[tuple[int, RowValue]]:
    for event in follow.root["events"]:
        node = event_node(event, follow.root, follow.top, follow.fate)
        if node:
            yield node.start_ns, _row(node, None, scale, [])


def _row(node: Node, span: SpanObject | None, scale: Scale, rows: list[RowValue]) -> RowValue:
    left = scale.share(node.start_ns)
    end_ns = node.end_ns if node.end_ns is not None or span is None else scale.start_ns + scale.length_ns
    return {
        "fate": node.fate,
        "kind": str(span["attributes"].get(semconv.GEN_AI_OPERATION_NAME, "span")) if span else "note",
        "name": node.name,
        "details": list(node.details),
        "begins": scale.words(node.start_ns),
        "length": duration_words(max(node.end_ns - node.start_ns, 0)) if node.end_ns is not None else "",
        "left": left,
        "width": round(max(scale.share(end_ns) - left, 0), 5) if end_ns is not None else 0,
        "wait": 0,
        "card": card_value(node.card) if node.card else None,
        "attributes": attribute_words(span["attributes"]) if span else {},
        "events": [_moment(event, scale) for event in span["events"]] if span else [],
        "rows": rows,
    }


def card_value(card: Card) -> CardValue:
    """Give a failure in the words of the terminal's card."""
    return {
        "fate": card.fate,
        "facts": card_facts(card),
        "message": card.message.strip("\n") or NO_MESSAGE,
        "next": card.next_words,
    }


def _moment(event: EventObject, scale: Scale) -> MomentValue:
    return {
        "name": event["name"],
        "at": scale.words(event["time_unix_ns"]),
        "attributes": attribute_words(event["attributes"]),
    }


def attribute_words(attributes: dict[str, Any]) -> dict[str, str]:
    """Give attributes as texts of bounded length; a list as its items, anything deeper as JSON."""
    return {key: cut(_value_words(value), _MAX_VALUE_BYTES) for key, value in attributes.items()}


def _value_words(value: Any) -> str:
    match value:
        case str():
            return value
        case list() if all(isinstance(item, str) for item in value):
            return ", ".join(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def _wait_share(span: SpanObject, follow: Follow, scale: Scale) -> float:
    """Give the announced wait between this span and the next attempt."""
    end_ns = span["end_unix_ns"]
    if end_ns is None or semconv.SESSION_ERROR_KIND not in span["attributes"]:
        return 0
    attempt = span["attributes"].get(semconv.ATTEMPT) or 1
    for event in follow.root["events"]:
        attributes = event["attributes"]
        later = event["time_unix_ns"] >= end_ns - _SLACK_NS
        if event["name"] != semconv.EVENT_RETRY or not later or attributes.get(semconv.ATTEMPT, attempt) != attempt:
            continue
        until_ns = event["time_unix_ns"] + int((attributes.get(semconv.RETRY_DELAY_S) or 0) * 1e9)
        return round(max(scale.share(until_ns) - scale.share(end_ns), 0), 5)
    return 0


def _ticks_ns(length_ns: int) -> Iterator[int]:
    """Give round times from 0 to the end of the run, six at most."""
    step_ns = next(step for step in _steps_ns() if length_ns <= step * _MAX_TICKS)
    yield from range(0, length_ns + 1, step_ns)


def _steps_ns() -> Iterator[int]:
    decade_ns = 1_000_000
    while decade_ns < _MINUTE_NS:
        for step in _STEPS:
            if step * decade_ns < _MINUTE_NS // 2:
                yield step * decade_ns
        decade_ns *= 10
    yield _MINUTE_NS // 2
    yield from (step * _MINUTE_NS for step in _STEPS_OF_60)
    hours = 1
    while True:
        for step in _STEPS:
            yield step * hours * _HOUR_NS
        hours *= 10
