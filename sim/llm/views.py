"""The SQL views of model calls. The import of `sim.llm` registers them with the store."""

from sim.store.views import VIEWS

VIEWS["llm_calls"] = """
    SELECT id, time, time_ns, actor AS agent,
           data ->> '$.group' AS "group",
           data ->> '$.use' AS use,
           data ->> '$.tier' AS tier,
           data ->> '$.provider' AS provider,
           data ->> '$.model' AS model,
           data ->> '$.input_tokens' AS input_tokens,
           data ->> '$.output_tokens' AS output_tokens,
           data ->> '$.cached_tokens' AS cached_tokens,
           data ->> '$.estimated' AS estimated,
           data ->> '$.cost_micro' / 1e6 AS cost,
           data ->> '$.stop' AS stop,
           data ->> '$.error' AS error,
           data ->> '$.seconds' AS seconds,
           data ->> '$.attempts' AS attempts,
           data -> '$.fallbacks' AS fallbacks
    FROM events WHERE topic = 'model.call'
"""

_MESSAGES = """
    SELECT json_group_array(json(message)) FROM (
        SELECT coalesce(c.data, m.value) AS message
        FROM json_each(f.request, '$.messages') AS m
        LEFT JOIN json_each(f.parts) AS p
            ON p.key >= m.value ->> '$."$"[0]' AND p.key < (m.value ->> '$."$"[0]') + (m.value ->> '$."$"[1]')
        LEFT JOIN contents AS c ON c.id = p.value
        ORDER BY m.key, p.key
    )
"""
"""The messages of a request. Long messages are stored once for all requests (see `sim.store.contents`)."""

VIEWS["llm_prompts"] = f"""
    SELECT id, time_ns / 1e9 AS time, time_ns, actor AS agent,
           tries ->> '$[#-1].provider' AS provider,
           tries ->> '$[#-1].model' AS model,
           ({_MESSAGES}) AS prompt,
           result ->> '$.answer.completion.text' AS answer,
           result -> '$.answer.completion.tool_calls' AS tool_calls,
           coalesce(result ->> '$.error.kind', nullif(outcome, 'ok')) AS error,
           (SELECT sum(t.value ->> '$.usage.input_tokens') FROM json_each(tries) AS t) AS input_tokens,
           (SELECT sum(t.value ->> '$.usage.output_tokens') FROM json_each(tries) AS t) AS output_tokens,
           coalesce(result ->> '$.batch.paid_micro', result ->> '$.answer.cost_micro') / 1e6 AS cost,
           json_array_length(tries) AS attempts,
           result ->> '$.batch.id' AS batch
    FROM (
        SELECT *, coalesce(result -> '$.answer.attempts', result -> '$.error.attempts') AS tries
        FROM effects WHERE kind = 'llm'
    ) AS f
"""  # noqa: S608 - both parts are constants
