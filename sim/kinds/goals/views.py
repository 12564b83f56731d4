"""The SQL views of goals, tasks and user agents."""

from sim.record.views import VIEWS

# In joins, the side that is grouped is computed once, and `CROSS JOIN` keeps the order: one pass over all events.

VIEWS["goal_agents"] = """
    -- One row a goal, task or user agent.
    WITH latest AS (
        SELECT data ->> '$.agent' AS agent, data ->> '$.status' AS status, max(id)
        FROM events WHERE topic = 'goals.status' GROUP BY 1
    )
    SELECT made.data ->> '$.agent' AS agent, made.data ->> '$.kind' AS kind, made.data ->> '$.user' AS user,
           made.data ->> '$.parent' AS parent, made.data ->> '$.title' AS title,
           coalesce(latest.status, made.data ->> '$.status') AS status,
           made.data ->> '$.conversation' AS conversation, made.time AS created
    FROM events AS made LEFT JOIN latest ON latest.agent = made.data ->> '$.agent'
    WHERE made.topic = 'goals.created'
"""

VIEWS["user_costs"] = """
    -- One row a user: all model calls of all agents that work for the user, with summaries, whatever ended their runs.
    WITH made AS (
        SELECT data ->> '$.agent' AS agent, data ->> '$.user' AS user
        FROM events WHERE topic = 'goals.created' GROUP BY 1
    ), ran AS (SELECT user, count(*) AS runs FROM goal_runs GROUP BY 1)
    SELECT made.user AS user, coalesce(max(ran.runs), 0) AS runs, count(*) AS calls,
           sum(use = 'summarize') AS summaries, sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) AS tokens,
           sum(cost) AS cost
    FROM llm_calls CROSS JOIN made ON made.agent = llm_calls.agent LEFT JOIN ran ON ran.user = made.user
    GROUP BY made.user
"""

VIEWS["thread_messages"] = """
    -- One row a message of a thread: what a person sees, as it is at the end. Tool activity has the type `tool`.
    WITH made AS (
        SELECT data ->> '$.agent' AS agent, data ->> '$.conversation' AS conversation
        FROM events WHERE topic = 'goals.created' GROUP BY 1
    ), latest AS (
        SELECT data ->> '$.conversation' AS conversation, data ->> '$.id' AS message,
               data ->> '$.content' AS content, data -> '$.metadata' AS metadata, max(id)
        FROM events WHERE topic = 'conversation.revised' GROUP BY 1, 2
    ), runs AS (
        SELECT data ->> '$.agent' AS agent, max(data ->> '$.seen') AS seen
        FROM events WHERE topic = 'goals.run_started' GROUP BY 1
    ), said AS (
        SELECT id, time, time_ns, data ->> '$.conversation' AS conversation, data ->> '$.id' AS message,
               data ->> '$.role' AS role, data ->> '$.content' AS content, data -> '$.metadata' AS metadata
        FROM events
        WHERE topic = 'conversation.message' AND data ->> '$.role' <> 'tool_result'
          AND coalesce(data ->> '$.audience', 'all') <> 'model'
    )
    SELECT said.id AS id, said.time AS time, said.time_ns AS time_ns, made.agent AS agent, said.message AS message,
           CASE said.role WHEN 'user' THEN 'user' WHEN 'error' THEN 'error' ELSE 'agent' END AS source,
           CASE said.role WHEN 'tool_call' THEN 'tool' ELSE 'text' END AS message_type,
           coalesce(latest.content, said.content) AS content, coalesce(latest.metadata, said.metadata) AS metadata,
           said.role <> 'user' OR coalesce(runs.seen, 0) >= said.message AS processed
    FROM said
    CROSS JOIN made ON made.conversation = said.conversation
    LEFT JOIN latest ON latest.conversation = said.conversation AND latest.message = said.message
    LEFT JOIN runs ON runs.agent = made.agent
"""

VIEWS["model_history"] = """
    -- One row an entry of the history of a model: what the model sees. Sessions that ended were archived.
    WITH made AS (
        SELECT data ->> '$.agent' AS agent, data ->> '$.conversation' AS conversation
        FROM events WHERE topic = 'goals.created' GROUP BY 1
    ), said AS (
        SELECT id, time, time_ns, data ->> '$.conversation' AS conversation, data ->> '$.session' AS session,
               data ->> '$.role' AS role, data ->> '$.metadata.tool' AS tool,
               data ->> '$.metadata.tool_use_id' AS tool_use_id, data ->> '$.content' AS content
        FROM events
        WHERE topic = 'conversation.message' AND data ->> '$.role' <> 'error'
          AND coalesce(data ->> '$.audience', 'all') <> 'person'
    )
    SELECT said.id AS id, said.time AS time, said.time_ns AS time_ns, made.agent AS agent, said.session AS session,
           CASE WHEN said.role IN ('user', 'tool_result') THEN 'user' ELSE 'assistant' END AS role,
           CASE said.role WHEN 'tool_call' THEN 'tool_use' WHEN 'tool_result' THEN said.role ELSE 'text' END AS type,
           said.tool AS tool, said.tool_use_id AS tool_use_id, said.content AS content
    FROM said CROSS JOIN made ON made.conversation = said.conversation
"""
