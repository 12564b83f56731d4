"""What researchers query of model calls; registered with the store when `sim.llm` is imported."""

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
