"""The error of expressions, and the search for the nearest name to a mistyped one."""

import difflib
from collections.abc import Iterable

from sim.base.errors import UsageError

MAX_CANDIDATES = 500
"""With more names there is no search: a large file full of mistakes must not take minutes to refuse."""

_ALIKE = 0.61  # how alike a close name is, from 0 to 1; at 0.6, `usage` would be close to `range`


class ExpressionError(UsageError):
    """An expression is not allowed, or could not be evaluated."""


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name in `names` that looks most like `word`, or None if none is close."""
    candidates = list(names)
    if len(candidates) > MAX_CANDIDATES:
        return None
    matches = difflib.get_close_matches(word[:100], sorted(candidates), n=1, cutoff=_ALIKE)
    return matches[0] if matches else None


def did_you_mean(word: str, names: Iterable[str]) -> str | None:
    """Return a hint with the nearest name, or None if none is close."""
    name = nearest(word, names)
    return None if name is None else f"did you mean {name!r}?"


def no_such(what: str, name: object, names: Iterable[str], hint: str = "") -> UsageError:
    """Return the error for a name that there is not; its hint has the nearest name that there is.

    Args:
        what: the place and the kind of thing, as in `policy: there is no policy`.
        name: the name.
        names: the names that there are.
        hint: what to do if none is near; by default, all names are listed.
    """
    offered = list(names)
    return UsageError(
        f"{what} {name!r:.60}", hint=did_you_mean(str(name), offered) or hint or f"there are {', '.join(offered)}"
    )
