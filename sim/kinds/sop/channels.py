"""Channels: where employees post what they do, for people to read."""

from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from sim.agents.engine.core_loop import cut
from sim.kernel.codec import JsonObject
from sim.kinds.sop.events import ChannelPosted
from sim.world import Refused, Service, World

MOST_KEPT: Final = 50
"""How many of the latest posts of a channel the world keeps; the record has all."""

LONGEST: Final = 10_000
"""The most characters of a post."""

MOST_CHANNELS: Final = 1_000


def is_channel(name: str) -> bool:
    """Return whether something is the name of a channel: a word after `#`."""
    return name.startswith("#") and 2 <= len(name) <= 80 and not any(sign.isspace() for sign in name)


class Channels(Service):
    """The channels of one world. A channel exists from its first post on.

    Args:
        world: the world.
    """

    name: ClassVar[str] = "channels"
    section: ClassVar[str] = "sop"

    def __init__(self, world: World) -> None:
        self._world = world
        self._latest: dict[str, deque[tuple[int, str, str]]] = {}
        self._counts: dict[str, int] = {}

    def post(self, channel: str, author: str, text: str) -> None:
        """Post a text.

        Args:
            channel: the channel, such as `#ops-log`.
            author: the agent, or the name of the job, that posts.
            text: the text; what is longer than `LONGEST` characters is cut.

        Raises:
            Refused: if the channel is no name of one, or there are too many.
        """
        if not is_channel(channel):
            raise Refused(f"a channel is a word after #, not {channel!r:.60}")
        if channel not in self._latest and len(self._latest) >= MOST_CHANNELS:
            raise Refused(f"there are {MOST_CHANNELS:,} channels already")
        text = cut(text, LONGEST)
        kept = self._latest.setdefault(channel, deque(maxlen=MOST_KEPT))
        kept.append((self._world.kernel.now, author, text))
        self._counts[channel] = self._counts.get(channel, 0) + 1
        self._world.event_bus.report(ChannelPosted(author=author, channel=channel, text=text))

    def latest(self, channel: str) -> list[tuple[int, str, str]]:
        """Return the latest posts of a channel: simulated time in nanoseconds, author and text, oldest first."""
        return list(self._latest.get(channel, ()))

    def state(self) -> Any:
        """Return the latest posts and the number of all, by channel."""
        return {name: [self._counts[name], *map(list, posts)] for name, posts in sorted(self._latest.items())} or None

    def metrics(self) -> Mapping[str, float]:
        """Return the number of posts, by channel."""
        return {f"posts.{name}": count for name, count in list(self._counts.items())}

    def summary(self) -> JsonObject:
        """Return the same numbers."""
        return {"posts": dict(self._counts)} if self._counts else {}
