"""Whom users follow at first: drawn, neighbours of a graph, or what their profiles say."""

from collections.abc import Iterable
from typing import Any

from sim.base.errors import ActorError
from sim.base.expressions import did_you_mean
from sim.kernel.rng import Draws
from sim.kinds.feed.posts import Member, words_of
from sim.kinds.feed.settings import Follows
from sim.world import World


class Graph:
    """Finds whom each new user follows.

    Args:
        world: the world.
        settings: who follows whom.
    """

    def __init__(self, world: World, settings: Follows) -> None:
        self._world, self._settings = world, settings
        self._urn: list[str] = []  # each user once, and once more for each follower at first
        self._joined = 0

    def of(self, name: str, members: dict[str, Member], names: list[str]) -> list[str]:
        """Return whom a user follows who joins now.

        Args:
            name: the user.
            members: all users by name, those included that join at the same time.
            names: their names.

        Raises:
            ActorError: if its profile names somebody who is no user.
        """
        by = self._settings.by
        if by == "none":
            return []
        if by == "places":
            places = self._world.places
            return [] if places is None else [one for one in places.neighbours(name) if one in members]
        if by == "profile":
            return self._of_profile(name, members)
        draws = self._world.kernel.streams.at("feed", "follows", name)
        return self._popular(name, draws) if by == "popular" else self._random(name, names, draws)

    def _of_profile(self, name: str, members: Iterable[str]) -> list[str]:
        agent: Any = self._world.agents[name]
        followed = words_of(agent.state, "follows")
        for one in followed:
            if one not in members or one == name:
                hint = did_you_mean(one, members) or "names are separated by spaces, and are those of users"
                raise ActorError(f"{name} follows {one!r:.60}, who is no other user of the feed", hint=hint)
        return followed

    def _random(self, name: str, names: list[str], draws: Draws) -> list[str]:
        """Return users that are drawn with equal probability."""
        wanted = min(self._settings.each + 1, len(names))
        drawn = [one for one in draws.sample(names, wanted) if one != name]
        return drawn[: self._settings.each]

    def _popular(self, name: str, draws: Draws) -> list[str]:
        """Return users that joined before, drawn by the number of their followers at first, plus one."""
        followed = dict.fromkeys(self._urn) if self._joined <= self._settings.each else dict[str, None]()
        while len(followed) < min(self._settings.each, self._joined):
            followed[draws.choice(self._urn)] = None
        self._joined += 1
        self._urn += [*followed, name]
        return list(followed)
