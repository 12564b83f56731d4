"""The section `feed` of a scenario: it gives a world its feed, and the actions of its users."""

from collections.abc import Iterator

from sim.kinds.feed.actions import ACTIONS
from sim.kinds.feed.service import Feed
from sim.kinds.feed.settings import FeedSettings
from sim.world.section import define_section


def _draws(settings: FeedSettings) -> Iterator[str]:
    if settings.follows.by in ("random", "popular"):
        yield "who follows whom in the feed at first"
    if settings.treatments.up or settings.treatments.down:
        yield "which posts of the feed are treated, and how"


define_section("feed", FeedSettings, Feed, actions=ACTIONS, draws=_draws)
