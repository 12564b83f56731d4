"""The town: a workload with the published statistics of the town of Generative Agents.

`generate` creates a `TownTrace` from a seed: the position and the model calls of each agent in each step. `villagers`
creates the class of agents that replay it. `critical_path` is a lower bound of the makespan.

Modules: `routine` (the day of each resident), `generation` (adds the model calls), `trace`, `villager`, `family`,
`bounds`. A step of the town is one tick of 10 s.
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.kinds.town.bounds import critical_path
    from sim.kinds.town.family import VILLAGER
    from sim.kinds.town.generation import MAX_AGENTS, generate
    from sim.kinds.town.trace import DAY_STEPS, Path, TownTrace, TraceCall
    from sim.kinds.town.villager import Villager, villagers

__all__ = [
    "DAY_STEPS",
    "MAX_AGENTS",
    "VILLAGER",
    "Path",
    "TownTrace",
    "TraceCall",
    "Villager",
    "critical_path",
    "generate",
    "villagers",
]

_HOMES = {
    "bounds": "critical_path",
    "family": "VILLAGER",
    "generation": "MAX_AGENTS generate",
    "trace": "DAY_STEPS Path TownTrace TraceCall",
    "villager": "Villager villagers",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
