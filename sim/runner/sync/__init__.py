"""Synchronised rounds: each agent advances in its own simulated time; a synchronisation policy preserves causality.

Modules: `driver` (runs the rounds), `policies` (decide which agents can begin their next tick), `frontier` (the tick
and state of each agent), `gate` (where actions on shared data wait), `restricted_world` (limits what an agent can use),
`reorder` (releases events in the order of simulated time), `metrics` (measurements in service time).
"""
