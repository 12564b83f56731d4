"""A feed: users follow each other, write posts, and are shown posts of others by a policy.

Modules: `settings` (what a scenario says of a feed), `posts` (posts and users), `policies` (which posts a user is
shown), `follows` (who follows whom at first), `service` (all that is known of a feed), `user` (the kind `feed_user`),
`actions`, `asking` (users that ask models), `section`, `events` and `views`.
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.kinds.feed.user import FeedUser

__all__ = ["FeedUser"]

_HOMES = {"user": "FeedUser"}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
