"""The SQL views of a feed."""

from sim.kinds.feed.events import PostReposted, PostVoted, PostWritten
from sim.record.views import VIEWS, view_of

VIEWS["posts"] = view_of(PostWritten, "One row a post: who wrote what, in reply to what, and the arm of an experiment.")

VIEWS["exposures"] = """
    -- One row each time a user was shown a post: who saw what, in which place, by whose repost and which policy.
    SELECT e.id, e.time, e.time_ns, e.data ->> '$.user' AS user, shown.value AS post, shown.key + 1 AS place,
           e.data ->> ('$.via[' || shown.key || ']') AS via, e.data ->> ('$.by[' || shown.key || ']') AS policy
    FROM events AS e, json_each(e.data, '$.posts') AS shown WHERE e.topic = 'feed.shown'
"""

VIEWS["votes"] = view_of(PostVoted, "One row a like or a dislike of a post, and its score from then on.")

VIEWS["reposts"] = view_of(PostReposted, "One row a repost: who, by whose repost it came, and how deep it is.")

VIEWS["cascades"] = """
    -- One row a post that was reposted: scale (its author and who reposted it), depth, breadth (the most at one depth).
    SELECT post, sum(users) + 1 AS scale, max(depth) AS depth, max(users) AS breadth FROM (
        SELECT data ->> '$.post' AS post, data ->> '$.depth' AS depth, count(*) AS users FROM events
        WHERE topic = 'feed.reposted' GROUP BY 1, 2
    ) GROUP BY post ORDER BY scale DESC, post
"""

VIEWS["treatments"] = """
    -- One row an arm: posts, likes and dislikes of users, and their mean difference of a post. Replies are posts, too.
    WITH voted AS (
        SELECT data ->> '$.post' AS post, sum(data ->> '$.vote' = 1) AS likes, sum(data ->> '$.vote' = -1) AS dislikes
        FROM events WHERE topic = 'feed.voted' GROUP BY 1
    )
    SELECT p.data ->> '$.arm' AS arm, count(*) AS posts, coalesce(sum(likes), 0) AS likes,
           coalesce(sum(dislikes), 0) AS dislikes,
           1.0 * (coalesce(sum(likes), 0) - coalesce(sum(dislikes), 0)) / count(*) AS mean_votes
    FROM events AS p LEFT JOIN voted ON voted.post = p.data ->> '$.post'
    WHERE p.topic = 'feed.posted' AND p.data ->> '$.arm' IS NOT NULL GROUP BY 1 ORDER BY 1
"""

VIEWS["ties"] = """
    -- One row a tie of users that begins (is active) or ends: follows, from when the user joined, and mutes.
    SELECT e.id, e.time, e.time_ns, e.data ->> '$.user' AS user, 'follow' AS tie, one.value AS whom, 1 AS active
    FROM events AS e, json_each(e.data, '$.follows') AS one WHERE e.topic = 'feed.joined'
    UNION ALL
    SELECT id, time, time_ns, data ->> '$.user', data ->> '$.tie', data ->> '$.whom', data ->> '$.on'
    FROM events WHERE topic = 'feed.tie'
"""
