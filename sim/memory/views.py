"""The SQL views of memories and sessions."""

from sim.memory.past_sessions import ArchivedSession
from sim.record.views import VIEWS, view_of

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

VIEWS["sessions"] = view_of(
    ArchivedSession,
    "One row a past session of an agent, with its summary.",
    {
        "agent": "$agent",
        "session": "$session",
        "summary": "$summary",
        "reason": "$reason",
        "messages": "$message_count",
        "tokens": "$token_count",
        "started": "($started_ns) / 1e9",
        "completed": "($completed_ns) / 1e9",
    },
)
