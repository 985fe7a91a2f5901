"""A tree that grows: the rows of a live run in the order in which things end, its outcome last. Pure.

The same rows as the finished tree's, but what a failure leads to is told by the row that follows, not by its card.
"""

from collections.abc import Iterable
from dataclasses import replace

from compass_otel import semconv
from compass_otel.jsonout import EventObject, RunObject, SpanObject
from compass_otel.view import Canvas, draw_head, draw_node, time_words
from compass_otel.view_facts import Node, agent_words, event_node, outcome_fate, run_facts, span_name, span_node
from compass_otel.view_marks import STYLES, Fate
from compass_otel.view_next import Follow
from compass_otel.view_text import Line, duration_words, harmless, one_line


def draw_opened(root: SpanObject, canvas: Canvas) -> list[Line]:
    """Give the first row of a run that has just begun."""
    marks = canvas.marks
    facts = [harmless(one_line(agent_words(root)), canvas.encoding), time_words(root["start_unix_ns"], canvas)]
    told = marks.dot.join(fact for fact in facts if fact)
    return [[(f"{marks.fates[Fate.OPEN]} running", STYLES[Fate.OPEN]), (marks.dot + told, "")]]


def draw_span(span: SpanObject, root: SpanObject, canvas: Canvas) -> list[Line]:
    """Give the rows of a span that has just ended; *root* is that of its run, or of the run before it."""
    return _drawn(
        span_node(span, {}, Follow(root, [span], Fate.OPEN)), canvas, last=span["trace_id"] != root["trace_id"]
    )


def draw_event(event: EventObject, root: SpanObject, outcome: str, canvas: Canvas) -> list[Line]:
    """Give the rows of something that has just happened to the run; none for what other rows tell.

    Args:
        event: an event of the run's span.
        root: that span.
        outcome: of the run, `open` while it has none.
        canvas: what to draw for.

    """
    node = _retry_node(event) or event_node(event, root, [], outcome_fate(outcome))
    return _drawn(node, canvas) if node else []


def _drawn(node: Node, canvas: Canvas, *, last: bool = False) -> list[Line]:
    if node.card:
        node = replace(node, card=replace(node.card, next_words=""))
    return draw_node(node, canvas, "", last=last)


def _retry_node(event: EventObject) -> Node | None:
    attributes = event["attributes"]
    if event["name"] != semconv.EVENT_RETRY:
        return None
    words = ["retry"]
    if attributes.get(semconv.ATTEMPT):
        words.append(str(attributes[semconv.ATTEMPT]))
        if attributes.get(semconv.RETRY_MAX):
            words.append(f"of {attributes[semconv.RETRY_MAX]}")
    delay_s = attributes.get(semconv.RETRY_DELAY_S)
    if delay_s is not None:
        words.append(f"in {duration_words(int(delay_s * 1e9))}")
    return Node(Fate.NOTE, " ".join(words), event["time_unix_ns"])


def draw_finished(run: RunObject, canvas: Canvas) -> list[Line]:
    """Give the last rows of a run: its outcome and totals."""
    return draw_head(run_facts(run), canvas, closing=True)


def draw_running(open_spans: Iterable[SpanObject], now_ns: int, canvas: Canvas) -> Line:
    """Give the one line that says what is going on at this moment: each open span and since when."""
    marks = canvas.marks
    told = []
    for span in open_spans:
        name = harmless(one_line(span_name(span)), canvas.encoding)
        told.append(f"{name} {duration_words(max(now_ns - span['start_unix_ns'], 0))}")
    return [(f"{marks.last}{marks.fates[Fate.OPEN]} ", STYLES[Fate.OPEN]), (marks.dot.join(told) or "waiting", "dim")]
