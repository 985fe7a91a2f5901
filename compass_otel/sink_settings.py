"""Settings of the two-lane processor: arguments first, then `OTEL_BSP_*`, then the standard's defaults.

An argument that cannot work raises `ConfigError`; a variable that cannot work is reported in the log and its default
used, as the OpenTelemetry specification asks.
"""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from compass_otel.errors import ConfigError
from compass_otel.scrubbing import scrub

if TYPE_CHECKING:
    from collections.abc import Mapping

_logger = logging.getLogger(__name__)

_QUEUE_SIZE: Final = 2048
_BATCH_SIZE: Final = 512
_SCHEDULE_DELAY_MS: Final = 5000.0
_EXPORT_TIMEOUT_MS: Final = 30_000.0
_MAX_REQUEST_SPANS: Final = 2048
_MIN_SPOOL_BYTES: Final = 1 << 16
_WHOLE: Final = "a whole number above 0"
_MILLIS: Final = "a number of milliseconds above 0"


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Bounds and times of the trace lane."""

    max_queue_size: int = _QUEUE_SIZE
    """Spans; beyond it the oldest is dropped."""
    max_export_batch_size: int = _BATCH_SIZE
    """Spans; with so many waiting the worker does not wait for its time."""
    max_request_spans: int = _MAX_REQUEST_SPANS
    """Spans of one request: the batch size where one was chosen; otherwise, under load, whatever waits."""
    schedule_delay_s: float = _SCHEDULE_DELAY_MS / 1000
    """Longest time that a span waits for others."""
    export_timeout_s: float = _EXPORT_TIMEOUT_MS / 1000
    """Longest time of one request; the sender's own time-out may be shorter."""


def load_queue_settings(
    *,
    max_queue_size: int | None = None,
    schedule_delay_millis: float | None = None,
    max_export_batch_size: int | None = None,
    export_timeout_millis: float | None = None,
    environ: Mapping[str, str] | None = None,
) -> QueueSettings:
    """Read the trace lane's settings.

    Args:
        max_queue_size: Spans; else `OTEL_BSP_MAX_QUEUE_SIZE`, else 2048.
        schedule_delay_millis: Milliseconds; else `OTEL_BSP_SCHEDULE_DELAY`, else 5000.
        max_export_batch_size: Spans, not more than the queue holds; else `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`, else 512.
        export_timeout_millis: Milliseconds; else `OTEL_BSP_EXPORT_TIMEOUT`, else 30000.
        environ: The variables; None = the process's.

    Raises:
        ConfigError: An argument cannot work.

    """
    variables = os.environ if environ is None else environ
    queue = _whole("max_queue_size", max_queue_size)
    size = queue or _variable("OTEL_BSP_MAX_QUEUE_SIZE", _WHOLE, variables) or _QUEUE_SIZE
    batch = _whole("max_export_batch_size", max_export_batch_size)
    if batch is not None and batch > size:
        raise ConfigError("max_export_batch_size", batch, f"at most max_queue_size, which is {size}")
    chosen = batch or _variable("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", _WHOLE, variables)
    delay = _millis("schedule_delay_millis", schedule_delay_millis)
    timeout = _millis("export_timeout_millis", export_timeout_millis)
    return QueueSettings(
        max_queue_size=int(size),
        max_export_batch_size=min(int(chosen or _BATCH_SIZE), int(size)),
        max_request_spans=min(int(chosen or _MAX_REQUEST_SPANS), int(size)),
        schedule_delay_s=(delay or _variable("OTEL_BSP_SCHEDULE_DELAY", _MILLIS, variables) or _SCHEDULE_DELAY_MS)
        / 1000,
        export_timeout_s=(timeout or _variable("OTEL_BSP_EXPORT_TIMEOUT", _MILLIS, variables) or _EXPORT_TIMEOUT_MS)
        / 1000,
    )


def check_seconds(name: str, value: object, *, zero: bool) -> float:
    """Check a time.

    Args:
        name: The argument's.
        value: Seconds.
        zero: Whether 0 is allowed.

    Raises:
        ConfigError: It is none.

    """
    number = _finite(value)
    if number is None or number < 0 or (number == 0 and not zero):
        raise ConfigError(name, value, "a number of seconds, 0 or more" if zero else "a number of seconds above 0")
    return number


def check_bytes(name: str, value: object, least: int = _MIN_SPOOL_BYTES) -> int:
    """Check a number of bytes.

    Raises:
        ConfigError: It is none, or too small to be of use.

    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(name, value, f"a whole number of bytes, at least {least}")
    return value


def check_folder(value: object) -> Path | None:
    """Check where the spool shall be; whether it can be written shows later.

    Raises:
        ConfigError: It is no path, or names something that is no folder.

    """
    if value is None:
        return None
    allowed = "the path of a folder, which is made when absent"
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise ConfigError("spool", value, allowed)
    folder = Path(text).expanduser().absolute()
    place = next((place for place in (folder, *folder.parents) if place.exists()), None)
    if place is not None and not place.is_dir():
        raise ConfigError("spool", value, f"{allowed}; {place} is a file")
    return folder


def _finite(value: object) -> float | None:
    """Give a number that is one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _whole(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(name, value, _WHOLE)
    return value


def _millis(name: str, value: object) -> float | None:
    if value is None:
        return None
    number = _finite(value)
    if number is None or number <= 0:
        raise ConfigError(name, value, _MILLIS)
    return number


def _variable(name: str, allowed: str, variables: Mapping[str, str]) -> float | None:
    """Read a variable; an empty one counts as unset."""
    text = variables.get(name, "").strip()
    if not text:
        return None
    try:
        number = float(int(text)) if allowed is _WHOLE else _finite(float(text))
    except ValueError:
        number = None
    if number is None or number <= 0:
        _logger.warning("%s is %r; allowed: %s; using the default", name, scrub(text), allowed)
        return None
    return number
