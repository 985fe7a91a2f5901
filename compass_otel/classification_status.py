"""Which HTTP status a failure came with: the rules that may be shown to a person, and the hints that may only judge.

Pure and without state, so every name here may be used from any thread.
"""

import math
from collections.abc import Mapping
from typing import Final

from compass_otel.classification_text import Text, edges, render_message
from compass_otel.patterns import pattern

_FIRST_STATUS: Final = 100
_LAST_STATUS: Final = 599
_REFUSED_FROM: Final = 400

_LEADING: Final = pattern(r"\s*([1-5]\d\d)(?=[\s:]|$)")
_API_ERROR: Final = pattern(r"API error \(([1-5]\d\d)\)")
_BEDROCK: Final = pattern(
    r"\s*(?:Throttling error|Validation error|Service unavailable|Internal server error|Model stream error)"
    r": ([1-5]\d\d)(?=[\s:])"
)
_JSON_CODE: Final = pattern(r"[\"']code\\{0,8}[\"']\s{0,8}:\s{0,8}(?:\\{0,8}[\"'])?([1-5]\d\d)(?![\w.])")
_OWN_FIELDS: Final = ("status", "statusCode", "errorStatus")

_SAID: Final = pattern(
    r" (?:https?|status|code|error|statuscode|httpstatus|response|returned|received|got|gateway|proxy|upstream|server|"
    r"service|failure|exception|unavailable|retry|retries|attempts?|failed(?: with)?) "
    r"(?:status |code |error ){0,3}([45]\d\d) "
    r"(?!tokens? |ms |s |seconds? |bytes? |chars? |characters |items? |images? |files? |messages |times |of |ok )"
)
"""A number in a place where only a status stands; wider than the rules above, so it is never shown as the status."""


def parse_status(message: object, *, status: object = None) -> int | None:
    """Return the HTTP status of a failure, if it is known.

    Args:
        message: the error text; None or any JSON value. An object's own numeric status counts as a number of its own.
        status: the status as a number of its own; it wins if it is a status at all.

    Returns:
        100 to 599, never 0; None if unknown. Source of the rules: pi-events, section 6.

    """
    own = _numeric(status)
    if own is None and isinstance(message, Mapping):
        own = next((number for key in _OWN_FIELDS if (number := _numeric(message.get(key))) is not None), None)
    if own is not None:
        return own
    text = edges(render_message(message))
    found = _LEADING.match(text) or _API_ERROR.search(text) or _BEDROCK.match(text) or _JSON_CODE.search(text)
    return int(found[1]) if found else None


def status_to_judge_by(text: Text, status: int | None) -> int | None:
    """Return the status that refused or failed: the known one, else one that the text names in so many words."""
    if status is not None and status >= _REFUSED_FROM:
        return status
    if text.page_status is not None:
        return text.page_status
    said = _SAID.search(text.words)
    return int(said[1]) if said else None


def _numeric(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if value == int(value) and _FIRST_STATUS <= value <= _LAST_STATUS else None
