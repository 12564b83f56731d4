"""Users of a feed: agents that visit it now and then, and react by probabilities, or ask a language model."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from sim.actors import Agent
from sim.agents.family import Family, define_family, is_kind
from sim.base.errors import UsageError
from sim.base.expressions import no_such
from sim.kernel import NS
from sim.kinds.feed.actions import ACTIONS
from sim.kinds.feed.policies import ShownPost
from sim.kinds.feed.service import FEED_USER, Chances, Feed
from sim.kinds.feed.settings import MODEL, FeedSettings
from sim.world import Action, ActionResult, Refused
from sim.world.section import Range

REACTIONS: Final = ("like", "dislike", "repost", "reply", "mute", "follow")
"""What a user can do with a post."""


class FeedUser(Agent):
    """An agent that visits a feed now and then. A subclass can define `react` and `compose` instead.

    Args:
        agent_id, world, group, permission, params: see `Agent`.
    """

    class Params:
        """How a user uses the feed.

        Args:
            every: the mean time between two visits in seconds, from 0.001; the times are exponentially distributed.
            reactions: the name of reactions of the feed, or `model`; empty: the first ones, or the defaults.
            wording: for a model: its instructions.
        """

        every: Annotated[float, Range(0.001)] = 21600.0
        reactions: str = ""
        wording: str = ""

    _chances: Chances | None = None
    """The probabilities of its reactions in the visit under way."""

    @property
    def reactions(self) -> str:
        """The name of its reactions, `model`, or nothing; a subclass with parameters of its own needs none."""
        return str(getattr(self.params, "reactions", ""))

    def about(self) -> Mapping[str, Any]:
        """See `Agent.about`: its profile."""
        return {"profile": self.profile()}

    def profile(self) -> list[str]:
        """Return its state variables but whom it follows, for prompts, one line each."""
        variables = ((name, value) for name, value in self.state.items() if name != "follows" and value is not None)
        return [" ".join(f"{name}: {value}".split()) for name, value in variables]

    async def decide_action(self) -> Action | None:
        """Visit the feed; at the first time, begin to wait for a visit."""
        return self.decide_now()

    def decide_now(self) -> Action | None:
        """See `decide_action`."""
        if self.loop.iteration_count <= 1:  # so that not all come at the same time
            self._wait()
            return None
        return Action("visit_feed")

    def after_action(self, result: ActionResult) -> None:
        """Wait for the next visit."""
        self._wait()

    def _wait(self) -> None:
        pause = self.rng.exponential(self.params.every)
        self.loop.rest(self.world.kernel.now + round(pause * NS))

    # -- a visit without a model

    def visit(self) -> Mapping[str, Any]:
        """Look at the feed, react to each post, perhaps write one, and return how many there were."""
        feed = Feed.of(self.world)
        shown = feed.show(self.agent_id)
        self._chances = feed.chances(self.reactions, self.agent_id)
        try:
            done = sum(self._do(feed, one, kind) for n, one in enumerate(shown, 1) for kind in self.react(one, n))
            post = self.compose()
        finally:
            self._chances = None
        if post is not None:
            feed.write(self.agent_id, *post)
        return {"shown": len(shown), "reactions": done, "wrote": post is not None}

    def react(self, shown: ShownPost, place: int) -> Iterable[str]:
        """Yield the reactions to a post, out of `REACTIONS`. A subclass can override it.

        Args:
            shown: the post, as it is shown.
            place: its place in the feed, from 1.
        """
        chance, draws, liked = self._chance_of(), self.rng, False
        for kind in REACTIONS:
            probability = chance(kind, shown.post, place)
            if not (kind == "dislike" and liked) and draws.chance(probability):
                liked = liked or kind == "like"
                yield kind

    def compose(self) -> tuple[str, str] | None:
        """Return the text and the topic of an own post, or None. A subclass can override it."""
        if not self.rng.chance(self._chance_of()("write")):
            return None
        interests = Feed.of(self.world).interests(self.agent_id)
        topic = self.rng.choice(interests) if interests else ""
        return (f"about {topic}" if topic else "a post"), topic

    def _chance_of(self) -> Chances:
        return self._chances or Feed.of(self.world).chances(self.reactions, self.agent_id)

    def _do(self, feed: Feed, shown: ShownPost, kind: str) -> int:
        """React to a post, and return 1, or 0 if the user has reacted in this way before."""
        post, me = shown.post, self.agent_id
        try:
            if kind in ("like", "dislike"):
                feed.vote(me, post.number, 1 if kind == "like" else -1)
            elif kind == "repost":
                feed.repost(me, post.number)
            elif kind == "reply":
                feed.write(me, f"a reply to {post.author}", reply_to=post.number)
            elif kind == "mute":
                feed.mute(me, post.author)
            elif kind == "follow":
                feed.follow(me, post.author)
            else:
                raise UsageError(f"there is no reaction {kind!r:.60}", hint=f"there are {', '.join(REACTIONS)}")
        except Refused as refused:
            if not refused.skip:
                raise
            return 0
        return 1


def check(scenario: Any, until_ns: int | None = None) -> None:
    """Refuse a feed whose users follow places that there are not, or lack a state variable. See `Family.check`."""
    feed: FeedSettings | None = scenario.sections.get("feed")
    if feed is None:
        return
    if feed.follows.by == "places" and scenario.places is None:
        raise UsageError("feed.follows.by: it needs places, but the scenario has none", hint="add `places:`")
    for entry in scenario.agents:
        if is_kind(entry, FEED_USER):
            for name, why in _variables(feed, entry):
                if name not in entry.state:
                    hint = f"give it a state variable or a column `{name}`, with words that are separated by spaces"
                    raise UsageError(f"agents.{entry.name}: {why} needs a state variable {name!r}", hint=hint)


def _variables(feed: FeedSettings, entry: Any) -> Iterable[tuple[str, str]]:
    """Yield the state variables that users need, and what for."""
    if feed.follows.by == "profile":
        yield "follows", "feed.follows.by: profile"
    if feed.policy == "interest" or "interest" in feed.mix:
        yield "interests", "the policy interest"
    if feed.own_policy is not None and "interest" in feed.own_policy.names:
        yield "interests", "interest in feed.policy"
    named = None if entry.params is None else entry.params.shared_values.get("reactions", "")
    first = next(iter(feed.reactions), "")
    for name, one in feed.reactions.items():
        chances = [] if named is not None and name != (named or first) else map(one.chance, REACTIONS)
        if any(not isinstance(chance, float) and "interest" in chance.names for chance in chances):
            yield "interests", f"interest in feed.reactions.{name}"


def check_params(scenario: Any, entry: Any, params: Mapping[str, Any]) -> None:
    """Refuse users whose reactions there are not. See `Family.fits`."""
    reactions, where = params.get("reactions"), f"agents.{entry.name}.params.reactions"
    reaction_names = [*scenario.sections["feed"].reactions, MODEL]
    if reactions == MODEL and scenario.models is None:
        raise UsageError(f"{where}: it asks a language model, but the scenario has none", hint="add `models: {}`")
    if reactions and reactions not in reaction_names:
        hint = f"there are {', '.join(reaction_names)}; add it to feed.reactions"
        raise no_such(f"{where}: there are no reactions", reactions, reaction_names, hint)


define_family(
    Family(
        FEED_USER,
        FeedUser,
        needs={"feed": "uses a feed"},
        check=check,
        fits=check_params,
        actions=ACTIONS,
        draws=("when users visit the feed", "how they react to posts without a model, and whether they write one"),
    )
)
