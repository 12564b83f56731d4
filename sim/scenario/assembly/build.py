"""Builds a simulation from a scenario: the world, its agents and its models."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from sim.actors import AgentLoop, AgentLoopManager
from sim.actors.actions import spawn
from sim.agents import Toolbox, WorldPlan
from sim.agents.latest_events import LatestEvents
from sim.agents.metric_functions import METRICS, MetricFunctions
from sim.agents.tool_check import known_tools
from sim.base.errors import UsageError
from sim.kernel import Recorder
from sim.scenario import schema
from sim.scenario.assembly.agent_factory import AgentFactory
from sim.scenario.assembly.kind_checks import check_families, check_patterns_of, families_of
from sim.scenario.assembly.place_variables import make_variables
from sim.scenario.assembly.sync_checks import check_sync
from sim.scenario.assembly.world_builder import limits_per_tick, set_up_world
from sim.standalone import World
from sim.tools import Tools
from sim.tools.rights import NO_RIGHTS, Rights
from sim.world.section import SECTIONS

if TYPE_CHECKING:
    from sim.llm.access import Access
    from sim.llm.service import Models
    from sim.llm.service_time import ServiceTime


@attrs.frozen
class Simulation:
    """The world, the agents and the models of a scenario, for a runner."""

    scenario: schema.Scenario
    world: World
    manager: AgentLoopManager
    metric_functions: MetricFunctions
    starts: tuple[tuple[AgentLoop, int], ...]  # each loop and its delay in nanoseconds
    per_tick: tuple[str, ...]  # the limits that are refreshed at each tick
    factory: AgentFactory
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
    families = families_of(scenario, rights.kinds or {}, rights.allow)
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
        check_patterns_of(scenario, tools.by_name, world.actions.kinds())
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


def _let_spawn(manager: AgentLoopManager, factory: AgentFactory, scenario: schema.Scenario) -> None:
    """Let rules and the host program start copies of the entries."""
    manager.world.spawner = factory.spawn_for
    manager.world.actions.register(spawn)
    manager.entries.update({entry.name: partial(factory.spawn_for, "host", entry.name) for entry in scenario.agents})


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
