"""The words of a verdict: the classes of failures, what a model must be told, and what a status alone means.

Pure data, apart from the table that leads to it, so that whoever only speaks of verdicts loads no rule.
"""

from enum import StrEnum
from typing import Final


class ErrorType(StrEnum):
    """The closed list of `error.type`. Source: the design's section on failures."""

    CONTEXT_OVERFLOW = "context_overflow"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    NETWORK = "network"
    STREAM_INTERRUPTED = "stream_interrupted"
    MALFORMED_RESPONSE = "malformed_response"
    EMPTY_RESPONSE = "empty_response"
    AUTH = "auth"
    PERMISSION = "permission"
    BILLING = "billing"
    QUOTA = "quota"
    NOT_FOUND = "not_found"
    INVALID_REQUEST = "invalid_request"
    CONTENT_FILTER = "content_filter"
    TOOL_ERROR = "tool_error"
    PROCESS_LOST = "process_lost"
    OTHER = "_OTHER"


class Advice(StrEnum):
    """What a model must be told about a failure."""

    OVERFLOW = "overflow"
    TRANSIENT = "transient"
    OTHER = "other"
    ABORTED = "aborted"
    NONE = "none"


_OVERFLOW: Final = frozenset({ErrorType.CONTEXT_OVERFLOW, ErrorType.PAYLOAD_TOO_LARGE})
_PASSING: Final = frozenset(
    {
        ErrorType.RATE_LIMIT,
        ErrorType.OVERLOADED,
        ErrorType.SERVER_ERROR,
        ErrorType.TIMEOUT,
        ErrorType.NETWORK,
        ErrorType.STREAM_INTERRUPTED,
        ErrorType.MALFORMED_RESPONSE,
        ErrorType.EMPTY_RESPONSE,
    }
)


def advice_for(error_type: ErrorType) -> Advice:
    """Return the advice that goes with a class: too big, passing, or anything else."""
    if error_type in _OVERFLOW:
        return Advice.OVERFLOW
    return Advice.TRANSIENT if error_type in _PASSING else Advice.OTHER


BY_STATUS: Final[dict[int, ErrorType]] = {
    400: ErrorType.INVALID_REQUEST,
    401: ErrorType.AUTH,
    402: ErrorType.BILLING,
    403: ErrorType.PERMISSION,
    404: ErrorType.NOT_FOUND,
    405: ErrorType.INVALID_REQUEST,
    406: ErrorType.INVALID_REQUEST,
    407: ErrorType.AUTH,
    408: ErrorType.TIMEOUT,
    410: ErrorType.NOT_FOUND,
    411: ErrorType.INVALID_REQUEST,
    414: ErrorType.INVALID_REQUEST,
    415: ErrorType.INVALID_REQUEST,
    416: ErrorType.INVALID_REQUEST,
    417: ErrorType.INVALID_REQUEST,
    421: ErrorType.INVALID_REQUEST,
    422: ErrorType.INVALID_REQUEST,
    431: ErrorType.INVALID_REQUEST,
    451: ErrorType.PERMISSION,
    504: ErrorType.TIMEOUT,
    522: ErrorType.TIMEOUT,
    524: ErrorType.TIMEOUT,
    529: ErrorType.OVERLOADED,
}
"""Statuses of HTTP (RFC 9110), Cloudflare (52x) and Anthropic (529); any other of 500 and above is `server_error`."""

NEVER_PASSES: Final = frozenset({501, 505, 506, 508, 510, 511, 526})
"""Server statuses that the same request gets again: not implemented, loops, a login page, a bad certificate."""

CANCELLED_STATUS: Final = 499
"""Nginx and Google: the client closed the request."""
