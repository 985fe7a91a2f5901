"""Every recorded session of three agents: what went wrong, how each run ended, and the whole trace, for equality."""

import json
from typing import Any

import pytest

from compass_otel.scrubbing import scrub
from goldens import CAPTURES, capture_path, captured, record_file, tree_path, written

EXPECTED: dict[str, Any] = json.loads((CAPTURES / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", captured("stream"))
def test_a_stream_gives_the_expected_errors_and_outcomes(name: str) -> None:
    """Session errors and outcomes are those of expected.json, in order, plus one ERROR for each incomplete run."""
    recorded = record_file(capture_path("stream", name))
    expected = EXPECTED[name]
    errors = [(e["kind"], scrub(e["message"]), e.get("status")) for e in expected["session_errors"]]
    errors += [("ERROR", "the stream ended with the run open", None)] * expected["runs"].count("incomplete")
    assert recorded.session_errors == errors
    assert recorded.outcomes == expected["runs"]


@pytest.mark.parametrize("kind", ["stream", "session"])
def test_no_record_is_unmapped_and_nothing_stays_open(kind: str) -> None:
    """No capture holds a record that nobody maps; no span stays open; nothing goes wrong inside."""
    for name in captured(kind):
        recorded = record_file(capture_path(kind, name))
        assert (recorded.counts.unmapped, recorded.counts.malformed) == (0, 0), name
        assert recorded.closed, name
        assert recorded.bridge.internal_errors == 0, name


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in ("stream", "session") for name in captured(kind)])
def test_the_whole_trace_is_the_committed_one(kind: str, name: str) -> None:
    """Names, kinds, status, times, ids, attributes, events, links and parents are equal to the committed trace."""
    found = written(record_file(capture_path(kind, name)).trees)
    assert found == tree_path(kind, name).read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["stream", "session"])
def test_reading_twice_gives_the_same_bytes(kind: str) -> None:
    """The same input gives the same spans, ids included."""
    for name in captured(kind)[::7]:
        path = capture_path(kind, name)
        assert written(record_file(path).trees) == written(record_file(path).trees)


def header(name: str) -> bool:
    """Whether a stream states its session's id: json mode does, rpc mode does not."""
    return b'"type":"session"' in capture_path("stream", name).read_bytes().split(b"\n", 1)[0]


@pytest.mark.parametrize("name", [n for n in captured("session") if header(n)])
def test_a_session_file_gives_the_ids_of_its_live_stream(name: str) -> None:
    """What the session file tells has the very trace and span ids that the json stream gave; it tells nothing else."""
    stream = {s.context.span_id: (s.name, s.context.trace_id) for s in record_file(capture_path("stream", name)).spans}
    file = {s.context.span_id: (s.name, s.context.trace_id) for s in record_file(capture_path("session", name)).spans}
    assert file.items() <= stream.items()


SAME_OUTCOME = [
    name
    for name in captured("session")
    # A file cannot tell these: the run is open at its end, the agent removed the failed message, or a person's abort
    # of a retry wait was never written.
    if name.partition("/")[2] not in ("i2_abort_during_tool", "i3_abort_during_retry_wait", "o2_sigkill_during_tool")
    and name not in ("omp-18/k3_overflow_again_after_compact", "omp-18/k_overflow_compact_failure")
    and name not in ("omp-18/l2_html_body_200", "omp-18/l6_empty_stop")
    and name not in ("pi-1.6/o3_sigint_mid_stream", "pi-1.6/o_sigkill_mid_stream")
]


@pytest.mark.parametrize("name", SAME_OUTCOME)
def test_a_session_file_tells_the_outcomes_of_its_live_stream(name: str) -> None:
    """Where the file holds the answers, its runs end as the stream's did."""
    assert record_file(capture_path("session", name)).outcomes == EXPECTED[name]["runs"]
