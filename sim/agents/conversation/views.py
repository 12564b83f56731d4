"""The SQL views of conversations."""

from sim.record.views import VIEWS

VIEWS["users"] = """
    -- One row a user, with the level and the accounts at the end.
    SELECT e.data ->> '$.user' AS user,
           e.data ->> '$.level' AS level,
           e.data ->> '$.links[0].platform_username' AS name,
           json_array_length(e.data, '$.links') AS accounts,
           e.data -> '$.links' AS links,
           first.time AS created
    FROM events AS e
    JOIN (SELECT data ->> '$.user' AS user, min(time) AS time, max(id) AS latest
          FROM events WHERE topic IN ('user.created', 'user.changed') GROUP BY 1) AS first ON first.latest = e.id
"""

VIEWS["conversation_list"] = """
    -- One row a conversation with a user: where, when, how many messages, summary.
    WITH said AS (
        SELECT data ->> '$.conversation' AS conversation, count(*) AS messages, max(data ->> '$.session') AS sessions,
               max(time) AS last_active
        FROM events WHERE topic = 'conversation.message' GROUP BY 1
    ), summaries AS (
        SELECT data ->> '$.conversation' AS conversation, data ->> '$.summary' AS summary, max(id) AS latest
        FROM events WHERE topic = 'conversation.summarized' GROUP BY 1
    )
    SELECT e.data ->> '$.conversation' AS conversation,
           e.data ->> '$.user' AS user,
           e.data ->> '$.platform' AS platform,
           e.data ->> '$.channel' AS channel,
           e.data ->> '$.thread' AS thread,
           e.time AS started, said.last_active AS last_active,
           coalesce(said.messages, 0) AS messages, said.sessions AS sessions,
           summaries.latest IS NOT NULL AS is_summarized, summaries.summary AS summary
    FROM events AS e
    LEFT JOIN said ON said.conversation = e.data ->> '$.conversation'
    LEFT JOIN summaries ON summaries.conversation = e.data ->> '$.conversation'
    WHERE e.topic = 'conversation.started'
"""

VIEWS["conversation_messages"] = """
    -- One row a message of a conversation with a user, also tool calls and results.
    WITH withheld AS (
        SELECT data ->> '$.conversation' AS conversation, i.value AS message
        FROM events, json_each(events.data, '$.ids') AS i WHERE topic = 'conversation.withheld'
    )
    SELECT id, time, time_ns,
           data ->> '$.conversation' AS conversation,
           data ->> '$.id' AS message,
           data ->> '$.session' AS session,
           data ->> '$.role' AS role,
           data ->> '$.author' AS author,
           CASE WHEN (data ->> '$.conversation', data ->> '$.id') NOT IN (SELECT conversation, message FROM withheld)
                THEN coalesce(data ->> '$.audience', 'all')
                WHEN data ->> '$.audience' = 'model' THEN 'none' ELSE 'person' END AS audience,
           data ->> '$.content' AS content,
           data ->> '$.metadata.tool' AS tool,
           data ->> '$.metadata.tool_use_id' AS tool_use_id,
           data ->> '$.metadata.success' AS success,
           data ->> '$.metadata.model' AS model,
           data ->> '$.metadata.tokens' AS tokens,
           CASE data ->> '$.role' WHEN 'assistant' THEN coalesce(data ->> '$.metadata.final', 1) END AS final,
           coalesce(data ->> '$.metadata.incomplete', 0) AS incomplete,
           data ->> '$.metadata.ending' AS ending,
           data ->> '$.metadata.retryable' AS retryable
    FROM events WHERE topic = 'conversation.message'
"""
