"""The settings of a feed: the section `feed` of a scenario."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError, did_you_mean, functions_at
from sim.kernel import NS
from sim.world.section import PositiveDuration, Range, Recipient

POST_NAMES: Final = (
    "author", "topic", "text", "likes", "dislikes", "reposts", "replies", "score", "age", "followed", "interest",
    "place", "my", "me", "now",
)  # fmt: skip
"""The names that an expression over a post can use."""

SIMPLE: Final = ("latest", "popular", "interest", "followed")
"""The policies that can be mixed."""

Share = Annotated[float, Range(0, 1)]
Weight = Annotated[float, Range(0, 1e6)]
Chance = str | float


@attrs.frozen
class Follows:
    """Who follows whom at first.

    Args:
        by: `random`: each user follows others that are drawn with equal probability; `popular`: each follows users
            before it, drawn by the number of their followers plus one (preferential attachment); `places`: those whose
            places are the same or have an edge follow each other; `profile`: the state variable `follows` of each user
            has the names, separated by spaces; `none`: nobody is followed.
        each: how many users each follows, if they are drawn.
    """

    by: Literal["random", "popular", "places", "profile", "none"] = "random"
    each: Annotated[int, Range(0, 10_000)] = 10


@attrs.frozen
class Treatments:
    """An experiment: posts get a vote of nobody when they are written, by chance.

    Args:
        up: the share of posts that begin with a like more.
        down: the share of posts that begin with a dislike more.
    """

    up: Share = 0.0
    down: Share = 0.0

    def __attrs_post_init__(self) -> None:
        if self.up + self.down > 1:
            raise UsageError("up and down are shares of all posts, and exceed 1 together", hint="for example 0.3 each")


@attrs.frozen
class Reactions:
    """With which probability users react to a post that they are shown: numbers, or expressions over `POST_NAMES`.

    The defaults are chosen, not measured.

    Args:
        like: that it is liked.
        dislike: that it is disliked, if it is not liked.
        repost: that it is shown to the followers.
        reply: that it is replied to.
        mute: that its author is muted.
        follow: that its author is followed.
        write: that a visit ends with a post of its own. It is no expression over a post, but can use `my`, `me`, `now`.
    """

    like: Chance = 0.05
    dislike: Chance = 0.0
    repost: Chance = 0.01
    reply: Chance = 0.005
    mute: Chance = 0.0
    follow: Chance = 0.0
    write: Chance = 0.05

    def __attrs_post_init__(self) -> None:
        for name in CHANCES:
            self.chance(name)

    def chance(self, name: str) -> Expression | float:
        """Return a probability: a number, or an expression.

        Raises:
            UsageError: if it is none of both.
        """
        given = getattr(self, name)
        if isinstance(given, str):
            return over_post(given, name, POST_NAMES if name != "write" else ("my", "me", "now"))
        if isinstance(given, bool) or not 0 <= given <= 1:
            raise UsageError(f"{name}: a probability is a number from 0 to 1, not {given!r:.60}")
        return float(given)


CHANCES: Final = tuple(attrs.fields_dict(Reactions))
"""The names of the probabilities."""


@attrs.frozen
class FeedSettings:
    """A feed: what users are shown, who follows whom, and how users react.

    Args:
        users: the entries or groups whose agents are users from the start; empty: all agents of the kind `feed_user`.
            Others become users when they do something in the feed.
        policy: what a user is shown: `latest`, `popular`, `interest`, `followed`, `mixed`, or an expression over a post
            with a leading `=`, of which the highest values come first.
        mix: for the policy `mixed`, the weight of each of its policies.
        shown: how many posts a visit shows, at most.
        among: how many posts a policy considers at a visit, at most.
        repeats: whether a user is shown posts again.
        decay: for `popular`, after which time a post needs ten times the votes for the same place.
        follows: who follows whom at first.
        treatments: votes that posts get by chance when they are written.
        reactions: how users of the kind `feed_user` react, by a name that they give as `reactions`.

    Raises:
        UsageError: if the policy does not exist, or a weight or an expression is wrong.
    """

    users: tuple[Recipient, ...] = ()
    policy: str = "followed"
    mix: Mapping[str, Weight] = attrs.field(factory=dict)
    shown: Annotated[int, Range(1, 1000)] = 10
    among: Annotated[int, Range(1, 100_000)] = 500
    repeats: bool = False
    decay: PositiveDuration = 45_000 * NS  # of the published ranking of Reddit (2008): 12.5 hours for a factor of ten
    follows: Follows = attrs.field(factory=Follows)
    treatments: Treatments = attrs.field(factory=Treatments)
    reactions: Mapping[str, Reactions] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for problem in self._problems():
            raise problem

    def _problems(self) -> Iterator[UsageError]:
        known = (*SIMPLE, "mixed")
        if self.policy.startswith("="):
            over_post(self.policy, "policy")
        elif self.policy not in known:
            hint = did_you_mean(self.policy, known) or f"there are {', '.join(known)}, and expressions such as '=likes'"
            yield UsageError(f"policy: there is no policy {self.policy!r:.60}", hint=hint)
        for name in self.mix:
            if name not in SIMPLE:
                hint = did_you_mean(name, SIMPLE) or f"there are {', '.join(SIMPLE)}"
                yield UsageError(f"mix.{name}: there is no policy {name!r:.60} to mix", hint=hint)
        if self.policy == "mixed" and not any(self.mix.values()):
            yield UsageError("mix: nothing is mixed", hint="for example mix: {followed: 2, popular: 1}")
        if self.mix and self.policy != "mixed":
            yield UsageError(f"mix: the policy {self.policy:.60} mixes nothing", hint="use policy: mixed")


def over_post(text: str, where: str, names: tuple[str, ...] = POST_NAMES) -> Expression:
    """Return an expression over a post.

    Args:
        text: the expression; a leading `=` is optional.
        where: where it stands, for the error.
        names: the names that it can use.

    Raises:
        UsageError: if it is none, or uses a name or function that there is not.
    """
    functions: Any = {*PURE_FUNCTIONS, *functions_at("agent")}
    try:
        return Expression.parse(text.removeprefix("="), names, functions)
    except ExpressionError as error:
        raise UsageError(f"{where}: {error}", hint=error.hint) from None
