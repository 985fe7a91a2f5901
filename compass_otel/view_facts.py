"""What a run object of the `--json` shape tells a person: outcome, totals, what happened in order, failures as cards.

Pure: reads the documented JSON values and nothing else, so that whatever is shown can also be had by a script. The
trace is the only witness: what happened after a failure is read from the spans and events that follow it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from compass_otel import semconv
from compass_otel.jsonout import EventObject, RunObject, SpanObject
from compass_otel.view_marks import Fate
from compass_otel.view_next import Follow, what_next
from compass_otel.view_text import cost_words, count_words

_TOOL_FATES: Final = {
    "failed": Fate.TOOL_FAILED,
    "not_executed": Fate.NOT_EXECUTED,
    "cancelled": Fate.CANCELLED,
    "incomplete": Fate.INCOMPLETE,
}
_OUTCOME_FATES: Final = {
    semconv.Outcome.COMPLETED.value: Fate.COMPLETED,
    semconv.Outcome.FAILED.value: Fate.FAILED,
    semconv.Outcome.CANCELLED.value: Fate.CANCELLED,
    semconv.Outcome.INCOMPLETE.value: Fate.INCOMPLETE,
}
_FINISH_NOTES: Final = {
    "length": "cut at the length limit",
    "content_filter": "stopped by the content filter",
}

_INJECTIONS: Final = {
    "STEER": "a message of the user steered the run",
    "DELIVER": "a queued message was delivered",
}


@dataclass(frozen=True, slots=True)
class Card:
    """One failure, whole: what a person needs to know without opening anything else."""

    fate: Fate
    kind: str
    """`ERROR`, `ABORTED`, or `COMPACTION` for a compaction that failed."""
    error_type: str | None
    http_status: int | None
    message: str
    attempt: int | None
    retryable: bool | None
    next_words: str
    """What happened next; empty when nothing is known."""


@dataclass(frozen=True, slots=True)
class Node:
    """One row of the tree: a span, or something that happened to the run."""

    fate: Fate
    name: str
    start_ns: int
    end_ns: int | None = None
    details: tuple[str, ...] = ()
    card: Card | None = None
    children: tuple["Node", ...] = ()


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run as the tree shows it."""

    fate: Fate
    agent: str
    start_ns: int
    end_ns: int | None
    models: tuple[str, ...]
    totals: tuple[str, ...]
    """Model calls, tools, retries, tokens, cost: each in words, left out when there is none."""
    headline: str
    """Why the run ended as it did; empty for a completed one."""
    session_id: str | None
    trace_id: str
    nodes: tuple[Node, ...] = field(default=())


def run_facts(run: RunObject) -> RunFacts:
    """Read the facts of one run; needs at least one span."""
    root = root_span(run)
    children = _children(run["spans"], root)
    fate = outcome_fate(run["outcome"])
    nodes = tuple(sorted(_nodes(root, children, fate), key=lambda node: node.start_ns))
    attributes = root["attributes"]
    return RunFacts(
        fate=fate,
        agent=agent_words(root),
        start_ns=root["start_unix_ns"],
        end_ns=root["end_unix_ns"],
        models=_models(run["spans"]),
        totals=_totals(root, run["spans"]),
        headline=_headline(run, fate, nodes),
        session_id=attributes.get(semconv.GEN_AI_CONVERSATION_ID),
        trace_id=run["trace_id"],
        nodes=nodes,
    )


def outcome_fate(outcome: str) -> Fate:
    """Give the fate that an outcome stands for; a run without one is open."""
    return _OUTCOME_FATES.get(outcome, Fate.OPEN)


def root_span(run: RunObject) -> SpanObject:
    """Give the run's own span."""
    for span in run["spans"]:
        if span["attributes"].get(semconv.GEN_AI_OPERATION_NAME) == semconv.SpanName.INVOKE_AGENT:
            return span
    return run["spans"][0]


def _children(spans: list[SpanObject], root: SpanObject) -> dict[str, list[SpanObject]]:
    """Spans by their parent's id; whoever's parent is not here (a compaction between runs) stands under the run."""
    known = {span["span_id"] for span in spans}
    by_parent: dict[str, list[SpanObject]] = {}
    for span in sorted(spans, key=lambda each: (each["start_unix_ns"], each["end_unix_ns"] or 0)):
        if span is not root:
            parent = span["parent_span_id"]
            by_parent.setdefault(parent if parent and parent in known else root["span_id"], []).append(span)
    return by_parent


def _nodes(root: SpanObject, children: dict[str, list[SpanObject]], fate: Fate) -> Iterator[Node]:
    top = children.get(root["span_id"], [])
    for span in top:
        yield span_node(span, children, Follow(root, top, fate))
    for event in root["events"]:
        node = event_node(event, root, top, fate)
        if node:
            yield node


def span_node(span: SpanObject, children: dict[str, list[SpanObject]], follow: Follow) -> Node:
    """Give the row of one span, with what stands under it."""
    card = _card(span, follow)
    fate = card.fate if card else _span_fate(span)
    return Node(
        fate=fate,
        name=span_name(span),
        start_ns=span["start_unix_ns"],
        end_ns=span["end_unix_ns"],
        details=tuple(_details(span, fate, after_run=span["trace_id"] != follow.root["trace_id"])),
        card=card,
        children=(*_told(span), *(span_node(each, children, follow) for each in children.get(span["span_id"], []))),
    )


def _told(span: SpanObject) -> Iterator[Node]:
    """Give what the model was told with this request."""
    for event in span["events"]:
        if event["name"] == semconv.EVENT_ADVISOR_NOTE:
            text = event["attributes"].get(semconv.ADVISOR_TEXT, "")
            yield Node(Fate.NOTE, f"the model was told: {text}", event["time_unix_ns"])


def span_name(span: SpanObject) -> str:
    """Give the span's name for a person: a tool is called by the name that the model calls it."""
    if span["attributes"].get(semconv.GEN_AI_OPERATION_NAME) == semconv.SpanName.EXECUTE_TOOL:
        return f"tool {span['attributes'].get(semconv.GEN_AI_TOOL_NAME) or span['name']}"
    return span["name"]


def agent_words(root: SpanObject) -> str:
    """Name the agent of a run, with its version where that is known."""
    return " ".join(_texts(root["attributes"], semconv.GEN_AI_AGENT_NAME, semconv.GEN_AI_AGENT_VERSION)) or root["name"]


def _span_fate(span: SpanObject) -> Fate:
    attributes = span["attributes"]
    if span["end_unix_ns"] is None:
        return Fate.OPEN
    tool_status = attributes.get(semconv.TOOL_STATUS) or attributes.get(semconv.COMPACTION_OUTCOME)
    if tool_status in _TOOL_FATES:
        return _TOOL_FATES[tool_status]
    if attributes.get(semconv.RESPONSE_EMPTY):
        return Fate.EMPTY
    return _OUTCOME_FATES.get(attributes.get(semconv.OUTCOME, ""), Fate.COMPLETED)


def _details(span: SpanObject, fate: Fate, *, after_run: bool) -> Iterator[str]:
    attributes = span["attributes"]
    if after_run:
        yield "after the run"
    if fate is Fate.TOOL_FAILED and semconv.TOOL_EXIT_CODE in attributes:
        yield f"exit status {attributes[semconv.TOOL_EXIT_CODE]}"
    if attributes.get(semconv.ATTEMPT, 1) != 1:
        yield f"attempt {attributes[semconv.ATTEMPT]}"
    yield from _token_words([span])
    for reason in attributes.get(semconv.GEN_AI_RESPONSE_FINISH_REASONS) or ():
        if reason in _FINISH_NOTES:
            yield _FINISH_NOTES[reason]
    yield from _compaction_words(attributes)
    yield from attributes.get(semconv.TOOL_DIFF_PATHS) or ()


def _compaction_words(attributes: dict[str, Any]) -> Iterator[str]:
    if semconv.COMPACTION_REASON in attributes:
        yield f"reason {attributes[semconv.COMPACTION_REASON]}"
    before = attributes.get(semconv.COMPACTION_TOKENS_BEFORE)
    after = attributes.get(semconv.COMPACTION_TOKENS_AFTER)
    if before is not None:
        yield f"{before:,} to {after:,} tokens" if after is not None else f"{before:,} tokens before"
    if attributes.get(semconv.COMPACTION_OUTCOME) == "skipped":
        yield "skipped"


def _card(span: SpanObject, follow: Follow) -> Card | None:
    attributes = span["attributes"]
    kind = attributes.get(semconv.SESSION_ERROR_KIND)
    operation = attributes.get(semconv.GEN_AI_OPERATION_NAME)
    if kind is None and operation == semconv.SpanName.COMPACT and span["status"] == "ERROR":
        kind = "COMPACTION"
    if kind is None or operation == semconv.SpanName.EXECUTE_TOOL:
        return None
    fate, next_words = what_next(span["end_unix_ns"] or span["start_unix_ns"], kind, span, follow)
    return card_of(attributes, kind, span["status_message"], fate, next_words)


def card_of(attributes: dict[str, Any], kind: str, status_message: str | None, fate: Fate, next_words: str) -> Card:
    """Build a card from the attributes of a span or of one of its events."""
    message = attributes.get(semconv.SESSION_ERROR_MESSAGE) or attributes.get(semconv.EXCEPTION_MESSAGE)
    status = attributes.get(semconv.SESSION_ERROR_STATUS, attributes.get(semconv.HTTP_RESPONSE_STATUS_CODE))
    return Card(
        fate=fate,
        kind=kind,
        error_type=attributes.get(semconv.ERROR_TYPE) or attributes.get(semconv.EXCEPTION_TYPE),
        http_status=status,
        message=message or status_message or "",
        attempt=attributes.get(semconv.ATTEMPT),
        retryable=attributes.get(semconv.ERROR_RETRYABLE),
        next_words=next_words,
    )


def event_node(event: EventObject, root: SpanObject, top: list[SpanObject], fate: Fate) -> Node | None:
    """Give the row of an event of the run span, None for one that the tree tells otherwise."""
    attributes = event["attributes"]
    at_ns = event["time_unix_ns"]
    match event["name"]:
        case semconv.EXCEPTION_EVENT | semconv.EVENT_CANCELLED:
            kind = attributes.get(semconv.SESSION_ERROR_KIND) or "ERROR"
            card_fate, next_words = what_next(at_ns, kind, None, Follow(root, top, fate))
            merged = {**_error_attributes(root["attributes"]), **attributes}
            return Node(card_fate, "the run", at_ns, card=card_of(merged, kind, None, card_fate, next_words))
        case semconv.EVENT_INJECTION:
            kind = str(attributes.get(semconv.INJECTION_KIND, "STEER")).upper()
            return Node(Fate.NOTE, _INJECTIONS.get(kind, "a message was injected"), at_ns)
        case semconv.EVENT_FALLBACK:
            change = [str(attributes.get(key, "?")) for key in (semconv.MODEL_FALLBACK_FROM, semconv.MODEL_FALLBACK_TO)]
            return Node(Fate.NOTE, f"model fallback from {change[0]} to {change[1]}", at_ns)
        case _:
            # Retries are told by the cards that they follow; states say nothing that rows and outcome do not.
            return None


def _error_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    kept = (semconv.ERROR_TYPE, semconv.ERROR_RETRYABLE, semconv.HTTP_RESPONSE_STATUS_CODE)
    return {key: attributes[key] for key in kept if key in attributes}


def _texts(attributes: dict[str, Any], *keys: str) -> list[str]:
    return [str(attributes[key]) for key in keys if attributes.get(key)]


def _chats(spans: list[SpanObject]) -> list[SpanObject]:
    return [span for span in spans if span["attributes"].get(semconv.GEN_AI_OPERATION_NAME) == semconv.SpanName.CHAT]


def _models(spans: list[SpanObject]) -> tuple[str, ...]:
    names = (
        "/".join(_texts(span["attributes"], semconv.GEN_AI_PROVIDER_NAME, semconv.GEN_AI_REQUEST_MODEL))
        for span in _chats(spans)
    )
    return tuple(dict.fromkeys(name for name in names if name))


def _totals(root: SpanObject, spans: list[SpanObject]) -> tuple[str, ...]:
    """Tell what the run took: by its own sums once it ended, else by what is there so far."""
    chats = _chats(spans)
    tools = [span for span in spans if _operation(span) == semconv.SpanName.EXECUTE_TOOL]
    own = root["attributes"]
    summed = semconv.TURN_COUNT in own
    words = [count_words(own.get(semconv.TURN_COUNT, len(chats)), "model call")]
    if tool_count := own.get(semconv.TOOL_COUNT, len(tools)):
        words.append(count_words(tool_count, "tool"))
    if retries := own.get(semconv.RETRY_COUNT):
        words.append(count_words(retries, "retry", "retries"))
    return (*words, *_token_words([root] if summed else chats))


def _operation(span: SpanObject) -> str:
    return str(span["attributes"].get(semconv.GEN_AI_OPERATION_NAME, ""))


def _token_words(spans: list[SpanObject]) -> Iterator[str]:
    def total(key: str) -> float:
        return sum(span["attributes"].get(key) or 0 for span in spans)

    read, written = total(semconv.GEN_AI_USAGE_INPUT_TOKENS), total(semconv.GEN_AI_USAGE_OUTPUT_TOKENS)
    cached = total(semconv.GEN_AI_USAGE_CACHE_READ)
    if read or written:
        yield f"{read:,} tokens in" + (f" ({cached:,} cached)" if cached else "") + f", {written:,} out"
    cost_usd = total(semconv.COST_USD)
    if cost_usd:
        yield cost_words(cost_usd)


def _headline(run: RunObject, fate: Fate, nodes: tuple[Node, ...]) -> str:
    if fate in (Fate.COMPLETED, Fate.OPEN):
        return ""
    cards = [node.card for node in nodes if node.card]
    if not cards:
        return run["error_type"] or ("the answer is not in the file" if fate is Fate.INCOMPLETE else "")
    last = next((card for card in reversed(cards) if card.kind != "COMPACTION"), cards[-1])
    status = f"HTTP {last.http_status}" if last.http_status is not None else ""
    end = last.next_words or last.message
    return ", ".join(part for part in (run["error_type"] or last.error_type, status, end) if part)
