"""Builds a simulation from a scenario: the world, its agents and its models."""

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from sim.actors import Agent, AgentLoop, AgentLoopConfig, AgentLoopManager
from sim.actors.actions import spawn
from sim.actors.events import AgentsSpawned
from sim.actors.wake import Written
from sim.agents import FAMILIES, AgentPlan, Family, PolicyAction, PolicyRule, RuleSet, Toolbox, WorldPlan
from sim.agents.family import Make, class_family, family_for, family_of, named_family
from sim.agents.latest_events import LatestEvents
from sim.agents.metric_functions import METRICS, PI, MetricFunctions
from sim.agents.tool_check import known_tools
from sim.base.errors import LimitError, ScenarioError, UsageError
from sim.base.expressions import Expression, Functions, Names, did_you_mean
from sim.kernel import Recorder, to_duration, to_ns
from sim.kernel.codec import Json, JsonObject, Record
from sim.kernel.rng import Draws
from sim.resources import to_micro
from sim.scenario import schema
from sim.scenario.actions import Do
from sim.scenario.assembly.place_variables import make_variables
from sim.scenario.assembly.sync_checks import check_sync, reach_of
from sim.scenario.assembly.world_builder import limits_per_tick, set_up_world, to_rate
from sim.scenario.params import ParamsTemplate, default_params
from sim.scenario.population import AgentRow
from sim.scenario.scopes import WHERE_NAMES
from sim.scenario.sleep import SleepSpec
from sim.scenario.values import ValueTemplate
from sim.standalone import World
from sim.tools import Tools
from sim.tools.access import ToolAccess
from sim.tools.rights import NO_RIGHTS, Kinds, Rights
from sim.world import Refused
from sim.world.action import DEFINED
from sim.world.section import SECTIONS

if TYPE_CHECKING:
    from sim.llm.access import Access
    from sim.llm.service import Models
    from sim.llm.service_time import ServiceTime

Use = Callable[[Any], Any]  # named, so that it is built once and not for each agent
_MAX_SPAWNED = 100_000  # living agents more than at the start, so that copies of copies end before memory does
_NO_ROW: Final = AgentRow("", {})


@attrs.frozen
class Simulation:
    """The world, the agents and the models of a scenario, for a runner."""

    scenario: schema.Scenario
    world: World
    manager: AgentLoopManager
    metric_functions: MetricFunctions
    starts: tuple[tuple[AgentLoop, int], ...]  # each loop and its delay in nanoseconds
    per_tick: tuple[str, ...]  # the limits that are refreshed at each tick
    factory: "AgentFactory"
    models: "Models | None"  # the language models, if there are any
    service: "ServiceTime | None"  # the axis of service time, with `execution.sync`

    @property
    def code(self) -> tuple[Callable[..., Any], ...]:
        """The classes of all agents, and the functions of programs that metrics and the stop condition call."""
        scenario = self.scenario
        expressions = [*scenario.metrics.values.values(), *([] if scenario.stop is None else [scenario.stop.when])]
        called = sorted({name for one in expressions for name in one.functions} & METRICS.keys())
        return (*self.factory.classes, *(METRICS[name] for name in called))


def build(
    scenario: schema.Scenario,
    *,
    seed: int | None = None,
    recorder: Recorder | None = None,
    rights: Rights = NO_RIGHTS,
    access: "Access | None" = None,
    until_ns: int | None = None,
) -> Simulation:
    """Return the simulation that a scenario describes.

    Args:
        scenario: a checked scenario.
        seed: overrides the seed of the scenario.
        recorder: receives all events and effects.
        rights: what the operator lets the scenario do.
        access: the operator's language models, which override the scenario's.
        until_ns: the end of the run in simulated nanoseconds; overrides `until` of the scenario.

    Raises:
        UsageError: if the kind of an agent is unknown or not allowed, a start value cannot be evaluated, or the
            operator's models do not match the scenario.
    """
    world = _world(scenario, seed, recorder)
    manager = AgentLoopManager(world)
    set_up_world(world, scenario)
    toolbox = Toolbox(world)
    world.variables = make_variables(world, scenario.places, toolbox)
    service = None if scenario.execution.sync is None else _service_time(world)
    models = _models(world, scenario, toolbox, access, service)
    manager.kinds.update(rights.kinds or {})  # for `Control.create_loop`, also in a replay
    tools = Tools.on(world)
    _allow(tools, rights)
    if models is not None and service is None:  # with models, agents can be interviewed at any time
        LatestEvents.on(world)
    families = _families(scenario, rights.kinds or {}, rights.allow)
    check_families(scenario, until_ns)
    add_sections(world, scenario)
    begin_islands = _islands(world, scenario, toolbox)
    plan = WorldPlan(world, scenario, until_ns or scenario.end_ns, toolbox)
    factory = AgentFactory(manager, families, plan)
    if service is not None:
        check_sync(scenario, factory.class_of, access)
    starts = factory.populate()
    if service is None:  # synchronised rounds cannot wait for agents that are created during the run
        _let_spawn(manager, factory, scenario)
    begin_islands()
    if known_tools(scenario) is None:  # a kind of another package has brought its tools now
        _check_patterns(scenario, tools.by_name, world.actions.kinds())
    return Simulation(
        scenario=scenario,
        world=world,
        manager=manager,
        metric_functions=MetricFunctions(world, manager),
        starts=starts,
        per_tick=limits_per_tick(scenario),
        factory=factory,
        models=models,
        service=service,
    )


def _world(scenario: schema.Scenario, seed: int | None, recorder: Recorder | None) -> World:
    execution = scenario.execution
    world = World(
        scenario.seed if seed is None else seed,
        recorder=recorder,
        shuffled=execution.ties == "shuffled",
        order=execution.order,
        max_deltas=execution.max_deltas,
    )
    world.event_bus.max_data_bytes = execution.max_data_bytes
    return world


def _islands(world: World, scenario: schema.Scenario, toolbox: Toolbox) -> Callable[[], object]:
    """Watch what rules read of other islands; return what begins to watch actions, once there are agents."""
    if "islands" not in scenario.sections:
        return lambda: None
    from sim.scenario.assembly.islands import prepare_islands  # only such scenarios need it

    return prepare_islands(world, scenario, toolbox)


def _let_spawn(manager: AgentLoopManager, factory: "AgentFactory", scenario: schema.Scenario) -> None:
    """Let rules and the host program start copies of the entries."""
    manager.world.spawner = factory.spawn_for
    manager.world.actions.register(spawn)
    manager.entries.update({entry.name: partial(factory.spawn_for, "host", entry.name) for entry in scenario.agents})


def check_families(scenario: schema.Scenario, until_ns: int | None = None) -> None:
    """Check that a scenario fits the kinds of its agents.

    Args:
        scenario: a checked scenario.
        until_ns: the end of the run in simulated nanoseconds, if it is not the scenario's `until`.

    Raises:
        UsageError: as the check of a family raises it, if agents need a section that there is not, or if a rule of
            access or of approvals fits no tool.
    """
    for entry in scenario.agents:
        _check_needs(scenario, entry)
    for family in _to_check(scenario):
        if family.check is not None:
            try:
                family.check(scenario, until_ns)
            except UsageError as error:
                raise scenario.located(error) from None
    tools = known_tools(scenario)
    if tools is not None:
        _check_patterns(scenario, tools, DEFINED)


_EXAMPLES: Final = {"models": "{}", "places": "{nodes: [home]}"}
"""What is enough of the parts of a scenario that a kind can need and that are no `SECTIONS`; see `Section.example`."""


def _check_needs(scenario: schema.Scenario, entry: schema.Agent) -> None:
    """Refuse an entry whose agents need a section that there is not, or whose params name what there is not."""
    family = family_for(entry)
    if family is None:
        return
    for key, why in family.needs.items():
        section = SECTIONS.get(key)
        named = section is not None and section.by_name  # one without an entry adds nothing
        there = bool(scenario.sections.get(key)) if named else key in scenario.sections
        if not there and getattr(scenario, key, None) is None:
            example = _EXAMPLES.get(key, "...") if section is None else section.example
            hint = f"add `{key}: {example}`"
            raise scenario.located(UsageError(f"agents.{entry.name} {why}, which needs `{key}`", hint=hint))
    if family.fits is not None and family.agent.Params is not None:
        params = default_params(family.agent.Params) if entry.params is None else entry.params
        _check_fit(scenario, entry, family, params.shared_values)


def _check_fit(scenario: schema.Scenario, entry: schema.Agent, family: Family, params: Mapping[str, Any]) -> None:
    try:
        if family.fits is not None:
            family.fits(scenario, entry, params)
    except UsageError as error:
        raise scenario.located(error) from None


def _to_check(scenario: schema.Scenario) -> Iterable[Family]:
    """Return the families that can have something to say: those whose words the scenario uses, which are imported.

    A class of another package may claim an ability without inheriting from the class that has it; then all are asked.
    """
    named = [family for entry in scenario.agents if (family := family_for(entry)) is not None]
    if any(family.agent.abilities and not family.agent.__module__.startswith("sim.") for family in named):
        return FAMILIES.values()
    return FAMILIES.imported().values()


def _check_patterns(scenario: schema.Scenario, tools: Iterable[str], actions: Iterable[str]) -> None:
    if scenario.sections.keys().isdisjoint(("access", "approvals")):
        return
    from sim.tools.patterns import check_patterns  # the import is slow

    try:
        check_patterns(scenario.sections, tools, actions)
    except UsageError as error:
        raise scenario.located(error) from None


def add_sections(world: World, scenario: schema.Scenario) -> None:
    """Add the parts to a world that the sections of a scenario describe."""
    for key in SECTIONS:
        if key in scenario.sections:
            SECTIONS[key].add_to(world, scenario.sections[key])


def _allow(tools: Tools, rights: Rights) -> None:
    """Let tools run commands and call MCP servers, as the operator allows."""
    if rights.allow_commands:
        from sim.tools.process import ProcessTools  # the import is slow

        tools.processes = ProcessTools(allowed=True)
    if rights.mcp:
        from sim.tools.mcp_servers import McpServers  # the import is slow

        tools.servers = McpServers(rights.mcp)


def _service_time(world: World) -> "ServiceTime":
    from sim.llm.service_time import ServiceTime  # the import is slow

    return ServiceTime(world.kernel.seed)


def _models(
    world: World,
    scenario: schema.Scenario,
    toolbox: Toolbox,
    access: "Access | None",
    service: "ServiceTime | None",
) -> "Models | None":
    if scenario.models is not None:
        from sim.llm.access import Access
        from sim.scenario.assembly.models import check_latency, set_up_models  # the import is slow

        check_latency(scenario, outside=access is not None and access.outside)
        island_of = None if "islands" not in scenario.sections else lambda name: _island_of(world, name)
        return set_up_models(world, scenario.models, toolbox, access or Access(), service, island_of=island_of)
    if access is not None and access.models:
        raise UsageError(
            f"the scenario {scenario.name} has no language models to replace", hint="add `models: {}` to it"
        )
    return None


def _island_of(world: World, agent_id: str) -> str | None:
    from sim.world.islands import Islands  # only such scenarios need it

    return Islands.of(world).island_of(agent_id)


# -- the agents


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
        room = _MAX_SPAWNED - max(0, len(self._world.agents) - self._at_start)
        if not 0 <= count <= room:
            most = f"at most {_MAX_SPAWNED} agents more than at the start can live at a time"
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
                _check_fit(self._scenario, entry, family, attrs.asdict(params, recurse=False))
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


def check_kinds(scenario: schema.Scenario, allow: tuple[str, ...], kinds: Kinds | None = None) -> None:
    """Check before a run that all kinds of agents exist and are allowed.

    Args:
        scenario: the scenario.
        allow: installed packages, and modules, whose code it may use.
        kinds: classes that the host program gives.

    Raises:
        UsageError: if one is not, as `build` raises it.
    """
    _families(scenario, kinds or {}, allow)


def _families(scenario: schema.Scenario, kinds: Kinds, allow: tuple[str, ...]) -> dict[str, Family]:
    """Return the families of all entries by their names; entries of one kind have the same."""
    by_kind: dict[str, Family] = {}
    families: dict[str, Family] = {}
    for entry in scenario.agents:
        if entry.kind not in by_kind:
            by_kind[entry.kind] = family_named_by(entry, kinds, allow)
        families[entry.name] = by_kind[entry.kind]
        _check_entry(entry, families[entry.name])
    return families


def family_named_by(entry: schema.Agent, kinds: Kinds, allow: tuple[str, ...]) -> Family:
    """Return the family of an entry; one is made for a class that the host program gives, or that `kind` names.

    Raises:
        UsageError: if the kind is not known, or its code is not allowed.
    """
    kind = entry.kind
    try:
        if kind in kinds:
            return class_family(kind, kinds[kind])
        return named_family(kind, allow) if ":" in kind else family_of(kind, (*FAMILIES, *kinds))
    except UsageError as error:
        raise UsageError(f"agents.{entry.name}.kind: {error}", hint=error.hint) from None


def _check_entry(entry: schema.Agent, family: Family) -> None:
    """Refuse settings and params that do not fit the family of an entry."""
    kind = entry.kind
    if family.settings is None and entry.settings is not None:
        raise entry.problem("settings", f"agents of the kind {kind} have no settings", None)
    if family.settings is not None and not isinstance(entry.settings, family.settings):
        raise entry.problem(
            "settings",
            f"the kind {kind} was not known when the scenario was loaded",
            "give `allow` to sim.load, or the path of the file to sim.run",
        )
    declared, params = family.agent.Params, entry.params
    if declared is None and params is not None:
        raise entry.problem("params", f"agents of the kind {kind} have no params", None)
    if params is not None and not (isinstance(params, ParamsTemplate) and params.declared is declared):
        raise entry.problem(
            "params",
            f"the kind {kind} was not known when the scenario was loaded",
            "give `kinds` or `allow` to sim.load, or the path of the file to sim.run",
        )


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


def to_rules(entry: schema.Agent) -> tuple[PolicyRule, ...]:
    """Return the rules of an entry of `agents`."""
    return tuple(map(_rule, entry.rules))


def _rule(rule: schema.Rule) -> PolicyRule:
    always = rule.when.text in ("true", "True")
    actions = tuple(_action(do, rule.reason or "") for do in rule.do)
    return PolicyRule(None if always else rule.when, actions, rule.set, rule.record, rule.let)


def _action(do: Do, reason: str) -> PolicyAction:
    arguments: Mapping[str, Any] = do.arguments if do.sleep is None else {"condition": SleepValue(do.sleep)}
    return PolicyAction(do.kind, arguments, reason)


class SleepValue:
    """The `sleep` of a scenario as the argument `condition` of the action."""

    def __init__(self, spec: SleepSpec) -> None:
        self._parts = {key: _part(value) for key, value in spec.given.items()}
        filters = [value for value in self._parts.values() if isinstance(value, Expression)]
        self._outer = tuple(sorted({name for one in filters for name in one.names - WHERE_NAMES}))
        inner = [part for value in self._parts.values() for part in (value if isinstance(value, tuple) else (value,))]
        evaluated = [part for part in inner if isinstance(part, ValueTemplate | SleepValue)]
        self.constant: bool = not self._outer and all(part.constant for part in evaluated)
        self.names: frozenset[str] = frozenset((*(name for part in evaluated for name in part.names), *self._outer))
        self._written = Written(self._evaluated({}, {})) if self.constant else None

    @property
    def parts(self) -> JsonObject | None:
        """The mapping that the action takes, with values in it; None if it is always the same, or if it has names of
        the agent for a filter.
        """
        if self._outer or self.constant:
            return None
        return {key: value.text if isinstance(value, Expression) else value for key, value in self._parts.items()}

    def evaluate(self, names: Names, functions: Functions) -> dict[str, Json]:
        """Return the condition as the mapping that the action takes."""
        return self._evaluated(names, functions) if self._written is None else self._written

    def _evaluated(self, names: Names, functions: Functions) -> dict[str, Json]:
        result: dict[str, Json] = {}
        for key, value in self._parts.items():
            if isinstance(value, tuple):
                result[key] = [part.evaluate(names, functions) for part in value]
            elif isinstance(value, Expression):
                result[key] = value.text
                if self._outer:  # their values when the agent falls asleep
                    result["given"] = {name: names[name] for name in self._outer}
            else:
                result[key] = value.evaluate(names, functions) if isinstance(value, ValueTemplate) else value
        return result


def _part(value: Any) -> Any:
    return tuple(SleepValue(part) for part in value) if isinstance(value, tuple) else value
