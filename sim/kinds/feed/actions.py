"""The actions of a feed. Each is a tool for models, too."""

from collections.abc import Mapping
from typing import Any, Final

from sim.kernel.waits import NOTHING
from sim.kinds.feed.asking import asked
from sim.kinds.feed.service import Feed
from sim.kinds.feed.settings import MODEL
from sim.world import Inhabitant, Refused, World
from sim.world.action import ActionHandler, Recipient, action


@action("browse_feed", everywhere=False, draws=False)
def browse_feed(world: World, agent: Inhabitant) -> dict[str, Any]:
    """Look at the feed: the posts that its policy shows now. They count as seen."""
    feed = Feed.of(world)
    shown = feed.show(agent.agent_id)
    return {"posts": [feed.shown_to_user(one) for one in shown]}


@action("write_post", everywhere=False, draws=False)
def write_post(world: World, agent: Inhabitant, text: str, topic: str = "") -> Mapping[str, Any]:
    """Write a post.

    Args:
        text: what it says.
        topic: what it is about, in one word.
    """
    return {"post": Feed.of(world).write(agent.agent_id, text, topic).number}


@action("reply_to_post", everywhere=False, draws=False)
def reply_to_post(world: World, agent: Inhabitant, post: int, text: str) -> Mapping[str, Any]:
    """Write a reply to a post. It is a post, too.

    Args:
        post: the number of the post that it replies to.
        text: what it says.
    """
    return {"post": Feed.of(world).write(agent.agent_id, text, reply_to=post).number}


@action("repost", everywhere=False, draws=False)
def repost(world: World, agent: Inhabitant, post: int) -> Mapping[str, Any]:
    """Show a post to the own followers.

    Args:
        post: its number.
    """
    return {"reposts": len(Feed.of(world).repost(agent.agent_id, post).depths)}


@action("like_post", everywhere=False, draws=False)
def like_post(world: World, agent: Inhabitant, post: int) -> Mapping[str, Any]:
    """Like a post.

    Args:
        post: its number.
    """
    return {"score": Feed.of(world).vote(agent.agent_id, post, 1).score}


@action("dislike_post", everywhere=False, draws=False)
def dislike_post(world: World, agent: Inhabitant, post: int) -> Mapping[str, Any]:
    """Dislike a post.

    Args:
        post: its number.
    """
    return {"score": Feed.of(world).vote(agent.agent_id, post, -1).score}


@action("follow_user", everywhere=False, draws=False)
def follow_user(world: World, agent: Inhabitant, user: Recipient, on: bool = True) -> None:
    """Follow a user, or follow it no longer.

    Args:
        user: the user.
        on: false to follow it no longer.
    """
    Feed.of(world).follow(agent.agent_id, user, on=on)


@action("mute_user", everywhere=False, draws=False)
def mute_user(world: World, agent: Inhabitant, user: Recipient, on: bool = True) -> None:
    """See nothing more of a user, or see it again.

    Args:
        user: the user.
        on: false to see it again.
    """
    Feed.of(world).mute(agent.agent_id, user, on=on)


_REACTIONS: Final = (write_post, reply_to_post, repost, like_post, dislike_post, follow_user, mute_user)


def _ready(world: World, agent: Any) -> Any:
    """Return nothing to wait for, unless a model is asked."""
    if not hasattr(agent, "visit"):
        raise Refused(f"{agent.agent_id} is no user that visits the feed by itself", skip=False)
    return NOTHING if agent.reactions == MODEL else {}


async def _wait(world: World, agent: Any) -> Mapping[str, Any]:
    return await asked(world, agent, [one.kind for one in _REACTIONS])


@action("visit_feed", wait=_wait, ready=_ready, ends=True, everywhere=False, draws=False)
def visit_feed(world: World, agent: Any, answered: Mapping[str, Any]) -> Mapping[str, Any]:
    """Visit the feed as agents of the kind `feed_user` do: look at what is shown, and react to it."""
    return answered or agent.visit()


ACTIONS: Final[tuple[ActionHandler, ...]] = (browse_feed, *_REACTIONS, visit_feed)
"""The actions of a feed."""
