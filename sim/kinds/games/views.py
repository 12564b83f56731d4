"""The SQL views of games."""

from sim.record.views import VIEWS

_PLAYS = """
    -- One row a move: who made which in which round, against whom, and what it was paid. A twin has a row of its own.
    SELECT e.id, e.time, e.time_ns, e.data ->> '$.game' AS game, e.data ->> '$.generation' AS generation,
           e.data ->> '$.match' AS match, e.data ->> '$.round' AS round, played.key AS meeting, seat.value AS player,
           iif(json_array_length(played.value, '$[0]') = 2, played.value ->> ('$[0][' || (1 - seat.key) || ']'), NULL)
               AS other,
           played.value ->> ('$[1][' || seat.key || ']') AS move,
           iif(json_array_length(played.value, '$[0]') = 2, played.value ->> ('$[1][' || (1 - seat.key) || ']'), NULL)
               AS other_move,
           played.value ->> ('$[2][' || seat.key || ']') AS payoff,
           seat.key = 1 AND played.value ->> '$[0][0]' = played.value ->> '$[0][1]' AS twin
    FROM events AS e, json_each(e.data, '$.played') AS played, json_each(played.value, '$[0]') AS seat
    WHERE e.topic = 'games.round'
"""

VIEWS["plays"] = _PLAYS

VIEWS["standings"] = f"""
    -- One row a player and generation: how many moves were paid, and how much, in all and in the mean; the best first.
    SELECT game, generation, player, count(payoff) AS moves, sum(payoff) AS payoff, avg(payoff) AS mean_payoff
    FROM ({_PLAYS}) WHERE NOT twin GROUP BY game, generation, player ORDER BY game, generation, mean_payoff DESC, player
"""  # noqa: S608 - both parts are constants

VIEWS["generations"] = """
    -- One row a strategy in a generation after the first one: how many players have taken it.
    SELECT e.id, e.time, e.time_ns, e.data ->> '$.game' AS game, (e.data ->> '$.of') + 1 AS generation,
           strategy.key AS strategy, strategy.value AS players
    FROM events AS e, json_each(e.data, '$.next') AS strategy WHERE e.topic = 'games.generation'
"""

VIEWS["missed_moves"] = """
    -- One row each time a player did not move, and why.
    SELECT e.id, e.time, e.time_ns, e.data ->> '$.game' AS game, e.data ->> '$.generation' AS generation,
           e.data ->> '$.match' AS match, e.data ->> '$.round' AS round, missed.key AS player, missed.value AS why
    FROM events AS e, json_each(e.data, '$.missed') AS missed WHERE e.topic = 'games.round'
"""
