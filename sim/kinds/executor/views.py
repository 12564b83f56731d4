"""The SQL views of executions: their history with all steps, single steps, and the files of the workspace."""

from sim.record.views import VIEWS

# The sides that are grouped are computed once each, so a query is a few passes over all events. The snapshot is the
# whole final state: its lists are put together from the steps, because all of them can be too much for one event.

VIEWS["agent_execution_history"] = """
    -- One row a task of executors; those that have not ended have no `final_status`.
    WITH done AS (
        SELECT id, data ->> '$.execution' AS execution, data ->> '$.step_number' AS number, data
        FROM events WHERE topic = 'execution.step'
    ), steps AS (
        SELECT execution, json_group_array(json_remove(
            data, '$.execution', '$.task', '$.name', '$.agent', '$.project')) AS history
        FROM (SELECT * FROM done ORDER BY id) GROUP BY 1
    ), called AS (
        SELECT execution, json_group_array(json(call)) AS calls, json_group_array(call ->> '$.tokens') AS tokens
        FROM (SELECT done.execution, each.value AS call FROM done, json_each(done.data, '$.llm_calls') AS each
              ORDER BY done.id, each.key) GROUP BY 1
    ), tried AS (
        SELECT execution, json_group_array(json_object('step', number, 'tool_name', tool, 'status', status)) AS tools
        FROM (SELECT done.execution, done.number, each.value ->> '$.action.tool_name' AS tool,
                     CASE WHEN each.value ->> '$.result.status' IN ('passed_on', 'decided') THEN 'denied'
                          ELSE each.value ->> '$.result.status' END AS status
              FROM done, json_each(done.data, '$.attempts') AS each ORDER BY done.id, each.key)
        WHERE tool <> 'none' GROUP BY 1
    ), planned AS (
        SELECT execution, json_group_array(reason) AS reasons FROM (
            SELECT done.execution, done.id, each.key + 1 AS attempt, 1 AS kept, each.key AS place,
                   each.value ->> '$.reasoning' AS reason
            FROM done, json_each(done.data, '$.attempts') AS each WHERE each.value ->> '$.action.tool_name' <> 'none'
            UNION ALL
            SELECT done.execution, done.id, each.value ->> '$.attempt', 0, each.key, each.value ->> '$.reasoning'
            FROM done, json_each(done.data, '$.refused_plans') AS each ORDER BY 2, 3, 4, 5
        ) GROUP BY 1
    ), ended AS (
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
           ended.data ->> '$.tests_judged' AS tests_judged,
           json_set(ended.data -> '$.snapshot',
                    '$.steps_history', json(steps.history), '$.llm_calls', json(called.calls),
                    '$.token_usage', json(called.tokens), '$.tool_executions', json(tried.tools),
                    '$.decision_reasoning', json(planned.reasons)) AS state_snapshot
    FROM events AS added
    LEFT JOIN began ON began.execution = added.data ->> '$.execution'
    LEFT JOIN used ON used.execution = added.data ->> '$.execution'
    LEFT JOIN ended ON ended.execution = added.data ->> '$.execution'
    LEFT JOIN steps ON steps.execution = ended.execution
    LEFT JOIN called ON called.execution = ended.execution
    LEFT JOIN tried ON tried.execution = ended.execution
    LEFT JOIN planned ON planned.execution = ended.execution
    WHERE added.topic = 'execution.added'
"""

VIEWS["agent_execution_steps"] = """
    -- One row a step of an execution.
    SELECT id AS event, data ->> '$.execution' || '/' || (data ->> '$.step_number') AS id,
           data ->> '$.execution' AS execution_id, data ->> '$.agent' AS agent_id, data ->> '$.name' AS task_id,
           data ->> '$.step_number' AS step_number, data ->> '$.timestamp' AS timestamp,
           data ->> '$.reasoning' AS reasoning, data -> '$.planned_action' AS "action",
           data -> '$.execution_result' AS result, data -> '$.validation' AS validation,
           data -> '$.attempts' AS attempts, data -> '$.refused_plans' AS refused_plans,
           data ->> '$.attempt_number' AS attempt_number, data -> '$.llm_calls' AS llm_calls,
           data ->> '$.new_result' AS new_result,
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
