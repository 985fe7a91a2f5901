"""The OpenTelemetry bridge for AI agents that puts failures first.

This is the front door: every public name is listed here and imported when it is first used, so that importing the
package costs little more than importing the OpenTelemetry SDK, and opens no thread, file or socket.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compass_otel.advisor import ErrorAdvisor, Note, NoteKind
    from compass_otel.bridge import SessionBridge
    from compass_otel.classification import Advice, Classification, ErrorType, Failure, classify
    from compass_otel.errors import CompassError, ConfigError
    from compass_otel.id_generator import DerivedIdGenerator
    from compass_otel.mapper import EventMapper
    from compass_otel.priority import is_failure, is_injection, is_lifecycle, is_session_error
    from compass_otel.recorder import SessionRecorder
    from compass_otel.recording import RecorderOptions, ToldNote
    from compass_otel.renderers import HostFormat, render, takes_note
    from compass_otel.sampling import KeepFailures
    from compass_otel.scrubbing import Scrubber, scrub
    from compass_otel.sink import TwoLaneSpanProcessor
    from compass_otel.sources import Counts
    from compass_otel.stats import LaneStats, Stats
    from compass_otel.unmapped import Malformed, Unmapped

__all__ = [
    "Advice",
    "Classification",
    "CompassError",
    "ConfigError",
    "Counts",
    "DerivedIdGenerator",
    "ErrorAdvisor",
    "ErrorType",
    "EventMapper",
    "Failure",
    "HostFormat",
    "KeepFailures",
    "LaneStats",
    "Malformed",
    "Note",
    "NoteKind",
    "RecorderOptions",
    "Scrubber",
    "SessionBridge",
    "SessionRecorder",
    "Stats",
    "ToldNote",
    "TwoLaneSpanProcessor",
    "Unmapped",
    "classify",
    "is_failure",
    "is_injection",
    "is_lifecycle",
    "is_session_error",
    "render",
    "scrub",
    "takes_note",
]

_HOME = {
    "Advice": "classification",
    "Classification": "classification",
    "CompassError": "errors",
    "ConfigError": "errors",
    "Counts": "sources",
    "DerivedIdGenerator": "id_generator",
    "ErrorAdvisor": "advisor",
    "ErrorType": "classification",
    "EventMapper": "mapper",
    "HostFormat": "renderers",
    "Failure": "classification",
    "KeepFailures": "sampling",
    "LaneStats": "stats",
    "Malformed": "unmapped",
    "NoteKind": "advisor",
    "Note": "advisor",
    "RecorderOptions": "recording",
    "Scrubber": "scrubbing",
    "SessionBridge": "bridge",
    "SessionRecorder": "recorder",
    "Stats": "stats",
    "ToldNote": "recording",
    "TwoLaneSpanProcessor": "sink",
    "Unmapped": "unmapped",
    "classify": "classification",
    "is_failure": "priority",
    "is_injection": "priority",
    "is_lifecycle": "priority",
    "is_session_error": "priority",
    "render": "renderers",
    "scrub": "scrubbing",
    "takes_note": "renderers",
}
"""The module that each public name lives in; a test holds it and `__all__` to the same names."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names besides what is loaded already."""
    return sorted({*globals(), *__all__})
