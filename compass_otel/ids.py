"""Trace and span ids derived from what a session says of itself, so that the same session always has the same ids.

A live stream and the session file it leaves behind name the same session id, message timestamps and call ids; ids made
of nothing else let a backend recognise a span that it has already. Pure functions; see `id_generator` for how they
reach the SDK, whose API takes no ids.
"""

import functools
from collections import Counter
from collections.abc import Callable
from typing import Protocol

_SEPARATOR = b"\x1f"


class IdPrimer(Protocol):
    """Takes the ids for the next span that is started on this thread."""

    def prime(self, trace_id: int, span_id: int) -> None:
        """Use these ids for the next span; the trace id only if that span has no parent."""

    def clear(self) -> None:
        """Forget ids that no span took."""


def derive_trace_id(*parts: str) -> int:
    """Return a 128-bit trace id, never 0, that depends on `parts` alone."""
    return _digest(16, "trace", *parts)


def derive_span_id(*parts: str) -> int:
    """Return a 64-bit span id, never 0, that depends on `parts` alone."""
    return _digest(8, "span", *parts)


def text_digest(*parts: str) -> str:
    """Return a short hex digest of texts, to name a run whose session has no id."""
    return f"{_digest(8, 'text', *parts):016x}"


def _digest(size_bytes: int, *parts: str) -> int:
    joined = _SEPARATOR.join(part.encode("utf-8", "replace") for part in parts)
    return int.from_bytes(_hash()(joined, size_bytes)) or 1


@functools.cache
def _hash() -> Callable[[bytes, int], bytes]:
    from hashlib import blake2b  # noqa: PLC0415 - loads OpenSSL, which who makes no span does not need

    return lambda text, size_bytes: blake2b(text, digest_size=size_bytes).digest()


def prepare() -> None:
    """Load the hash function now instead of at the first id; later calls cost nothing."""
    _hash()


class Occurrences:
    """Numbers repeated keys: agents reuse call ids and two messages can share a millisecond."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, ...]] = Counter()

    def number(self, *key: str) -> str:
        """Return `""` for the first use of `key`, `"2"` for the second and so on."""
        self._counts[key] += 1
        count = self._counts[key]
        return "" if count == 1 else str(count)
