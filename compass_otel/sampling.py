"""A sampler that does not lose failures.

A head sampler decides at a span's start, when nobody knows yet that it will fail; a span it drops is not even recorded,
so its failure cannot be seen, let alone exported. `KeepFailures` turns "drop" into "record, but do not sample":

| the inner sampler says | the span | stock processors | `TwoLaneSpanProcessor` |
|---|---|---|---|
| record and sample | as before | export it | exports it |
| drop | is recorded, sampled flag 0 | ignore it | exports it if it is priority, else forgets it uncounted |

What that means elsewhere:

- The flag stays 0 and travels in `traceparent`, so a service downstream that follows its parent drops its part: an
  exported failure of an unsampled trace stands alone or with its run span.
- OTLP carries no sampled flag for a span in this SDK's encoding (`flags` holds only whether the parent is remote), so a
  backend treats the failure like any span. A Collector that samples by trace id may drop it again: route priority spans
  around it by `compass.lane`.
- Metrics that a backend derives from sampled spans, scaled by the rate, count such a failure as one, not scaled.
- Every span is recorded now: the caller pays for attributes of unsampled spans too (about 15 us a span).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanKind, TraceState
    from opentelemetry.util.types import Attributes


class KeepFailures(Sampler):
    """Keeps spans that another sampler drops recording, so that those that fail can still be exported.

    Give it to the provider as its outermost sampler: around `ParentBased(...)`, not inside it. Thread-safe if the inner
    one is; adds no state.

        provider = TracerProvider(sampler=KeepFailures(ParentBased(TraceIdRatioBased(0.01))))

    Args:
        sampler: Who decides what is sampled; None = the one that `OTEL_TRACES_SAMPLER` names, as the SDK reads it.

    """

    def __init__(self, sampler: Sampler | None = None) -> None:
        # A provider is the public way to the sampler of the environment; this one is used for nothing else.
        self._sampler = sampler or TracerProvider(resource=Resource({}), shutdown_on_exit=False).sampler

    def should_sample(  # noqa: PLR0913 - the SDK's form
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decide as the inner sampler, but record where it drops.

        Returns:
            The inner result, with `RECORD_ONLY` and the span's own attributes instead of `DROP`: a sampler leaves them
            out of what it drops, and the SDK takes a span's first attributes from here.

        """
        result = self._sampler.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)
        if result.decision is not Decision.DROP:
            return result
        return SamplingResult(Decision.RECORD_ONLY, {**(attributes or {}), **result.attributes}, result.trace_state)

    def get_description(self) -> str:
        """Name this sampler and the one inside."""
        return f"KeepFailures{{{self._sampler.get_description()}}}"
