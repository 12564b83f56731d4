"""The settings of a feed: the section `feed` of a scenario."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Final, Literal

import attrs

from sim.agents.toolbox import agent_expression
from sim.base.errors import UsageError
from sim.base.expressions import Expression, ExpressionError, no_such
from sim.kernel import NS
from sim.world.section import PositiveDuration, Range, Recipient

MODEL: Final = "model"
"""The reactions of users that ask a language model."""

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
            has the names, separated by spaces; `none`: no user is followed.
        each: how many users each follows, if they are drawn.
    """

    by: Literal["random", "popular", "places", "profile", "none"] = "random"
    each: Annotated[int, Range(0, 10_000)] = 10


@attrs.frozen
class Treatments:
    """An experiment: posts get a vote that no user gave when they are written, by chance.

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
        setting = getattr(self, name)
        if not isinstance(setting, str):
            return probability(setting, name)
        expression = agent_expression(setting, POST_NAMES if name != "write" else ("my", "me", "now"), name)
        return _checked(expression, name, probability)


CHANCES: Final = tuple(attrs.fields_dict(Reactions))
"""The names of the probabilities."""


def _checked(expression: Expression, where: str, expected: Callable[[object, str], object]) -> Expression:
    """Return an expression; if it is a constant, its value is checked at once.

    Raises:
        UsageError: if it is a constant without a value, or as `expected` raises it.
    """
    if not expression.names and not expression.functions:
        try:
            expected(expression.evaluate({}, {}), where)
        except ExpressionError as error:
            raise UsageError(f"{where}: {error}", hint=error.hint) from None
    return expression


def value_of_post(value: object, where: str) -> float:
    """Return what a policy gives as the value of a post.

    Raises:
        UsageError: if it is no number.
    """
    if not isinstance(value, int | float):
        raise UsageError(f"{where}: the value of a post is a number, not {value!r:.60}", hint="such as '=likes'")
    return value


def probability(value: object, where: str) -> float:
    """Return a value as a probability; true and false are 1 and 0 if an expression has them as its value.

    Raises:
        UsageError: if it is none.
    """
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        hint = "for example `min(1, likes / 10)`"
        raise UsageError(f"{where}: a probability is a number from 0 to 1, not {value!r:.60}", hint=hint)
    return float(value)


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
        UsageError: if the policy does not exist, a weight or an expression is wrong, or reactions are named `model`.
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
        policies = (*SIMPLE, "mixed")
        if self.own_policy is None and self.policy not in policies:
            hint = f"there are {', '.join(policies)}, and expressions such as '=likes'"
            yield no_such("policy: there is no policy", self.policy, policies, hint)
        for name in self.mix:
            if name not in SIMPLE:
                yield no_such(f"mix.{name}: there is no policy", name, SIMPLE)
        if MODEL in self.reactions:
            hint = "give them another name, such as `crowd`"
            yield UsageError(f"reactions.{MODEL}: users with these reactions ask a language model", hint=hint)
        if self.policy == "mixed" and not any(self.mix.values()):
            yield UsageError("mix: nothing is mixed", hint="for example mix: {followed: 2, popular: 1}")
        if self.mix and self.policy != "mixed":
            yield UsageError(f"mix: the policy {self.policy:.60} mixes nothing", hint="use policy: mixed")

    @cached_property
    def own_policy(self) -> Expression | None:
        """The policy, if it is an expression."""
        if not self.policy.startswith("="):
            return None
        return _checked(agent_expression(self.policy, POST_NAMES, "policy"), "policy", value_of_post)
