"""The SQL views of the work of employees. The import of `sim.agents.sop` registers them with the store."""

from sim.store.views import VIEWS

VIEWS["cycles"] = """
    -- One row a cycle of an employee.
    SELECT id, time, time_ns, data ->> '$.agent' AS agent, data ->> '$.new' AS new_triggers,
           data ->> '$.created' AS created, data ->> '$.advanced' AS advanced, data ->> '$.active' AS active,
           data ->> '$.memories' AS memories
    FROM events WHERE topic = 'sop.cycle'
"""

VIEWS["steps"] = """
    -- One row each time a step was queued, done or failed.
    SELECT id, time, time_ns, actor AS worker, data ->> '$.task' AS task, data ->> '$.step' AS step,
           data ->> '$.name' AS name, substr(topic, 10) AS what, data ->> '$.error' AS error
    FROM events WHERE topic GLOB 'sop.step.*'
"""
