"""The factory of the agents of a scenario, at the start and during the run: names, start values, params and loops."""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from sim.actors import Agent, AgentLoop, AgentLoopConfig, AgentLoopManager
from sim.actors.events import AgentsSpawned
from sim.agents import AgentPlan, Family, RuleSet, WorldPlan
from sim.agents.family import Make, family_for
from sim.agents.metric_functions import PI
from sim.base.errors import LimitError, ScenarioError, UsageError
from sim.base.expressions import Functions, Names, did_you_mean
from sim.kernel import to_duration, to_ns
from sim.kernel.codec import JsonObject, Record
from sim.kernel.rng import Draws
from sim.resources import to_micro
from sim.scenario import schema
from sim.scenario.assembly.kind_checks import check_fit
from sim.scenario.assembly.rules import to_rules
from sim.scenario.assembly.sync_checks import reach_of
from sim.scenario.assembly.world_builder import to_rate
from sim.scenario.params import default_params
from sim.scenario.population import AgentRow
from sim.scenario.values import ValueTemplate
from sim.tools import Tools
from sim.tools.access import ToolAccess
from sim.world import Refused

Use = Callable[[Any], Any]  # named, so that it is built once and not for each agent
MAX_SPAWNED: Final = 100_000
"""The most living agents more than at the start, so that copies of copies end before memory does."""

_NO_ROW: Final = AgentRow("", {})


class AgentFactory:
    """Creates agents from the entries of a scenario, before and during the run.

    Attributes:
        rule_sets: the rules of each entry.
        class_of: the class of the agents of each entry.
        toolbox: the functions of expressions.
    """

    def __init__(self, manager: AgentLoopManager, families: Mapping[str, Family], plan: WorldPlan) -> None:
        scenario: schema.Scenario = plan.scenario
        self._world = plan.world
        self._manager = manager
        self._scenario = scenario
        self.toolbox = plan.toolbox
        self._entries = {entry.name: entry for entry in scenario.agents}
        self.rule_sets = {entry.name: RuleSet(to_rules(entry)) for entry in scenario.agents}
        makes: dict[int, Make] = {}  # one for each family, which prepares a world once
        for family in families.values():
            if id(family) not in makes:
                makes[id(family)] = family.begin(plan)
        self._makes = {name: makes[id(family)] for name, family in families.items()}
        self.class_of = {name: family.agent for name, family in families.items()}
        self._reaches = {entry.name: reach_of(entry, scenario.models) for entry in scenario.agents}
        self._configs = {
            entry.name: _config(entry.loop.over(scenario.execution.agent_loop)) for entry in scenario.agents
        }
        self._spawned: dict[tuple[str, str], int] = {}
        self._start_values: dict[str, _StartValues] = {}  # by entry, from the first agent on
        self._at_start = 0  # how many agents there are from the start

    def change(self, scenario: schema.Scenario) -> None:
        """Take the live parameters of agents from `scenario` from now on, also for agents that are created later."""
        before = self._entries
        self.begin_with(scenario)
        for entry in scenario.agents:
            old = before[entry.name]
            if entry.rules != old.rules:
                self.rule_sets[entry.name].rules = to_rules(entry)
            config = _config(entry.loop.over(scenario.execution.agent_loop))
            if config != self._configs[entry.name]:
                self._configs[entry.name] = config
                for loop in self._loops_of(entry.name):
                    loop.config = config
            if entry.permission != old.permission:
                for loop in self._loops_of(entry.name):
                    loop.agent.permission = entry.permission

    def begin_with(self, scenario: schema.Scenario) -> None:
        """Take the start values of agents that are created later from `scenario`."""
        self._scenario = scenario
        self._entries = {entry.name: entry for entry in scenario.agents}

    def _loops_of(self, entry: str) -> list[AgentLoop]:
        return [loop for loop in self._manager.loops.values() if loop.agent.entry == entry]

    @property
    def classes(self) -> tuple[type[Agent], ...]:
        """The distinct classes of all agents."""
        return tuple(dict.fromkeys(self.class_of.values()))

    def populate(self) -> tuple[tuple[AgentLoop, int], ...]:
        """Create all agents that exist from the start, in the order of the file."""
        starts = []
        for entry in self._scenario.agents:
            if entry.template:
                continue
            for index, row in enumerate(self._rows(entry)):
                for part in ("", *self.class_of[entry.name].parts):
                    name = f"{row.name}-{part}" if part else row.name
                    self._check_free(name)
                    spec = self._spec_of(entry, name, index, row.state, part=part, row=row)
                    starts.append((self._admit(spec), spec.delay_ns))
        self._at_start = len(starts)
        return tuple(starts)

    def _rows(self, entry: schema.Agent) -> Iterable[AgentRow]:
        """Return the agents of an entry that exist from the start: those of its table, or equal ones."""
        if entry.population is not None:
            return entry.population.agents(self._world.draws(entry.name, "sample"))
        return (AgentRow(name, {}) for name in entry.agent_names())

    def spawn_for(self, parent: str, agent: str, count: int = 1, state: JsonObject | None = None) -> list[str]:
        """Start copies of an entry and return their names: entry, parent and number.

        Raises:
            Refused: if there is no such entry, a state variable is unknown, the count is negative, or there would
                be too many agents.
        """
        entry = self._entries.get(agent)
        if entry is None:
            raise Refused(f"there is no entry {agent!r} in agents")
        start_values = self._values_of(entry)
        if start_values.no_copies is not None:
            raise Refused(start_values.no_copies)
        if state and (unknown := sorted(set(state) - set(entry.state))):
            raise Refused(f"{agent} has no state variable {unknown[0]!r}")
        room = MAX_SPAWNED - max(0, len(self._world.agents) - self._at_start)
        if not 0 <= count <= room:
            most = f"at most {MAX_SPAWNED} agents more than at the start can live at a time"
            raise Refused(f"cannot start {count} copies; expected 0 to {room}: {most}")
        key = (parent, agent)
        first = self._spawned.get(key, 0) + 1
        specs: list[AgentSpec] = []
        name = ""
        try:  # all or none: every check is done before the first copy enters the world
            for number in range(first, first + count):
                name = f"{agent}-{parent}-{number}"
                self._check_free(name)
                self._world.is_born(name, self._birth(parent, agent))
                specs.append(self._spec_of(entry, name, number - 1, state))
        except (UsageError, LimitError) as error:
            self._world.is_born(name, None)
            for spec in specs:
                self._world.is_born(spec.agent.agent_id, None)
            raise Refused(str(error)) from error
        self._spawned[key] = first + count - 1
        if Tools.name in self._world.services and parent in self._world.agents:
            for spec in specs:
                ToolAccess.on(self._world).spawned(spec.agent.agent_id, parent)
        for spec in specs:
            self._manager.start_spawned(self._admit(spec), spec.delay_ns)
        names = [spec.agent.agent_id for spec in specs]
        if names:
            self._world.event_bus.report(AgentsSpawned(agents=names, by=parent))
        return names

    def _values_of(self, entry: schema.Agent) -> "_StartValues":
        """Return what is known of the agents of an entry before they are created."""
        start_values = self._start_values.get(entry.name)
        if start_values is None or start_values.entry is not entry:
            start_values = self._start_values[entry.name] = _StartValues.of(entry, self._no_copies(entry))
        return start_values

    def _no_copies(self, entry: schema.Agent) -> str | None:
        """Return why an entry has no copies; None if it can have them."""
        if entry.population is not None:
            return f"the agents of {entry.name!r} are the rows of a table, so there are no copies"
        if entry.name in getattr(self._scenario.sections.get("islands"), "by", ()):
            return f"the agents of {entry.name!r} live on several islands, so there are no copies"
        return None

    def _spec_of(
        self,
        entry: schema.Agent,
        name: str,
        index: int,
        state: JsonObject | None = None,
        part: str = "",
        row: AgentRow | None = None,
    ) -> "AgentSpec":
        """Evaluate the start values of an agent, without changing anything.

        Their draws depend on the seed, the value and the agent only; see `World.is_born`.

        Args:
            entry: its entry of the scenario.
            name: its name.
            index: zero-based index within the agents of its entry.
            state: variables in place of those of the entry.
            part: which part of its entry it is; see `Agent.parts`.
            row: what a table says of it; None: nothing.

        Raises:
            UsageError: if a value cannot be evaluated or used.
        """
        world, start_values = self._world, self._values_of(entry)
        values = _NO_ROW if row is None else row
        group = start_values.group if values.group is None else values.group
        agent = self._instance(entry, name, index, group)
        agent.entry, agent.kind, agent.part, agent.persona = entry.name, entry.kind, part, values.persona
        plain = start_values.plain
        if plain is not None and row is None:
            agent.state.update(plain)
            for key, value in (state or {}).items():
                agent.state[key] = copy.deepcopy(value) if isinstance(value, dict | list) else value
            return AgentSpec(entry, agent, start_values.micro or 0, None, agent.home, start_values.delay_ns or 0)

        def start(key: str, value: ValueTemplate, use: Use = lambda result: result) -> Any:
            if value.constant:
                return computed(entry, key, name, lambda: use(value.evaluate({}, {})))
            functions = self._functions(EvaluatedFor(name, world.draws(name, "start", key)))
            return computed(entry, key, name, lambda: use(value.evaluate(names, functions)))

        instead, names = state or {}, dict(self._names(name, index, group))
        for key, value in start_values.state:
            if key in instead:
                names[key] = copy.deepcopy(instead[key]) if isinstance(instead[key], dict | list) else instead[key]
            else:
                names[key] = start(f"state.{key}", value) if value.__class__ is ValueTemplate else value
        agent.state.update({key: names[key] for key in entry.state})

        def first(key: str, row_value: Any, value: ValueTemplate | None, use: Use, same: Any = None) -> Any:
            if row_value is not None:
                return computed(entry, key, name, lambda: use(row_value))
            return same if same is not None or value is None else start(key, value, use)

        micro = first("balance", values.balance, entry.balance, _money, start_values.micro)
        place = first("place", values.place, entry.place, self._place)
        position = agent.home if entry.position is None else start("position", entry.position)
        delay_ns = first("start", values.start, entry.start, to_ns, start_values.delay_ns)
        return AgentSpec(entry, agent, micro, place, position, delay_ns)

    def _birth(self, parent: str, entry: str) -> str:
        """Return what distinguishes an agent that is created now from all others: not its name, which counts the agents
        that its parent created before.
        """
        return f"{self._world.draws_now(parent, f'birth {entry}').getrandbits(64):016x}"

    def _check_free(self, name: str) -> None:
        if name in self._world.agents or self._world.ledger.find(name) is not None:
            raise UsageError(f"the name {name!r} is taken already")

    def _admit(self, spec: "AgentSpec") -> AgentLoop:
        """Add an agent to the world."""
        world, entry, name = self._world, spec.entry, spec.agent.agent_id
        # Before it enters the world, so that no limit must be evaluated again.
        for resource, rate in entry.limits.items():
            world.rate_tracker.set_agent_limit(name, resource, to_rate(rate, self._scenario))
        loop = self._manager.admit(spec.agent, self._configs[entry.name])
        if self._start_values[entry.name].table:
            world.add_to_group(spec.agent, entry.group_name)
        world.ledger.open(name, spec.micro)
        if spec.place is not None and world.places is not None:
            world.places.place(name, spec.place)
        if spec.position is not None:
            if world.space is None:
                raise UsageError(f"agents.{entry.name}.position: the scenario has no space", hint="add `space:`")
            try:
                world.space.enter(name, spec.position, partners=entry.partners)
            except UsageError as error:
                raise entry.problem("position", f"{name}: {error}", error.hint) from error
        return loop

    def _place(self, value: object) -> str:
        """Return the place that a value names."""
        places = self._world.places
        place = None if places is None else places.named(value)
        if place is None:
            nodes = places.nodes if places else []
            raise UsageError(f"there is no place {str(value)[:80]!r}", hint=did_you_mean(str(value), nodes))
        return place

    def _instance(self, entry: schema.Agent, name: str, index: int, group: str) -> Agent:
        kind = self.class_of[entry.name]
        params = None if kind.Params is None else self._params(entry, name, index, group)
        plan = AgentPlan(
            name=name,
            world=self._world,
            index=index,
            group=group,
            permission=entry.permission,
            settings=entry.settings,
            subscribe=entry.subscribe,
            reach=self._reaches[entry.name],
            rule_set=self.rule_sets[entry.name],
            params=params,
        )
        agent = self._makes[entry.name](plan)
        if not isinstance(agent, kind):
            wanted, made = kind.__name__, type(agent).__name__
            raise entry.problem(
                "kind",
                f"the agents of {entry.kind} would be of the class {made}, not {wanted}",
                f"define a family of your own, whose `prepare` makes agents of the class {wanted}",
            )
        if params is not None:
            agent.params = params
        return agent

    def _params(self, entry: schema.Agent, name: str, index: int, group: str) -> Any:
        """Return the params of an agent. Their draws depend on the agent and the parameter only."""
        declared = self.class_of[entry.name].Params
        if declared is None:
            return None
        names = self._names(name, index, group)

        def compute(key: str, value: ValueTemplate, use: Callable[[Any], Any]) -> Any:
            subject = EvaluatedFor(name, self._world.draws(name, "params", key))
            return computed(entry, f"params.{key}", name, lambda: use(value.evaluate(names, self._functions(subject))))

        try:
            template = default_params(declared) if entry.params is None else entry.params
            params = template.of(compute)
            if template.computed and (family := family_for(entry)) is not None:
                check_fit(self._scenario, entry, family, attrs.asdict(params, recurse=False))
            return params
        except ScenarioError:
            raise
        except UsageError as error:
            raise entry.problem("params", f"{name}: {error}", error.hint) from error

    def _names(self, name: str, index: int, group: str) -> Names:
        return {"now": self._world.now, "me": name, "index": index, "group": group, "pi": PI}

    def _functions(self, agent: "Agent | EvaluatedFor") -> Functions:
        return self.toolbox.used_by(agent)


def computed(entry: schema.Agent, key: str, name: str, compute: Callable[[], Any]) -> Any:
    """Return what a value of an entry gives for one of its agents.

    Raises:
        UsageError: if it cannot be evaluated or used, with its position in the file.
    """
    try:
        return compute()
    except (UsageError, LimitError) as error:
        raise entry.problem(key, f"{name}: {error}", error.hint) from error


@attrs.define
class EvaluatedFor:
    """For whom an expression is evaluated, and the draws that it uses, which are not those of the agent's rules."""

    agent_id: str
    rng: Draws


def _money(value: Any) -> int:
    micro = to_micro(value)
    if micro < 0:
        raise UsageError(f"the initial balance must be at least 0, not {value:g}")
    return micro


@attrs.frozen
class _StartValues:
    """What is known of the agents of an entry before they are created, so that it is computed once.

    Attributes:
        entry: the entry.
        state: its state variables, each after those that its start value uses, with the start value: a template if it
            has to be computed, or is a list or mapping, of which each agent gets its own.
        micro, delay_ns: the initial balance and the delay; None if they have to be computed, or are not valid.
        group: the group of the entry.
        table: whether its agents are those of a table.
        no_copies: why there can be no copies of it; None if there can be.
        plain: the state, if nothing is left to compute for an agent without a row of a table; otherwise None.
    """

    entry: schema.Agent
    state: tuple[tuple[str, Any], ...]
    micro: int | None
    delay_ns: int | None
    group: str
    table: bool
    no_copies: str | None
    plain: JsonObject | None

    @classmethod
    def of(cls, entry: schema.Agent, no_copies: str | None) -> "_StartValues":
        def literal(value: ValueTemplate) -> Any:
            return value.raw if value.constant and not isinstance(value.raw, dict | list) else value

        def constant(value: ValueTemplate, use: Callable[[Any], int]) -> int | None:
            try:
                return use(value.evaluate({}, {})) if value.constant else None
            except UsageError:
                return None  # it is refused when an agent is created, with its name

        state = tuple((key, literal(entry.state[key])) for key in entry.state_order())
        micro, delay_ns, values = constant(entry.balance, _money), constant(entry.start, to_ns), dict(state)
        computed = entry.place is not None or entry.position is not None or micro is None or delay_ns is None
        computed = computed or any(value.__class__ is ValueTemplate for value in values.values())
        plain = None if computed else {key: values[key] for key in entry.state}
        return cls(
            entry=entry,
            state=state,
            micro=micro,
            delay_ns=delay_ns,
            group=entry.group_name,
            table=entry.population is not None,
            no_copies=no_copies,
            plain=plain,
        )


class AgentSpec(Record, frozen=True, gc=False):
    """An agent that is not in the world yet, with its start values."""

    entry: schema.Agent
    agent: Agent
    micro: int
    place: str | None
    position: Any
    delay_ns: int


def _config(loop: schema.LoopConfig) -> AgentLoopConfig:
    return AgentLoopConfig(
        min_loop_delay=to_duration(loop.min_loop_delay),
        max_loop_delay=to_duration(max(loop.max_loop_delay, loop.min_loop_delay)),
        resource_check_interval=to_duration(loop.resource_check_interval),
        max_consecutive_errors=loop.max_consecutive_errors,
        cool_down=to_duration(loop.cool_down),
        max_restarts=loop.max_restarts,
        restart_period=to_duration(loop.restart_period),
        heartbeat_timeout=None if loop.heartbeat_timeout is None else to_duration(loop.heartbeat_timeout),
        mailbox_size=loop.mailbox_size,
        mailbox_policy=loop.mailbox_policy,
        unmatched=loop.unmatched,
    )
