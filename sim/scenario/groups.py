"""The group of an agent. It is derived from names in the scenario, because events do not record it."""

import re
from collections.abc import Mapping

from sim.scenario.schema import Agent, Scenario

_NUMBERED = re.compile(r"(.+?)-\d+")


def _of_rows(name: str, entry: Agent) -> dict[str, tuple[str, str]]:
    """Return entry and group of the agents of a table. Those of a sample without names depend on the seed."""
    population = entry.population
    if population is None:
        return {}
    own = population.others.get("group") if population.names is not None or population.sample is None else None
    groups = own or (None,) * len(population.known_names)
    return {
        agent: (name, group or entry.group_name) for agent, group in zip(population.known_names, groups, strict=True)
    }


class Groups:
    """Finds the scenario entry of an agent by its name: `writer-3` is from `writer`.

    Args:
        scenario: the scenario as run; None: there is none, and agents are grouped by name.
    """

    def __init__(self, scenario: Scenario | None) -> None:
        entries = {} if scenario is None else {entry.name: entry for entry in scenario.agents}
        self._groups: Mapping[str, str] = {name: entry.group or name for name, entry in entries.items()}
        self._longest_first = sorted(entries, key=lambda name: (-len(name), name))
        self._entry_and_group: dict[str, tuple[str, str]] = {}
        for name, entry in entries.items():
            self._entry_and_group |= _of_rows(name, entry)

    def of(self, agent: str) -> str:
        """Return the group of an agent."""
        return self._find(agent)[1]

    def entry(self, agent: str) -> str:
        """Return the `agents` entry of an agent, or its group if there is no entry."""
        return self._find(agent)[0]

    def _find(self, agent: str) -> tuple[str, str]:
        entry_and_group = self._entry_and_group.get(agent)
        if entry_and_group is None:
            entry_and_group = self._entry_and_group[agent] = self._look_up(agent)
        return entry_and_group

    def _look_up(self, agent: str) -> tuple[str, str]:
        for name in self._longest_first:
            if agent == name or agent.startswith(f"{name}-"):
                return name, self._groups[name]
        match = _NUMBERED.fullmatch(agent)
        name = match[1] if match else agent
        return name, name
