"""Policies: which posts a user is shown, and in which order."""

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import attrs

from sim.base.expressions import Expression
from sim.kernel import NS
from sim.kinds.feed.posts import Member, Post
from sim.kinds.feed.settings import value_of_post

if TYPE_CHECKING:
    from sim.kinds.feed.service import Feed

Candidate = tuple[Post, str | None]
"""A post, and the followed user whose repost brought it."""

Policy = Callable[["Feed", Member], Iterator[Candidate]]


@attrs.frozen
class ShownPost:
    """A post that a user is shown.

    Attributes:
        post: the post.
        via: the followed user whose repost brought it; None: it was not a repost.
        by: the policy that chose it.
    """

    post: Post
    via: str | None
    by: str


class Ranking:
    """Posts by popularity: ten times the votes make up for being older by `decay`.

    As the ranking of Reddit in 2008, log10(votes) + time / decay: time changes no place. Reposts count as votes.

    Args:
        decay_ns: the decay in simulated nanoseconds.
    """

    def __init__(self, decay_ns: int) -> None:
        self._decay_s = decay_ns / NS
        self._order: list[tuple[float, int]] = []

    def put(self, post: Post, *, new: bool = False) -> None:
        """Give a post its place, when it is new or was voted on."""
        if not new:
            del self._order[bisect_left(self._order, (-post.heat, -post.number))]
        votes = post.score + len(post.depths)
        heat = math.copysign(math.log10(max(abs(votes), 1)), votes) + post.time_ns / NS / self._decay_s
        post.heat = round(heat, 9)  # logarithms may differ in their last digits between machines
        insort(self._order, (-post.heat, -post.number))

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers of the posts, the most popular first."""
        return (-number for _, number in self._order)


def _latest(feed: "Feed", member: Member) -> Iterator[Candidate]:
    return ((post, None) for post in reversed(feed.posts))


def _popular(feed: "Feed", member: Member) -> Iterator[Candidate]:
    return ((feed.posts[number - 1], None) for number in feed.ranking)


def _followed(feed: "Feed", member: Member) -> Iterator[Candidate]:
    for post, via in reversed(member.inbox):
        if (via or post.author) in member.follows:  # it may have ceased to
            yield post, via


def _interest(feed: "Feed", member: Member) -> Iterator[Candidate]:
    topics = dict.fromkeys(topic.casefold() for topic in feed.interests(member.name))
    lists = [reversed(feed.by_topic.get(topic, ())) for topic in topics]
    return ((post, None) for post in merge(*lists, key=lambda post: post.number, reverse=True))


SIMPLE_POLICIES: Final[Mapping[str, Policy]] = {
    "latest": _latest, "popular": _popular, "interest": _interest, "followed": _followed,
}  # fmt: skip


def choose(feed: "Feed", member: Member) -> list[ShownPost]:
    """Return what a user is shown now: not what it wrote or has seen, and nothing of those that it mutes."""
    settings = feed.settings
    if settings.policy == "mixed":
        return _mixed(feed, member)
    if feed.own_policy is not None:
        source = _by_value(feed, member, feed.own_policy)
        return [ShownPost(post, via, "own") for post, via in islice(source, settings.shown)]
    source = _allowed(feed, member, SIMPLE_POLICIES[settings.policy])
    return [ShownPost(post, via, settings.policy) for post, via in islice(source, settings.shown)]


def _allowed(feed: "Feed", member: Member, policy: Policy) -> Iterator[Candidate]:
    """Yield the posts that a policy may show, out of the first ones that it considers."""
    seen, mutes, name = {} if feed.settings.repeats else member.seen, member.mutes, member.name
    taken = set[int]()  # an inbox has a post once for each of those that reposted it
    for post, via in islice(policy(feed, member), feed.settings.among):
        number = post.number
        if number in seen or number in taken or post.author == name or post.author in mutes or via in mutes:
            continue
        taken.add(number)
        yield post, via


def _mixed(feed: "Feed", member: Member) -> list[ShownPost]:
    """Fill each place by the policy that lags most behind its weight; of equal ones, by the first of `mix`."""
    sources = {
        name: [weight, 0.0, _allowed(feed, member, SIMPLE_POLICIES[name])]
        for name, weight in feed.settings.mix.items()
        if weight
    }
    chosen: dict[int, ShownPost] = {}
    while sources and len(chosen) < feed.settings.shown:
        name = min(sources, key=lambda one: (sources[one][1] + 1) / sources[one][0])  # type: ignore[operator]
        entry: Any = sources[name]
        next_post = next((one for one in entry[2] if one[0].number not in chosen), None)
        if next_post is None:
            del sources[name]
            continue
        entry[1] += 1
        chosen[next_post[0].number] = ShownPost(next_post[0], next_post[1], name)
    return list(chosen.values())


def _by_value(feed: "Feed", member: Member, expression: Expression) -> Iterator[Candidate]:
    """Yield the newest posts by the value of an expression, the highest first, and of equal ones the newest."""
    newest, value = list(_allowed(feed, member, _latest)), feed.reader(member.name)
    values = [value_of_post(value(expression, post), "feed.policy") for post, _ in newest]
    return (newest[n] for n in sorted(range(len(newest)), key=lambda n: -values[n]))
