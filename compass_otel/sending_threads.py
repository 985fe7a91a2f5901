"""The threads of this process that send telemetry for us: what they start is not to be sent again.

A thread of ours that exports through an instrumented HTTP client starts spans; sent, they would start more. Told by the
thread and not by the context: host code may suppress instrumentation and still want its own spans.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

idents: set[int] = set()
"""Of the threads that are sending right now; for `threading.get_ident() in idents`."""


@contextlib.contextmanager
def sending() -> Iterator[None]:
    """Mark the calling thread as sending."""
    ident = threading.get_ident()
    known = ident in idents
    idents.add(ident)
    try:
        yield
    finally:
        if not known:
            idents.discard(ident)


if hasattr(os, "register_at_fork"):
    # A child has none of these threads, and its own may get their numbers.
    os.register_at_fork(after_in_child=idents.clear)
