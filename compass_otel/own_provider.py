"""The TracerProvider of a command: derived ids, the agent as the service, spans that record whatever is switched off.

One provider for each agent of each input, since a provider has one resource; what sends is shared by all of them.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from opentelemetry.sdk.environment_variables import OTEL_SDK_DISABLED  # noqa: TID251  # a command owns its provider
from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: TID251  # same
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider  # noqa: TID251  # same
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler  # noqa: TID251  # same
from opentelemetry.sdk.version import __version__ as SDK_VERSION  # noqa: N812, TID251  # same

from compass_otel import semconv
from compass_otel.id_generator import DerivedIdGenerator

_SDK_FACTS: Final = {
    "telemetry.sdk.language": "python",
    "telemetry.sdk.name": "opentelemetry",
    "telemetry.sdk.version": SDK_VERSION,
}


def own_provider(
    agent: str,
    processors: Sequence[SpanProcessor],
    *,
    ids: DerivedIdGenerator,
    sampler: Sampler | None = None,
    instance_id: str | None = None,
) -> TracerProvider:
    """Make a provider for the spans of one agent.

    Args:
        agent: Its name, the service's name unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` give one.
        processors: What gets the spans, in this order.
        ids: Takes the ids that the recorder derives.
        sampler: Decides what is marked as sampled; it must let every span record. None samples everything.
        instance_id: `service.instance.id` of the state folder; None leaves it out, for spans that are only shown.

    """
    with _enabled():
        provider = TracerProvider(
            sampler=sampler or ALWAYS_ON,
            resource=_resource(agent, instance_id),
            id_generator=ids,
            shutdown_on_exit=False,
        )
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


def _resource(agent: str, instance_id: str | None) -> Resource:
    # Not `Resource.create`: it runs whatever detectors are installed, and their finds differ from one process to the
    # next (process ids), while the same input must give the same bytes.
    told = OTELResourceDetector().detect()
    own = {**_SDK_FACTS, semconv.SERVICE_NAME: agent, semconv.HOST_NAME: socket.gethostname()}
    if instance_id is not None:
        own[semconv.SERVICE_INSTANCE_ID] = instance_id
    return Resource(own).merge(told)


@contextmanager
def _enabled() -> Iterator[None]:
    """Let the SDK make a provider that records: `OTEL_SDK_DISABLED` is about sending, and whoever sends reads it."""
    disabled = os.environ.pop(OTEL_SDK_DISABLED, None)
    try:
        yield
    finally:
        if disabled is not None:
            os.environ[OTEL_SDK_DISABLED] = disabled
