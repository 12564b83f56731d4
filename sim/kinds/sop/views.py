"""The SQL views of the work of employees."""

from sim.record.views import VIEWS

VIEWS["steps"] = """
    -- One row each time a step was queued, done, skipped or failed.
    SELECT id, time, time_ns, actor AS worker, data ->> '$.task' AS task, data ->> '$.step' AS step,
           data ->> '$.name' AS name, substr(topic, 10) AS what, data ->> '$.error' AS error
    FROM events WHERE topic GLOB 'sop.step.*'
"""

VIEWS["watchers"] = """
    -- One row a watcher, as it is at the end. `fault` is why its latest look failed.
    SELECT data ->> '$.watcher' AS watcher, max(data ->> '$.agent') AS agent,
           max(CASE topic WHEN 'sop.watcher' THEN data ->> '$.active' END) AS active,
           max(CASE topic WHEN 'sop.watcher' THEN data ->> '$.alone' END) AS alone,
           max(CASE topic WHEN 'sop.watcher' THEN data ->> '$.interval' END) AS interval,
           max(CASE topic WHEN 'sop.look' THEN time END) AS last_checked_at, sum(topic = 'sop.look') AS looks,
           sum(coalesce(data ->> '$.found', 0)) AS found, sum(coalesce(data ->> '$.dead_letters', 0)) AS dead_letters,
           sum(coalesce(data ->> '$.lost', 0)) AS lost, sum(data ->> '$.fault' IS NOT NULL) AS faults,
           nullif(substr(max(printf('%015d', id) || coalesce(data ->> '$.fault', '')), 16), '') AS fault
    FROM events WHERE topic IN ('sop.watcher', 'sop.look') GROUP BY data ->> '$.watcher' ORDER BY 1
"""

VIEWS["employees"] = """
    -- One row an employee: its role, its cycles, and what it did in them.
    SELECT data ->> '$.agent' AS agent, max(data ->> '$.title') AS title, max(data ->> '$.channel') AS channel,
           max(data ->> '$.interval') AS interval, sum(topic = 'sop.cycle') AS cycles,
           max(CASE topic WHEN 'sop.cycle' THEN time END) AS last_cycle_at,
           sum(coalesce(data ->> '$.new', 0)) AS new_triggers, sum(coalesce(data ->> '$.created', 0)) AS created,
           sum(coalesce(data ->> '$.advanced', 0)) AS advanced, sum(topic = 'sop.assess.failed') AS failed_assessments,
           sum(topic = 'sop.dead_letter') AS dead_letters
    FROM events WHERE topic IN ('sop.employee', 'sop.cycle', 'sop.assess.failed', 'sop.dead_letter')
    GROUP BY data ->> '$.agent' ORDER BY 1
"""
