"""The table: what an error text means, first match wins.

To add a provider, add rows to the module of their kind: limits of an account, size, refusals, failures that pass.
A row names its source and an example that this row decides; a test tries every example.

Why this order. A filter, an entitlement and a throttle hide behind words of other kinds, so they come first. Bills and
quotas come before throttles, since providers send both as 429. Throttles come before sizes: 'too many tokens' is
mostly a rate. Refusals come before failures that pass, because a relay says 'upstream failed' around the real reason.
Pure data, built when this module is imported: may be read from any thread.
"""

from typing import Final

from compass_otel.classification_kinds import Case, Rule
from compass_otel.classification_limits import BILLS, DISGUISED_THROTTLES, ENTITLEMENTS, QUOTAS, THROTTLES
from compass_otel.classification_overflow import BYTES, MEDIA, RATE_SIZES, UNSURE_WINDOWS, WINDOWS
from compass_otel.classification_passing import BUSY, CUT, FAILING, GARBLED, LATE, LINES
from compass_otel.classification_refused import CANCELS, CERTIFICATES, FIELDS, FILTERS, KEYS, NAMES, RIGHTS
from compass_otel.classification_text import Text

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


def first_rule(text: Text, status: int | None, wait_s: float | None) -> Rule | None:
    """Return the row that decides a text, if one knows it.

    Args:
        text: what was said, read.
        status: the status to judge by, if known.
        wait_s: the wait that the text states, in seconds.

    """
    case = Case(text, status, wait_s)
    return next((rule for rule in RULES if rule.holds(case)), None)
