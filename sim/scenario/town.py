"""The part `town` of a scenario: what its villagers do, made from the seed, and the space that they live in."""

from sim.agents.town import Trace, generate
from sim.errors import UsageError
from sim.kernel import NS, Kernel, to_text
from sim.scenario import schema
from sim.world.space import Reach, Space, chebyshev, manhattan, within

VILLAGER = "villager"
"""The kind of agents that live in a town."""

_STEP_NS = 10 * NS


def make_town(scenario: schema.Scenario, seed: int) -> Trace | None:
    """Return what the villagers of a scenario do, from `town.begins` for as long as `until` says.

    Args:
        scenario: a checked scenario.
        seed: of the run.

    Raises:
        UsageError: if there are villagers without a town, or the town does not fit the scenario.
    """
    entries = [entry for entry in scenario.agents if entry.kind == VILLAGER]
    if scenario.town is None:
        if entries:
            raise UsageError(f"agents.{entries[0].name} are villagers, and there is no town", hint="add `town: {}`")
        return None
    if len(entries) != 1:
        raise UsageError(f"a town has one entry of kind {VILLAGER} in agents, not {len(entries)}")
    if scenario.space is not None:
        raise UsageError("space and town do not go together: a town makes its own space")
    period = scenario.execution.tick.period
    if period != _STEP_NS:
        raise UsageError(f"the steps of a town last 10s, and execution.tick.period is {to_text(period)}")
    first, steps = scenario.town.begins // _STEP_NS, -(-scenario.until // _STEP_NS)
    return generate(seed, entries[0].count, first, steps, entries[0].name)


def space_of(trace: Trace, kernel: Kernel) -> Space:
    """Return the space of a town."""
    reach = Reach(chebyshev, trace.radius, trace.speed, manhattan)  # villagers walk along rows and columns
    return Space(reach, within(trace.width, trace.height), lambda: kernel.now // _STEP_NS)
