"""The SQL views of executions: the two tables of seed 003, and the files of the workspace."""

from sim.store.views import VIEWS

# The sides that are grouped are computed once each, so a query is a few passes over all events.

VIEWS["agent_execution_history"] = """
    -- One row a task of executors; those that have not ended have no `final_status`.
    WITH ended AS (
        SELECT data ->> '$.execution' AS execution, time, data FROM events WHERE topic = 'execution.ended'
        GROUP BY 1
    ), used AS (
        SELECT data ->> '$.execution' AS execution, max(data ->> '$.step_number') AS steps, data ->> '$.agent' AS agent,
               sum(data ->> '$.tokens_used') AS tokens, sum(data ->> '$.cost_usd') AS cost
        FROM events WHERE topic = 'execution.step' GROUP BY 1
    ), began AS (
        SELECT data ->> '$.execution' AS execution, max(data ->> '$.agent') AS agent, min(time) AS time
        FROM events WHERE topic = 'execution.started' GROUP BY 1
    )
    SELECT added.data ->> '$.execution' AS id,
           coalesce(nullif(ended.data ->> '$.agent', ''), used.agent, began.agent) AS agent_id,
           added.data ->> '$.name' AS task_id, added.data ->> '$.task' AS task,
           added.data ->> '$.project' AS project_id,
           began.time AS started_at, ended.time AS completed_at,
           coalesce(ended.data ->> '$.steps', used.steps, 0) AS total_steps,
           ended.data ->> '$.status' AS final_status, ended.data ->> '$.ending' AS "ending",
           ended.data ->> '$.reason' AS reason, ended.data ->> '$.escalation_reason' AS escalation_reason,
           coalesce(ended.data ->> '$.cost', used.cost, 0) AS total_cost_usd,
           coalesce(ended.data ->> '$.tokens', used.tokens, 0) AS total_tokens,
           ended.data -> '$.snapshot' AS state_snapshot
    FROM events AS added
    LEFT JOIN began ON began.execution = added.data ->> '$.execution'
    LEFT JOIN used ON used.execution = added.data ->> '$.execution'
    LEFT JOIN ended ON ended.execution = added.data ->> '$.execution'
    WHERE added.topic = 'execution.added'
"""

VIEWS["agent_execution_steps"] = """
    -- One row a step of an execution.
    SELECT id AS event, data ->> '$.execution' || '/' || (data ->> '$.step_number') AS id,
           data ->> '$.execution' AS execution_id, data ->> '$.agent' AS agent_id, data ->> '$.name' AS task_id,
           data ->> '$.step_number' AS step_number, data ->> '$.timestamp' AS timestamp,
           data ->> '$.reasoning' AS reasoning, data -> '$.planned_action' AS "action",
           data -> '$.execution_result' AS result, data -> '$.validation' AS validation,
           data -> '$.attempts' AS attempts, data ->> '$.attempt_number' AS attempt_number,
           data ->> '$.acceptance_progress' AS acceptance_progress, data ->> '$.success' AS success,
           data ->> '$.error_if_failed' AS error_if_failed, data ->> '$.tokens_used' AS tokens_used,
           data ->> '$.cost_usd' AS cost_usd, data ->> '$.duration_ms' AS duration_ms
    FROM events WHERE topic = 'execution.step'
"""

VIEWS["workspace_files"] = """
    -- One row a file of a workspace, as it is at the end; the text of a deleted one is null.
    SELECT max(id) AS id, data ->> '$.project' AS project, data ->> '$.file' AS file,
           data ->> '$.version' AS version, data ->> '$.by' AS changed_by, data ->> '$.task' AS task, time AS changed,
           data ->> '$.text' AS text
    FROM events WHERE topic = 'execution.file' GROUP BY 2, 3
"""
