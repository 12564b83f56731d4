"""The town: a workload with the statistics that were published of Generative Agents' town.

`generate` makes a `Trace` from a seed: where everybody is and what each calls, step by step. `villagers` makes the
class of agents that play it. `critical_path` is a bound for how fast it can be played.
"""

from sim.agents.town.bounds import critical_path
from sim.agents.town.generate import MAX_AGENTS, generate
from sim.agents.town.trace import DAY_STEPS, Path, Trace, TraceCall
from sim.agents.town.villager import Villager, villagers

__all__ = [
    "DAY_STEPS",
    "MAX_AGENTS",
    "Path",
    "Trace",
    "TraceCall",
    "Villager",
    "critical_path",
    "generate",
    "villagers",
]
