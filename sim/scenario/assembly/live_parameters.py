"""Live parameters of a run: those that may change while it is under way, and how they are changed.

A change comes from an intervention of the scenario, from a branch, or from outside (`sim.Control.set`). All of them are
applied here, so that each builds on those before it. Which parameters are live, `sim.scenario.live_changes` says.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from sim.actors import Agent
from sim.agents import PolicyAgent
from sim.base.errors import LimitError, ScenarioError, UsageError
from sim.base.expressions import Expression, did_you_mean
from sim.scenario import schema
from sim.scenario.assembly.agent_factory import EvaluatedFor
from sim.scenario.assembly.build import Simulation
from sim.scenario.assembly.world_builder import set_limits, set_prices, to_rate
from sim.scenario.live_changes import StateChange, merged, read_changes, symbols_of
from sim.scenario.overrides import NO_FILE, Override
from sim.scenario.scopes import INTERVENTION_NAMES
from sim.scenario.values import ValueTemplate

_KEPT = 16  # scenarios that are kept: interventions that alternate need no new one each time

Assignment = tuple[Agent, str, Any]
"""An agent, one of its state variables, and its new value."""


@attrs.frozen
class PreparedChange:
    """A change that can be applied: everything about it is known and valid.

    Attributes:
        scenario: the scenario from then on.
        others: the changes of other values than state since the start of the run.
        assignments: the new values of state variables of existing agents.
        keys: the names and keys of these variables.
        whole: whether other values than state change.
    """

    scenario: schema.Scenario
    others: tuple[Override, ...]
    assignments: tuple[Assignment, ...]
    keys: tuple[str, ...]
    whole: bool


class LiveParameters:
    """The live parameters of one run.

    Args:
        simulation: the world and its agents.

    Attributes:
        scenario: the scenario with all changes so far.
        on_change: called after each change of other values than state, with the scenario and the time (nanoseconds) up
            to which events count as past.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.scenario = simulation.scenario
        self.on_change: list[Callable[[schema.Scenario, int], object]] = []
        self._simulation = simulation
        self._world = simulation.world
        self._others: tuple[Override, ...] = ()
        self._times: Counter[str] = Counter()  # by key of a change: how often it was made at this time, for its draws
        self._time = -1  # the time from which the last change holds
        self._scenarios: dict[tuple[tuple[tuple[str, ...], str], ...], schema.Scenario] = {}

    def check(self, overrides: Iterable[Override], when: str = "during a run", *, now: bool = True) -> None:
        """Check changes before they are asked for; from any thread.

        Args:
            overrides: the changes.
            when: when they are made, for errors.
            now: whether they are made soon, so that the agents must exist.

        Raises:
            UsageError: if a parameter is not live, a value is not valid, or there is no such agent or variable.
        """
        changes = read_changes(self._simulation.scenario, overrides, when)
        for change in changes.states if now else ():
            self._targets(change, dict(self._world.agents))
        if changes.others:
            self._load(merged(self._others, changes.others))

    def change(
        self, overrides: Iterable[Override], among: Collection[str] | None = None, *, first: bool = False
    ) -> int:
        """Change parameters now: all of them, or none. Return the number of agents whose state has changed.

        Args:
            overrides: the changes.
            among: the only agents whose state may change; None: all.
            first: whether nothing else has happened at this time yet.

        Raises:
            UsageError: if it is not possible, as `check`; or a value cannot be evaluated.
        """
        return self.apply(self.prepare(overrides, among, first=first), first=first)

    def prepare(
        self, overrides: Iterable[Override], among: Collection[str] | None = None, *, first: bool = False
    ) -> PreparedChange:
        """Return a change that can be applied now; see `change`. Nothing changes yet."""
        changes = read_changes(self._simulation.scenario, overrides)
        self._begin(self._world.kernel.now + (not first))
        assignments = [one for change in changes.states for one in self._assignments(change, among)]
        keys = tuple(f"{change.name}.{change.key}" for change in changes.states)
        others, scenario = self._others, self.scenario
        if changes.others:
            others = merged(others, changes.others)
            scenario = _with_states(self._changed(others), self.scenario)
        if among is None:
            scenario = _beginning_with(scenario, changes.states)
        return PreparedChange(scenario, others, tuple(assignments), keys, bool(changes.others))

    def apply(self, change: PreparedChange, *, first: bool = False) -> int:
        """Apply a change that was prepared in this step; see `change`."""
        simulation, before = self._simulation, self.scenario
        self.scenario, self._others = change.scenario, change.others
        self._times.update(change.keys)
        for agent, key, value in change.assignments:
            agent.state[key] = value
        if change.whole:
            _change(simulation, before, change.scenario)
            for listener in self.on_change:
                listener(change.scenario, self._world.kernel.now - first)
        else:
            simulation.factory.begin_with(change.scenario)
        self._show_messages(change)
        return len({agent.agent_id for agent, _, _ in change.assignments})

    def _show_messages(self, change: PreparedChange) -> None:
        """Let agents that sleep until a message look again at those that wait, because they may read them now."""
        loops = self._simulation.manager.loops.values() if change.whole else ()
        changed = {agent.agent_id: agent for agent, _, _ in change.assignments}
        for agent in (changed | {loop.agent_id: loop.agent for loop in loops}).values():
            if isinstance(agent, PolicyAgent):
                agent.look_again()

    # -- agents

    def select(self, names: Collection[str], where: Expression | None = None, *label: object) -> list[Agent]:
        """Return existing agents, in the order in which they were created.

        Args:
            names: names of agents, entries and groups; empty: all agents.
            where: only agents for which this is true. An agent that lacks one of its variables is left out.
            label: what the random draws of `where` depend on, in addition to the agent.

        Raises:
            UsageError: if `where` cannot be evaluated.
        """
        agents: list[Agent] = [loop.agent for loop in self._simulation.manager.loops.values()]
        if names:
            symbols = symbols_of(self._simulation.scenario)
            single = {name for name in names if symbols.is_single(name)}
            entries = {entry for name in names if name not in single for entry in symbols.entries_of(name)}
            agents = [agent for agent in agents if agent.agent_id in single or agent.entry in entries]
        if where is None:
            return agents
        value, needed = ValueTemplate(where.text, False, where, (where,)), where.names - INTERVENTION_NAMES
        return [
            agent for agent in agents if needed <= agent.state.keys() and self._evaluate(agent, value, "where", *label)
        ]

    def _assignments(self, change: StateChange, among: Collection[str] | None) -> Iterator[Assignment]:
        """Yield the new values of existing agents.

        Raises:
            UsageError: if there is no such agent or variable, or a value cannot be evaluated.
        """
        for agent in self._targets(change, self._world.agents):
            if among is not None and agent.agent_id not in among:
                continue
            try:
                key = f"{change.name}.{change.key}"
                value = self._evaluate(agent, change.value, key, self._time, self._times[key])
            except UsageError as error:
                raise change.override.error(str(error), error.hint) from error
            yield agent, change.key, value

    def _begin(self, time: int) -> None:
        """Begin a change that holds from a time (nanoseconds) on; a branch makes it 1 ns before that."""
        if time != self._time:
            self._time = time
            self._times.clear()

    def _targets(self, change: StateChange, agents: Mapping[str, Any]) -> list[Agent]:
        """Return the existing agents that have a variable.

        Raises:
            UsageError: if there is no such agent, or none has it although no entry declares it.
        """
        mine = [agent for agent in agents.values() if isinstance(agent, Agent) and _concerns(change, agent)]
        if change.single and not mine:
            raise change.override.error(f"there is no agent {change.name!r} now", did_you_mean(change.name, agents))
        declared = {entry.name for entry in self.scenario.agents if change.key in entry.state}
        holders = [agent for agent in mine if change.key in agent.state or agent.entry in declared]
        if not holders and declared.isdisjoint(change.entries):
            keys = dict.fromkeys(key for agent in mine for key in agent.state)
            message = f"{change.name} has no state variable {change.key[:60]!r}"
            raise change.override.error(message, did_you_mean(change.key, keys))
        return holders

    def _evaluate(self, agent: Agent, value: ValueTemplate, *purpose: object) -> Any:
        """Return a value for an agent. Its draws depend on the agent and the purpose only."""
        world = self._world
        if value.constant:
            return value.evaluate({}, {})
        draws = world.draws(agent.agent_id, "intervention", *purpose)
        subject = EvaluatedFor(agent.agent_id, draws)
        functions = self._simulation.factory.toolbox.used_by(subject)
        try:
            return value.evaluate(self._names(agent), functions)
        except (UsageError, LimitError) as error:
            raise UsageError(f"{agent.agent_id}: {error}", hint=error.hint) from error

    def _names(self, agent: Agent) -> Mapping[str, Any]:
        world, name = self._world, agent.agent_id
        return {
            **agent.state,
            "now": world.now,
            "me": name,
            "index": _index(agent),
            "group": agent.group,
            "pi": math.pi,
            "place": None if world.places is None else world.places.where(name),
            "balance": world.balance(name),
        }

    # -- the scenario

    def _changed(self, others: Sequence[Override]) -> schema.Scenario:
        """Return the scenario of the run with changes of other values than state.

        Raises:
            UsageError: if it is not valid.
        """
        key = tuple((override.path, repr(override.value)) for override in others)
        scenario = self._scenarios.get(key)
        if scenario is None:
            scenario = self._load(others)
            if len(self._scenarios) >= _KEPT:
                self._scenarios.pop(next(iter(self._scenarios)))
            self._scenarios[key] = scenario
        return scenario

    def _load(self, others: Sequence[Override]) -> schema.Scenario:
        source, timed = self._simulation.scenario.source, any(one.path[0] == "interventions" for one in others)
        try:
            changed: schema.Scenario = source.load(others, check_later=timed)
        except ScenarioError as error:
            in_changes = [problem for problem in error.problems if problem.file == NO_FILE]
            if len(in_changes) != len(error.problems):
                raise
            raise UsageError("; ".join(one.message for one in in_changes), hint=in_changes[0].hint) from None
        if self._simulation.models is not None:
            from sim.scenario.assembly.models import check_latency  # the import is slow

            check_latency(changed, outside=self._simulation.models.outside)
        return changed


def _with_states(scenario: schema.Scenario, before: schema.Scenario) -> schema.Scenario:
    """Return a scenario with the state variables of an earlier one."""
    states = {entry.name: entry.state for entry in before.agents}
    agents = tuple(entry.model_copy(update={"state": states[entry.name]}) for entry in scenario.agents)
    return scenario.model_copy(update={"agents": agents})


def _beginning_with(scenario: schema.Scenario, changes: Iterable[StateChange]) -> schema.Scenario:
    """Return a scenario in which agents that are created later begin with the changed values."""
    new: dict[str, dict[str, ValueTemplate]] = {}
    for change in changes:
        if change.later:
            for entry in change.entries:
                new.setdefault(entry, {})[change.key] = change.value
    if not new:
        return scenario
    agents = [
        entry.model_copy(update={"state": {key: new[entry.name].get(key, value) for key, value in entry.state.items()}})
        if entry.name in new
        else entry
        for entry in scenario.agents
    ]
    return scenario.model_copy(update={"agents": tuple(agents)})


def _change(simulation: Simulation, before: schema.Scenario, scenario: schema.Scenario) -> None:
    """Set limits, costs, rules and loops of a running world to those of `scenario`."""
    world = simulation.world
    if simulation.models is not None and scenario.models is not None:
        from sim.scenario.assembly.models import latency_of  # the import is slow

        simulation.models.latency = latency_of(scenario.models)
    set_limits(world, scenario)
    set_prices(world, scenario)
    simulation.factory.change(scenario)
    for old, entry in zip(before.agents, scenario.agents, strict=True):
        rates = {**dict.fromkeys(old.limits), **entry.limits}  # one that is gone is None
        for agent_id in _made_from(simulation, entry):
            for resource, rate in rates.items():
                world.rate_tracker.set_agent_limit(agent_id, resource, to_rate(rate, scenario))


def _made_from(simulation: Simulation, entry: schema.Agent) -> list[str]:
    return [id for id, agent in simulation.world.agents.items() if getattr(agent, "entry", None) == entry.name]


def _concerns(change: StateChange, agent: Agent) -> bool:
    return agent.agent_id == change.name if change.single else agent.entry in change.entries


def _index(agent: Agent) -> int:
    """Return the index of an agent within its entry, which its name ends with, counted from 1."""
    number = agent.agent_id.rpartition("-")[2]
    return int(number) - 1 if agent.agent_id != agent.entry and number.isdecimal() else 0
