"""What this package raises, and what a caller can do about each.

::

    CompassError
    └── ConfigError (also a ValueError)

Nothing here is raised while telemetry is being recorded: a record that cannot be used is counted, never thrown at
the host.
"""

from __future__ import annotations

__all__ = ["CompassError", "ConfigError"]


class CompassError(Exception):
    """The root: ``except CompassError`` catches everything that this package raises on purpose."""


class ConfigError(CompassError, ValueError):
    """A setting has a value that cannot work; raised while something is built, before any record is taken.

    Args:
        setting: The name of the argument or environment variable, as the caller writes it.
        value: What was given.
        allowed: What would have been accepted, as a phrase ("a whole number above 0").

    The message holds a shortened form of *value*, so do not pass one that is a credential: pass ``"<hidden>"``.

    """

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        shown = repr(value)
        if len(shown) > _SHOWN_CHARS:
            shown = f"{shown[:_SHOWN_CHARS]}…"
        super().__init__(f"{setting} is {shown}; allowed: {allowed}")
        self.setting = setting
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, object, str]]:
        """Make copies and pickles keep the three parts."""
        return type(self), (self.setting, self.value, self.allowed)


_SHOWN_CHARS = 80
"""Enough to recognise a value, short enough to stay on one terminal line with the rest of the message."""
