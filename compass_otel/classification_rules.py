"""The table: what an error text means, first match wins; then what a status means where no row knows the text.

To add a provider, add rows to the module of their kind: limits of an account, size, refusals, failures that pass.
A row names its source and an example that this row decides; a test tries every example.

Why this order. A filter, an entitlement and a throttle hide behind words of other kinds, so they come first. Bills and
quotas come before throttles, since providers send both as 429. Throttles come before sizes: 'too many tokens' is
mostly a rate. Refusals come before failures that pass, because a relay says 'upstream failed' around the real reason.
Pure data: may be read from any thread.
"""

from typing import Final

from compass_otel.classification_kinds import ErrorType, Rule
from compass_otel.classification_limits import BILLS, DISGUISED_THROTTLES, ENTITLEMENTS, QUOTAS, THROTTLES
from compass_otel.classification_overflow import BYTES, MEDIA, RATE_SIZES, UNSURE_WINDOWS, WINDOWS
from compass_otel.classification_passing import BUSY, CUT, FAILING, GARBLED, LATE, LINES
from compass_otel.classification_refused import CANCELS, CERTIFICATES, FIELDS, FILTERS, KEYS, NAMES, RIGHTS

RULES: Final[tuple[Rule, ...]] = (
    *FILTERS,
    *ENTITLEMENTS,
    *RATE_SIZES,
    *DISGUISED_THROTTLES,
    *BILLS,
    *QUOTAS,
    *THROTTLES,
    *CERTIFICATES,
    *MEDIA,
    *WINDOWS,
    *BYTES,
    *UNSURE_WINDOWS,
    *KEYS,
    *NAMES,
    *RIGHTS,
    *FIELDS,
    *CANCELS,
    *BUSY,
    *GARBLED,
    *CUT,
    *LINES,
    *LATE,
    *FAILING,
)

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
