"""Live parameters of a scenario: those that may change during a run. All others shape its start and cannot change."""

from collections.abc import Sequence

from sim.assembly.build import Simulation
from sim.assembly.models import latency_of
from sim.assembly.world_builder import set_limits, set_prices, to_rate
from sim.errors import UsageError
from sim.scenario import schema

LIVE = ("limits", "costs", "events", "stop", "agents.NAME.rules", "agents.NAME.limits", "models.latency")
"""The parameters that a branch may change at a time above 0, in addition to `until` and the seed."""


def check_live(overrides: Sequence[str], when: str) -> None:
    """Check that overrides change live parameters only.

    Args:
        overrides: texts such as `limits.calls.agent=5 per 1h`.
        when: the time of the change, for the error.

    Raises:
        UsageError: if one does not, naming the parameter.
    """
    for override in overrides:
        path, separator, _ = override.partition("=")
        if not separator or not path:
            raise UsageError(f"--set {override!r} is not of the form path=value")
        pattern = _pattern(path.split("."))
        if pattern not in LIVE:
            raise UsageError(
                f"{path} shapes a run from its start, so it cannot change at {when}",
                hint=f"a branch has --{path}"
                if path in ("until", "seed")
                else f"branch at 0s, or change one of the live parameters: {', '.join(LIVE)}",
            )


def _pattern(parts: Sequence[str]) -> str:
    """Return the entry of `LIVE` that a path would have."""
    if parts[0] == "agents":
        return ".".join(("agents", "NAME", *parts[2:3]))
    return ".".join(parts[:2]) if parts[0] == "models" else parts[0]


def change(simulation: Simulation, scenario: schema.Scenario) -> None:
    """Set the live parameters of a running world to those of `scenario`, which differs in such parameters only."""
    world = simulation.world
    if simulation.models is not None and scenario.models is not None:
        simulation.models.latency = latency_of(scenario.models)
    set_limits(world, scenario)
    set_prices(world, scenario)
    simulation.nursery.change(scenario)
    for entry in scenario.agents:
        for agent_id in _made_from(simulation, entry):
            for resource, rate in entry.limits.items():
                world.rate_tracker.set_agent_limit(agent_id, resource, to_rate(rate, scenario))


def _made_from(simulation: Simulation, entry: schema.Agent) -> list[str]:
    return [id for id, agent in simulation.world.agents.items() if getattr(agent, "entry", None) == entry.name]
