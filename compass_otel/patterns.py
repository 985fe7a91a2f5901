"""Regular expressions that are compiled when they are first used, or all at once when somebody says so.

The rules of this package are some hundred expressions; compiling them takes longer than importing everything else, and
most programs that import a name of it use few. So a module-level constant is written ``pattern(r"…")`` where it would
be ``re.compile(r"…")``. Whoever is about to work where time matters calls :func:`compile_patterns` first; the public
classes do so when they are made.

Any thread may use a pattern and call the functions: at worst two of them compile the same expression.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

__all__ = ["compile_patterns", "pattern"]

_METHODS: Final = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")


class _Pattern:
    """Stands where a compiled expression would; its methods become those of the compiled one at the first use."""

    __slots__ = ("_flags", "_source", *_METHODS)

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:  # asked only as long as the slots are empty
        compiled = re.compile(self._source, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)

    def __repr__(self) -> str:
        return f"pattern({self._source!r})"


_waiting: list[_Pattern] = []


def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Make a pattern that is compiled at its first use.

    Args:
        source: The expression. One that does not compile raises at its first use, so those of users have no place here.
        flags: As for ``re.compile``.

    Returns:
        Something that answers all that a compiled pattern does, and is typed as one for that reason.

    """
    made = _Pattern(source, flags)
    _waiting.append(made)
    return cast("re.Pattern[str]", made)


def compile_patterns() -> None:
    """Compile every pattern that was made so far and not asked for yet; costs nothing the next time."""
    while _waiting:
        made = _waiting[-1]
        made.search  # noqa: B018 - looking for a method is what compiles
        if _waiting and _waiting[-1] is made:
            _waiting.pop()
