"""Builds the space of a scenario."""

from sim.base.errors import UsageError
from sim.kernel import Kernel
from sim.scenario import schema
from sim.world import Places
from sim.world.space import HopDistance, Metric, Reach, Space, chebyshev, euclid, manhattan, within

_PLANES: dict[str, Metric] = {"euclid": euclid, "chebyshev": chebyshev}


def make_space(scenario: schema.Scenario, kernel: Kernel, places: Places | None) -> Space | None:
    """Return the space of a scenario, if it has one.

    Args:
        scenario: a checked scenario.
        kernel: the kernel, for its time; one step is one tick.
        places: the graph of a space without a size.

    Raises:
        UsageError: if there is neither a size nor a graph.
    """
    space, period = scenario.space, scenario.execution.tick.period
    if space is None:
        return None
    if space.size is not None:
        walk = manhattan if space.walk == "manhattan" else None
        reach = Reach(_PLANES[space.metric], space.perception, space.speed, walk)
        return Space(reach, within(*space.size), lambda: kernel.now // period)
    if places is None:
        raise UsageError("space: expected a size, or `places`", hint="write `size: [width, height]`")
    nodes = frozenset(places.nodes)
    hops = HopDistance({node: places.adjacent(node) for node in places.nodes})
    return Space(
        Reach(hops, space.perception, space.speed),
        lambda position: isinstance(position, str) and position in nodes,
        lambda: kernel.now // period,
    )
