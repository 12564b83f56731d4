"""Posts, and the members of a feed who write and see them."""

from collections.abc import Mapping
from typing import Any

import attrs


@attrs.define(eq=False, slots=True)
class Post:
    """A post.

    Attributes:
        number: its number, from 1.
        author: who wrote it.
        topic, text: what it is about.
        time_ns: when it was written, in simulated nanoseconds.
        reply_to: the post that it replies to.
        arm: the arm of the experiment; empty: there is none.
        bonus: the vote that the arm gave it: 1, -1 or 0.
        votes: 1 for a like and -1 for a dislike, by user.
        likes, dislikes: how many there are, without those of the arm.
        replies: how many posts reply to it.
        depths: the depth of the repost of each user.
        breadths: how many reposts have each depth, from 1.
        heat: its place by popularity.
    """

    number: int
    author: str
    topic: str
    text: str
    time_ns: int
    reply_to: int | None = None
    arm: str = ""
    bonus: int = 0
    votes: dict[str, int] = attrs.field(factory=dict)
    likes: int = 0
    dislikes: int = 0
    replies: int = 0
    depths: dict[str, int] = attrs.field(factory=dict)
    breadths: list[int] = attrs.field(factory=list)
    heat: float = 0.0

    @property
    def score(self) -> int:
        """What users see of its votes: likes minus dislikes, with that of the arm."""
        return self.likes - self.dislikes + self.bonus


def words_of(state: Mapping[str, Any], name: str) -> list[str]:
    """Return the words of a state variable of a user, each once; none if the variable is null or not there."""
    text = state.get(name)
    return [] if text is None else list(dict.fromkeys(str(text).split()))


@attrs.define(eq=False, slots=True)
class Member:
    """A user of a feed.

    Attributes:
        name: the name of the agent.
        follows, followers, mutes: other users, in the order in which they were added.
        seen: the posts that the user was shown, each with the user whose repost brought it first; None: it was not a
            repost.
        inbox: what the followed users wrote and reposted, the latest last: each post with who reposted it, or None.
    """

    name: str
    follows: dict[str, None] = attrs.field(factory=dict)
    followers: dict[str, None] = attrs.field(factory=dict)
    mutes: dict[str, None] = attrs.field(factory=dict)
    seen: dict[int, str | None] = attrs.field(factory=dict)
    inbox: list[tuple[Post, str | None]] = attrs.field(factory=list)
