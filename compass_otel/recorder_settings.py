"""The recorder's settings from the standard variables; the only place of the recorder that reads the environment."""

import os
from collections.abc import Mapping

from compass_otel.exception_signal import ExceptionSignal
from compass_otel.recording import RecorderOptions

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
EXCEPTION_SIGNAL = "OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN"
ABORTED_AS_ERROR = "COMPASS_OTEL_ABORTED_AS_ERROR"

_ON_SPANS = frozenset({"span_only", "span_and_event", "true", "1"})
"""`true` and `1` are the older values; the conventions' names are SPAN_ONLY and SPAN_AND_EVENT."""
_TRUE = frozenset({"true", "1", "yes"})


def options_from_environment(environment: Mapping[str, str] | None = None) -> RecorderOptions:
    """Read the recorder's options; a variable that is not set leaves its default (no content, span events)."""
    variables = os.environ if environment is None else environment
    return RecorderOptions(
        capture_content=variables.get(CAPTURE_CONTENT, "").strip().lower() in _ON_SPANS,
        exception_signal=ExceptionSignal.parse(variables.get(EXCEPTION_SIGNAL)),
        aborted_as_error=variables.get(ABORTED_AS_ERROR, "").strip().lower() in _TRUE,
    )
