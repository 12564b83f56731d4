"""Builds the town of a scenario: the trace of its villagers, generated from the seed, and their space."""

from sim.agents.town import Trace, generate
from sim.kernel import Kernel
from sim.scenario import schema
from sim.scenario.town import STEP_NS, check_town
from sim.world.space import Reach, Space, chebyshev, manhattan, within


def make_town(scenario: schema.Scenario, seed: int, until_ns: int | None = None) -> Trace | None:
    """Return the trace of the villagers of a scenario, from `town.begins` to the end of the run.

    Args:
        scenario: a checked scenario.
        seed: the seed of the run.
        until_ns: the length of the run in nanoseconds, if it is not the scenario's `until`.

    Raises:
        UsageError: if there are villagers without a town, or the town does not fit the scenario.
    """
    entry = check_town(scenario, until_ns)
    if entry is None or scenario.town is None:
        return None
    first, steps = scenario.town.begins // STEP_NS, -(-(until_ns or scenario.end_ns) // STEP_NS)
    return generate(seed, entry.count, first, steps, entry.name)


def space_of(trace: Trace, kernel: Kernel) -> Space:
    """Return the space of a town."""
    reach = Reach(chebyshev, trace.radius, trace.speed, manhattan)  # villagers walk along rows and columns
    return Space(reach, within(trace.width, trace.height), lambda: kernel.now // STEP_NS)
