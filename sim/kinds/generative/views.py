"""The SQL views of generative agents."""

from sim.kinds.generative.events import ActivityBegun, Talked
from sim.record.views import VIEWS, view_of

VIEWS["knowledge"] = """
    -- One row an answer to the question of a planted fact: who says what, and by which memory.
    WITH facts AS (
        SELECT data ->> '$.fact' AS fact, data ->> '$.ask' AS ask, data
        FROM events WHERE topic = 'generative.planted'
    ), evidence AS (
        SELECT facts.fact AS fact, m.id AS event, m.time AS time, m.data ->> '$.agent' AS agent,
               m.data ->> '$.id' AS memory
        FROM facts JOIN events AS m ON m.topic = 'memory.added' AND NOT EXISTS (
            SELECT 1 FROM json_each(facts.data, '$.words') AS word
            WHERE instr(lower(m.data ->> '$.content'), lower(word.value)) = 0)
    )
    SELECT s.id, s.time, s.time_ns, s.data ->> '$.survey' AS survey, facts.fact AS fact, s.data ->> '$.agent' AS agent,
           s.data ->> '$.value' AS says, min(evidence.memory) AS memory, min(evidence.time) AS since
    FROM events AS s JOIN facts ON facts.ask = s.data ->> '$.question'
    LEFT JOIN evidence ON evidence.fact = facts.fact AND evidence.agent = s.data ->> '$.agent' AND evidence.event < s.id
    WHERE s.topic = 'survey.answer' GROUP BY s.id, facts.fact
"""

_KNOWS = "Do you know of "
_FIRST = len(_KNOWS) + 1

VIEWS["acquaintances"] = f"""
    -- One row a pair of agents that were asked `Do you know of NAME?` about each other: what both say.
    -- A round of a survey begins with its intervention; models that take their time answer later than others.
    WITH rounds AS (
        SELECT id, data ->> '$.name' AS name FROM events
        WHERE topic = 'intervention.applied' AND data ->> '$.does' = 'survey'
    ), said AS (
        SELECT id, time, time_ns, data ->> '$.survey' AS survey, data ->> '$.agent' AS agent,
               data ->> '$.value' AS says,
               substr(data ->> '$.question', {_FIRST}, length(data ->> '$.question') - {_FIRST}) AS other,
               (SELECT max(rounds.id) FROM rounds WHERE rounds.id < events.id AND name = data ->> '$.survey') AS round
        FROM events WHERE topic = 'survey.answer' AND data ->> '$.question' LIKE '{_KNOWS}%?'
    )
    SELECT one.id, one.time, one.time_ns, one.survey AS survey, one.agent AS agent, one.other AS other,
           one.says AS says, two.says AS other_says, coalesce(one.says = 'yes' AND two.says = 'yes', 0) AS mutual
    FROM said AS one JOIN said AS two
    ON two.round IS one.round AND two.survey = one.survey AND two.agent = one.other AND two.other = one.agent
       AND one.agent < two.agent
"""  # noqa: S608 - all parts are constants

VIEWS["reflections"] = """
    -- One row a conclusion of an agent: the memory, and the numbers of those that it follows from.
    SELECT e.id, e.time, e.time_ns, e.data ->> '$.agent' AS agent, CAST(one.key AS INTEGER) AS memory,
           m.data ->> '$.content' AS content, one.value AS evidence
    FROM events AS e, json_each(e.data, '$.evidence') AS one
    LEFT JOIN events AS m ON m.topic = 'memory.added' AND m.data ->> '$.agent' = e.data ->> '$.agent'
         AND m.data ->> '$.id' = CAST(one.key AS INTEGER)
    WHERE e.topic = 'generative.reflected'
"""

VIEWS["activities"] = view_of(ActivityBegun, "One row a time when an agent began to do something else.")

VIEWS["talks"] = view_of(Talked, "One row a talk of two agents.")
