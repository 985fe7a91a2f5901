"""Draws in the terminal what Jaeger shows of an agent's runs, from Jaeger's own query API.

`python tests/stack/look.py [SERVICE] [ATTRIBUTE=VALUE]`, by default `pi compass.outcome=failed`; `JAEGER_URL` says
where.
For the Jaeger of `make stack-up`, which has an API and no pages.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

# Started as a file, not as a part of the package.
sys.path.insert(0, str(Path(__file__).parent.parent))

from stack.jaeger_api import JaegerApi

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stack.jaeger_api import Shown

_URL: Final = "http://127.0.0.1:16686"
_WIDTH: Final = 110
_TOLD: Final = (
    "error.type",
    "http.response.status_code",
    "compass.outcome",
    "compass.error.retryable",
    "compass.retry.count",
)


def main() -> int:
    """Search, and draw each trace that is found; give the exit status."""
    service = sys.argv[1] if len(sys.argv) > 1 else "pi"
    key, _, value = (sys.argv[2] if len(sys.argv) > 2 else "compass.outcome=failed").partition("=")
    api = JaegerApi(os.environ.get("JAEGER_URL", _URL))
    found = sorted(api.search(service, {key: value}))
    print(f"Jaeger: service={service} {key}={value}: {len(found)} trace{'' if len(found) == 1 else 's'}")
    for trace_id in found:
        print(f"\ntrace {trace_id}")
        print("\n".join(drawn(api.trace(trace_id))))
    return 0 if found else 1


def drawn(spans: Sequence[Shown]) -> Iterator[str]:
    """Draw a trace as a tree: the mark of an error, the name, how long it took, and what a person would look for."""
    known = {span.span_id for span in spans}
    roots = [span for span in spans if span.parent_span_id not in known]
    for root in sorted(roots, key=_by_time):
        yield from _branch(root, spans, "", "")


def _branch(span: Shown, spans: Sequence[Shown], lead: str, below: str) -> Iterator[str]:
    mark = "(!)" if span.marked_as_error else "   "
    facts = "  ".join(f"{key}={span.attributes[key]}" for key in _TOLD if key in span.attributes)
    yield f"{mark} {lead}{span.name}  {span.duration_us / 1000:,.0f} ms  {facts}".rstrip()
    children = sorted((each for each in spans if each.parent_span_id == span.span_id), key=_by_time)
    if span.status_text:
        yield f"    {below}{'│' if children else ' '}  {span.status_text[:_WIDTH]}"
    for child in children:
        last = child is children[-1]
        yield from _branch(child, spans, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))


def _by_time(span: Shown) -> tuple[int, str]:
    return span.start_us, span.span_id


if __name__ == "__main__":
    sys.exit(main())
