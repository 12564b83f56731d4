"""The feed of a world: its users and posts, who has seen what, and what its numbers are."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from sim.agents.toolbox import Toolbox
from sim.base.expressions import Expression, did_you_mean, no_such
from sim.kernel import NS
from sim.kernel.codec import ABSENT
from sim.kinds.feed.events import PostReposted, PostsShown, PostVoted, PostWritten, TieChanged, UserJoined
from sim.kinds.feed.follows import Graph
from sim.kinds.feed.policies import Ranking, ShownPost, choose
from sim.kinds.feed.posts import Member, Post, words_of
from sim.kinds.feed.settings import CHANCES, FeedSettings, Reactions, probability
from sim.world import Refused, Service, Warned, World

FEED_USER: Final = "feed_user"
"""The kind of agents that use a feed by themselves."""

MOST_TEXT: Final = 10_000
"""The most characters of a post."""

MOST_TOPIC: Final = 100
"""The most characters of a topic."""

Value = Callable[..., Any]
"""Returns the value of an expression, over a post and its place in the feed if there are; see `POST_NAMES`."""

Chances = Callable[..., float]
"""Returns the probability of a reaction by its name, over a post and its place in the feed if there are."""

_OF_POST: Final[Mapping[str, Callable[[Post], Any]]] = {
    "author": lambda post: post.author,
    "topic": lambda post: post.topic,
    "text": lambda post: post.text,
    "likes": lambda post: post.likes + max(post.bonus, 0),
    "dislikes": lambda post: post.dislikes + max(-post.bonus, 0),
    "reposts": lambda post: len(post.depths),
    "replies": lambda post: post.replies,
    "score": lambda post: post.score,
}
"""What the names of an expression stand for that depend on the post alone."""

_ARMS: Final = ("up", "down", "untreated")


class Feed(Service):
    """The feed of a world.

    Args:
        world: the world.
        settings: what the scenario says of it.

    Attributes:
        settings: the settings.
        posts: all posts, the oldest first; the number of a post is its place, counted from 1.
        by_topic: the posts of each topic, in small letters.
        ranking: the posts by popularity.
        own_policy: the policy, if it is an expression.
        counts: how many visits, exposures, votes, ... there were.
    """

    name: ClassVar[str] = "feed"

    def __init__(self, world: World, settings: FeedSettings) -> None:
        self.settings = settings
        self.posts: list[Post] = []
        self.by_topic: dict[str, list[Post]] = {}
        self.ranking = Ranking(settings.decay)
        self.counts: dict[str, int] = dict.fromkeys(
            ("visits", "exposures", "short_visits", "posts", "replies", "likes", "dislikes", "reposts", "mutes"), 0
        )
        self._arms = {arm: [0, 0] for arm in _ARMS}  # posts, and their votes
        self._largest = {"scale": 0, "depth": 0, "breadth": 0}
        self._world = world
        self._graph = Graph(world, settings.follows)
        self._toolbox = Toolbox(world)
        self._members: dict[str, Member] = {}
        self._names: list[str] = []
        named = settings.reactions or {"": Reactions()}
        self.own_policy = settings.own_policy
        self._chances = {name: {kind: one.chance(kind) for kind in CHANCES} for name, one in named.items()}

    # -- users

    def member(self, name: str) -> Member:
        """Return a user; an agent that is none becomes one."""
        if not self._members:
            self._join([one.agent_id for one in self._world.agents.values() if one.alive and self._uses(one)])
        if name not in self._members:
            self._join([name])
        return self._members[name]

    def _uses(self, agent: Any) -> bool:
        """Return whether an agent is a user from the start."""
        if not self.settings.users:
            return bool(agent.kind == FEED_USER or hasattr(agent, "react"))
        return any(self._world.in_group(agent, name) for name in self.settings.users)

    def _join(self, names: Sequence[str]) -> None:
        """Make agents users, all or none of them."""
        before = len(self._names)
        self._members |= {name: Member(name) for name in names}
        self._names += names
        try:
            follows = {name: self._graph.of(name, self._members, self._names) for name in names}
        except BaseException:
            del self._names[before:]
            for name in names:
                del self._members[name]
            raise
        for name, others in follows.items():
            for other in others:
                self._tie(self._members[name], self._members[other])
            self._world.event_bus.report(UserJoined(follows=others, user=name))
        if self.settings.follows.by == "places":
            for name, others in follows.items():
                for other in others:  # those that were users before follow back
                    if name not in self._members[other].follows:
                        self.follow(other, name)

    def _tie(self, member: Member, other: Member) -> None:
        member.follows[other.name] = None
        other.followers[member.name] = None

    def interests(self, name: str) -> list[str]:
        """Return the topics that interest a user: the words of its state variable `interests`."""
        agent: Any = self._world.agents.get(name)
        return [] if agent is None else words_of(agent.state, "interests")

    # -- what expressions read

    def chances(self, reactions: str, name: str) -> "Chances":
        """Return what gives the probabilities of the reactions of a user, for one visit; see `reader`.

        Args:
            reactions: the name of the reactions; empty: the first ones of the feed, or the defaults.
            name: the user.

        Raises:
            UsageError: if there are no such reactions; what is returned raises it if an expression gives no number from
                0 to 1.
        """
        reactions = reactions or next(iter(self._chances))
        probabilities, value = self._chances.get(reactions), self.reader(name)
        if probabilities is None:
            raise no_such(f"{name}: there are no reactions", reactions, self._chances)

        def chance(kind: str, post: Post | None = None, place: int | None = None) -> float:
            one = probabilities[kind]
            if isinstance(one, float):
                return one
            return probability(value(one, post, place), f"feed.reactions.{reactions}.{kind} of {name}")

        return chance

    def reader(self, name: str) -> Value:
        """Return a function that evaluates expressions over posts for a user.

        It holds for one visit: until time passes, the user's interests change, or this is called for another user.
        """
        agent: Any = self._world.agents[name]
        member, functions = self.member(name), self._toolbox.used_by(agent)
        own = {"my": agent.state, "me": name, "now": self._world.now}
        interests = {topic.casefold() for topic in self.interests(name)}

        def value(expression: Expression, post: Post | None = None, place: int | None = None) -> Any:
            names = {**own, "place": place}
            if post is not None:
                names |= {word: _OF_POST[word](post) for word in expression.names & _OF_POST.keys()}
                names |= {"age": self._age(post), "followed": post.author in member.follows}
                if "interest" in expression.names:
                    names["interest"] = post.topic.casefold() in interests
            return expression.evaluate(names, functions)

        return value

    def _age(self, post: Post) -> float:
        return (self._world.kernel.now - post.time_ns) / NS

    def shown_to_user(self, shown: ShownPost) -> dict[str, Any]:
        """Return what a user sees of a post that it is shown."""
        post = shown.post
        about = {name: _OF_POST[name](post) for name in _OF_POST if name != "score"}
        return {"post": post.number, **about, "age": self._age(post), "via": shown.via}

    # -- what users do; each is refused before anything has changed

    def show(self, name: str) -> list[ShownPost]:
        """Show a user its feed, and record what it saw."""
        member = self.member(name)
        shown = choose(self, member)
        for one in shown:
            member.seen.setdefault(one.post.number, one.via)
        self.counts["visits"] += 1
        self.counts["exposures"] += len(shown)
        self.counts["short_visits"] += len(shown) < self.settings.shown
        if shown:
            via = [one.via for one in shown]
            by = [one.by for one in shown] if self.settings.policy == "mixed" else ABSENT
            data = PostsShown(
                by=by, posts=[one.post.number for one in shown], user=name, via=via if any(via) else ABSENT
            )
            self._world.event_bus.report(data)
        return shown

    def write(self, name: str, text: str, topic: str = "", reply_to: int | None = None) -> Post:
        """Add a post of a user, and return it; a reply has the topic of what it replies to, unless it names one."""
        if len(text) > MOST_TEXT:
            raise Refused(f"a post has at most {MOST_TEXT:,} characters, not {len(text):,}")
        if len(topic) > MOST_TOPIC:
            raise Refused(f"a topic has at most {MOST_TOPIC} characters, not {len(topic):,}: one word is enough")
        parent = None if reply_to is None else self.post(reply_to)
        member = self.member(name)
        topic = topic or ("" if parent is None else parent.topic)
        post = Post(len(self.posts) + 1, name, topic, text, self._world.kernel.now, reply_to)
        self._treat(post)
        self.posts.append(post)
        self.by_topic.setdefault(post.topic.casefold(), []).append(post)
        self.ranking.put(post, new=True)
        self.counts["posts"] += 1
        if parent is not None:
            parent.replies += 1
            self.counts["replies"] += 1
        self._deliver(member, post, None)
        self._world.event_bus.report(
            PostWritten(
                arm=post.arm or ABSENT,
                author=name,
                post=post.number,
                text=text,
                topic=post.topic,
                reply_to=ABSENT if reply_to is None else reply_to,
            )
        )
        return post

    def _treat(self, post: Post) -> None:
        """Draw the arm of a post. The draw depends on its number alone, so arms do not depend on what users do."""
        up, down = self.settings.treatments.up, self.settings.treatments.down
        if up or down:
            drawn = self._world.kernel.streams.at("feed", "treatment", post.number).random()
            post.arm = "up" if drawn < up else "down" if drawn < up + down else "untreated"
            post.bonus = {"up": 1, "down": -1, "untreated": 0}[post.arm]
            self._arms[post.arm][0] += 1

    def _deliver(self, member: Member, post: Post, via: str | None) -> None:
        """Put a post into the inbox of each follower, of which only what policies consider is kept."""
        for name in member.followers:
            inbox = self._members[name].inbox
            inbox.append((post, via))
            if len(inbox) >= 2 * self.settings.among:
                del inbox[: -self.settings.among]

    def vote(self, name: str, number: int, vote: int) -> Post:
        """Like (1) or dislike (-1) a post, once."""
        post = self.post(number)
        if name == post.author:
            raise Refused(f"{name} wrote post {number}, and cannot vote on it", skip=True)
        if name in post.votes:
            raise Refused(f"{name} has voted on post {number} already", skip=True)
        self.member(name)
        post.votes[name] = vote
        if vote > 0:
            post.likes += 1
        else:
            post.dislikes += 1
        self.counts["likes" if vote > 0 else "dislikes"] += 1
        if post.arm:
            self._arms[post.arm][1] += vote
        self.ranking.put(post)
        self._world.event_bus.report(PostVoted(post=number, score=post.score, user=name, vote=vote))
        return post

    def repost(self, name: str, number: int) -> Post:
        """Show a post to the followers of a user, once."""
        post = self.post(number)
        if name == post.author:
            raise Refused(f"{name} wrote post {number}, which its followers see already", skip=True)
        if name in post.depths:
            raise Refused(f"{name} has reposted post {number} already", skip=True)
        member = self.member(name)
        via = member.seen.get(number)
        depth = 1 if via is None else post.depths[via] + 1
        post.depths[name] = depth
        if len(post.breadths) < depth:
            post.breadths.append(0)
        post.breadths[depth - 1] += 1
        for key, size in (("scale", len(post.depths) + 1), ("depth", depth), ("breadth", post.breadths[depth - 1])):
            self._largest[key] = max(self._largest[key], size)
        self.counts["reposts"] += 1
        self.ranking.put(post)
        self._deliver(member, post, name)
        self._world.event_bus.report(PostReposted(depth=depth, post=number, user=name, via=via))
        return post

    def follow(self, name: str, whom: str, *, on: bool = True) -> None:
        """Let a user follow another one from now on, or no longer; what was written before is not shown by it."""
        member, other = self._two(name, whom)
        if (whom in member.follows) == on:
            raise Refused(f"{name} {'follows' if on else 'does not follow'} {whom} already", skip=True)
        if on:
            self._tie(member, other)
        else:
            del member.follows[whom], other.followers[name]
        self._world.event_bus.report(TieChanged(on=on, tie="follow", user=name, whom=whom))

    def mute(self, name: str, whom: str, *, on: bool = True) -> None:
        """Show a user nothing more that another one writes or reposts, or show it again."""
        member, _ = self._two(name, whom)
        if (whom in member.mutes) == on:
            raise Refused(f"{name} {'mutes' if on else 'does not mute'} {whom} already", skip=True)
        if on:
            member.mutes[whom] = None
        else:
            del member.mutes[whom]
        self.counts["mutes"] += 1 if on else -1
        self._world.event_bus.report(TieChanged(on=on, tie="mute", user=name, whom=whom))

    def _two(self, name: str, whom: str) -> tuple[Member, Member]:
        member = self.member(name)
        other = self._members.get(whom)
        if other is None or other is member:
            hint = did_you_mean(whom, self._members) if other is None else None
            raise Refused(f"there is no other user {whom!r:.60}" + (f"; {hint}" if hint else ""))
        return member, other

    def post(self, number: Any) -> Post:
        """Return a post.

        Raises:
            Refused: if there is none of this number.
        """
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= len(self.posts):
            raise Refused(f"there is no post {number!r:.60}; there are {len(self.posts):,}")
        return self.posts[number - 1]

    # -- what is known at the end

    def state(self) -> Any:
        """See `Service.state`."""
        return {
            "posts": [
                [one.author, one.topic, one.arm, one.likes, one.dislikes, one.replies, list(one.depths.values())]
                for one in self.posts
            ],
            "users": {
                one.name: [list(one.follows), list(one.mutes), len(one.seen), len(one.inbox)]
                for one in self._members.values()
            },
        }

    def metrics(self) -> Mapping[str, float | None]:
        """See `Service.metrics`: counts, the largest cascade, and the mean votes of a post in each arm."""
        return {"users": len(self._members), **self.counts, **self._largest, **self._votes()}

    def _votes(self) -> dict[str, float | None]:
        return {f"votes_{arm}": votes / posts if posts else None for arm, (posts, votes) in self._arms.items()}

    def summary(self) -> Mapping[str, Any]:
        """See `Service.summary`."""
        return {one: value for one, value in self.metrics().items() if value is not None}

    def warnings(self) -> Sequence[Warned]:
        """See `Service.warnings`: a feed without posts, or one that showed no post to any user."""
        if not self.posts:
            return [Warned("no user wrote a post in the feed", "use a later `until`, or let users write more")]
        if not self.counts["exposures"]:
            hint = "do users visit the feed, and does its policy find posts for them? `followed` needs `follows`"
            return [Warned("no user was shown a post of the feed", hint)]
        return []
