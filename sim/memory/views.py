"""The SQL views of memories and sessions."""

from sim.record.views import VIEWS

VIEWS["memories"] = """
    -- One row a memory, with how often and when it was added last; `end` says why it was deleted, if it was.
    WITH ends AS (
        SELECT data ->> '$.agent' AS agent, i.value AS memory, min(time) AS ended,
               CASE topic WHEN 'memory.pruned' THEN data ->> '$.reason'
                          WHEN 'memory.summarised' THEN 'summarised'
                          ELSE 'forgotten' END AS "end"
        FROM events, json_each(events.data, '$.ids') AS i
        WHERE topic IN ('memory.pruned', 'memory.summarised', 'memory.forgotten')
        GROUP BY 1, 2
    ), repeats AS (
        SELECT data ->> '$.agent' AS agent, data ->> '$.id' AS memory, max(data ->> '$.count') AS count,
               max(time) AS latest
        FROM events WHERE topic = 'memory.repeated' GROUP BY 1, 2
    )
    SELECT e.id AS id, e.time AS time, e.time_ns AS time_ns,
           e.data ->> '$.agent' AS agent,
           e.data ->> '$.id' AS memory,
           e.data ->> '$.kind' AS kind,
           e.data ->> '$.content' AS content,
           e.data ->> '$.importance' AS importance,
           e.data ->> '$.source' AS source,
           e.data ->> '$.related_task_id' AS task,
           (e.data ->> '$.expires_ns') / 1e9 AS expires,
           coalesce(repeats.count, 1) AS count,
           coalesce(repeats.latest, e.time) AS latest,
           ends.ended AS ended,
           ends."end" AS "end"
    FROM events AS e
    LEFT JOIN ends ON ends.agent = e.data ->> '$.agent' AND ends.memory = e.data ->> '$.id'
    LEFT JOIN repeats ON repeats.agent = e.data ->> '$.agent' AND repeats.memory = e.data ->> '$.id'
    WHERE e.topic = 'memory.added'
"""

VIEWS["sessions"] = """
    -- One row a past session of an agent, with its summary.
    SELECT id, time, time_ns,
           data ->> '$.agent' AS agent,
           data ->> '$.session' AS session,
           data ->> '$.summary' AS summary,
           data ->> '$.reason' AS reason,
           data ->> '$.message_count' AS messages,
           data ->> '$.token_count' AS tokens,
           (data ->> '$.started_ns') / 1e9 AS started,
           (data ->> '$.completed_ns') / 1e9 AS completed
    FROM events WHERE topic = 'session.archived'
"""
