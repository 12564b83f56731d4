"""Permission levels: who may do what. Nothing matches means refused."""

import difflib
import enum

from sim.errors import UsageError


class Permission(enum.IntEnum):
    """How much an agent is trusted; a higher level includes the lower ones."""

    GUEST = 0
    USER = 1
    ADMIN = 2
    OWNER = 3

    @classmethod
    def parse(cls, text: str) -> "Permission":
        """Return the level that `text` names, for instance `user`.

        Raises:
            UsageError: if there is no such level; no level is assumed in its place.
        """
        levels = {level.name.lower(): level for level in cls}
        if text in levels:
            return levels[text]
        near = difflib.get_close_matches(text.lower(), levels, n=1)
        raise UsageError(
            f"{text!r} is not a permission level, which is one of {', '.join(levels)}",
            hint=f"did you mean {near[0]!r}?" if near else None,
        )
