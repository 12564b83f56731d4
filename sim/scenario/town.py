"""Checks of the part `town` of a scenario against its other parts."""

from sim.agents.town import DAY_STEPS, MAX_AGENTS
from sim.errors import UsageError
from sim.kernel import NS, to_text
from sim.scenario import schema

VILLAGER = "villager"
"""The kind of agents of a town."""

STEP_NS = 10 * NS
"""Simulated time of one step of a villager."""

_DAY_NS = DAY_STEPS * STEP_NS


def check_town(scenario: schema.Scenario, until_ns: int | None = None) -> schema.Agent | None:
    """Return the entry of the villagers of a scenario, if it has any.

    Args:
        scenario: a checked scenario.
        until_ns: the end of the run in simulated nanoseconds, if it is not the scenario's `until`.

    Raises:
        UsageError: if there are villagers without a town, or the town does not fit the scenario.
    """
    entries = [entry for entry in scenario.agents if entry.kind == VILLAGER]
    if scenario.town is None:
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
    begins, until = scenario.town.begins, until_ns or scenario.end_ns
    if begins % STEP_NS:
        raise UsageError(f"town.begins must be a multiple of 10s, the step of a town, but is {to_text(begins)}")
    if begins + until > _DAY_NS:
        raise UsageError(
            f"a town lasts one day: from town.begins ({to_text(begins)}) a run of {to_text(until)} is too long",
            hint=f"--set until={to_text(_DAY_NS - begins)}" if begins < _DAY_NS else "town.begins must be below 24h",
        )
    if entries[0].count > MAX_AGENTS:
        raise UsageError(f"agents.{entries[0].name}.count: a town has 1 to {MAX_AGENTS} agents, not {entries[0].count}")
    if scenario.models is None:
        raise UsageError("villagers call language models, but the scenario has none", hint="add `models:`")
    return entries[0]
