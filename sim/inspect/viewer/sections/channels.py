"""The channels of a run: what employees posted."""

from collections import deque

from sim.inspect.viewer.room import Room
from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.kinds.sop.events import ChannelPosted

_CHANNELS = 50
"""The most channels that are shown, the first."""

_POSTS = 50
"""The most posts of each channel, the latest."""


class Channels(Section):
    """Collects the latest posts of each channel."""

    title = "Channels"
    place = 110
    topics = ("channel.post",)

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self._room = Room("channel NAME --limit 0")
        self._posts: dict[str, deque[dict[str, Json]]] = {}
        self._counts: dict[str, int] = {}

    def add(self, event: Event, data: Data) -> None:
        """Note a post."""
        if not isinstance(data, ChannelPosted):
            return
        name = data.channel[:80]
        if name not in self._posts and len(self._posts) >= _CHANNELS:
            return
        self._counts[name] = self._counts.get(name, 0) + 1
        self._posts.setdefault(name, deque(maxlen=_POSTS)).append(
            {
                "time": event.time_ns / 1e9,
                "author": data.author[:80],
                "text": self._room.take(data.text).splitlines(),
            }
        )

    def to_json(self) -> Json:
        """Return the channels by name, with their number of posts and the latest; None if there are none."""
        if not self._posts:
            return None
        return [
            {"name": name, "total": self._counts[name], "posts": list(posts)}
            for name, posts in sorted(self._posts.items())
        ]
