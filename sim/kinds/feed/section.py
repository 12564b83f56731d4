"""The section `feed` of a scenario: it gives a world its feed, and the actions of its users."""

from collections.abc import Iterator

from sim.kinds.feed.actions import ACTIONS
from sim.kinds.feed.service import Feed
from sim.kinds.feed.settings import FeedSettings
from sim.world import World
from sim.world.section import define_section


def _make(world: World, settings: FeedSettings) -> None:
    world.add_service(Feed(world, settings))
    for handler in ACTIONS:
        if world.actions.find(handler.kind) is not handler:
            world.actions.register(handler)


def _draws(settings: FeedSettings) -> Iterator[str]:
    if settings.follows.by in ("random", "popular"):
        yield "who follows whom in the feed at first"
    if settings.treatments.up or settings.treatments.down:
        yield "which posts of the feed are treated, and how"


FEED = define_section("feed", FeedSettings, _make, draws=_draws)
