"""Values of state variables over time: recorded with the samples, if they have changed.

A record has no variables of agents but at the end, as an event for each assignment would double it. A scenario that
names some in `recording.state` has their values at each sample; what changed and changed back in between is not seen.
"""

from collections.abc import Sequence

from sim.kernel.codec import Raw, freeze, recordable
from sim.runner.events import StateSampled
from sim.world import World


class StateSamples:
    """Records named variables of all agents that have them.

    Args:
        world: the world.
        names: the names of the variables.
    """

    def __init__(self, world: World, names: Sequence[str]) -> None:
        self._world = world
        self._names = tuple(names)
        self._last: dict[str, dict[str, Raw]] = {name: {} for name in self._names}

    def record(self) -> None:
        """Record what has changed since the last call, as one event; nothing, if nothing has."""
        changed: dict[str, dict[str, Raw]] = {}
        for name, last in self._last.items():
            new = {}
            for agent_id, agent in self._world.agents.items():
                state = agent.state
                if name not in state:
                    continue
                value = freeze(recordable(state[name], name))
                if last.get(agent_id) != value:
                    new[agent_id] = last[agent_id] = value
            if new:
                changed[name] = new
        if changed:
            self._world.kernel.emit(StateSampled.TOPIC, changed, "scenario")
