"""Permission levels. An unknown level is an error; there is no default level."""

import difflib
import enum

from sim.base.errors import UsageError


class Permission(enum.IntEnum):
    """The level of trust of an agent. A higher level includes the lower levels."""

    GUEST = 0
    USER = 1
    ADMIN = 2
    OWNER = 3

    @classmethod
    def parse(cls, text: str) -> "Permission":
        """Return the level with the name `text`, for example `user`.

        Raises:
            UsageError: if there is no such level.
        """
        levels = {level.name.lower(): level for level in cls}
        if text in levels:
            return levels[text]
        near = difflib.get_close_matches(text.lower(), levels, n=1)
        raise UsageError(
            f"{text!r} is not a permission level, which is one of {', '.join(levels)}",
            hint=f"did you mean {near[0]!r}?" if near else None,
        )
