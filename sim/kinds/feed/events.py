"""The events of a feed."""

from typing import Any

from sim.events.event_type import Published, event_type
from sim.kernel.codec import ABSENT, Absent


@event_type("feed.joined")
class UserJoined(Published, frozen=True, gc=False, kw_only=True):
    """An agent is a user of the feed from now on.

    Attributes:
        follows: whom it follows at first.
        user: the agent.
    """

    follows: list[str]
    user: str


@event_type("feed.posted")
class PostWritten(Published, frozen=True, gc=False, kw_only=True):
    """A user wrote a post.

    Attributes:
        arm: `up`, `down` or `untreated`; left out if the feed treats no posts.
        author: the user.
        post: the number of the post, from 1.
        reply_to: the post that it replies to; left out if there is none.
        text: its text.
        topic: its topic; empty: none.
    """

    arm: str | Absent = ABSENT
    author: str
    post: int
    reply_to: int | Absent = ABSENT
    text: str
    topic: str

    def describe(self, topic: str, agent: str | None) -> tuple[str, ...] | None:
        """See `EventData.describe`."""
        what = f"post {self.post}" if self.reply_to is ABSENT else f"post {self.post}, a reply to {self.reply_to}"
        return "feed", "" if self.author == agent else self.author, what, self.text


@event_type("feed.shown")
class PostsShown(Published, frozen=True, gc=False, kw_only=True):
    """A user was shown posts.

    Attributes:
        by: for each post, the policy that chose it; left out if the feed mixes none.
        posts: the numbers of the posts, in the order in which they were shown.
        user: the user.
        via: for each post, the followed user whose repost brought it, or null; left out if all are null.
    """

    by: list[str] | Absent = ABSENT
    posts: list[int]
    user: str
    via: list[Any] | Absent = ABSENT


@event_type("feed.voted")
class PostVoted(Published, frozen=True, gc=False, kw_only=True):
    """A user liked or disliked a post.

    Attributes:
        post: the number of the post.
        score: its likes minus its dislikes from now on, with the vote that a treatment gave it.
        user: the user.
        vote: 1 for a like, -1 for a dislike.
    """

    post: int
    score: int
    user: str
    vote: int


@event_type("feed.reposted")
class PostReposted(Published, frozen=True, gc=False, kw_only=True):
    """A user shows a post to its followers.

    Attributes:
        depth: how many reposts are between the author and the followers, with this one.
        post: the number of the post.
        user: the user.
        via: the user whose repost had brought it; null: it came from the author, or by a policy.
    """

    depth: int
    post: int
    user: str
    via: str | None


@event_type("feed.tie")
class TieChanged(Published, frozen=True, gc=False, kw_only=True):
    """A user follows or mutes another user from now on, or does no longer.

    Attributes:
        on: whether it does from now on.
        tie: `follow` or `mute`.
        user: the user.
        whom: the other user.
    """

    on: bool
    tie: str
    user: str
    whom: str
