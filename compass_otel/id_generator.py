"""DerivedIdGenerator: hands the ids that the recorder derived to the SDK's TracerProvider."""

import threading

from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator


class DerivedIdGenerator(IdGenerator):
    """An `IdGenerator` that uses the primed ids once and random ones for every span that nobody primed.

    Thread-safe: what one thread primes only a span started on that thread takes. Never blocks.
    """

    def __init__(self) -> None:
        self._primed = threading.local()
        self._random = RandomIdGenerator()

    def prime(self, trace_id: int, span_id: int) -> None:
        """Use these ids for the next span started on this thread; the trace id only if it has no parent."""
        self._primed.ids = (trace_id, span_id)

    def clear(self) -> None:
        """Forget ids that no span took."""
        self._primed.ids = None

    def generate_trace_id(self) -> int:
        """Return the primed trace id, else a random one."""
        ids: tuple[int, int] | None = getattr(self._primed, "ids", None)
        return ids[0] if ids is not None else self._random.generate_trace_id()

    def generate_span_id(self) -> int:
        """Return the primed span id once, else a random one."""
        ids: tuple[int, int] | None = getattr(self._primed, "ids", None)
        return ids[1] if ids is not None else self._random.generate_span_id()

    def is_trace_id_random(self) -> bool:
        """Return False: a derived trace id is a hash, evenly spread but not random."""
        return False
