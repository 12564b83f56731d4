"""The SQL views of model calls, and of those that waited for a person."""

from sim.llm.events import ModelCalled
from sim.record.views import VIEWS, view_of, whole_text

VIEWS["llm_calls"] = view_of(
    ModelCalled,
    "One row a model call: tokens, cost, time taken, attempts, fallbacks.",
    {
        "agent": "actor", "group": "$group", "use": "$use", "tier": "$tier", "provider": "$provider",
        "model": "$model", "input_tokens": "$input_tokens", "output_tokens": "$output_tokens",
        "cached_tokens": "$cached_tokens", "reasoning_tokens": "coalesce($reasoning_tokens, 0)",
        "estimated": "$estimated", "cost": "$cost_micro / 1e6", "stop": "$stop", "error": "$error",
        "seconds": "$seconds", "attempts": "$attempts", "fallbacks": "$fallbacks",
    },
)  # fmt: skip


def _items(path: str) -> str:
    """Return the SQL of a list of objects in a request; long ones are stored apart (see `sim.record.contents`)."""
    return f"""
    SELECT json_group_array(json(item)) FROM (
        SELECT coalesce(c.data, m.value) AS item
        FROM json_each(f.request, '{path}') AS m
        LEFT JOIN json_each(f.parts) AS p
            ON p.key >= m.value ->> '$."$"[0]' AND p.key < (m.value ->> '$."$"[0]') + (m.value ->> '$."$"[1]')
        LEFT JOIN contents AS c ON c.id = p.value
        ORDER BY m.key, p.key
    )
"""  # noqa: S608 - constants


def _text(path: str) -> str:
    """Return the SQL of a text in a request, which is stored apart as well if it is long."""
    return f"""
    iif(json_type(f.request, '{path}') = 'object', (
        SELECT {whole_text("c.data", "$")} FROM contents AS c
        WHERE c.id = f.parts ->> ('$[' || (f.request ->> '{path}."$"[0]') || ']')
    ), {whole_text("f.request", path)})
"""  # noqa: S608 - constants


VIEWS["prompts"] = f"""
    -- One row a model call, with the whole request and the whole answer; --repeat adds those of models in the core.
    WITH asked AS (
        SELECT *, coalesce(result -> '$.answer.attempts', result -> '$.error.attempts') AS tries,
               iif(request ->> '$.respondent' IS NULL, '', 'survey:') || coalesce(request ->> '$.agent', actor)
               AS caller
        FROM effects WHERE kind = 'llm'
    ), ended AS MATERIALIZED (
        SELECT *, data ->> '$.effect' AS ordinal, coalesce(data ->> '$.effect_of', actor) AS caller
        FROM events WHERE topic = 'model.call'
    )
    SELECT e.id AS id,
           coalesce(e.time, f.time_ns / 1e9) AS time,
           coalesce(e.time_ns, f.time_ns) AS time_ns,
           coalesce(e.actor, f.caller) AS agent,
           coalesce(e.data ->> '$.provider', f.tries ->> '$[#-1].provider') AS provider,
           coalesce(e.data ->> '$.model', f.tries ->> '$[#-1].model') AS model,
           coalesce(e.data ->> '$.use', f.request ->> '$.use', 'agent') AS use,
           coalesce(e.data ->> '$.error', iif(e.id IS NULL, coalesce(f.ending, 'in flight'), 'ok')) AS status,
           iif(f.id IS NULL, NULL, ({_items("$.messages")})) AS request,
           {whole_text("f.result", "$.answer.completion.text")} AS answer,
           coalesce({whole_text("f.result", "$.answer.completion.reasoning")},
                    {whole_text("f.result", "$.error.reasoning")}) AS reasoning,
           f.result -> '$.answer.completion.tool_calls' AS tool_calls,
           coalesce(e.data ->> '$.stop', f.result ->> '$.answer.completion.stop') AS stop,
           e.data ->> '$.input_tokens' AS input_tokens,
           e.data ->> '$.output_tokens' AS output_tokens,
           coalesce(f.result ->> '$.batch.paid_micro', e.data ->> '$.cost_micro') / 1e6 AS cost,
           coalesce(e.data ->> '$.attempts', json_array_length(f.tries)) AS attempts,
           f.result ->> '$.batch.id' AS batch,
           f.id AS effect,
           e.source AS source,
           e.counter AS counter
    FROM ended AS e
    FULL JOIN asked AS f ON f.ordinal = e.ordinal AND f.actor = e.caller
    ORDER BY 3, e.id
"""  # noqa: S608 - both parts are constants

VIEWS["questions"] = f"""
    -- One row a call that waited for a person, who answers as an agent: the end of the request, and until when.
    SELECT id, time_ns / 1e9 AS time, time_ns,
           request ->> '$.question' AS question,
           request ->> '$.agent' AS agent,
           iif(outcome IS NULL AND ending IS NULL, 'open', 'over') AS status,
           (time_ns + (request ->> '$.within_ns')) / 1e9 AS until,
           {_text("$.text")} AS text,
           ({_items("$.tools")}) AS tools,
           request ->> '$.choice' AS choice,
           {_text("$.format")} AS format
    FROM effects AS f WHERE kind = 'answer' ORDER BY id
"""  # noqa: S608 - constants
