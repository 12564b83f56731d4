"""Builds a world from a scenario, without agents: limits, prices, accounts, pools, places, artifacts."""

import math
from collections.abc import Callable

from sim.base.errors import UsageError
from sim.base.expressions import PURE_FUNCTIONS
from sim.base.shown import Keywords
from sim.kernel.codec import Raw, freeze
from sim.resources import Container, Limit, Pool, PreemptiveResource, PriorityResource, Rate, Resource, Store, to_micro
from sim.scenario import place_schema, schema, units
from sim.scenario.assembly.space import make_space
from sim.scenario.values import ValueTemplate
from sim.world import Places, World
from sim.world.actions.pools import preempted
from sim.world.artifact import Artifact
from sim.world.stocks import Stocks


def set_up_world(world: World, scenario: schema.Scenario) -> None:
    """Add everything to a world that a scenario declares, except agents and models."""
    set_limits(world, scenario)
    for name, budget in scenario.budgets.items():
        world.budgets.define(name, to_micro(budget.amount), budget.reset)
    for name, quota in scenario.quotas.items():
        world.quotas.define(name, round(quota))
    set_prices(world, scenario)
    for account, balance in scenario.accounts.items():
        world.ledger.open(account, to_micro(balance))
    for name, pool in scenario.pools.items():
        world.pools[name] = _pool(world, name, pool)
    world.places = make_places(scenario.places)
    world.stocks = _stocks(world, scenario.places)
    world.space = make_space(scenario, world.kernel, world.places)
    for artifact in scenario.artifacts:
        world.artifacts.put(_artifact(artifact))


def set_limits(world: World, scenario: schema.Scenario) -> None:
    """Set the rates of all limits."""
    for name, limit in scenario.limits.items():
        agent, group, total = (to_rate(rate, scenario) for rate in (limit.agent, limit.group, limit.global_))
        world.rate_tracker.set_limit(name, Limit(agent, group, total, limit.policy, **_parts(scenario, name)))


def _parts(scenario: schema.Scenario, name: str) -> Keywords:
    """Return the rates of a limit on each island; nothing without islands."""
    if "islands" not in scenario.sections:
        return {}
    from sim.scenario.island_division import division_of  # only such scenarios need it
    from sim.scenario.island_shares import parts_of
    from sim.scenario.island_uses import settings_of

    settings = settings_of(scenario)
    assert settings is not None, "the file has islands"
    parts = parts_of(scenario, division_of(scenario, settings), name)
    return {
        "totals": {island: to_rate(rate, scenario) for island, rate in parts.totals.items()},
        "groups": {place: to_rate(rate, scenario) for place, rate in parts.groups.items()},
    }


def set_prices(world: World, scenario: schema.Scenario) -> None:
    """Set the prices of actions; earlier prices are removed."""
    world.costs.clear()
    for kind, prices in scenario.costs.items():
        for name, value in prices.items():
            taken_from = "rate" if name in scenario.limits else "budget" if name in scenario.budgets else "quota"
            world.costs.set_price(kind, name, taken_from, _amount(value))  # type: ignore[arg-type]  # one of the three


def to_rate(rate: units.Rate | None, scenario: schema.Scenario) -> Rate | None:
    """Return a rate. The window of a rate per tick is the period of a tick; in tick mode each tick resets it."""
    return None if rate is None else Rate(rate.amount, rate.window or scenario.execution.tick.period)


def limits_per_tick(scenario: schema.Scenario) -> tuple[str, ...]:
    """Return the limits that each tick resets."""
    own = [(name, rate) for entry in scenario.agents for name, rate in entry.limits.items()]
    shared = [(n, r) for n, limit in scenario.limits.items() for r in (limit.agent, limit.group, limit.global_) if r]
    return tuple(dict.fromkeys(name for name, rate in [*shared, *own] if rate.window == 0))


def _amount(value: ValueTemplate) -> float | Callable[[int], float]:
    if value.constant:
        return float(value.evaluate({}, {}))
    return lambda size: float(value.evaluate({"size": size}, PURE_FUNCTIONS))


def _pool(world: World, name: str, pool: schema.Pool) -> Pool:
    kernel = world.kernel
    match pool.kind:
        case "resource":
            return Resource(kernel, pool.slots or 1)
        case "priority":
            return PriorityResource(kernel, pool.slots or 1)
        case "preemptive":
            preemptive = PreemptiveResource(kernel, pool.slots or 1)
            preemptive.on_preempted = lambda use, by: preempted(world, name, use, by)
            return preemptive
        case "container":
            return Container(kernel, pool.capacity if pool.capacity is not None else float("inf"), pool.level or 0)
        case "store":
            store: Store[Raw] = Store(kernel, pool.capacity if pool.capacity is not None else float("inf"))
            for item in pool.items or ():
                store.put_nowait(freeze(item))
            return store


def make_places(places: place_schema.Places | None) -> Places | None:
    """Return the places of a scenario, or None."""
    if places is None:
        return None
    if places.loaded is not None:
        graph = places.loaded.graph
        shortest: dict[tuple[str, str], int] = {}
        for a, b, time in place_schema.travel_times(graph, places.travel_time, places.length):
            pair = (b, a) if (b, a) in shortest else (a, b)  # of several edges between two places, the fastest counts
            shortest[pair] = min(time, shortest.get(pair, time))
        return Places(graph.nodes, [(*pair, time) for pair, time in shortest.items()], graph.about, graph.edges)
    if places.graph is not None:
        return Places.shipped(places.graph, places.travel_time)
    if places.grid is not None:
        return Places.grid(*places.grid, places.travel_time, diagonals=places.diagonals, wrap=places.wrap)
    edges = [
        (*edge.ends, places.travel_time if edge.travel_time is None else edge.travel_time) for edge in places.edges
    ]
    return Places(places.nodes or (), edges)


def _stocks(world: World, places: place_schema.Places | None) -> Stocks | None:
    if places is None or places.stock is None or world.places is None:
        return None
    capacities = {node: _capacity(places, node, index) for index, node in enumerate(world.places.nodes)}
    return Stocks(world.kernel, capacities, places.stock.growth, places.stock.every)


def _capacity(places: place_schema.Places, node: str, index: int) -> float:
    """Return the capacity of a place; in a grid, `x` and `y` are its column and row.

    Raises:
        UsageError: if it is not a number of at least 0.
    """
    assert places.stock is not None, "called for places with a stock"
    names = {"place": node, "index": index, "pi": math.pi}
    if places.grid is not None:
        names |= zip("xy", map(int, node.split(",")), strict=True)
    value = places.stock.capacity.evaluate(names, PURE_FUNCTIONS)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"places.stock.capacity: a number of at least 0 is expected, found {value!r:.80} at {node}")
    return float(value)


def _artifact(artifact: schema.Artifact) -> Artifact:
    return Artifact(
        artifact.id,
        artifact.owner,
        freeze(artifact.content),
        readers=artifact.readers,
        writers=artifact.writers,
        price=to_micro(artifact.price),
        formula=artifact.formula,
    )
