"""The family of villagers: checks a scenario with a town, generates the trace, and creates agents that replay it."""

from typing import Any

import attrs

from sim.agents.family import AgentPlan, Family, Make, WorldPlan, define_family, family_for, is_kind
from sim.base.errors import UsageError
from sim.kernel import Kernel, to_text
from sim.kinds.town.generation import MAX_AGENTS, generate
from sim.kinds.town.trace import DAY_NS, STEP_NS, TownTrace
from sim.kinds.town.villager import Villager, villagers
from sim.world.section import Duration, define_section, draws_nothing
from sim.world.space import Reach, Space, chebyshev, manhattan, within

VILLAGER = "villager"
"""The kind of agents of a town."""


@attrs.frozen
class TownSettings:
    """The day of a small town, for agents of kind `villager`.

    Args:
        begins: the time of day at which the run begins.
    """

    begins: Duration = 0


def check_town(scenario: Any, until_ns: int | None = None) -> Any:
    """Return the entry of the villagers of a scenario; None if it has no town.

    Args:
        scenario: a checked scenario.
        until_ns: the end of the run in simulated nanoseconds, if it is not the scenario's `until`.

    Raises:
        UsageError: if there are villagers without a town, or the town does not fit the scenario.
    """
    entries = [entry for entry in scenario.agents if is_kind(entry, VILLAGER) and not _has_trace(family_for(entry))]
    town: TownSettings | None = scenario.sections.get("town")
    if town is None:
        if entries:
            raise UsageError(f"agents.{entries[0].name} are villagers, but there is no town", hint="add `town: {}`")
        return None
    if len(entries) != 1:
        raise UsageError(f"a town has one entry of kind {VILLAGER} in agents, not {len(entries)}")
    if scenario.space is not None:
        raise UsageError("space and town exclude each other: a town creates its own space")
    if scenario.execution.sync is None:
        raise UsageError(
            "a town needs execution.sync, because its calls take service time",
            hint="--set execution.sync=causal",
        )
    period = scenario.execution.tick.period
    if period != STEP_NS:
        raise UsageError(f"a step of a town is 10s, but execution.tick.period is {to_text(period)}")
    begins, until = town.begins, until_ns or scenario.end_ns
    if begins % STEP_NS:
        raise UsageError(f"town.begins must be a multiple of 10s, the step of a town, but is {to_text(begins)}")
    if begins + until > DAY_NS:
        raise UsageError(
            f"a town lasts one day: from town.begins ({to_text(begins)}) a run of {to_text(until)} is too long",
            hint=f"--set until={to_text(DAY_NS - begins)}" if begins < DAY_NS else "town.begins must be below 24h",
        )
    if entries[0].population is not None:
        where = f"agents.{entries[0].name}.table"
        raise UsageError(f"{where}: the agents of a town are those of its trace", hint="use count")
    if not 1 <= entries[0].count <= MAX_AGENTS:
        raise UsageError(f"agents.{entries[0].name}.count: a town has 1 to {MAX_AGENTS} agents, not {entries[0].count}")
    if scenario.models is None:
        raise UsageError("villagers call language models, but the scenario has none", hint="add `models: {}`")
    return entries[0]


def _has_trace(family: Family | None) -> bool:
    """Return whether a host program gives a class that `villagers` made, so that no town is needed."""
    return family is not None and hasattr(family.agent, "trace")


def _prepare(plan: WorldPlan) -> Make | None:
    """Generate the trace of the town from the seed, and add its space to the world."""
    if hasattr(plan.agent, "trace"):
        return None
    entry, kernel = check_town(plan.scenario, plan.until_ns), plan.world.kernel
    first, steps = plan.scenario.sections["town"].begins // STEP_NS, -(-plan.until_ns // STEP_NS)
    trace = generate(kernel.seed, entry.count, first, steps, entry.name)
    plan.world.space = space_of(trace, kernel)
    bound = villagers(trace, plan.agent)

    def make(agent: AgentPlan) -> Villager:
        return bound(agent.name, agent.world, group=agent.group, permission=agent.permission)

    return make


def space_of(trace: TownTrace, kernel: Kernel) -> Space:
    """Return the space of a town."""
    reach = Reach(chebyshev, trace.radius, trace.speed, manhattan)  # villagers walk along rows and columns
    return Space(reach, within(trace.width, trace.height), lambda: kernel.now // STEP_NS)


define_section("town", TownSettings, draws=draws_nothing)  # the family of villagers, below, says what is drawn
define_family(
    Family(
        VILLAGER,
        Villager,
        prepare=_prepare,
        check=check_town,
        position=True,
        draws=("the day of each resident of the town: sleep, errands, whom it meets, and its calls of models",),
    )
)
