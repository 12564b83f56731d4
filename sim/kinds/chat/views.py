"""The SQL views of chats."""

from sim.record.views import VIEWS

VIEWS["user_tokens"] = """
    -- One row a user: calls, tokens and cost of all periods.
    SELECT user, count(*) AS calls, sum(input_tokens + output_tokens) AS tokens, sum(cost) AS cost
    FROM token_log GROUP BY user
"""

VIEWS["user_budgets"] = """
    -- One row a user: the budget, and what is used and left of it at the end; `renewed`: when it is, or was, renewed.
    -- It was renewed after the last message of the user if that time has passed.
    WITH latest AS (
        SELECT data ->> '$.user' AS user, max(id) AS id, sum(topic = 'chat.budget_reset') AS resets
        FROM events WHERE topic IN ('chat.budget_opened', 'chat.budget_reset') GROUP BY 1
    ), spent AS (
        SELECT calls.data ->> '$.user' AS user,
               sum(calls.data ->> '$.input_tokens' + calls.data ->> '$.output_tokens') AS used
        FROM events AS calls JOIN latest ON latest.user = calls.data ->> '$.user' AND calls.id > latest.id
        WHERE calls.topic = 'chat.tokens' GROUP BY 1
    ), period AS (
        SELECT latest.user AS user, e.data ->> '$.limit' AS budget, e.data ->> '$.renewed' AS renewed,
               e.data ->> '$.renewed_at' AS renewed_at,
               e.data ->> '$.renewed' <= coalesce((SELECT sim_seconds FROM run), (SELECT max(time) FROM events)) AS over
        FROM latest JOIN events AS e ON e.id = latest.id
    )
    SELECT latest.user AS user, resets, iif(over, 0, coalesce(used, 0)) AS used, budget,
           iif(over, budget, max(0, budget - coalesce(used, 0))) AS "left", renewed, renewed_at
    FROM latest JOIN period ON period.user = latest.user LEFT JOIN spent ON spent.user = latest.user
"""

VIEWS["personas"] = """
    -- One row a persona that answered: the messages, and how many users wrote them.
    SELECT data ->> '$.metadata.persona' AS persona, count(*) AS messages,
           count(DISTINCT coalesce(data ->> '$.metadata.user', data ->> '$.author')) AS users,
           min(time) AS first, max(time) AS last
    FROM events WHERE topic = 'conversation.message' AND data ->> '$.metadata.persona' IS NOT NULL GROUP BY 1
"""

VIEWS["platform_links"] = """
    -- One row an account of a user on a platform.
    SELECT u.user AS user, l.value ->> '$.platform' AS platform, l.value ->> '$.platform_user_id' AS account,
           l.value ->> '$.platform_username' AS name
    FROM users AS u, json_each(u.links) AS l
"""

VIEWS["scheduled_jobs"] = """
    -- One row a job, with how it ended: `done`, `refused`, `cancelled`, or null.
    SELECT e.data ->> '$.job' AS job, e.data ->> '$.user' AS user, e.data ->> '$.content' AS content,
           e.time AS added, e.data ->> '$.due' AS due, e.data ->> '$.place' AS place, ends.what AS "end",
           ends.time AS ended
    FROM events AS e
    LEFT JOIN (SELECT data ->> '$.job' AS job, data ->> '$.what' AS what, time, max(id)
               FROM events WHERE topic = 'chat.job' AND data ->> '$.what' <> 'added' GROUP BY 1) AS ends
      ON ends.job = e.data ->> '$.job'
    WHERE e.topic = 'chat.job' AND e.data ->> '$.what' = 'added'
"""
